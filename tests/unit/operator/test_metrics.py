"""The metrics: values of the last runs, and never more series than the bounds."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.model import creation
from k8sbench.model.phase import Phase
from k8sbench.operator import metrics
from k8sbench.operator.controller import Look, OperatorSettings, OperatorState, PlaceLook
from k8sbench.operator.metrics import WAITS_ITS_TURN, Metrics
from k8sbench.results.groups import comparison
from k8sbench.store import disk
from k8sbench.store.open_store import open_store
from tests.results.report import factory
from tests.unit import goldens
from tests.unit.model.measurements import measurement
from tests.unit.operator.scraped import at, run, samples


@pytest.fixture
def exposed(tmp_path: Path) -> Metrics:
    made = Metrics()
    settings = OperatorSettings(store=str(tmp_path))
    made.state = OperatorState(settings=settings, started_at=50.0, is_leader=True)
    return made


def told(made: Metrics) -> dict[str, float]:
    """Return all samples except process, disk and empty-phase ones."""
    return {
        f"{name}{{{','.join(labels)}}}" if labels else name: value
        for name, found in samples(made).items()
        for labels, value in found.items()
        if not name.startswith(("process_", "python_", "k8sbench_store"))
        and (value or name != "k8sbench_jobs")
    }


def test_what_is_exposed_is_golden(exposed: Metrics) -> None:
    """Nothing is 0 for "not measured"; one that waits counts no jobs."""
    ran, end = at(Phase.RUNNING, 130.0), at(Phase.SUCCEEDED, 200.0)
    assert exposed.state is not None
    rows = []
    for name, closed in {
        "a valid run": run("seg-1", ran, end, measured=measurement()),
        "a later one was cancelled": run("seg-2", ran, at(Phase.CANCELLED, 200.0)),
        "a later one failed": run("seg-3", ran, at(Phase.FAILED, 200.0)),
    }.items():
        exposed.closed(closed)
        rows.append((name, told(exposed)))
    runs = [
        run("a", at(Phase.RUNNING, 200.0)),
        run("b", at(Phase.QUEUED, 200.0, cause_id="queued"), at(Phase.PENDING, 9_000.0)),
        run("c", at(Phase.PENDING, 200.0)),
        run("d", at(Phase.PENDING, 9_999.0, unrecoverable=True)),
        run("e", at(Phase.QUEUED, 200.0, cause_id="queued")),
        *(run(f"w-{why}", at(Phase.PENDING, 200.0, cause_id=why)) for why in WAITS_ITS_TURN),
    ]
    exposed.state.look = Look(
        now=10_000.0,
        listed_time=5.0,
        runs=runs,
        api_errors={"503": 2, "none": 1, "404": 9},
        places={"team-a": PlaceLook(), "team-b": PlaceLook(unserved="Its Lease is not held.")},
    )
    exposed.state.succeeded_at = 5.0
    rows.append(("jobs, of which two are stuck", told(exposed)))
    exposed.state = msgspec.structs.replace(exposed.state, is_leader=False)
    rows.append(("nobody collects", told(exposed)))
    exposed.state.stands_by, exposed.state.failure = True, ""
    rows.append(("it stands by", told(exposed)))
    goldens.check(Path(__file__).parent / "golden" / "metrics.txt", goldens.table(rows))


def test_the_disk_is_measured_whoever_fills_it_and_if_the_store_cannot_be_opened(
    exposed: Metrics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").write_text("no folder!!")
    usage = SimpleNamespace(total=1000, used=990, free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = samples(exposed)
    assert found["k8sbench_store_bytes"] == {(): 11.0}
    assert found["k8sbench_store_free_bytes"] == {(): 10.0}
    assert found["k8sbench_store_disk_bytes"] == {(): 1000.0}


def test_metrics_do_not_wait_for_a_store_that_is_being_opened(
    exposed: Metrics, tmp_path: Path
) -> None:
    assert exposed.state is not None
    exposed.state.is_opening = True
    open_store(str(tmp_path)).close()
    with disk.lock_folder(tmp_path):  # it would wait here
        assert "k8sbench_operator_ready" in samples(exposed)


STUCK = ("suspended", "queue-unusable", "queue-silent", "operator-slow", "operator-down")


@pytest.mark.parametrize("cause", [*STUCK, *sorted(WAITS_ITS_TURN)])
def test_a_job_is_stuck_after_half_an_hour_unless_others_go_first(
    exposed: Metrics, cause: str
) -> None:
    """A text that changes each minute does not begin the half hour anew."""
    assert cause in {*CAUSES, creation.WAITS_FOR_TURN, creation.QUOTA_FULL}
    steps = [at(Phase.QUEUED, 200.0 + 60.0 * turn, cause_id=cause) for turn in range(60)]
    assert exposed.state is not None
    found = []
    for minutes in (30, 60):
        runs = [run("q", *steps[:minutes])]
        now = 100.0 + minutes * 60.0
        exposed.state.look = Look(now=now, listed_time=5.0, runs=runs, api_errors={}, places={})
        found.append(samples(exposed)["k8sbench_stuck_jobs"][()])
    assert found == [0.0, float(cause in STUCK)]


def test_the_half_hour_begins_with_the_turn_and_ends_with_the_start(exposed: Metrics) -> None:
    waited = at(Phase.QUEUED, 200.0, cause_id="queued")
    state = exposed.state
    assert state is not None
    runs = [
        run("its-turn", waited, at(Phase.PENDING, 9_000.0)),
        run("pulls-long", waited, at(Phase.PENDING, 8_000.0), at(Phase.PULLING, 9_500.0)),
        run("runs", at(Phase.PENDING, 200.0), at(Phase.RUNNING, 9_900.0)),
    ]
    state.look = Look(now=10_000.0, listed_time=5.0, runs=runs, api_errors={}, places={})
    assert samples(exposed)["k8sbench_stuck_jobs"] == {(): 1.0}


def test_a_label_of_what_nothing_states_is_empty() -> None:
    log = factory.run(8.0, backend="imported", batch_size=0)
    facts = msgspec.structs.replace(log.facts, framework=None, precision=None)
    labels = comparison.labels(facts, log.group_key)
    assert labels.count("") == 3  # and it has no namespace
    assert "None" not in labels


def test_however_many_names_there_are_the_series_are_bounded(exposed: Metrics) -> None:
    ran, end = at(Phase.RUNNING, 130.0), at(Phase.SUCCEEDED, 200.0)
    for number in range(1000):
        name = f"{number:03}-{'x' * 100}"
        exposed.closed(run(f"r-{number}", ran, end, measured=measurement(), benchmark=name))
    errors = {str(code): 1 for code in range(400, 600)}
    assert exposed.state is not None
    exposed.state.look = Look(now=10_000.0, listed_time=5.0, runs=(), api_errors=errors, places={})
    found = samples(exposed)
    for name in ("throughput_samples_per_second", "run_valid"):
        assert len(found[f"k8sbench_{name}"]) == metrics.MOST_CASES
    assert len(found["k8sbench_queue_wait_seconds"]) == metrics.MOST_BENCHMARKS
    assert len(found["k8sbench_api_errors_total"]) == metrics.MOST_CODES
    assert len(found["k8sbench_jobs"]) == len(Phase)
    longest = max(len(label) for labels in found["k8sbench_run_valid"] for label in labels)
    assert longest == metrics.LONGEST_LABEL
    assert any(
        label.startswith("999-") for labels in found["k8sbench_run_valid"] for label in labels
    )
