"""Contract of a store (the port ``Store``)."""

import errno
import json
import os
from pathlib import Path

import msgspec
import pytest

from k8sbench.model import creation
from k8sbench.model.errors import NotFound, RepeatTaken, StoreError, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.profile import IterationRange
from k8sbench.model.replica_logs import LogLine
from k8sbench.model.run import Baseline, Location, Run, Wish, kept_run
from k8sbench.model.series import AcceptedLevel, SeriesRange
from k8sbench.store import database, exchange, run_folder
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from k8sbench.store.run_folder import RunFolder
from k8sbench.store.sql_store import SqlStore
from tests.unit.model.measurements import measurement
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import NOW, PROCESS, REJECTION, TRAINING, append, plan, step
from tests.unit.store.index_checks import differences


def test_a_run_is_recorded_before_it_starts(store: SqlStore, open_again: OpenStore) -> None:
    run = store.record(plan(), at=NOW, process=PROCESS)
    assert run.phase is Phase.CREATED
    assert run.created_at == run.history[0].at == NOW
    assert run.process == PROCESS
    assert run.measurement is None
    assert (store.folder("seg-1") / "run.json").is_file()
    assert open_again().run("seg-1") == run


def test_a_run_id_is_recorded_once(one_run: SqlStore) -> None:
    with pytest.raises(UsageError, match="'seg-1' already"):
        one_run.record(plan(repeat=2), at=NOW + 1, process=None)
    assert one_run.run("seg-1").plan.repeat == 1


def test_a_repeat_of_a_case_is_recorded_once_in_a_set(one_run: SqlStore) -> None:
    with pytest.raises(RepeatTaken):
        one_run.record(plan("seg-2"), at=NOW + 1, process=None)
    assert one_run.ids() == ["seg-1"]
    assert not (one_run.root / "runs" / "seg-2").exists()


def test_the_next_repeat_is_the_first_that_is_free(store: SqlStore) -> None:
    key = case_key(plan())
    assert store.next_repeat("nightly", key) == 1
    for number in (1, 2, 4):
        store.record(plan(f"seg-{number}", repeat=number), at=NOW, process=None)
    assert store.next_repeat("nightly", key) == 3
    assert store.next_repeat("other", key) == 1


def test_changes_of_state_are_kept_in_order(one_run: SqlStore, open_again: OpenStore) -> None:
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
        run = one_run.move("seg-1", one)
    assert run.history[1:] == tuple(steps)
    assert run.ended_at == NOW + 3
    assert open_again().run("seg-1") == run


def test_a_final_run_stays_as_it_is(one_run: SqlStore) -> None:
    ended = one_run.move("seg-1", step(Phase.CANCELLED))
    assert one_run.move("seg-1", step(Phase.SUCCEEDED, NOW + 9)) == ended == one_run.run("seg-1")


def test_a_measurement_is_kept_and_replaced(one_run: SqlStore, open_again: OpenStore) -> None:
    one_run.move("seg-1", step(Phase.SUCCEEDED))
    assert one_run.save_measurement("seg-1", measurement()).measurement == measurement()
    rejected = measurement(throughput=None, verdict="rejected", reasons=(REJECTION,))
    run = one_run.save_measurement("seg-1", rejected)
    assert run.measurement == rejected
    assert open_again().run("seg-1") == run


def test_a_measurement_that_is_not_a_number_is_refused_whole(one_run: SqlStore) -> None:
    one_run.save_measurement("seg-1", measurement())
    accuracy = measurement().accuracy
    assert accuracy is not None
    wrong = measurement(accuracy=msgspec.structs.replace(accuracy, best=float("nan")))
    with pytest.raises(StoreError, match=r"accuracy\.best"):
        one_run.save_measurement("seg-1", wrong)
    assert one_run.run("seg-1").measurement == measurement()


