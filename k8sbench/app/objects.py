"""Benchmark objects as commands create, follow and end them.

If an operator serves the namespace, a command writes objects and nothing else: the operator alone
creates, follows and deletes jobs. A command shows what the operator does until all is complete; it
may end at any time, and nothing changes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench import limits
from k8sbench.app import answers, cases, connections, results, stores, targets
from k8sbench.app.answers import StoresRead
from k8sbench.app.results import RunRows
from k8sbench.catalog import spec_files
from k8sbench.lifecycle.context import Note, Reporter
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import benchmark_object, times
from k8sbench.model.benchmark_object import LONGEST_NAME, Benchmark
from k8sbench.model.errors import BenchError, Interrupted, NotFound, Unreachable, UsageError
from k8sbench.model.kube import ServingOperator, conditions, is_true
from k8sbench.model.names import RUN_ID, check_set, checked_set_name, draw_name
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.interface import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.app.targets import RunTarget
    from k8sbench.model.pool import NodePool


LOOK_SECONDS = 0.5
"""Interval of looks at the objects."""
JOBS_SECONDS = 5.0
"""Interval of looks for the jobs of runs that go on."""
FINAL = frozenset(str(phase) for phase in Phase if phase.final)


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a command created and does not follow."""

    namespace: str
    name: str


def operator_of(api: Api) -> ServingOperator | None:
    """Return the operator that serves the namespace; None without one.

    Raises :class:`BenchError` if that cannot be known.
    """
    from k8sbench.adapters.kubernetes import operator_proxy

    return operator_proxy.find_operator(api)


def _silence(operator: ServingOperator) -> str:
    """Say since when an operator is silent."""
    since = times.duration(operator.age_s)
    return f"operator {operator.namespace}/{operator.name} has given no sign of life for {since}"


# -- submit ---------------------------------------------------------------------------------------


def submit(
    planned: Sequence[PlannedCase],
    request: SubmitRequest,
    target: RunTarget,
    operator: ServingOperator,
    reporter: Reporter,
    stop: Stop,
    nodes: Sequence[str] = (),
) -> RunRows | Created:
    """Create the object of a submit, or have it retried; follow it unless detached.

    ``planned`` are the cases that the operator will plan, for the user to see.
    """
    api = target.api
    assert api is not None
    pool = target.site.pool if target.has_own_pool else None
    asked = object_of(planned, request, pool=pool, nodes=nodes)
    benchmark = begin(api, asked, request, operator, reporter.note)
    if request.detach:
        return Created(namespace=api.place.namespace, name=benchmark.name)
    reporter.expect(sum(case.repeats for case in planned), 0, request.parallel or 1)
    return follow(api, benchmark, request.access, reporter, stop)


def begin(
    api: Api,
    asked: Mapping[str, Any],
    request: SubmitRequest,
    operator: ServingOperator,
    note: Note,
) -> Benchmark:
    """Create an object, or have the one of the resumed set retried."""
    from k8sbench.adapters.kubernetes import benchmark_objects

    if request.resume is not None:
        benchmark = _retried(api, asked, request.resume, request.store, note)
    else:
        benchmark = benchmark_objects.create(api, asked)
    note(f"Benchmark {benchmark.name} in namespace {api.place.namespace}: the operator runs it.")
    if not operator.is_alive:
        note(
            f"warning: {_silence(operator)}: the object waits for it."
            f" End it with: k8sbench cancel {benchmark.name}"
        )
    return benchmark


def object_of(
    planned: Sequence[PlannedCase],
    request: SubmitRequest,
    *,
    pool: NodePool | None = None,
    nodes: Sequence[str] = (),
    name: str | None = None,
) -> Mapping[str, Any]:
    """Return the object that asks for what a submit does.

    Without a ``name`` it is drawn unless the request names the run. Raises :class:`UsageError`.
    """
    name = request.run_id or name or drawn_name(benchmark_of(planned))
    if len(name) > LONGEST_NAME:
        raise UsageError(
            f"--run-id {name} is too long for a Benchmark, whose runs are numbered.",
            f"Use at most {LONGEST_NAME} characters.",
        )
    set_name = checked_set_name(request.resume or request.set_name or name)
    request = msgspec.structs.replace(request, set_name=set_name, resume=None)
    file = planned[0].benchmark_file
    return benchmark_object.object_of(request, name, file=file, pool=pool, nodes=nodes)


