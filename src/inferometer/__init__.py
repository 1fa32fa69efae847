"""Inferometer: a continuous benchmark of LLM inference. `docs/structure.md` is the map."""

__version__ = "0.1.0"

MEASUREMENT_VERSION = 2
"""Raised only when a change to the client or the metrics can move a number; in every digest."""