def test_an_unknown_run_is_not_found_and_the_nearest_are_named(store: SqlStore) -> None:
    store.record(plan("deeplab-261120-081500-x7k2qd"), at=NOW, process=None)
    asks = (
        store.run,
        store.folder,
        store.log_files,
        lambda run_id: store.move(run_id, step(Phase.RUNNING)),
        lambda run_id: store.save_measurement(run_id, measurement()),
        lambda run_id: store.write_artifact(run_id, "manifest.yaml", ""),
    )
    for ask in asks:
        with pytest.raises(NotFound, match="x7k2qd"):
            ask("deeplab-261120-081500-x7k2qq")
    assert store.last_written_at("deeplab-261120-081500-x7k2qq") is None


def test_runs_that_are_known_are_not_read_again(store: SqlStore) -> None:
    a = store.record(plan("a"), at=NOW, process=None)
    b = store.record(plan("b", set_name="weekly"), at=NOW + 10, process=None)
    store.move("a", step(Phase.RUNNING))
    first, second = store.runs(RunFilter(), {"a": a, "gone": b})
    assert first is a
    assert second == b


def test_filters_are_anded(store: SqlStore) -> None:
    store.record(plan("a"), at=NOW, process=None)
    store.record(plan("b", set_name="weekly"), at=NOW + 10, process=None)
    store.record(plan("c", benchmark="other"), at=NOW + 20, process=None)
    store.record(plan("d", framework="paddle"), at=NOW + 30, process=None)
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
    store.move("a", step(Phase.SUCCEEDED))
    assert found(unfinished=True) == "abc", "it is not measured yet"
    store.save_measurement("a", measurement())
    assert found(unfinished=True) == "bc"
    assert found(limit=0) == found(set_name="none") == found(benchmark="' OR 1=1 --") == ""


@pytest.mark.parametrize("run_id", ["", "..", "../../etc/cron.d/x", "a/b", "a\n", "a" * 60])
def test_what_cannot_name_a_job_names_no_folder(store: SqlStore, run_id: str) -> None:
    with pytest.raises(UsageError, match="cannot name a job"):
        store.record(plan(run_id), at=NOW, process=None)
    assert list((store.root / "runs").glob("*")) == []
    assert store.ids() == []


def test_artifacts_are_kept_by_name(one_run: SqlStore) -> None:
    one_run.write_artifact("seg-1", "manifest.yaml", "kind: PyTorchJob  # ×\n")
    one_run.write_artifact("seg-1", "manifest.yaml", "kind: PaddleJob\n")
    folder = one_run.folder("seg-1")
    assert (folder / "manifest.yaml").read_text() == "kind: PaddleJob\n"
    assert {path.name for path in folder.iterdir()} == {"run.json", "events.jsonl", "manifest.yaml"}


def test_log_files_are_listed_with_rank_0_first(one_run: SqlStore) -> None:
    assert one_run.log_files("seg-1") == []
    archive = one_run.archive("seg-1")
    for replica in ("worker-10", "worker-9", "master-0", "worker-0"):
        archive.write(LogLine(replica=replica, at=NOW, text="hello"))
    stems = [path.stem for path in one_run.log_files("seg-1")]
    assert stems == ["master-0", "worker-0", "worker-9", "worker-10"]


def test_a_run_that_goes_on_is_as_its_folder_says(one_run: SqlStore) -> None:
    """A process was killed before its row was written."""
    append(one_run.folder("seg-1"), step(Phase.SUCCEEDED, NOW + 2))
    assert one_run.run("seg-1").phase is Phase.SUCCEEDED
    (run,) = one_run.runs(RunFilter(unfinished=True))
    assert run.phase is Phase.SUCCEEDED
    assert one_run.save_measurement("seg-1", measurement()).phase is Phase.SUCCEEDED
    assert differences(one_run) == []