def benchmark_of(planned: Sequence[PlannedCase]) -> str:
    """Return the benchmark of some cases; ``all`` if they are of several."""
    names = {case.draft.benchmark for case in planned}
    return "all" if len(names) > 1 else planned[0].draft.benchmark


def rendered(request: SubmitRequest, reporter: Reporter) -> Mapping[str, Any]:
    """Plan a request as ``render`` does, and return its object; reports the plans."""
    site = targets.choose_site(request)
    planned = cases.plan_cases(
        spec_files.load_specs(request.benchmark), request, site, reporter.note
    )
    for case in planned:
        reporter.plan(case.draft)
    name = f"{planned[0].draft.benchmark[:30].rstrip('-')}-example"
    return object_of(planned, msgspec.structs.replace(request, run_id=request.run_id or name))


def drawn_name(benchmark: str) -> str:
    """Draw the name of an object: ``deeplabv3p-1127-x7k2qd``."""
    return draw_name(benchmark, LONGEST_NAME, at=time.time(), token=connections.new_token())


def _retried(
    api: Api, asked: Mapping[str, Any], set_name: str, where: str | None, note: Note
) -> Benchmark:
    """Retry the object of a set, or create it."""
    from k8sbench.adapters.kubernetes import benchmark_objects

    every = benchmark_objects.every(api)
    sets = [one.set_name for one in reversed(every)]
    if set_name not in sets and _is_of_store(set_name, where):
        raise UsageError(
            f"Set {set_name} is this store's: it was submitted without the operator.",
            "Resume it from here with --no-operator.",
        )
    check_set(set_name, sets)
    for one in every:
        if not benchmark_object.asks_for_same(asked, one):
            continue
        if one.spec.cancel:
            raise UsageError(
                f"Benchmark {one.name} of set {set_name} is cancelled, and stays so.",
                f"Submit it into the set as a new one: --set {set_name}",
            )
        changed = benchmark_objects.change(
            api, one, lambda current: {"retry": current.spec.retry + 1}
        )
        if changed is not None:
            note(f"Benchmark {one.name} runs again what is missing or failed.")
            return changed
    return benchmark_objects.create(api, asked)


def _is_of_store(set_name: str, where: str | None) -> bool:
    """Return True if a store has runs of a set that no operator was asked for."""
    with stores.open_readonly(where, lambda _: None) as store:
        runs = store.runs(RunFilter(set_name=set_name))
        return any(not run.plan.is_asked_of_operator for run in runs)


