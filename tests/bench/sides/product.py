"""Runs k8sbench in this process, and notes what can only be seen from within.

    python -m tests.bench.sides.product NOTES WORDS...

At its end NOTES is how many logs it read at one time at most.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from k8sbench.adapters.kubernetes.client.api import Api, LineStream
from k8sbench.cli.main import main as run


def main() -> None:
    """Run the command; ends with its exit code."""
    notes, *words = sys.argv[1:]
    sys.argv = ["k8sbench", *words]
    most_logs = _tap()
    code: Any = None
    try:
        code = run()
    except SystemExit as end:
        code = end.code
    finally:
        Path(notes).write_text(str(most_logs[0]))
    sys.exit(code)


def _tap() -> list[int]:
    stream, close_stream = Api.stream, LineStream.close
    logs: set[LineStream] = set()
    most_logs = [0]

    def noting_stream(self: Api, path: str, **asked: Any) -> LineStream:
        opened = stream(self, path, **asked)
        if path.endswith("/log"):
            logs.add(opened)
            most_logs[0] = max(most_logs[0], len(logs))
        return opened

    def noting_close_stream(self: LineStream) -> None:
        close_stream(self)
        logs.discard(self)

    Api.stream = noting_stream  # type: ignore[method-assign]
    LineStream.close = noting_close_stream  # type: ignore[method-assign]
    return most_logs


if __name__ == "__main__":
    main()
