"""The first token of an engine that was just started: it may compile for minutes, or die of it.

Asked for in a thread, so that a stop and a death are heard meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from inferometer.engine.ask import generates, served_models
from inferometer.engine.process import POLL_S, EngineProcess
from inferometer.errors import EngineError


def first_token(front: EngineProcess, engine: EngineProcess, tick: Callable[[str], None]) -> None:
    """Have `front`, which stands before `engine` or is it, make one token; `tick` is told how long
    it takes. Raises EngineError with what was answered and the engine's last words, and whatever
    `tick` raises.
    """
    model = served_models(front.base_url)[0].id
    failed: list[EngineError] = []

    def ask() -> None:
        try:
            generates(front.base_url, model)
        except EngineError as error:
            failed.append(error)

    asking = threading.Thread(target=ask, name="first token", daemon=True)
    asking.start()
    begun_s = time.monotonic()
    while asking.is_alive():
        tick(f"waiting for its first token ({time.monotonic() - begun_s:.0f} s)")
        asking.join(POLL_S)
        if (death := engine.died()) is not None:
            raise EngineError(f"no token generated: {death}")
    if failed:
        raise EngineError(f"{failed[0]}; {engine.last_words()}")
