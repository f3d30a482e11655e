"""``data``: list, draw and check the data sets of the trainers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.catalog.training import KnownDataSet, find_data_set
from k8sbench.model.errors import Interrupted, JobFailed, UsageError
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.times import LOOK_SECONDS
from k8sbench.threads import Threads

if TYPE_CHECKING:
    from k8sbench.lifecycle.stop import Stop


PROGRAM = "k8sbench.trainers.check_data"
"""Draws and checks data sets, in a process beside us."""


class DataSetList(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``data list -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    data_sets: tuple[KnownDataSet, ...]
    """In the order of the table of ``k8sbench data list``."""


def work_on_data(
    action: Literal["check", "make-sample"],
    name: str,
    place: str,
    words: Sequence[str],
    stop: Stop,
    tell: Callable[[str], None],
) -> int:
    """Check or draw a data set, report progress, return the exit code.

    The code is 0 if the data are complete, 2 if data are missing or the input is wrong, and 3 if
    the program could not finish. Raises :class:`Interrupted`, or another :class:`BenchError` if the
    program did not exit normally.
    """
    from k8sbench.adapters import child_programs

    find_data_set(name)
    if place.startswith("pvc:"):
        raise UsageError(
            f"{place} is a claim, and data {action} works on folders of this machine.",
            "Give the command in a pod that mounts the claim, with the path there"
            " (docs/training.md#on-a-claim).",
        )
    given = (action, name, str(Path(place).absolute()), *words)
    with stop, child_programs.run_module(PROGRAM, given) as process:
        code = None
        reading = Threads().start(lambda: child_programs.read_lines(process, tell), "data")
        while code is None and stop.cause is None:
            with contextlib.suppress(TimeoutError):
                code = reading.result(LOOK_SECONDS)
    if code is None:
        raise Interrupted(f"{stop.cause}; the program on this machine was ended.")
    if code not in {0, 2, 3}:
        raise JobFailed(f"The program ended with exit code {code}.", "The lines above say why.")
    return code
