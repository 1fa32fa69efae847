"""What a worker has to tell the coordinator: at once, or a little later together with all else.

A process that is woken for each message alone finds its caches used by others each time, and takes
three times as long over it. So what nobody waits for goes with the next pulse.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from inferometer.load.sheet import Taken
from inferometer.load.wire import FrameWriter, Outcome, Pulse, Recalled

Message = Outcome | Pulse | Taken | Recalled


class Outbox:
    """Messages leave in the order in which they came. `wants_room` is told when it changes whether
    the socket has to have room; `lost` when nobody is there any more.
    """

    def __init__(
        self,
        control: socket.socket,
        wants_room: Callable[[bool], None],
        lost: Callable[[], None],
    ) -> None:
        self._writer = FrameWriter(control)
        self._wants_room = wants_room
        self._lost = lost
        self._writing = False
        self._messages: list[Message] = []
        self._urgent = False

    def add(self, message: Message, *, urgent: bool = True) -> None:
        """To be told in `tell`; what is not urgent waits for something that is."""
        self._messages.append(message)
        self._urgent |= urgent

    def hasten(self) -> None:
        """Somebody waits for what there is."""
        self._urgent = bool(self._messages)

    def tell(self) -> None:
        """Send all there is, where something of it is urgent."""
        if self._urgent:
            self._urgent = False
            messages, self._messages = self._messages, []
            self._writer.add(messages)
            self.flush()

    def flush(self) -> None:
        """Send on, as the socket takes it."""
        try:
            wanted = not self._writer.flush()
        except OSError:
            self._lost()
            return
        if wanted != self._writing:
            self._writing = wanted
            self._wants_room(wanted)