def test_what_cannot_be_read_is_one_damaged_run(one_run: SqlStore) -> None:
    run = one_run.record(plan("seg-2", repeat=2), at=NOW, process=PROCESS)
    (one_run.folder("seg-1") / "run.json").write_text("{")
    assert one_run.runs(RunFilter()) == [run]
    assert list(one_run.unreadable) == ["seg-1"]
    for ask in (one_run.run, lambda run_id: one_run.move(run_id, step(Phase.RUNNING))):
        with pytest.raises(StoreError, match="cannot be read") as caught:
            ask("seg-1")
        assert "k8sbench store reindex" in caught.value.action


def test_a_hundred_threads_share_one_store(store: SqlStore) -> None:
    from concurrent.futures import ThreadPoolExecutor

    store.record(plan(), at=NOW, process=None)
    with ThreadPoolExecutor(20) as threads:
        moves = [
            threads.submit(store.move, "seg-1", step(Phase.RUNNING, NOW + n)) for n in range(100)
        ]
    assert {len(future.result().history) for future in moves} == set(range(2, 102))
    assert len(store.run("seg-1").history) == 101


ODD = "\0 \x1b[31m '\" \\ ß 深度学习 \N{PILE OF POO}\u2028"


def test_any_plan_and_measurement_come_back(store: SqlStore, open_again: OpenStore) -> None:
    options = {"text": ODD, "most": 2**64 - 1, "least": -(2**63), "float": 5e-324, "no": False}
    odd = plan(command=(ODD, ""), env={ODD: ODD}, options=options, notes=(ODD,), timeout_s=1e300)
    assert store.record(odd, at=NOW, process=None).plan == odd
    measured = measurement(files=(ODD,), final_loss=-0.1, environment={ODD: None, "x": ODD})
    store.save_measurement("seg-1", measured)
    run = open_again().run("seg-1")
    assert (run.plan, run.measurement) == (odd, measured)
    assert RunFolder(store.folder("seg-1")).run() == run


def test_a_run_without_a_job_is_reopened_otherwise(store: SqlStore, open_again: OpenStore) -> None:
    store.record(plan(timeout_s=60.0), at=NOW, process=None)
    store.move(
        "seg-1", creation.job_refused("seg-1", UsageError("The webhook refused it."), NOW + 1)
    )
    there = Location(server="https://cluster.example:6443", namespace="bench")
    run = store.reopen(plan(timeout_s=90.0), at=NOW + 2, process=None, location=there)
    assert [step.cause_id for step in run.history] == [None, "not-created", None]
    assert (run.phase, run.plan.timeout_s, run.location) == (Phase.CREATED, 90.0, there)
    run = store.move("seg-1", creation.job_created(NOW + 3))
    assert open_again().run("seg-1") == run
    # The folder holds the same.
    assert differences(store) == []
    assert RunFolder(store.folder("seg-1")).run() == run


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.FAILED, Phase.SUCCEEDED])
def test_a_run_that_had_a_job_is_not_reopened(one_run: SqlStore, phase: Phase) -> None:
    run = one_run.move("seg-1", step(phase))
    with pytest.raises(StoreError, match=f"Run seg-1 is {phase}"):
        one_run.reopen(plan(), at=NOW + 2, process=None, location=None)
    assert one_run.run("seg-1") == run


TRAINS = {"mode": "train", "checkpoints": "path:/kept"}


def test_a_training_is_reopened_without_its_figures(store: SqlStore, open_again: OpenStore) -> None:
    store.record(plan(training=TRAINING, **TRAINS), at=NOW, process=None)
    store.move("seg-1", step(Phase.SUCCEEDED))
    store.save_measurement("seg-1", measurement())
    longer = plan(training=msgspec.structs.replace(TRAINING, length=20), **TRAINS)
    run = store.reopen(longer, at=NOW + 2, process=PROCESS, location=None)
    assert (run.phase, run.attempt, run.measurement, run.process) == (
        Phase.CREATED,
        2,
        None,
        PROCESS,
    )
    assert open_again().run("seg-1") == run
    assert differences(store) == []
    # Its repeat is one of the longer case's now.
    assert store.next_repeat(longer.set_name, case_key(longer)) == 2


