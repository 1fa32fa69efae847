"""What is sent: fixed lengths, agentic sessions recorded or made, and the prompts they become.

Says nothing about when a turn is sent or by whom: that is `load`.
"""

from inferometer.workload.agentic import AgenticWorkload, StartPlan, plan_start, prefix_hit
from inferometer.workload.calibrate import calibrate
from inferometer.workload.caveats import caveats
from inferometer.workload.corpus import READERS, Corpus, read_corpus, read_weka, stream
from inferometer.workload.distributions import LogNormal, Quantiles
from inferometer.workload.files import packed
from inferometer.workload.fixed import FixedLengths
from inferometer.workload.inspection import Inspection, Spread, inspect_sessions
from inferometer.workload.lexicon import Lexicon, make_lexicon
from inferometer.workload.profiles import AgentProfile, Profile, named, profile_text
from inferometer.workload.prompt_text import (
    PROMPT_RULES,
    WORDS,
    PromptRules,
    PromptText,
    calibrated,
)
from inferometer.workload.prompts import play_key, prompt_of, reblock
from inferometer.workload.reading import Reading, ReadOptions, ReadReport
from inferometer.workload.sampling import Filter, chosen, longest, sample
from inferometer.workload.sessionfile import SessionWriter
from inferometer.workload.sources import (
    PathSource,
    Workload,
    drawn_sessions,
    named_sessions,
    open_workload,
    sessions_digest,
    source_of,
)
from inferometer.workload.synthetic import synthesize
from inferometer.workload.tokenizer_files import NO_TOKENIZER, tokenizer_digest

__all__ = [
    "NO_TOKENIZER",
    "PROMPT_RULES",
    "READERS",
    "WORDS",
    "AgentProfile",
    "AgenticWorkload",
    "Corpus",
    "Filter",
    "FixedLengths",
    "Inspection",
    "Lexicon",
    "LogNormal",
    "PathSource",
    "Profile",
    "PromptRules",
    "PromptText",
    "Quantiles",
    "ReadOptions",
    "ReadReport",
    "Reading",
    "SessionWriter",
    "Spread",
    "StartPlan",
    "Workload",
    "calibrate",
    "calibrated",
    "caveats",
    "chosen",
    "drawn_sessions",
    "inspect_sessions",
    "longest",
    "make_lexicon",
    "named",
    "named_sessions",
    "open_workload",
    "packed",
    "plan_start",
    "play_key",
    "prefix_hit",
    "profile_text",
    "prompt_of",
    "read_corpus",
    "read_weka",
    "reblock",
    "sample",
    "sessions_digest",
    "source_of",
    "stream",
    "synthesize",
    "tokenizer_digest",
]
