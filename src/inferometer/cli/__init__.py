"""The command line: one file a verb. Parses, calls, prints; computes nothing."""

from inferometer.cli.main import main

__all__ = ["main"]
