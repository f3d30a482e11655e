"""What every store does, whatever database is behind it (:class:`k8sbench.ports.Store`)."""

from __future__ import annotations

import msgspec
import pytest

from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model import creation
from k8sbench.model.errors import NotFound, RepeatTaken, StoreError, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Location
from k8sbench.ports import LogLine, RunFilter, Store
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import (
    NOW,
    OWNER,
    REJECTION,
    TRAINING,
    append,
    measurement,
    plan,
    step,
)
from tests.unit.store.index_checks import damage, differences


def test_it_is_a_store(store: SqlStore) -> None:
    seam: Store = store
    assert seam.runs(RunFilter()) == []


def test_a_run_is_recorded_before_it_starts(store: SqlStore, open_again: OpenStore) -> None:
    run = store.record(plan(), at=NOW, owner=OWNER)
    assert run.phase is Phase.CREATED
    assert run.created_at == run.history[0].at == NOW
    assert run.owner == OWNER
    assert run.measurement is None
    assert (store.folder("seg-1") / "run.json").is_file()
    assert open_again().run("seg-1") == run


def test_a_run_id_is_recorded_once(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=None)
    with pytest.raises(UsageError, match="'seg-1' already"):
        store.record(plan(repeat=2), at=NOW + 1, owner=None)
    assert store.run("seg-1").plan.repeat == 1


def test_a_repeat_of_a_case_is_recorded_once_in_a_set(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=None)
    with pytest.raises(RepeatTaken):
        store.record(plan("seg-2"), at=NOW + 1, owner=None)
    assert store.ids() == ["seg-1"]
    assert not (store.root / "runs" / "seg-2").exists()


def test_the_next_repeat_is_the_first_that_is_free(store: SqlStore) -> None:
    key = case_key(plan())
    assert store.next_repeat("nightly", key) == 1
    for number in (1, 2, 4):
        store.record(plan(f"seg-{number}", repeat=number), at=NOW, owner=None)
    assert store.next_repeat("nightly", key) == 3
    assert store.next_repeat("other", key) == 1