# -- find -----------------------------------------------------------------------------------------


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a user has named, or one of its runs."""

    benchmark: Benchmark
    run_id: str | None = None
    """None: all of its runs."""


@contextlib.contextmanager
def served(access: ClusterAccess) -> Iterator[tuple[Api, ServingOperator] | None]:
    """Open the namespace with its operator; None without a cluster or an operator."""
    if not connections.configured(access):
        yield None
        return
    with contextlib.closing(connections.connect(access)) as api:
        api.check_answers(limits.now.api_answer)
        operator = operator_of(api)
        yield None if operator is None else (api, operator)


def named(api: Api, text: str) -> Named | None:
    """Return the object or run of this name; None without one."""
    from k8sbench.adapters.kubernetes import benchmark_objects

    if not RUN_ID.fullmatch(text):
        return None
    if (one := benchmark_objects.find(api, text)) is not None:
        return Named(benchmark=one)
    name, _, _ = text.rpartition("-")
    one = benchmark_objects.find(api, name) if name else None
    if one is None or one.number_of(text) is None:
        return None
    return Named(benchmark=one, run_id=text)


# -- end ------------------------------------------------------------------------------------------


def cancel(api: Api, operator: ServingOperator, wanted: Named, note: Note) -> None:
    """Cancel an object or one of its runs."""
    from k8sbench.adapters.kubernetes import benchmark_objects

    benchmark, run_id = wanted.benchmark, wanted.run_id
    what = f"Benchmark {benchmark.name}" if run_id is None else f"Run {run_id}"
    state = benchmark.status.get("phase") if run_id is None else _phases(benchmark).get(run_id)
    if state in FINAL:
        note(f"Nothing to cancel: {what} is {state}.")
        return

    def ended(current: Benchmark) -> Mapping[str, Any]:
        if run_id is None:
            return {} if current.spec.cancel else {"cancel": True}
        given = current.spec.cancel_runs
        return {} if run_id in given else {"cancelRuns": [*given, run_id]}

    if benchmark_objects.change(api, benchmark, ended) is None:
        note(f"Benchmark {benchmark.name} is gone: its runs are cancelled.")
        return
    _note_asked(operator, f"{what} is to be cancelled", note)


def delete(api: Api, operator: ServingOperator, wanted: Named, note: Note) -> None:
    """Delete an object, and with it its jobs; a single run is cancelled."""
    from k8sbench.adapters.kubernetes import benchmark_objects

    if wanted.run_id is not None:
        cancel(api, operator, wanted, note)
        return
    held_by = benchmark_objects.delete(api, wanted.benchmark)
    name = wanted.benchmark.name
    if held_by:
        note(f"Benchmark {name} stays until its finalizers are removed: {', '.join(held_by)}.")
    done = "is to be deleted" if held_by else "is deleted"
    _note_asked(operator, f"Benchmark {name} {done}; its runs end", note)


def _note_asked(operator: ServingOperator, done: str, note: Note) -> None:
    note(f"{done}: the operator does it.")
    if not operator.is_alive:
        note(f"warning: {_silence(operator)}: it is done when it is back.")


# -- follow ---------------------------------------------------------------------------------------


def follow(
    api: Api,
    wanted: Benchmark,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
    run_id: str | None = None,
) -> RunRows:
    """Show the runs of an object until it is complete; return their rows.

    With ``run_id`` only that run counts. Raises :class:`Interrupted` at a stop request, and
    :class:`Unreachable` if the operator is silent for long; the object stays.
    """
    from k8sbench.adapters.kubernetes.benchmark_objects import BenchmarkObjects
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    current, name = wanted, wanted.name
    with (
        contextlib.closing(BenchmarkObjects(api)) as objects,
        contextlib.closing(KubernetesCluster(api)) as cluster,
        stop,
    ):
        shown = _Shown(api, cluster, access, reporter)
        while not _is_complete(current, run_id):
            if stop.cause is not None:
                raise Interrupted(
                    f"{stop.cause}: detached from Benchmark {name}; its runs go on.",
                    f"Come back with: k8sbench watch {name}; end it with: k8sbench cancel {name}.",
                )
            listed = objects.current()
            if listed is not None:
                if wanted.uid not in listed:
                    raise NotFound(
                        f"Benchmark {name} was deleted: its runs are cancelled.",
                        "k8sbench list shows what became of them.",
                    )
                current = listed[wanted.uid] or current
            shown.look(current)
            shown.take(LOOK_SECONDS)
    _check_planned(current)
    with stop:
        return _rows(current, access, run_id, shown)


def _is_complete(benchmark: Benchmark, run_id: str | None) -> bool:
    if run_id is not None and _phases(benchmark).get(run_id) in FINAL:
        return True
    return benchmark.is_over


def _phases(benchmark: Benchmark) -> dict[str, str]:
    """Return the phases of an object's runs, by name."""
    return {run["name"]: run.get("phase", "") for run in benchmark.status.get("runs") or ()}


def _check_planned(benchmark: Benchmark) -> None:
    """Raise what has kept the operator from planning an object."""
    complete = conditions({"status": benchmark.status}).get(benchmark_object.COMPLETE)
    if is_true(complete) and complete is not None and complete.get("reason") == "NotPlanned":
        raise UsageError(
            f"The operator cannot run Benchmark {benchmark.name}: {complete['message']}"
        )


