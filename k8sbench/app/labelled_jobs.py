"""The labelled jobs of a namespace: its operator observes them all at once.

As ``observe`` does for one job, and with its code. A run is recorded when its job is found, and so
goes on after a restart: its logs where their archive ends. Its plan is complete when it is
measured. Nothing is written to the cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import lru_cache, partial
from typing import NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes import observing as objects
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
from k8sbench.adapters.kubernetes.labelled import (
    JOB_KINDS,
    KnownJob,
    LabelledSelection,
    served_kinds,
)
from k8sbench.adapters.kubernetes.watch_events import ObjectChanged, ObjectDeleted
from k8sbench.app import connections, log_measuring, observe, run_contexts
from k8sbench.app.observe import ObserveOptions, Observer
from k8sbench.catalog.measure_options import MeasureOptions
from k8sbench.lifecycle import observing, run_artifacts
from k8sbench.lifecycle.context import Reporter
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.observing import Observation
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import observed_job, rules
from k8sbench.model.creation import JOB_GONE
from k8sbench.model.errors import BenchError, InputError, NotFound, StoreError, UsageError
from k8sbench.model.kinds import replica_names
from k8sbench.model.kube import KubeObject, name_of
from k8sbench.model.observed_job import JobFacts
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.replica_logs import replica_of_log
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import JobEvent
from k8sbench.reader.measuring import recorded
from k8sbench.store.interface import LogArchive, RunFilter
from k8sbench.store.sql_store import SqlStore
from k8sbench.threads import Threads, internal

FACTS = "observed-job.json"
"""Artifact of a run: the facts that its job's objects state."""
KINDS_SECONDS = 60.0
"""Interval of looks for the kinds of jobs that the cluster has."""
AGAIN_SECONDS = 5.0
"""Interval of reads of a job that has no pod templates yet, or could not be read."""
MEASURE_SECONDS = 20.0
"""Interval in which ended jobs are measured together: a process of their own takes 0.2 s."""
READS = 4
"""Jobs that are read at a time."""
MOST_NOTES = 1000
"""Notes that are remembered, so as not to be repeated."""
_UNREAD = "The job was gone before its log was read to the end."


class _Job(NamedTuple):
    """A job whose run goes on."""

    known: KnownJob
    observer: Observer
    seen: Observation


class _Found(msgspec.Struct, kw_only=True):
    """A labelled job whose facts are to be read."""

    kind: str
    job: KubeObject
    """Without its pod templates."""
    facts: Future[JobFacts | None] | None = None
    """None while no request for them is pending."""
    due: float = 0.0
    """Time of the next request, monotonic seconds."""


class _Measured(NamedTuple):
    """Result of measuring the logs of a job."""

    run: Run
    """With its whole plan, and its measurement if there is one."""
    pods: Mapping[str, str | None]
    """Pods that there are, and their nodes."""
    gaps: Sequence[LogGap]


