"""One run from plan to record: what is kept whatever happens on the way."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from k8sbench.adapters.sql_store import open_store
from k8sbench.model.choices import Request
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import make_plan
from k8sbench.model.run import Run
from k8sbench.ports import JobEvent, LogLine, Manifest, RunFilter, Store
from k8sbench.runs import submitting
from tests.unit.model.specs import LAPTOP, SOURCE, spec


class FakeCluster:
    """Plays given events; stands at our own port."""

    name = "local"

    def __init__(self, *events: JobEvent | BaseException) -> None:
        self.events = events
        self.created: list[str] = []
        self.cancelled: list[tuple[str, str]] = []
        self.recorded_first: Store | None = None

    def create(self, plan: RunPlan, manifests: Sequence[Manifest], folder: pathlib.Path) -> None:
        if self.recorded_first is not None:
            assert self.recorded_first.run(plan.run_id).phase is Phase.CREATED
            assert (folder / "manifest.yaml").read_text() == "kind: Job\n"
        self.created.append(plan.run_id)

    def watch(self, run_id: str) -> Iterator[JobEvent]:
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            yield event
            if self.cancelled:
                yield at(Phase.CANCELLED, self.cancelled[0][0], self.cancelled[0][1])
                return

    def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
        self.cancelled.append((cause, cause_id))

    def close(self) -> None:
        pass


class Silent:
    """A reporter that keeps the order of what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def planned(self, run: Run) -> None:
        self.told.append("planned")

    def happened(self, run: Run, event: JobEvent) -> None:
        if event.transition is not None:
            self.told.append(event.transition.phase)

    def ended(self, run: Run) -> None:
        self.told.append("ended")


def at(phase: Phase, cause: str = "because", cause_id: str | None = None) -> JobEvent:
    return JobEvent(transition=Transition(phase=phase, at=20.0, cause=cause, cause_id=cause_id))


def line(text: str, replica: str = "master-0") -> JobEvent:
    return JobEvent(line=LogLine(replica=replica, at=15.0, text=text))


def measurement(**changes: Any) -> Measurement:
    fields: dict[str, Any] = {
        "files": ("master-0.log",),
        "format": "k8sbench",
        "impl": "k8sbench",
        "framework": "pytorch",
        "gpus": 1,
        "precision": "fp32",
        "batch_size_per_gpu": 2,
        "warmup_iterations": 2,
        "iterations": 8,
        "records": 8,
        "throughput": None,
        "final_loss": 1.0,
        "accuracy": None,
        "time_to_train_s": None,
        "train_wall_s": 1.0,
        "environment": {},
        "verdict": "valid",
        "reasons": (),
    }
    return Measurement(**(fields | changes))


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "store"))
    yield opened
    opened.close()


def work(**asked: Any) -> submitting.Work:
    def plan(run_id: str, set_name: str, repeat: int) -> RunPlan:
        return make_plan(
            spec(),
            SOURCE,
            Request(**asked),
            LAPTOP,
            run_id=run_id,
            set_name=set_name,
            repeat=repeat,
            trainers_digest="t",
        )

    return submitting.Work(
        plan=plan, manifests=lambda _: ({"kind": "Job"},), text=lambda _: "kind: Job\n"
    )


def world(store: Store, cluster: FakeCluster) -> submitting.World:
    numbers = itertools.count(1)
    return submitting.World(
        store=store,
        cluster=cluster,
        clock=lambda: 10.0,
        owner=None,
        alive=lambda _: None,
        draw_run_id=lambda benchmark: f"{benchmark}-{next(numbers)}",
        measure=lambda _: measurement(),
    )


def submit(
    store: Store, cluster: FakeCluster, *, stop: submitting.Stop | None = None, **asked: Any
) -> Run:
    run_id = asked.pop("run_id", None)
    return submitting.submit(
        work(**asked),
        world(store, cluster),
        Silent(),
        stop or submitting.Stop(),
        set_name="night",
        run_id=run_id,
    )


def test_a_run_is_recorded_before_it_starts_and_measured_after_it_ends(store: Store) -> None:
    cluster = FakeCluster(at(Phase.RUNNING), line("hello"), at(Phase.SUCCEEDED))
    cluster.recorded_first = store
    run = submit(store, cluster)
    assert run.run_id == "seg-1"
    assert [step.phase for step in run.history] == ["Created", "Running", "Succeeded"]
    assert run.measurement is not None
    assert store.run("seg-1") == run


