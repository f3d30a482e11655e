"""The program: ``python -m k8sbench`` and the console script."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes 5 ms in which Ctrl-C would end in a traceback
    from typing import Any, NoReturn

GARBAGE = 250_000
"""Objects made and not freed after which Python looks for garbage; its own default is 700."""


def run() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    # Nothing has begun that would have to be ended in good order.
    signal.signal(signal.SIGINT, _interrupted)
    # What start-up makes stays: looking through it for garbage takes a tenth of the time.
    gc.set_threshold(GARBAGE)
    from k8sbench.cli.main import main  # noqa: PLC0415 - what it makes counts, too

    signal.signal(signal.SIGINT, signal.default_int_handler)
    end(main())


def _interrupted(*_: Any) -> NoReturn:
    """End the process while it is being started; as the command line does it later."""
    os.write(2, b"error: Interrupted.\n")
    os._exit(130)


def end(code: int) -> NoReturn:
    """End the process as ``sys.exit`` does, without freeing its objects one by one.

    That takes a tenth of the time of a command. What ends with a process is done: the functions of
    ``atexit``, which delete temporary files, and flushing. Where a tool looks at the program, a
    thread must end first, or a stream cannot be written, Python ends the process in its own way.
    """
    import threading  # noqa: PLC0415 - as above

    main_thread = threading.main_thread()
    others = [one for one in threading.enumerate() if one is not main_thread and not one.daemon]
    if not others and not _is_watched():
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            sys.exit(code)
        os._exit(code)
    sys.exit(code)


def _is_watched() -> bool:
    """Whether a debugger, a profiler or a coverage tool runs; it writes its results at the end."""
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    tools = monitoring is not None and any(map(monitoring.get_tool, range(6)))
    return bool(sys.gettrace() or sys.getprofile() or sys.flags.inspect or tools)


if __name__ == "__main__":
    run()
