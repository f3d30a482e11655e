"""Progress without a terminal: few plain lines on stderr."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from k8sbench.cli.terminal.progress import Progress
from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import AccuracyResult
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from tests.unit import goldens
from tests.unit.cli.live_runs import NOW, ended, gap, line, moved, note, replica, run, step
from tests.unit.local.exits import torchrun
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import REJECTION

FOLDER = Path(__file__).parent / "golden"


Told = JobEvent | Run | float | list[Run]
"""Event, planned or ended run, passing seconds, or whole sweep."""
Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Report an event; return its lines on stderr, with none on stdout."""

    def printed(*told: Told) -> str:
        now = [NOW]
        tell = Progress(lambda: now[0])
        runs: dict[str, Run] = {}
        for one in told:
            if isinstance(one, float):
                now[0] += one
            elif isinstance(one, list):
                tell.expect(len(one), 0, 1)
            elif isinstance(one, Run) and one.phase.final:
                tell.ended(one)
            elif isinstance(one, Run):
                runs[one.run_id] = one
                tell.planned(one)
            else:
                tell.on_event(runs.setdefault(one.run_id, run(one.run_id)), one)
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return printed


def evaluated(value: float) -> JobEvent:
    event = {"event": "evaluation", "step": 10, "metric": "mIoU", "value": value, "unit": "%"}
    return line(f"K8SBENCH {json.dumps(event | {'target': 78.5})}")


MINE = LogFormat(
    name="mine", record=r"it (?P<iteration>\d+) ips (?P<rate>[\d.]+)", unit="img", per="card"
)
REFUSED = "python -m k8sbench.trainers.tsm: error: argument --seed: must be a whole number"
REJECTED = measurement(reasons=(REJECTION,), verdict="rejected", throughput=None, accuracy=None)
VALID = measurement(accuracy=None)
REACHED = AccuracyResult(metric="top-1", best=76.6, final=76.0, unit="%", evaluations=2)
FRACTION = msgspec.structs.replace(REACHED, best=0.99833, unit="fraction")
UNTIMED = [
    measurement(accuracy=found, target=target, format="dle-resnet50")
    for found, target in ((REACHED, 75.9), (FRACTION, 99.8), (FRACTION, 99.9))
]
SWEEP = [run(f"seg-{number}", repeat=number) for number in (1, 2, 3)]
SCENES: dict[str, tuple[Told, ...]] = {
    "the plan comes first, with its notes": (run(notes=("Batch 2 is unlike the report's.",)),),
    "repeats of a case share one plan line": (run(), run("seg-2", repeat=2)),
    "a note on several plans is printed once": tuple(
        run(f"seg-{size}", batch_size=size, notes=("no GPU here",)) for size in (2, 4)
    ),
    "a change of state has its cause and what to do": (
        moved(Phase.PENDING, "No node has 8 GPUs.", action="Take a pool."),
        moved(Phase.RUNNING),
    ),
    "a step is reported every five seconds at most": (
        *(step(10), 1.0, step(11, at=NOW + 1), 3.0, step(14, at=NOW + 4)),
        *(1.0, step(15, at=NOW + 5)),
    ),
    "a pace is of the present attempt": (step(80), 10.0, step(10, at=NOW + 10)),
    "the latest evaluation stands beside the steps that follow it": (
        *(evaluated(60.0), evaluated(71.25), line('K8SBENCH {"event": "evaluation", "metr')),
        *(step(11 + second, at=NOW + second / 100) for second in range(40)),
        *(5.0, step(60, at=NOW + 5)),
    ),
    "a declared format gives steps too": (
        run(log=MINE, replicas=3),
        line("not UTF-8: \udcff"),
        line("it 7 ips 1000.5"),
    ),
    "a step in a line of another family, or a torn one, is none": (
        line("Iter [50/80000] lr: 1e-2, time: 0.500, data_time: 0.010, loss: 2.5000"),
        *map(line, ("K8SBENCH {", 'K8SBENCH {"event": "step"}')),
        line('K8SBENCH {"event": "step", "step": "x"}'),
    ),
    "a replica that came back did not fail": (
        *(line("bye", replica="worker-0"), line("bye", replica="worker-1")),
        *(replica("worker-0", Phase.FAILED), replica("worker-1", Phase.FAILED)),
        *(replica("worker-0", Phase.RUNNING, restarts=1), moved(Phase.FAILED)),
    ),
    "the replica that is blamed is heard first though others ended it": (
        *(line(f"bye from {each}", replica=each) for each in ("worker-1", "worker-11")),
        line("bye from worker-10", replica="worker-10"),
        *(replica("worker-1", Phase.FAILED, exit_code=1), replica("worker-11", Phase.CANCELLED)),
        moved(Phase.FAILED, "rank 23 of worker-11 exited: no worker-10 here"),
    ),
    "the last lines of a replica are its own and not torchrun's": (
        *map(line, ("usage: tsm", REFUSED, *torchrun((0, 2)))),
        *(replica("master-0", Phase.FAILED, exit_code=1), moved(Phase.FAILED)),
    ),
    "gaps and notes": (
        note("The API server does not answer since 10 s."),
        *(gap(NOW, NOW + 1), gap(NOW, None), gap(None, NOW), gap(None, None)),
    ),
    "a rejected run says why": (ended(run(), measurement=REJECTED),),
    "a valid run says its figure": (ended(run(preset="full"), measurement=VALID),),
    "a smoke run says how far it goes": (ended(run(preset="smoke"), measurement=VALID),),
    "trainings say what they reached": (
        ended(run(), measurement=measurement(accuracy=REACHED)),
        ended(run(), measurement=measurement(accuracy=FRACTION)),
        *(ended(run(), measurement=found) for found in UNTIMED),
        ended(run(), measurement=measurement(accuracy=REACHED, target=75.9, time_to_train_s=44.5)),
    ),
    "of several runs each line says which": (
        *(run(), run("seg-2"), moved(Phase.RUNNING, "All replicas run.")),
        *(step(10, run_id="seg-2"), ended(run())),
        moved(Phase.FAILED, "It broke.", "seg-2", action="Mend it."),
    ),
    "a sweep says after each run how far it is and what the run reached": (
        SWEEP,
        *(SWEEP[0], 60.0, ended(SWEEP[0], measurement=VALID)),
        *(SWEEP[1], 60.0, ended(SWEEP[1], Phase.FAILED)),
        *(SWEEP[2], 60.0, ended(SWEEP[2], measurement=VALID)),
    ),
}


def test_what_is_printed_is_the_golden_text(printed: Printed) -> None:
    parts = [f"# {name}\n{printed(*told)}" for name, told in SCENES.items()]
    goldens.check(FOLDER / "told.txt", "\n".join(parts))


def test_a_run_that_is_left_alone_has_not_ended() -> None:
    tell = Progress(lambda: NOW)
    tell.planned(run())
    tell.ended(ended(run(), Phase.RUNNING))
    assert (tell.left, tell.ended_runs.total()) == ({"seg-1"}, 0)
    tell.planned(run())  # `collect` tries it again
    tell.ended(ended(run()))
    assert (tell.left, tell.ended_runs.total()) == (set(), 1)