def test_changes_of_state_are_kept_in_order(store: SqlStore, open_again: OpenStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    steps = [
        step(Phase.STARTING, NOW + 1),
        step(Phase.RUNNING, NOW + 2),
        Transition(
            phase=Phase.FAILED,
            at=NOW + 3,
            cause="worker-1 ended with 1.",
            cause_id="replica-failed",
        ),
    ]
    for one in steps:
        run = store.move("seg-1", one)
    assert run.history[1:] == tuple(steps)
    assert run.ended_at == NOW + 3
    assert open_again().run("seg-1") == run


def test_a_final_run_stays_as_it_is(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    ended = store.move("seg-1", step(Phase.CANCELLED))
    assert store.move("seg-1", step(Phase.SUCCEEDED, NOW + 9)) == ended == store.run("seg-1")


def test_a_cause_that_quotes_binary_output_is_kept_readable(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    run = store.move("seg-1", step(Phase.FAILED, cause="worker-0 said 'a\0b\udcff…'."))
    assert run.history[-1].cause == "worker-0 said 'a\N{REPLACEMENT CHARACTER}b?…'."
    assert store.run("seg-1") == run


def test_a_measurement_is_kept_and_replaced(store: SqlStore, open_again: OpenStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    store.move("seg-1", step(Phase.SUCCEEDED))
    assert store.measured("seg-1", measurement()).measurement == measurement()
    rejected = measurement(throughput=None, verdict="rejected", reasons=(REJECTION,))
    run = store.measured("seg-1", rejected)
    assert run.measurement == rejected
    assert open_again().run("seg-1") == run


def test_a_measurement_that_is_not_a_number_is_refused_whole(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    store.measured("seg-1", measurement())
    accuracy = measurement().accuracy
    assert accuracy is not None
    wrong = measurement(accuracy=msgspec.structs.replace(accuracy, best=float("nan")))
    with pytest.raises(StoreError, match=r"accuracy\.best"):
        store.measured("seg-1", wrong)
    assert store.run("seg-1").measurement == measurement()


def test_an_unknown_run_is_not_found_and_the_nearest_are_named(store: SqlStore) -> None:
    store.record(plan("deeplab-261120-081500-x7k2qd"), at=NOW, owner=None)
    asks = (
        store.run,
        store.folder,
        store.log_files,
        lambda run_id: store.move(run_id, step(Phase.RUNNING)),
        lambda run_id: store.measured(run_id, measurement()),
        lambda run_id: store.keep(run_id, "manifest.yaml", ""),
    )
    for ask in asks:
        with pytest.raises(NotFound, match="x7k2qd"):
            ask("deeplab-261120-081500-x7k2qq")
    assert store.last_written_at("deeplab-261120-081500-x7k2qq") is None


def test_filters_are_anded(store: SqlStore) -> None:
    store.record(plan("a"), at=NOW, owner=None)
    store.record(plan("b", set_name="weekly"), at=NOW + 10, owner=None)
    store.record(plan("c", benchmark="other"), at=NOW + 20, owner=None)
    store.record(plan("d", framework="paddle"), at=NOW + 30, owner=None)
    store.move("b", step(Phase.RUNNING))
    store.move("d", step(Phase.FAILED))

    def found(**wanted: object) -> str:
        return "".join(run.run_id for run in store.runs(RunFilter(**wanted)))  # type: ignore[arg-type]

    assert found() == "abcd"
    assert found(set_name="weekly") == "b"
    assert found(benchmark="other") == "c"
    assert found(framework="paddle") == "d"
    assert found(phase=Phase.RUNNING) == "b"
    assert found(since=NOW + 10) == "bcd"
    assert found(until=NOW + 10) == "ab"
    assert found(until=NOW + 10, limit=1) == "b"
    assert found(limit=2) == "cd"
    assert found(since=NOW + 10, limit=1, benchmark="other") == "c"
    assert found(unfinished=True) == "abc"
    assert found(limit=0) == found(set_name="none") == found(benchmark="' OR 1=1 --") == ""


def test_a_run_that_succeeded_is_unfinished_until_it_is_measured(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=None)
    store.move("seg-1", step(Phase.SUCCEEDED))
    assert [run.run_id for run in store.runs(RunFilter(unfinished=True))] == ["seg-1"]
    store.measured("seg-1", measurement())
    assert store.runs(RunFilter(unfinished=True)) == []


@pytest.mark.parametrize("run_id", ["", "..", "../../etc/cron.d/x", "a/b", "a\n", "a" * 60])
def test_what_cannot_name_a_job_names_no_folder(store: SqlStore, run_id: str) -> None:
    with pytest.raises(UsageError, match="cannot name a job"):
        store.record(plan(run_id), at=NOW, owner=None)
    assert list((store.root / "runs").glob("*")) == []
    assert store.ids() == []


def test_artifacts_are_kept_by_name(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=None)
    store.keep("seg-1", "manifest.yaml", "kind: PyTorchJob  # ×\n")
    store.keep("seg-1", "manifest.yaml", "kind: PaddleJob\n")
    folder = store.folder("seg-1")
    assert (folder / "manifest.yaml").read_text() == "kind: PaddleJob\n"
    assert {path.name for path in folder.iterdir()} == {"run.json", "events.jsonl", "manifest.yaml"}


def test_log_files_are_listed_with_rank_0_first(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=None)
    assert store.log_files("seg-1") == []
    archive = store.archive("seg-1")
    for replica in ("worker-10", "worker-9", "master-0", "worker-0"):
        archive.write(LogLine(replica=replica, at=NOW, text="hello"))
    archive.close()
    archive.close()
    stems = [path.stem for path in store.log_files("seg-1")]
    assert stems == ["master-0", "worker-0", "worker-9", "worker-10"]


def test_a_run_that_goes_on_is_as_its_folder_says(store: SqlStore) -> None:
    """A process was killed before the row stood. On PostgreSQL that change did not count."""
    store.record(plan(), at=NOW, owner=None)
    append(store.folder("seg-1"), step(Phase.SUCCEEDED, NOW + 2))
    phase = Phase.SUCCEEDED if store.has_all_folders else Phase.CREATED
    assert store.run("seg-1").phase is phase
    (run,) = store.runs(RunFilter(unfinished=True))
    assert run.phase is phase
    assert store.measured("seg-1", measurement()).phase is phase
    assert differences(store) == []


def test_what_cannot_be_read_is_one_damaged_run(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    run = store.record(plan("seg-2", repeat=2), at=NOW, owner=OWNER)
    damage(store, "seg-1", "{")
    (store.folder("seg-1") / "run.json").write_text("{")
    assert store.runs(RunFilter()) == [run]
    assert list(store.unreadable) == ["seg-1"]
    for ask in (store.run, lambda run_id: store.move(run_id, step(Phase.RUNNING))):
        with pytest.raises(StoreError, match="cannot be read") as caught:
            ask("seg-1")
        assert "k8sbench store reindex" in caught.value.action


def test_a_hundred_threads_share_one_store(store: SqlStore) -> None:
    from concurrent.futures import ThreadPoolExecutor

    store.record(plan(), at=NOW, owner=None)
    with ThreadPoolExecutor(20) as threads:
        moves = [
            threads.submit(store.move, "seg-1", step(Phase.RUNNING, NOW + n)) for n in range(100)
        ]
    assert {len(future.result().history) for future in moves} == set(range(2, 102))
    assert len(store.run("seg-1").history) == 101


ODD = "\0 \x1b[31m '\" \\ ß 深度学习 \N{PILE OF POO}\u2028"


def test_any_plan_and_measurement_come_back_as_they_went(
    store: SqlStore, open_again: OpenStore
) -> None:
    options = {"text": ODD, "most": 2**64 - 1, "least": -(2**63), "float": 5e-324, "no": False}
    odd = plan(command=(ODD, ""), env={ODD: ODD}, options=options, notes=(ODD,), timeout_s=1e300)
    assert store.record(odd, at=NOW, owner=None).plan == odd
    measured = measurement(files=(ODD,), final_loss=-0.1, environment={ODD: None, "x": ODD})
    store.measured("seg-1", measured)
    run = open_again().run("seg-1")
    assert (run.plan, run.measurement) == (odd, measured)
    assert RunFolder(store.folder("seg-1")).run() == run


def test_a_run_that_had_no_job_is_reopened_with_another_plan(
    store: SqlStore, open_again: OpenStore
) -> None:
    store.record(plan(timeout_s=60.0), at=NOW, owner=None)
    store.move("seg-1", creation.refused("seg-1", UsageError("The webhook refused it."), NOW + 1))
    there = Location(server="https://cluster.example:6443", namespace="bench")
    run = store.reopen(plan(timeout_s=90.0), at=NOW + 2, owner=None, location=there)
    assert [step.cause_id for step in run.history] == [None, "not-created", None]
    assert (run.phase, run.plan.timeout_s, run.location) == (Phase.CREATED, 90.0, there)
    run = store.move("seg-1", creation.created(NOW + 3))
    assert open_again().run("seg-1") == run
    # The folder holds the same.
    assert differences(store) == []
    assert RunFolder(store.folder("seg-1")).run() == run


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.FAILED, Phase.SUCCEEDED])
def test_a_run_that_had_a_job_is_not_reopened(store: SqlStore, phase: Phase) -> None:
    store.record(plan(), at=NOW, owner=None)
    run = store.move("seg-1", step(phase))
    with pytest.raises(StoreError, match=f"Run seg-1 is {phase}"):
        store.reopen(plan(), at=NOW + 2, owner=None, location=None)
    assert store.run("seg-1") == run


TRAINS = {"mode": "train", "checkpoints": "path:/kept"}


def test_a_training_that_is_over_is_reopened_without_its_measurement(
    store: SqlStore, open_again: OpenStore
) -> None:
    store.record(plan(training=TRAINING, **TRAINS), at=NOW, owner=None)
    store.move("seg-1", step(Phase.SUCCEEDED))
    store.measured("seg-1", measurement())
    longer = plan(training=msgspec.structs.replace(TRAINING, length=20), **TRAINS)
    run = store.reopen(longer, at=NOW + 2, owner=OWNER, location=None)
    assert (run.phase, run.attempt, run.measurement, run.owner) == (Phase.CREATED, 2, None, OWNER)
    assert open_again().run("seg-1") == run
    assert differences(store) == []
    # Its repeat is one of the longer case's now.
    assert store.next_repeat(longer.set_name, case_key(longer)) == 2


def test_a_training_does_not_become_a_run_that_there_is(store: SqlStore) -> None:
    longer = plan(training=msgspec.structs.replace(TRAINING, length=20), **TRAINS)
    store.record(msgspec.structs.replace(longer, run_id="seg-2"), at=NOW, owner=None)
    store.record(plan(training=TRAINING, **TRAINS), at=NOW, owner=None)
    run = store.move("seg-1", step(Phase.FAILED))
    with pytest.raises(RepeatTaken):
        store.reopen(longer, at=NOW + 2, owner=None, location=None)
    assert store.run("seg-1") == run