def test_a_training_does_not_become_a_run_that_there_is(store: SqlStore) -> None:
    longer = plan(training=msgspec.structs.replace(TRAINING, length=20), **TRAINS)
    store.record(msgspec.structs.replace(longer, run_id="seg-2"), at=NOW, process=None)
    store.record(plan(training=TRAINING, **TRAINS), at=NOW, process=None)
    run = store.move("seg-1", step(Phase.FAILED))
    with pytest.raises(RepeatTaken):
        store.reopen(longer, at=NOW + 2, process=None, location=None)
    assert store.run("seg-1") == run


# -- wishes ---------------------------------------------------------------------------------------


CANCEL = Wish(kind="cancel", at=NOW, cause="By hand.", cause_id="cancelled")
DELETE = Wish(kind="delete", at=NOW, cause="The run has ended.")


def test_a_wish_is_seen_until_it_is_fulfilled(one_run: SqlStore, open_again: OpenStore) -> None:
    other = open_again()
    assert one_run.wish("seg-1", CANCEL) == other.run("seg-1")
    one_run.wish("seg-1", DELETE)
    assert other.run("seg-1").wishes == (CANCEL, DELETE)
    assert json.loads((one_run.folder("seg-1") / "wishes.json").read_text())["wishes"]
    other.remove_wish("seg-1", "cancel")
    assert one_run.remove_wish("seg-1", "cancel").wishes == (DELETE,)
    assert one_run.remove_wish("seg-1", "delete").wishes == ()
    assert not (one_run.folder("seg-1") / "wishes.json").exists()


def test_of_a_kind_there_is_one_wish(one_run: SqlStore) -> None:
    one_run.wish("seg-1", DELETE)
    by_name = msgspec.structs.replace(DELETE, cause="By\0name.")
    (kept,) = one_run.wish("seg-1", by_name).wishes
    assert kept.cause == "By\N{REPLACEMENT CHARACTER}name."


def test_a_run_that_is_final_is_not_to_be_cancelled_any_more(one_run: SqlStore) -> None:
    for wish in (CANCEL, DELETE):
        one_run.wish("seg-1", wish)
    assert one_run.move("seg-1", step(Phase.SUCCEEDED)).wishes == (DELETE,)
    assert one_run.run("seg-1").wishes == (DELETE,)
    assert one_run.wish("seg-1", CANCEL).wishes == (DELETE,)
    one_run.save_measurement("seg-1", measurement())
    for wanted in (RunFilter(unfinished=True), RunFilter(wished=True)):
        assert [run.run_id for run in one_run.runs(wanted)] == ["seg-1"]
    one_run.remove_wish("seg-1", "delete")
    assert one_run.runs(RunFilter(unfinished=True)) == []


def test_a_wish_comes_with_an_end_unless_there_is_one_of_its_kind(one_run: SqlStore) -> None:
    one_run.wish("seg-1", CANCEL)
    assert one_run.move("seg-1", step(Phase.FAILED), owes=DELETE).wishes == (DELETE,)
    assert RunFolder(one_run.folder("seg-1")).run().wishes == (DELETE,)
    one_run.record(plan("seg-2", repeat=2), at=NOW, process=None)
    by_name = msgspec.structs.replace(DELETE, cause="By name.")
    one_run.wish("seg-2", by_name)
    assert one_run.move("seg-2", step(Phase.FAILED), owes=DELETE).wishes == (by_name,)


def test_a_change_by_another_process_is_seen_before_the_next_one(
    one_run: SqlStore, open_again: OpenStore
) -> None:
    one_run.move("seg-1", step(Phase.STARTING, NOW + 1))
    open_again().wish("seg-1", CANCEL)
    assert one_run.run("seg-1").wishes == (CANCEL,)
    open_again().move("seg-1", step(Phase.RUNNING, NOW + 2))
    run = one_run.wish("seg-1", DELETE)
    assert (run.phase, run.wishes) == (Phase.RUNNING, (CANCEL, DELETE))
    assert open_again().run("seg-1") == run