def _rows(
    benchmark: Benchmark, access: ClusterAccess, run_id: str | None, shown: _Shown
) -> RunRows:
    """Make the rows of an object from the operator's records."""
    if run_id is None and not _phases(benchmark):
        phase = benchmark.status.get("phase")
        raise BenchError(f"Benchmark {benchmark.name} has no run: it is {phase}.")
    scope = StoresRead(where=stores.CLUSTER, access=access)
    with answers.answering(scope, shown.reporter.note) as answer:
        assert answer.served is not None, "the operator's store was named"
        of_set = answer.served.runs_of(benchmark.set_name)
        own = [run for run in of_set if run.plan.requested_by == benchmark.uid]
        runs = [run for run in own if run_id in {None, run.run_id}]
        for run in runs:
            shown.end(run)
        return results.rows_of(answer, runs, shown.reporter.note)


class _Shown:
    """Reports on the runs of an object: their states, and what their pods print."""

    def __init__(
        self, api: Api, cluster: KubernetesCluster, access: ClusterAccess, reporter: Reporter
    ) -> None:
        self._api, self._cluster, self._access = api, cluster, access
        self.reporter = reporter
        self._followed: dict[str, Run] = {}
        """Runs whose jobs are followed, as their jobs were found."""
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._jobs_at = self._lease_at = 0.0
        """Times of the next looks, monotonic seconds."""
        self._alive_at = time.monotonic()
        """Time of the operator's last sign of life, monotonic seconds."""

    def look(self, benchmark: Benchmark) -> None:
        """Take in a status; find new jobs, and whether the operator lives."""
        phases = _phases(benchmark)
        going_on = [name for name, phase in phases.items() if phase not in FINAL]
        now = time.monotonic()
        if going_on and now >= self._jobs_at:
            self._jobs_at = now + JOBS_SECONDS
            self._find_jobs(going_on)
        for name, phase in phases.items():
            if phase in FINAL and name in self._followed:
                self._cluster.release(name)
                del self._followed[name]
                theirs = stores.operator_run(self._access, name, self.reporter.note)
                if theirs is not None and theirs.is_closed:
                    self.end(theirs)
        if now >= self._lease_at:
            self._lease_at = now + limits.now.poll
            self._check_alive(benchmark.name)

    def _find_jobs(self, run_ids: Sequence[str]) -> None:
        with contextlib.suppress(BenchError):  # they are looked for again
            for job in self._cluster.jobs(run_ids):
                known = self._followed.get(job.run_id)
                if job.run_id not in run_ids or job.known_plan is None:
                    continue
                if known is None or known.job_uid != job.uid:
                    run = job.as_run(self._api.place)
                    self._followed[job.run_id] = run
                    if job.run_id not in self._begun:
                        self._begun.add(job.run_id)
                        self.reporter.planned(run)
                    self._cluster.resume(run, {})

    def _check_alive(self, name: str) -> None:
        """Raise :class:`Unreachable` if the operator was silent for too long."""
        now = time.monotonic()
        why = ""
        try:
            operator = operator_of(self._api)
        except BenchError as error:
            why = f"its Lease cannot be read: {error.message}"
        else:
            why = "it is uninstalled" if operator is None else _silence(operator)
            if operator is not None and operator.is_alive:
                self._alive_at = now
        if now - self._alive_at > limits.now.object_silent:
            raise Unreachable(
                f"The operator is silent: {why}. Benchmark {name} stays, and runs when the operator"
                " is back.",
                f"Come back with: k8sbench watch {name}; end it with: k8sbench cancel {name}",
            )

    def take(self, seconds: float) -> None:
        """Report what the jobs do, or wait."""
        for event in self._cluster.wait(seconds):
            if not event.run_id and event.note is not None:
                self.reporter.note(event.note)
            run = self._followed.get(event.run_id)
            step = event.transition
            # How a run ended is the operator's to say: it deletes jobs.
            if run is not None and (step is None or not step.phase.final):
                self.reporter.on_event(run, event)
        if not self._followed:  # the cluster does not wait then
            time.sleep(seconds)

    def end(self, run: Run) -> None:
        """Report the operator's record of a run that has ended, once."""
        if run.run_id in self._ended or not run.phase.final:
            return
        self._ended.add(run.run_id)
        if run.run_id not in self._begun:
            self.reporter.planned(run)
        event = JobEvent(run_id=run.run_id, transition=run.history[-1])
        self.reporter.on_event(run, event)
        self.reporter.ended(run)
