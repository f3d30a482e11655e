"""The program: ``python -m k8sbench`` and the console script."""

from __future__ import annotations

import os
import signal
import sys


def run() -> None:
    """Run the command line and end the process with its exit code."""
    # Nothing has begun that would have to be ended in good order.
    signal.signal(signal.SIGINT, _interrupted)
    from k8sbench.cli.main import main  # noqa: PLC0415 - Ctrl-C is handled while it is imported

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())


def _interrupted(*_: object) -> None:
    """End the process while it is being started; as the command line does it later."""
    os.write(2, b"error: Interrupted.\n")
    os._exit(130)


if __name__ == "__main__":
    run()
