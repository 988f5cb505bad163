"""Ctrl-C: one line and exit code 130, whenever it comes.

While a module loads, and once a command is done, the process ends where it is. In between the first
Ctrl-C raises KeyboardInterrupt, so that a command puts things in order, and another one ends that,
also while the first waits for a computation of JAX's or NumPy's. SciPy's hold the lock that all
threads of Python need: these are waited for.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

EXIT_INTERRUPTED = 130

# How long a computation may keep the first Ctrl-C waiting before a line says so, in seconds; and
# within what time two signals are one: `make` and `timeout` send a process theirs twice.
_PATIENCE, _TOGETHER = 1.0, 0.1

_ending = threading.Lock()

_asked = False


def asked() -> bool:
    """Whether there was a Ctrl-C: an import that it breaks off may say anything at all."""
    return _asked


def at_once(number: int, frame: FrameType | None) -> None:
    """End the process. What is being written never had its final name yet."""
    if _ending.acquire(blocking=False):
        _say("stopped")
    else:
        time.sleep(_PATIENCE)  # The other thread says it.
    os._exit(EXIT_INTERRUPTED)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"dpstudy: {line}\n".encode())


def in_order(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but only once; in an import, which may crash of it, end."""
    global _asked
    files = (one.f_code.co_filename for one, _ in traceback.walk_stack(frame))
    if "<frozen importlib._bootstrap>" in files:
        at_once(number, frame)
    _asked = True
    signal.signal(number, at_once)
    handle(at_once)
    raise KeyboardInterrupt


def handle(handler: Any) -> None:
    """Have Ctrl-C handled so, unless whoever started this process has it ignored."""
    # Python lets no other thread do so; and a shell's background jobs are not to hear Ctrl-C.
    with contextlib.suppress(ValueError):
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, handler)


def begin() -> None:
    """From here on a command is under way."""
    sys.unraisablehook = _unraisable
    handle(in_order)
    if signal.getsignal(signal.SIGINT) is in_order:
        heard, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        threading.Thread(target=_listen, args=(heard,), daemon=True).start()


def _listen(heard: int) -> None:
    """End the process at the second signal, even while the main thread is deaf.

    Python hands a signal to its handler between two instructions of its own, and a compiled
    program is one of them.
    """
    os.read(heard, 1)
    time.sleep(_TOGETHER)
    while select.select([heard], [], [], 0)[0]:
        os.read(heard, 1)
    if not select.select([heard], [], [], _PATIENCE)[0] and not _asked:
        _say("stopping at the end of this computation; Ctrl-C again stops at once")
    os.read(heard, 1)
    at_once(signal.SIGINT, None)


def _unraisable(what: Any) -> None:
    # Python prints and forgets what is raised while it tidies up. A Ctrl-C is one all the same.
    if issubclass(what.exc_type, KeyboardInterrupt):
        at_once(signal.SIGINT, None)
    sys.__unraisablehook__(what)


@contextlib.contextmanager
def terminated_as_by_ctrl_c() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C: batch systems end a job by it, and so does `kill`."""
    before = signal.signal(signal.SIGTERM, in_order)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# This module is the first that the command line imports.
_before = signal.getsignal(signal.SIGINT)
handle(at_once)


def loaded() -> None:
    """From here on Ctrl-C is as it was: whoever imports the command line may not run it."""
    handle(_before)
