"""Saves of a checkpoint that are killed, each at another moment."""

import json
import os
import pathlib
import shutil
import signal
import sys
from typing import Any

from k8sbench.trainers.parts.checkpoints import Checkpoints


def save_killed(place: str) -> None:
    """Save a checkpoint after those of ``before``, killed at each call of a function in C.

    Each file operation of a save is one. Prints the number of such calls, and for each what
    ``latest`` found after it. Each save has a process of its own.
    """
    root, calls = pathlib.Path(place), 0

    def write(folder: pathlib.Path) -> None:
        with (folder / "state").open("w") as file:
            for _ in range(5):
                file.write("at 30 ")
                file.flush()

    def save(name: str, last: int) -> None:
        def profile(frame: Any, event: str, function: Any) -> None:
            nonlocal calls
            calls += event == "c_call"
            if event == "c_call" and calls == last:
                os.kill(os.getpid(), signal.SIGKILL)

        shutil.copytree(root / "before", root / name)
        sys.setprofile(profile)
        done = Checkpoints(root / name).save(30, write, {})
        sys.setprofile(None)
        assert done is None

    save("first", 0)  # the first time some more is called
    calls = 0
    save("whole", 0)
    total, calls = calls, 0
    found: list[tuple[int, int, str]] = []
    for at in range(1, total + 1):
        if os.fork() == 0:
            save(str(at), at)
            os._exit(0)
        assert os.wait()[1] == signal.SIGKILL
        checkpoints = Checkpoints(root / str(at))
        while (latest := checkpoints.latest()) is not None:  # the older ones, too
            found.append((at, latest.step, (latest.rank_folder(0) / "state").read_text()))
            shutil.rmtree(latest.folder)
        assert list(checkpoints.folder.iterdir()) == [], checkpoints.damaged
    print(json.dumps([total, found]))
