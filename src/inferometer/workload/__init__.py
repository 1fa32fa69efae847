"""What is sent: fixed lengths, agentic sessions recorded or made, and the prompts they become.

Says nothing about when a turn is sent or by whom: that is `load`.
"""

from typing import TYPE_CHECKING

from inferometer.deferred import by_name

if TYPE_CHECKING:
    from inferometer.workload.agentic import AgenticWorkload, StartPlan, plan_start, prefix_hit
    from inferometer.workload.corpus import READERS, Corpus, read_corpus, read_weka, stream
    from inferometer.workload.distributions import LogNormal, Quantiles
    from inferometer.workload.families import family_of
    from inferometer.workload.files import packed
    from inferometer.workload.fixed import FixedLengths
    from inferometer.workload.inspection import Inspection, Spread, inspect_sessions
    from inferometer.workload.lexicon import Lexicon, make_lexicon
    from inferometer.workload.live import Threads
    from inferometer.workload.opening import Workload, open_workload
    from inferometer.workload.profiles import (
        AgentProfile,
        Profile,
        description,
        named,
        profile_text,
    )
    from inferometer.workload.prompt_text import (
        PROMPT_RULES,
        WORDS,
        PromptRules,
        PromptText,
        calibrated,
        paired,
    )
    from inferometer.workload.prompts import play_key, prompt_of, reblock
    from inferometer.workload.reading import Reading, ReadOptions, ReadReport
    from inferometer.workload.sampling import Filter, chosen, longest, sample
    from inferometer.workload.sessionfile import SessionWriter
    from inferometer.workload.sources import (
        PathSource,
        drawn_sessions,
        named_sessions,
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
    "Threads",
    "Workload",
    "calibrated",
    "chosen",
    "description",
    "drawn_sessions",
    "family_of",
    "inspect_sessions",
    "longest",
    "make_lexicon",
    "named",
    "named_sessions",
    "open_workload",
    "packed",
    "paired",
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

# The process that carries the load must not pay for readers of formats that it does not read.
__getattr__ = by_name(
    __name__,
    {
        "agentic": "AgenticWorkload StartPlan plan_start prefix_hit",
        "corpus": "READERS Corpus read_corpus read_weka stream",
        "distributions": "LogNormal Quantiles",
        "families": "family_of",
        "files": "packed",
        "fixed": "FixedLengths",
        "inspection": "Inspection Spread inspect_sessions",
        "lexicon": "Lexicon make_lexicon",
        "live": "Threads",
        "profiles": "AgentProfile Profile description named profile_text",
        "opening": "Workload open_workload",
        "prompt_text": "PROMPT_RULES WORDS PromptRules PromptText calibrated paired",
        "prompts": "play_key prompt_of reblock",
        "reading": "Reading ReadOptions ReadReport",
        "sampling": "Filter chosen longest sample",
        "sessionfile": "SessionWriter",
        "sources": "PathSource drawn_sessions named_sessions sessions_digest source_of",
        "synthetic": "synthesize",
        "tokenizer_files": "NO_TOKENIZER tokenizer_digest",
    },
)
