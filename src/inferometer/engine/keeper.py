"""The parent of one engine: nothing that the engine starts gets away from it; it ends all of it.

A program of its own (`python -I -S keeper.py`), with nothing imported of ours: it starts in a few
milliseconds. As a child subreaper it inherits whoever the engine's processes leave behind, also
those that forked twice and opened a session of their own. It tells on stdout, a line each, `started
PID`, `failed ERRNO`, `ended STATUS` of the engine's leader, `left PID …` of what would not end. A
line on stdin asks for the stop, and so does its end: whoever started the keeper is gone.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLL_S = 0.02
KILL_S = 30.0
"""After SIGKILL: a process in the middle of a driver call ends when that returns."""
CLEANUP_S = 60.0
PROC = "/proc"


def parents() -> dict[int, int]:
    """The parent of every process that has not ended."""
    found = {}
    with os.scandir(PROC) as every:
        for name in (entry.name for entry in every):
            if name.isdecimal() and (seen := parent(int(name))) is not None:
                found[int(name)] = seen
    return found


def parent(pid: int) -> int | None:
    """Whose child a process is; None where it has ended, waited for or not."""
    try:
        # pathlib would take longer to import than the rest of this program.
        with open(f"{PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])


def descendants(root: int) -> list[int]:
    """Every process below `root`, children before theirs."""
    of = parents()
    found, below = [], {root}
    while below:
        below = {pid for pid, above in of.items() if above in below}
        found += sorted(below)
    return found


def send(pid: int, number: int) -> None:
    """A signal to a process that is below us now: its id may be another's a moment later."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # a kernel before 5.3, or a sandbox without
        with contextlib.suppress(OSError):
            if is_below(pid):
                os.kill(pid, number)
        return
    try:
        if is_below(pid):
            signal.pidfd_send_signal(handle, number)
    except OSError:
        return
    finally:
        os.close(handle)


def is_below(pid: int) -> bool:
    """Whether we are a process's parent, or one of its parents is below us."""
    above: int | None = pid
    while above is not None and above > 1:
        above = parent(above)
        if above == os.getpid():
            return True
    return False


class Keeper:
    """Starts `argv`; `run` returns when all of it has ended. Its log is our stderr."""

    def __init__(self, stop_s: float, argv: list[str], cleanup: list[str], folder: str) -> None:
        self.stop_s = stop_s
        self.argv = argv
        self.cleanup = cleanup
        self.folder = folder
        self.leader: int | None = None
        self.wake, self.woken = os.pipe()
        for end in (self.wake, self.woken):
            os.set_blocking(end, False)

    def run(self) -> None:
        """Start, wait until asked, end all."""
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        signal.set_wakeup_fd(self.woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Whoever ends the keeper's group or terminal means the engine: that is asked for on stdin.
        # A handler and no SIG_IGN, which the engine would inherit.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        if not self.start():
            return
        while not self.asked():
            self.reap()
        self.end()

    def start(self) -> bool:
        """Whether the engine could be started."""
        libc = ctypes.CDLL(None)

        def prepare() -> None:
            # Also where the keeper itself is killed.
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        try:
            child = subprocess.Popen(
                self.argv,
                cwd=self.folder or None,
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
                preexec_fn=prepare,
            )
        except OSError as error:
            tell(f"failed {error.errno or 0}")
            return False
        self.leader = child.pid
        # It is reaped below, with all others.
        child.returncode = 0
        tell(f"started {child.pid}")
        # The log ends with the last process that writes to it.
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)
        os.close(silent)
        return True

    def asked(self) -> bool:
        """Wait for something to happen: whether it is that we are to stop."""
        ready, _, _ = select.select([0, self.wake], [], [])
        if self.wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 4096)
        return 0 in ready

    def reap(self) -> None:
        """Take note of every child that has ended, those that we inherited too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.leader:
                tell(f"ended {os.waitstatus_to_exitcode(status)}")
                self.leader = None

    def end(self) -> None:
        """End all, politely, then for certain; before that, what is not below us (a container).

        The leader first, and alone: it knows how to end its workers, and one that loses them in its
        own end calls that a failure.
        """
        if self.leader is not None:
            send(self.leader, signal.SIGTERM)
            self.ended_within(self.stop_s)
        for pid in descendants(os.getpid()):
            send(pid, signal.SIGTERM)
        self.gone(self.stop_s)
        if self.cleanup:
            self.clean()
        left = descendants(os.getpid())
        end_s = time.monotonic() + KILL_S
        # Again and again: what is being started just now is on the next list.
        while left and time.monotonic() < end_s:
            for pid in left:
                send(pid, signal.SIGKILL)
            self.gone(POLL_S)
            left = descendants(os.getpid())
        self.reap()
        if left:
            tell(f"left {' '.join(map(str, left))}")

    def ended_within(self, within_s: float) -> None:
        """Until the leader has ended, or so many seconds have passed."""
        end_s = time.monotonic() + within_s
        while self.leader is not None and time.monotonic() < end_s:
            time.sleep(POLL_S)
            self.reap()

    def gone(self, within_s: float) -> bool:
        """Whether all ended in so many seconds."""
        end_s = time.monotonic() + within_s
        while True:
            self.reap()
            if not descendants(os.getpid()):
                return True
            if time.monotonic() >= end_s:
                return False
            time.sleep(POLL_S)

    def clean(self) -> None:
        """The command that ends what is elsewhere; nothing there is no fault."""
        quiet = subprocess.DEVNULL
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            child = subprocess.Popen(self.cleanup, stdin=quiet, stdout=quiet, stderr=quiet)
            child.wait(CLEANUP_S)


def tell(text: str) -> None:
    """A line for whoever started us, who may be gone."""
    with contextlib.suppress(OSError):
        os.write(1, f"{text}\n".encode())


def main() -> None:
    """`keeper.py STOP_S FOLDER N WORD… [CLEANUP…]`: N words are the engine's."""
    stop_s, folder, count, *words = sys.argv[1:]
    split = int(count)
    Keeper(float(stop_s), words[:split], words[split:], folder).run()


if __name__ == "__main__":
    main()
