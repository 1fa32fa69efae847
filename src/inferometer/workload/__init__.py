"""What is sent: fixed lengths, agentic sessions recorded or made, and the prompts they become.

Says nothing about when a turn is sent or by whom: that is `load`.
"""

from inferometer.workload.agentic import AgenticWorkload, StartPlan, plan_start, prefix_hit
from inferometer.workload.calibrate import calibrate
from inferometer.workload.corpus import READERS, Corpus, read_corpus, read_weka, stream
from inferometer.workload.distributions import LogNormal, Quantiles
from inferometer.workload.fixed import FixedLengths
from inferometer.workload.profiles import AgentProfile, Profile, named, profile_text
from inferometer.workload.prompts import PromptText, play_key, prompt_of, reblock
from inferometer.workload.reading import Reading, ReadOptions, ReadReport
from inferometer.workload.sessionfile import SessionWriter
from inferometer.workload.sources import Workload, open_workload, sessions_digest
from inferometer.workload.synthetic import synthesize

__all__ = [
    "READERS",
    "AgentProfile",
    "AgenticWorkload",
    "Corpus",
    "FixedLengths",
    "LogNormal",
    "Profile",
    "PromptText",
    "Quantiles",
    "ReadOptions",
    "ReadReport",
    "Reading",
    "SessionWriter",
    "StartPlan",
    "Workload",
    "calibrate",
    "named",
    "open_workload",
    "plan_start",
    "play_key",
    "prefix_hit",
    "profile_text",
    "prompt_of",
    "read_corpus",
    "read_weka",
    "reblock",
    "sessions_digest",
    "stream",
    "synthesize",
]
