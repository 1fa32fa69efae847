"""What is sent: fixed lengths, agentic sessions recorded or made, and the prompts they become.

Says nothing about when a turn is sent or by whom: that is `load`.
"""

from inferometer.workload.agentic import AgenticWorkload, StartPlan, plan_start, prefix_hit
from inferometer.workload.fixed import FixedLengths
from inferometer.workload.lexicon import Lexicon, make_lexicon
from inferometer.workload.profiles import AgentProfile, LogNormal, Profile, named
from inferometer.workload.prompt_text import (
    PROMPT_RULES,
    WORDS,
    PromptRules,
    PromptText,
    calibrated,
)
from inferometer.workload.prompts import play_key, prompt_of, reblock
from inferometer.workload.sources import Workload, open_workload, sessions_digest
from inferometer.workload.synthetic import synthesize
from inferometer.workload.tokenizer_files import NO_TOKENIZER, tokenizer_digest
from inferometer.workload.weka import Corpus, ReadReport, read_corpus, read_weka

__all__ = [
    "NO_TOKENIZER",
    "PROMPT_RULES",
    "WORDS",
    "AgentProfile",
    "AgenticWorkload",
    "Corpus",
    "FixedLengths",
    "Lexicon",
    "LogNormal",
    "Profile",
    "PromptRules",
    "PromptText",
    "ReadReport",
    "StartPlan",
    "Workload",
    "calibrated",
    "make_lexicon",
    "named",
    "open_workload",
    "plan_start",
    "play_key",
    "prefix_hit",
    "prompt_of",
    "read_corpus",
    "read_weka",
    "reblock",
    "sessions_digest",
    "synthesize",
    "tokenizer_digest",
]
