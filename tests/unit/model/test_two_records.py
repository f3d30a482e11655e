"""Records of one run in two stores: the one that knows more counts."""

import msgspec
import pytest

from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run, knows_more, merged
from tests.unit.cli import live_runs
from tests.unit.model.measurements import measurement


def run(*phases: Phase, measured: bool = False) -> Run:
    steps = [Transition(phase=phase, at=100.0, cause="") for phase in (Phase.CREATED, *phases)]
    return msgspec.structs.replace(
        live_runs.run("r", set_name="r", backend="kubernetes"),
        history=tuple(steps),
        measurement=measurement() if measured else None,
    )


CREATED, LOST = run(), run(Phase.LOST)
FAILED, MEASURED = run(Phase.FAILED), run(Phase.SUCCEEDED, measured=True)


@pytest.mark.parametrize(
    ("theirs", "ours", "more"),
    [
        (MEASURED, None, True),
        (MEASURED, CREATED, True),
        (MEASURED, LOST, True),
        (FAILED, CREATED, True),
        (MEASURED, MEASURED, False),
        (CREATED, CREATED, False),
        (CREATED, MEASURED, False),
        (LOST, CREATED, False),
    ],
)
def test_the_one_that_knows_more_is_shown(theirs: Run, ours: Run | None, more: bool) -> None:
    assert knows_more(theirs, ours) == more
    both, added = merged([] if ours is None else [ours], [theirs])
    assert len(both) == 1
    assert added == ({"r"} if more else set())
