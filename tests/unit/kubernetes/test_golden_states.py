"""Golden file of all states of the causes, over time and edited.

Of sentences it holds only the numbers; the golden file of the causes has their words.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.diagnose.job.state import JobSnapshot, JobState
from tests.unit import goldens
from tests.unit.kubernetes.objects import PLAN, condition, ended, job, pod, read, waits
from tests.unit.kubernetes.test_diagnosis import STATES

FILE = Path(__file__).parent / "golden" / "states.txt"
SECONDS = (
    *(0.5, 4.0, 9.9, 10.1, 14.0, 29.9, 30.1, 59.0, 61.0, 89.0, 95.0, 125.0),
    *(299.0, 305.0, 4000.0),
)
"""After the creation of the job: around every limit of the diagnosis."""
LINES = {
    "master-0": ("RuntimeError: Connection reset by peer",),
    "worker-0": ("ValueError: too large", "torch.cuda.OutOfMemoryError: CUDA out of memory"),
}

NOT_A_STATE = {"cause", "action", "until"}


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


def told(result: JobState, after: float) -> goldens.Row:
    """One state, the numbers of its sentences, and when it is read again."""
    again = result.look_again_s
    mark = "!" * result.unrecoverable + " over" * result.over
    replicas = {
        one.replica: f"{one.phase}:{one.node}:{one.restarts}:{goldens.numbers(one.detail or '')}"
        for one in result.replicas
    }
    return replicas | {
        "state": f"{result.phase} {result.cause_id}{mark}",
        "cause": goldens.numbers(result.cause),
        "action": goldens.numbers(result.action or ""),
        "until": "-" if again is None else f"{after + again:g} s",
    }


def over_time(name: str, snapshot: JobSnapshot, **more: Any) -> list[goldens.Row]:
    """Return a state at each time when it or a replica changes."""
    found: list[goldens.Row] = []
    before = None
    for after in SECONDS:
        result = read(snapshot, PLAN, after=after, **more)
        state = told(result, after)
        same = {key: value for key, value in state.items() if key not in NOT_A_STATE}
        if same != before:
            found.append({"after": after, **state})
        before = same
    return found


def apart(state: goldens.Row, plain: goldens.Row) -> dict[str, Any]:
    """Return differences from the plain state; missing replicas are "gone"."""
    return {
        key: state.get(key, "gone")
        for key in state.keys() | plain.keys()
        if state.get(key) != plain.get(key)
    }


def row(name: str, snapshot: JobSnapshot) -> goldens.Row:
    """Return a state over time, and each edit's effect on its last."""
    plain = over_time(name, snapshot)
    with_lines = over_time(name, snapshot, lines=LINES)
    found = dict[str, Any](states=plain)
    if with_lines != plain:
        found["with lines"] = with_lines
    for edit, change in EDITS.items():
        found[edit] = apart(over_time(name, change(snapshot))[-1], plain[-1])
    return dict(goldens.flat(found))


def test_states_over_time_and_changed() -> None:
    rows = (
        (f"{number} {name}", row(name, found[0] if isinstance(found, tuple) else found))
        for number, (name, found) in enumerate(STATES)
    )
    goldens.check(FILE, goldens.table(rows))