def test_a_run_that_is_submitted_again_has_no_wish_of_before(one_run: SqlStore) -> None:
    one_run.wish("seg-1", CANCEL)
    one_run.move(
        "seg-1", creation.job_refused("seg-1", UsageError("The webhook refused it."), NOW + 1)
    )
    one_run.reopen(plan(), at=NOW + 2, process=None, location=None)
    assert one_run.run("seg-1").wishes == ()
    assert not (one_run.folder("seg-1") / "wishes.json").exists()


# -- a run's folder -------------------------------------------------------------------------------


def new_run(at: float = NOW) -> Run:
    return Run(
        planned=plan(),
        created_at=at,
        process=PROCESS,
        history=(run_folder.first_transition(at),),
        artifacts=None,
    )


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "seg-1")
    made.save(new_run())
    return made


@pytest.mark.parametrize("wrong", ['{"phase": "Dancing", "at": 1, "cause": ""}', "{", "\0", "\xff"])
def test_a_damaged_event_is_an_error_that_names_it(folder: RunFolder, wrong: str) -> None:
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(wrong.encode("latin-1") + b"\n")
    append(folder.path, step(Phase.RUNNING))
    with pytest.raises(StoreError, match=r"events\.jsonl:2 cannot be read"):
        folder.run()


@pytest.mark.parametrize("name", ["run.json", "measurement.json", "wishes.json"])
@pytest.mark.parametrize("changed", ["", '"more": {},'])
def test_a_run_of_a_newer_version_is_refused_and_left_alone(
    one_run: SqlStore, name: str, changed: str
) -> None:
    one_run.move("seg-1", step(Phase.SUCCEEDED, NOW + 2))
    one_run.save_measurement("seg-1", measurement())
    one_run.wish("seg-1", Wish(kind="delete", at=NOW, cause="It is over."))
    path = one_run.folder("seg-1") / name
    text = path.read_text().replace('"schema": 2,', f'"schema": 99,{changed}', 1)
    path.write_text(text if changed == "" else text.replace('"repeat"', '"repetition"'))
    with pytest.raises(StoreError, match="schema 99") as refused:
        one_run.run("seg-1")
    assert "Upgrade k8sbench" in str(refused.value)
    with pytest.raises(StoreError, match="schema 99"):
        one_run.save_measurement("seg-1", measurement())
    assert '"schema": 99' in path.read_text()


def test_a_folder_without_events_is_damaged(folder: RunFolder) -> None:
    (folder.path / "events.jsonl").unlink()
    with pytest.raises(StoreError, match=r"events\.jsonl holds no event"):
        folder.run()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"plan": 1}', "\0", "[" * 100_000, '{"schema": 2, "plan": {}}']
)
def test_a_run_file_that_is_none_is_an_error_that_names_it(folder: RunFolder, text: str) -> None:
    (folder.path / "run.json").write_text(text)
    with pytest.raises(StoreError, match=r"run\.json"):
        folder.run()


def test_what_was_killed_before_it_was_recorded_is_taken_over(folder: RunFolder) -> None:
    (folder.path / "run.json").rename(folder.path / ".run.json.1234.tmp")
    folder.save(new_run(NOW + 9))
    run = folder.run()
    assert run.created_at == run.history[0].at == NOW + 9
    assert len(run.history) == 1