class LabelledJobs:
    """The labelled jobs of the namespace of a connection."""

    def __init__(
        self, store: SqlStore, api: Api, reporter: Reporter, prometheus: str, stop: Stop
    ) -> None:
        self._store, self._api, self._reporter = store, api, reporter
        self._prometheus, self._stop = prometheus, stop
        self._note_once = lru_cache(MOST_NOTES)(reporter.note)
        self._selection = LabelledSelection(api.place.namespace)
        self._cluster = KubernetesCluster(api, selection=self._selection)
        self._cluster.found = self._take_change
        sources = connections.metric_sources(prometheus, api, store)
        context = run_contexts.run_context(store, self._cluster, api, metric_sources=sources)
        self._fetcher = GpuMetricsFetcher(context, reporter)
        self._requests = Threads(READS)
        self._measures = Threads(log_measuring.MOST)
        self._kinds: Future[set[str]] | None = None
        self._kinds_due = 0.0
        self._found: dict[str, _Found] = {}
        """By run id."""
        self._jobs: dict[str, _Job] = {}
        """By run id."""
        self._followed: dict[str, tuple[Observation, LogArchive]] = {}
        """The same, as their events are taken in."""
        self._ended: dict[str, Future[dict[str, str | None]]] = {}
        """Runs that are to be measured, and the pods that there are of their jobs."""
        self._measure_at = 0.0
        """Time from which they are, monotonic seconds."""
        self._measuring: dict[str, Future[_Measured]] = {}
        self._settled: dict[str, Mapping[str, str] | None] = {}
        """Runs and jobs with which nothing is left to do.

        Of one that could not be measured: what its annotations stated.
        """
        self._left = {
            run.run_id: run
            for run in store.runs(RunFilter(unfinished=True))
            if run.facts.job is not None and not run.phase.final and run.is_at(api.place)
        }
        """Runs that an operator before this one followed."""

    def __enter__(self) -> LabelledJobs:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()
        for run_id in self._jobs:
            self._store.claims.release(run_id)

    def step(self) -> list[Run]:
        """Do the work at hand; returns the runs that have ended since."""
        self._look_for_kinds()
        events = self._cluster.wait(0.0)
        observing.take(events, self._followed, self._reporter)
        for event in events:
            if event.run_id in self._jobs:
                self._record(event)
        for run_id, found in list(self._found.items()):
            self._read(run_id, found)
        if self._left and self._cluster.has_listed(self._cluster.always):
            self._take_left()
        self._measure_ended()
        closed = [
            self._close(run_id, measuring.result())
            for run_id, measuring in list(self._measuring.items())
            if measuring.done()
        ]
        self._fetcher.step()
        self._fetcher.completed.clear()
        return closed

    # -- which jobs there are ---------------------------------------------------------------------

    def _look_for_kinds(self) -> None:
        """Watch the kinds of jobs that the cluster has."""
        now = time.monotonic()
        if self._kinds is None and now >= self._kinds_due:
            self._kinds = self._requests.start(partial(served_kinds, self._api), "kinds")
        if self._kinds is None or not self._kinds.done():
            return
        asked, self._kinds = self._kinds, None
        try:
            self._cluster.always = asked.result()
            self._kinds_due = now + KINDS_SECONDS
        except ApiFault as fault:
            self._note_once(f"warning: labelled jobs are not seen for now: {fault.message}")
            self._kinds_due = now + AGAIN_SECONDS

    def _take_change(self, change: ObjectChanged | ObjectDeleted) -> None:
        """Take in a labelled job that is new, has changed or is gone."""
        namespace = self._api.place.namespace
        if isinstance(change, ObjectDeleted):
            run_id = observed_job.run_id(namespace, change.kind, change.name, change.uid)
            self._found.pop(run_id, None)
            self._settled.pop(run_id, None)
            return
        job = change.object
        name = name_of(job)
        run_id = observed_job.run_id(namespace, change.kind, name, job["metadata"]["uid"])
        if run_id in self._jobs or run_id in self._found:
            return
        if run_id in self._settled and self._settled[run_id] in (
            None,
            observed_job.stated_options(job),
        ):
            return
        for owner in job["metadata"].get("ownerReferences") or ():
            if owner.get("kind") in JOB_KINDS:
                self._note_once(
                    f"warning: {change.kind} {name} is not observed: it is a part of"
                    f" {owner['kind']} {owner['name']}. Label that one."
                )
                self._settled[run_id] = None
                return
        self._found[run_id] = _Found(kind=change.kind, job=job)

    # -- a job is followed ------------------------------------------------------------------------

    def _read(self, run_id: str, found: _Found) -> None:
        """Ask for the facts of a job, or follow it when they have come."""
        now = time.monotonic()
        name = name_of(found.job)
        if found.facts is None:
            if now < found.due:
                return
            if (run := self._recorded(run_id)) is not None and self._is_settled(run, found.job):
                del self._found[run_id]
                return
            read = partial(observe.job_facts, self._api, JOB_KINDS[found.kind], name)
            found.facts = self._requests.start(read, f"read {name}")
        if not found.facts.done():
            return
        asked, found.facts = found.facts, None
        found.due = now + AGAIN_SECONDS
        try:
            facts = _answer(asked)
            if facts is None or (facts.run_id == run_id and not self._begin(facts, found.job)):
                return  # later
        except NotFound:
            pass  # it is gone
        except UsageError as error:
            self._note_once(f"warning: {found.kind} {name} is not observed: {error}")
            self._settled[run_id] = observed_job.stated_options(found.job)
        except BenchError as error:
            self._note_once(f"warning: {found.kind} {name} is not observed for now: {error}")
            return
        del self._found[run_id]

    def _recorded(self, run_id: str) -> Run | None:
        """Return the run of a job that is on record; None if it is not."""
        is_there = self._store.run_folder(run_id).is_there
        return self._store.run(run_id) if is_there else None

    def _is_settled(self, run: Run, job: KubeObject) -> bool:
        """Note and return whether a recorded run leaves nothing to do."""
        if not run.phase.final:
            return False
        reasons = run.measurement.reasons if run.measurement else ()
        is_refused = any(reason.id == rules.NOTHING_MEASURED.id for reason in reasons)
        if is_refused or run.facts.unstated:
            facts = run_artifacts.read_value(self._store, run.run_id, FACTS, JobFacts)
            self._settled[run.run_id] = {} if facts is None else facts.stated
        else:
            self._settled[run.run_id] = None
        return self._settled[run.run_id] in (None, observed_job.stated_options(job))

    def _begin(self, facts: JobFacts, job: KubeObject | None) -> bool:
        """Follow a job; False if another process follows its run."""
        store, run_id = self._store, facts.run_id
        if not store.claims.claim(run_id):
            return False
        options = ObserveOptions(
            job=f"{JOB_KINDS[facts.job.kind].singular}/{facts.job.name}",
            measured=MeasureOptions(),
            prometheus=self._prometheus,
        )
        run = self._recorded(run_id) or self._new(observe.run_of(facts, self._api.place, options))
        run_artifacts.keep_value(store, run_id, FACTS, facts)
        measure = partial(log_measuring.measure_run, run_id=run_id)
        observer = Observer(options, facts, measure, store, self._api, self._reporter, self._stop)
        known = KnownJob(facts.job.kind, facts.job.name, facts.uid, facts.created_at, run_id)
        seen = Observation(run=run, gaps=run_artifacts.read_gaps(store, run_id))
        self._jobs[run_id] = _Job(known, observer, seen)
        self._left.pop(run_id, None)
        self._settled.pop(run_id, None)
        if run.phase.final:
            self._read_rest(run_id)
            return True
        self._followed[run_id] = seen, store.archive(run_id)
        self._selection.add(known)
        marks = store.log_marks(run_id)
        pods = run_artifacts.read_pods(store, run_id)
        if job is None:
            self._cluster.resume(run, marks, pods)
        else:
            self._cluster.follow_found(run, marks, pods, job)
        return True

    def _new(self, run: Run) -> Run:
        """Record the run of a job that was found."""
        store, facts = self._store, run.facts
        repeat = store.next_repeat(facts.set_name, run.case_key)
        store.record(
            msgspec.structs.replace(facts, repeat=repeat),
            at=run.created_at,
            process=None,
            location=run.location,
            has_job=True,
        )
        return store.move(run.run_id, run.history[0])

    def _take_left(self) -> None:
        """Follow the runs whose jobs are gone, or have lost their label: to their ends."""
        for run_id, run in list(self._left.items()):
            if run_id in self._found:
                continue  # it is begun when its facts have come
            facts = run_artifacts.read_value(self._store, run_id, FACTS, JobFacts)
            if facts is not None and not self._begin(facts, None):
                continue
            if facts is None:
                now = max(self._api.time(), run.history[-1].at)
                cause = "The job is gone, and was not read before."
                self._store.move(run_id, Transition(phase=Phase.LOST, at=now, cause=cause))
            self._left.pop(run_id, None)

    def _record(self, event: JobEvent) -> None:
        """Keep what an event tells of a run, and have an ended one measured."""
        run_id, step = event.run_id, event.transition
        if event.gap is not None:
            gaps = self._jobs[run_id].seen.gaps
            run_artifacts.keep_value(self._store, run_id, run_artifacts.GAPS, gaps)
        elif event.pods is not None:
            run_artifacts.keep_value(self._store, run_id, run_artifacts.PODS, event.pods)
        elif step is not None and step.phase.final:
            if step.cause_id == JOB_GONE:
                self._name_gaps(run_id)
            del self._followed[run_id]
            self._selection.drop(self._jobs[run_id].known)
            self._read_rest(run_id)
        elif step is not None:
            self._store.move(run_id, step)

    def _name_gaps(self, run_id: str) -> None:
        """Record that nobody read the logs of a job to their ends: it was gone before."""
        seen, marks = self._jobs[run_id].seen, self._store.log_marks(run_id)
        known = {gap.replica for gap in seen.gaps}
        for replica in replica_names(seen.run.plan):
            if replica not in known:
                mark = marks.get(replica)
                after = None if mark is None else mark.at
                seen.gaps.append(LogGap(replica=replica, after=after, before=None, why=_UNREAD))
        run_artifacts.keep_value(self._store, run_id, run_artifacts.GAPS, seen.gaps)

    # -- an ended job is measured ------------------------------------------------------------------

    def _read_rest(self, run_id: str) -> None:
        """Ask for what else an ended job's objects tell: they may soon be deleted."""
        rest = partial(self._rest, self._jobs[run_id])
        self._ended[run_id] = self._requests.start(rest, f"end of {run_id}")

    def _rest(self, job: _Job) -> dict[str, str | None]:
        """Add the gaps that the objects of an ended job count; return its pods and their nodes."""
        self._note_unread(job)
        known = job.known
        kind = JOB_KINDS[known.kind]
        selection = kinds.JobSelection(known.run_id, kind, known.name, known.created_at)
        return objects.pods(self._api, selection)

    def _note_unread(self, job: _Job) -> None:
        """Add the pods and attempts that nobody has read, by what the job's objects count."""
        known, observer, seen = job
        if seen.run.history[-1].cause_id == JOB_GONE:
            return  # named already
        # An operator before this one may have read some.
        ends = {name: mark.at for name, mark in self._store.log_marks(known.run_id).items()}
        pods = run_artifacts.read_pods(self._store, known.run_id)
        logs = Counter(map(replica_of_log, ends)) | Counter({one: len(pods[one]) for one in pods})
        for replica, attempts in logs.items():
            seen.restarts[replica] = max(seen.restarts.get(replica, 0), attempts - 1)
        seen.gaps += [*observed_job.unread_pods(pods, ends, seen.gaps), *observer.unread(seen)]

    def _measure_ended(self) -> None:
        """Have the jobs measured that have ended since the last time, by one process."""
        now = time.monotonic()
        if self._measuring or now < self._measure_at:
            return
        ended = [run_id for run_id, rest in self._ended.items() if rest.done()]
        if len(ended) <= log_measuring.MOST:
            self._measure_at = now + MEASURE_SECONDS if ended else now
        chosen = ended[: log_measuring.MOST]
        log_measuring.expect(chosen)
        for run_id in chosen:
            measure = partial(self._measured, self._jobs[run_id], self._ended.pop(run_id))
            self._measuring[run_id] = self._measures.start(measure, f"measure {run_id}")

    def _measured(self, job: _Job, rest: Future[dict[str, str | None]]) -> _Measured:
        """Measure the logs of an ended job, on another thread."""
        known, observer, seen = job
        folder = self._store.folder(known.run_id)
        pods: dict[str, str | None] = {}
        try:
            pods = rest.result()
            run = observer.measured(folder, seen)
        except (UsageError, StoreError) as error:
            run = _unmeasured(seen.run, error)
        except Exception as error:  # no job of others may end the operator's work
            run = _unmeasured(seen.run, UsageError(internal(error)))
        finally:
            log_measuring.arrived(known.run_id)
        return _Measured(run, pods, [*seen.gaps, *observe.shortened(folder)])

    def _close(self, run_id: str, found: _Measured) -> Run:
        """Record the measured run; return it."""
        store, (_, observer, seen) = self._store, self._jobs.pop(run_id)
        del self._measuring[run_id]
        facts, before = found.run.facts, store.run(run_id)
        repeat = before.repeat
        if found.run.case_key != before.case_key:
            repeat = store.next_repeat(facts.set_name, found.run.case_key)
        run = store.save_facts(run_id, msgspec.structs.replace(facts, repeat=repeat))
        if found.gaps:
            run_artifacts.keep_value(store, run_id, run_artifacts.GAPS, found.gaps)
        if (measurement := found.run.measurement) is not None:
            if observer.wants_gpu_metrics(found.run, found.pods):
                measurement = self._fetcher.promised(run, measurement)
            store.save_measurement(run_id, measurement)
        if seen.printed_at is not None and run.started_at is None:
            at = max(seen.printed_at, run.history[-1].at)
            store.move(run_id, Transition(phase=Phase.RUNNING, at=at, cause="Its log begins."))
        run = store.move(run_id, seen.run.history[-1], image=found.run.image_digest)
        if run.owes_gpu_metrics:
            self._fetcher.add(run)
        store.claims.release(run_id)
        is_refused = found.run.known is seen.run.known and measurement is not None
        is_open = is_refused or run.facts.unstated
        self._settled[run_id] = observer.facts.stated if is_open else None
        self._reporter.ended(run)
        return run


def _answer(asked: Future[JobFacts | None]) -> JobFacts | None:
    """Return the facts of a job; raises :class:`UsageError` for one that nobody has foreseen."""
    try:
        return asked.result()
    except BenchError:
        raise
    except Exception as error:
        raise UsageError(internal(error)) from error


def _unmeasured(run: Run, error: BenchError) -> Run:
    """Return the run of a job whose logs give no figure; rejected if the job succeeded."""
    if run.phase is not Phase.SUCCEEDED:
        return run
    asked, _, _ = error.action.partition("\n")
    annotations = " or ".join(observed_job.annotations_for(asked))
    state = f" State it by the job's annotation {annotations}." if annotations else ""
    file = error.file if isinstance(error, InputError) else None
    why = InputError(f"{error.message.removeprefix(f'{file}: ')}{state}")
    return msgspec.structs.replace(run, measurement=recorded.unmeasured(run, (), why))
