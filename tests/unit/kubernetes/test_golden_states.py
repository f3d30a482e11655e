"""Every state of the table of causes over time, and with one thing changed: a golden file.

Of sentences it holds the numbers; their words are in the golden file of the causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.diagnose.job.state import JobSnapshot, JobState
from tests.unit import goldens
from tests.unit.kubernetes.objects import PLAN, condition, ended, job, pod, read, waits
from tests.unit.kubernetes.test_diagnosis import GANG, STATES

FILE = Path(__file__).parent / "golden" / "states.txt"
SECONDS = (
    0.5,
    4.0,
    9.9,
    10.1,
    14.0,
    29.9,
    30.1,
    59.0,
    61.0,
    89.0,
    95.0,
    125.0,
    299.0,
    305.0,
    4000.0,
)
"""After the creation of the job: around every limit of the diagnosis."""
LINES = {
    "master-0": ("RuntimeError: Connection reset by peer",),
    "worker-0": ("ValueError: too large", "torch.cuda.OutOfMemoryError: CUDA out of memory"),
}


def replaced(snapshot: JobSnapshot, **fields: Any) -> JobSnapshot:
    return msgspec.structs.replace(snapshot, **fields)


def beside(snapshot: JobSnapshot, other: dict[str, Any]) -> JobSnapshot:
    return replaced(snapshot, pods={**snapshot.pods, other["metadata"]["name"]: other})


EDITS: dict[str, Callable[[JobSnapshot], JobSnapshot]] = {
    "without events": lambda of: replaced(of, events=[]),
    "without pods": lambda of: replaced(of, pods={}),
    "job deleted": lambda of: replaced(of, deleted=True),
    "a worker failed": lambda of: beside(of, pod("worker-0", ended(7, at=40))),
    "a worker ran out of memory": lambda of: beside(of, pod("worker-0", ended(137, "OOMKilled"))),
    "a worker succeeded": lambda of: beside(of, pod("worker-0", ended(0, "Completed", at=40))),
    "a worker waits": lambda of: beside(of, pod("worker-0", waits("ImagePullBackOff", "x:1"))),
    "a worker began again": lambda of: beside(of, pod("worker-0", restarts=3, last=ended(1, at=5))),
    "the job failed": lambda of: replaced(
        of, job=job(condition("Created"), condition("Failed", "it failed", at=50))
    ),
    "the job succeeded": lambda of: replaced(
        of, job=job(condition("Created"), condition("Succeeded", at=50))
    ),
    "the job is suspended": lambda of: replaced(of, job=job(condition("Created"), suspend=True)),
}


def told(result: JobState, after: float) -> tuple[str, str]:
    """One state, and the numbers of its sentences and when it is read again."""
    replicas = " ".join(
        f"{one.replica}:{one.phase}:{one.node}:{one.restarts}:{goldens.numbers(one.detail or '')}"
        for one in result.replicas
    )
    again = result.look_again_s
    until = "" if again is None else f" until {after + again:g} s"
    sentences = f"{goldens.numbers(result.cause)} | {goldens.numbers(result.action or '')}"
    mark = "!" * result.unrecoverable + " over" * result.over
    return f"{result.phase} {result.cause_id}{mark} | {replicas}", f"{sentences}{until}"


def over_time(name: str, snapshot: JobSnapshot, **more: Any) -> Iterator[str]:
    """Write a state at each time at which it is another than before."""
    before = ""
    for after in SECONDS:
        result = read(snapshot, GANG if "gang" in name else PLAN, after=after, **more)
        state, numbers = told(result, after)
        if state != before:
            yield f"  {after:g} s: {state} | {numbers}"
        before = state


def test_states_over_time_and_changed() -> None:
    lines = []
    for name, found in STATES:
        snapshot = found[0] if isinstance(found, tuple) else found
        lines += ["", f"{name}:", *over_time(name, snapshot)]
        lines += ["  with lines:", *over_time(name, snapshot, lines=LINES)]
        for edit, change in EDITS.items():
            (state,) = list(over_time(name, change(snapshot)))[-1:]
            lines.append(f"  {edit},{state}")
    goldens.check(FILE, "\n".join(lines).lstrip() + "\n")