@pytest.mark.parametrize("wrong", [OSError(errno.ENOSPC, "No space"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_written_leaves_the_old_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    folder.write("manifest.yaml", b"old")

    def full(_: int) -> None:
        raise wrong

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((StoreError, KeyboardInterrupt), match=r"disk is full|^$"):
        folder.write("manifest.yaml", b"new")
    assert (folder.path / "manifest.yaml").read_bytes() == b"old"
    assert not list(folder.path.glob(".*"))


# -- accepted levels ------------------------------------------------------------------------------


def test_a_level_replaces_the_one_that_was_accepted_of_its_case(
    store: SqlStore, open_again: OpenStore
) -> None:
    first, other = (
        AcceptedLevel(case=case, line=(case, "", ""), set_name="a", began=NOW, accepted_at=NOW)
        for case in ("1x8", "2x8")
    )
    later = msgspec.structs.replace(first, set_name="b", began=NOW + 1)
    store.accept_levels([first, other])
    store.accept_levels([later])
    assert sorted(open_again().accepted_levels(), key=lambda level: level.case) == [later, other]


# -- ranges of series -----------------------------------------------------------------------------


def test_a_range_stays_unless_it_is_replaced(store: SqlStore, open_again: OpenStore) -> None:
    first, other = (
        SeriesRange(
            case=case, line=(case, "", ""), over=IterationRange(begin=20, end=288), sets=("a",)
        )
        for case in ("1x8", "2x8")
    )
    later = msgspec.structs.replace(first, over=IterationRange(begin=20, end=96))
    store.fix_ranges([first])
    store.fix_ranges([later, other])
    assert open_again().series_ranges() == (first, other)
    store.fix_ranges([later], replaces=True)
    assert open_again().series_ranges() == (later, other)


# -- baselines ------------------------------------------------------------------------------------


def made(store: SqlStore, name: str = "release", run_id: str = "seg-1") -> Baseline:
    """A baseline of a run of the store."""
    store.record(plan(run_id, set_name=run_id), at=NOW, process=None)
    store.move(run_id, step(Phase.SUCCEEDED))
    run = store.save_measurement(run_id, measurement())
    return Baseline(name=name, saved_at=NOW, of=(run_id,), runs=(kept_run(run),))


def test_a_baseline_is_read_back_as_it_was_saved(store: SqlStore, open_again: OpenStore) -> None:
    saved = made(store)
    store.save_baseline(saved)
    assert open_again().baselines() == [saved]
    (run,) = saved.runs
    kept = store.run("seg-1")
    assert (run.plan, run.history, run.measurement) == (kept.plan, kept.history, kept.measurement)
    assert run.artifacts is None


def test_a_name_is_not_taken_twice_unless_that_is_wished(store: SqlStore) -> None:
    one, two = made(store), made(store, run_id="seg-2")
    store.save_baseline(one)
    store.save_baseline(one)  # the same again, as after a lost connection
    with pytest.raises(UsageError, match="There is a baseline 'release' already"):
        store.save_baseline(two)
    assert store.baselines() == [one]
    store.save_baseline(two, replace=True)
    assert store.baselines() == [two]


def test_one_that_is_removed_is_gone(store: SqlStore) -> None:
    store.save_baseline(made(store))
    with pytest.raises(NotFound, match="There is no baseline 'relase'") as raised:
        store.remove_baseline("relase")
    assert "Did you mean release?" in raised.value.action
    store.remove_baseline("release")
    assert store.baselines() == []


def test_baselines_need_neither_the_database_nor_the_runs(root: Path) -> None:
    with open_store(str(root)) as store:
        saved = made(store)
        store.save_baseline(saved)
        exchange.remove_run(store, "seg-1")
        assert store.ids() == []
    for path in root.glob(f"{database.DATABASE}*"):
        path.unlink()
    with open_store(str(root)) as store:
        assert store.baselines() == [saved]


def test_a_file_that_cannot_be_read_is_named_with_what_to_do(root: Path) -> None:
    with open_store(str(root)) as store:
        saved = made(store)
        store.save_baseline(saved)
        (root / "baselines" / "broken.json").write_text("{")
        (root / "baselines" / "newer.json").write_text('{"schema": 99}')
        (root / "baselines" / "folder.json").mkdir()
        assert store.baselines() == [saved], "one damaged baseline hides no other"
        assert set(store.damaged_baselines) == {"broken", "folder", "newer"}
        assert "k8sbench baseline remove broken" in store.damaged_baselines["broken"]
        assert "schema 99" in store.damaged_baselines["newer"]
        store.remove_baseline("broken")
        assert store.baselines() == [saved]
