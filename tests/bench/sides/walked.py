"""Run one command of k8sbench, and write down which of its functions it enters, and how a POST is
reached: the calls that lead to it, across the thread that sends it."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import k8sbench

PACKAGE = str(Path(k8sbench.__file__).parent)


def main() -> None:
    """``OUT WORDS…``: the file to write, and the command."""
    out, words = Path(sys.argv[1]), sys.argv[2:]
    files, functions, posts = set[str](), set[tuple[str, int]](), list[list[str]]()

    def enters(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name != "<module>":
            files.add(code.co_filename)
            functions.add((code.co_filename, code.co_firstlineno))

    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.cli.main import main as run
    from k8sbench.lifecycle import pool

    began: dict[int, list[str]] = {}
    """By thread: the calls that led to its start."""
    in_thread, create = pool.in_thread, Api.create

    def started(call: Callable[[], Any], name: str) -> Any:
        before = _calls()

        def noted() -> Any:
            began[threading.get_ident()] = before
            return call()

        return in_thread(noted, name)

    def posted(self: Api, path: str, *more: Any, **named: Any) -> Any:
        if path.endswith("jobs"):
            posts.append([*began.get(threading.get_ident(), []), *_calls()])
        return create(self, path, *more, **named)

    pool.in_thread, Api.create = started, posted  # type: ignore[method-assign]
    threading.setprofile(enters)
    sys.setprofile(enters)
    try:
        code = run(words)
    finally:
        sys.setprofile(None)
        found = {"files": len(files), "functions": len(functions), "calls": posts[0]}
        out.write_text(json.dumps(found))
    sys.exit(code)


def _calls() -> list[str]:
    """Name the calls of k8sbench that are going on in this thread, outermost first."""
    frames = traceback.extract_stack()
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    return [f"{frame.filename[len(PACKAGE) + 1 :]}: {frame.name}" for frame in ours]


if __name__ == "__main__":
    main()
