"""Immediate end of a trainer, with a meaningful exit code.

One that keeps checkpoints saves first where SIGTERM asks it to end. A rank may be blocked inside a
collective when SIGTERM or Ctrl-C comes, where Python's own signal handlers never run; and after an
error its peers must not wait for it. So a thread watches for both, and an error ends the process
without the interpreter's clean-up, which could block. Loader processes, which wait for their next
task, end with the trainer, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from k8sbench.trainers.parts import watch

PR_SET_PDEATHSIG = 1  # linux/prctl.h
SAVE_SECONDS = 25.0  # of the 30 that torchrun and `paddle_launch` leave their ranks
_LIBC = ctypes.CDLL(None)
_watched, _saves = threading.Event(), threading.Event()
# Whether SIGTERM has come to a run that saves first.
told = threading.Event()


def end_on_signals() -> None:
    """Let SIGTERM and Ctrl-C end this process within moments.

    With exit code 143 and 130. Its watch ends it where the job hangs.
    """
    watch.start()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # The interpreter writes the signal's number here from its C handler, whatever the main
    # thread is doing; the Python handler itself has nothing to do.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    os.register_at_fork(after_in_child=_in_child)
    threading.Thread(target=_watch, args=(reader,), name="signals", daemon=True).start()
    _watched.set()


def save_first() -> None:
    """Delay the end after SIGTERM to save a checkpoint.

    SIGTERM then sets `told`, and ends this process `SAVE_SECONDS` later if it still runs: a rank
    may wait for one that is gone.
    """
    if _watched.is_set():
        signal.signal(signal.SIGTERM, lambda *_: None)  # Paddle has one of its own
        _saves.set()


def end(by: signal.Signals = signal.SIGTERM) -> NoReturn:
    """End this process as the signal does."""
    with contextlib.suppress(OSError):  # whoever read stderr may be gone
        os.write(2, f"k8sbench: ended by {by.name}\n".encode())
    os._exit(128 + by)


def outlive_signals() -> None:
    """Let a loader process survive SIGTERM and Ctrl-C, and end with its trainer.

    Launchers send SIGTERM to all processes, and a terminal SIGINT.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(main: Callable[[], object]) -> NoReturn:
    """Run `main` as the whole process; exit with 0, or 1 and traceback."""
    end_on_signals()
    code = 1
    try:
        main()
        sys.stdout.flush()
        code = 0
    except SystemExit:
        raise
    except BaseException:
        with contextlib.suppress(OSError):  # whoever read the output may be gone
            traceback.print_exc()
            sys.stdout.flush()
    os._exit(code)  # all is written; the frameworks' own clean-up takes seconds, or for ever


def _watch(reader: int) -> None:
    while True:
        came = os.read(reader, 64)
        if signal.SIGINT in came:
            end(signal.SIGINT)
        if signal.SIGTERM in came:
            if _saves.is_set():
                told.set()
                time.sleep(SAVE_SECONDS)
            end()


def _in_child() -> None:
    # Loader processes are ended by SIGTERM: they must not report their end as this one's.
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