def test_every_line_is_on_disk_before_the_run_is_called_final(store: Store) -> None:
    class Watching(FakeCluster):
        def watch(self, run_id: str) -> Iterator[JobEvent]:
            yield line("first")
            yield line("last", "worker-0")
            yield at(Phase.SUCCEEDED)

    submit(store, Watching())
    texts = {path.name: path.read_text() for path in store.log_files("seg-1")}
    assert texts["master-0.log"].endswith("Z first\n")
    assert texts["worker-0.log"].endswith("Z last\n")


def test_a_failed_job_is_recorded_with_its_cause_and_not_measured(store: Store) -> None:
    run = submit(store, FakeCluster(at(Phase.FAILED, "worker-1 exited with code 1")))
    assert run.phase is Phase.FAILED
    assert run.history[-1].cause == "worker-1 exited with code 1"
    assert run.measurement is None


def test_repeats_are_numbered_within_set_and_case(store: Store) -> None:
    world_ = world(store, FakeCluster(at(Phase.SUCCEEDED)))
    args = (world_, Silent(), submitting.Stop())
    first = submitting.submit(work(), *args, set_name="night", run_id=None)
    second = submitting.submit(work(), *args, set_name="night", run_id=None)
    other = submitting.submit(work(replicas=2), *args, set_name="night", run_id=None)
    assert [r.plan.repeat for r in (first, second, other)] == [1, 2, 1]
    assert first.case_key == second.case_key != other.case_key


def test_a_repeat_number_that_another_process_takes_first_is_drawn_again(store: Store) -> None:
    rival = make_plan(
        spec(),
        SOURCE,
        Request(),
        LAPTOP,
        run_id="rival-1",
        set_name="night",
        repeat=1,
        trainers_digest="t",
    )

    class Raced:
        """The store, with a rival that records between our question and our record."""

        def __init__(self) -> None:
            self.raced = False

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def next_repeat(self, set_name: str, key: str) -> int:
            number = store.next_repeat(set_name, key)
            if not self.raced:
                self.raced = True
                store.record(rival, at=1.0, owner=None)
            return number

    run = submit(Raced(), FakeCluster(at(Phase.SUCCEEDED)))
    assert run.plan.repeat == 2
    assert {r.run_id for r in store.runs(RunFilter())} == {"rival-1", "seg-1"}


def test_when_k8sbench_itself_breaks_the_run_says_so(store: Store) -> None:
    with pytest.raises(StoreError, match="No space left"):
        submit(store, FakeCluster(at(Phase.RUNNING), StoreError("No space left on the disk.")))
    run = store.run("seg-1")
    assert run.phase is Phase.FAILED
    assert "No space left" in run.history[-1].cause


def test_what_cannot_be_rendered_leaves_no_run(store: Store) -> None:
    def refuse(_: RunPlan) -> tuple[Manifest, ...]:
        raise UsageError("shm is above the memory limit.")

    sound = work()
    broken = submitting.Work(plan=sound.plan, manifests=refuse, text=sound.text)
    with pytest.raises(UsageError):
        submitting.submit(
            broken,
            world(store, FakeCluster()),
            Silent(),
            submitting.Stop(),
            set_name="night",
            run_id=None,
        )
    assert store.runs(RunFilter()) == []


def test_a_stop_before_the_start_cancels_at_once(store: Store) -> None:
    stop = submitting.Stop()
    stop("Interrupted (Ctrl-C)")
    cluster = FakeCluster(at(Phase.RUNNING), at(Phase.SUCCEEDED))
    run = submit(store, cluster, stop=stop)
    assert run.phase is Phase.CANCELLED
    assert cluster.cancelled == [("Interrupted (Ctrl-C)", "interrupted")]


def test_a_run_id_that_exists_joins_its_run_instead_of_making_a_second_job(store: Store) -> None:
    first = submit(store, FakeCluster(at(Phase.SUCCEEDED)), run_id="mine")
    again = FakeCluster(at(Phase.SUCCEEDED))
    assert submit(store, again, run_id="mine") == first
    assert again.created == []


def test_a_run_id_of_another_case_is_refused(store: Store) -> None:
    submit(store, FakeCluster(at(Phase.SUCCEEDED)), run_id="mine")
    with pytest.raises(UsageError, match="another case"):
        submit(store, FakeCluster(), run_id="mine", replicas=2)


def test_what_a_set_already_has_need_not_be_repeated(store: Store) -> None:
    run = submit(store, FakeCluster(at(Phase.SUCCEEDED)))
    submit(store, FakeCluster(at(Phase.FAILED)), run_id="failed")
    key = case_key(run.plan)
    assert submitting.finished_repeats(store, "night", key) == [run]
    assert submitting.finished_repeats(store, "day", key) == []
