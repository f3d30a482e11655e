"""``observe``: measure a job that somebody else created, with the right to read alone.

Its logs are read from their beginnings, archived and measured like imported ones, and the run is
recorded when the job has ended. Until then nothing is recorded: whoever is interrupted observes the
job again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench import limits
from k8sbench.app import connections, imports, option_values, results, run_contexts, stores
from k8sbench.app.results import RunRows
from k8sbench.catalog import imported_logs
from k8sbench.catalog.imported_logs import MeasuredLog
from k8sbench.catalog.measure_options import LOG_FLAGS, MeasureOptions
from k8sbench.lifecycle import observing, run_artifacts
from k8sbench.lifecycle.context import Reporter
from k8sbench.lifecycle.gpu_metrics_fetcher import WANTED, GpuMetricsFetcher
from k8sbench.lifecycle.observing import Observation
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import observed_job
from k8sbench.model.errors import InputError, Interrupted, NotFound, Unreachable, UsageError
from k8sbench.model.facts import Facts
from k8sbench.model.gpu_metrics import SeriesQuery
from k8sbench.model.identity import case_key
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import kind_of
from k8sbench.model.measurement import Measurement
from k8sbench.model.names import LABEL_DOMAIN, checked_set_name
from k8sbench.model.observed_job import JobFacts
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plain_text import counted, significant
from k8sbench.model.plan import UNREAD_LOG, PlannedWindow
from k8sbench.model.pool import PRODUCT, NodePool
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Location, Run
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import Cluster
from k8sbench.reader.measuring import recorded
from k8sbench.store.interface import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.store.sql_store import SqlStore

OBSERVING = "observing"
"""Folder of the store with the logs of jobs that are observed, by run id."""
POOL = "observed"
MOST_LOG_BYTES = 50 << 20
"""Bytes that are kept of a replica's log, half of them from its end."""
LOOK_SECONDS = 2.0
"""Interval of looks for the object with the pod templates."""


class ObserveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The observed job, and what its log may not state."""

    job: str
    """KIND/NAME."""
    measured: MeasureOptions
    """Facts that the log lacks."""
    access: ClusterAccess = ClusterAccess()
    set_name: str | None = None
    """Set of the run; None: the job's label, or its name."""
    prometheus: str = connections.AUTO
    store: str | None = None


def observe(options: ObserveOptions, reporter: Reporter, stop: Stop) -> RunRows:
    """Follow a job to its end, record its run, and make its row.

    Raises :class:`Interrupted` on a stop request; the job goes on.
    """
    from k8sbench.adapters.kubernetes import observing as objects

    kind, name = observed_job.parse_job_name(options.job)
    if options.set_name is not None:
        checked_set_name(options.set_name)
    imports.candidates(options.measured)  # raises here for what can never be measured
    with (
        stores.open_writable(options.store, note=reporter.note) as store,
        contextlib.closing(connections.connect(options.access)) as api,
    ):
        api.check_answers(limits.now.api_answer)
        try:
            facts = _facts(api, kind, name, reporter, stop)
            objects.check_rights(api, kind, name)
        except Unreachable as error:
            if error.cause_id != "forbidden":
                raise
            raise Unreachable(
                error.message, "See what is missing with: k8sbench doctor --observe"
            ) from error
        if facts.run_id in store.ids():
            reporter.note(f"{options.job} is recorded already, as run {facts.run_id}.")
            run = store.run(facts.run_id)
        else:
            reporter.note(_described(options.job, facts))
            observer = Observer(options, facts, _measure, store, api, reporter, stop)
            run = observer.observe(run_of(facts, api.place, options))
        return results.rows(store, [run], reporter.note, accept=options.measured.accept)


# -- before ----------------------------------------------------------------------------------------


def _facts(api: Api, kind: JobKind, name: str, reporter: Reporter, stop: Stop) -> JobFacts:
    """Read the facts of a job; wait for the object with its pod templates."""
    is_noted = False
    with stop:
        while stop.cause is None:
            if (facts := job_facts(api, kind, name)) is not None:
                return facts
            if not is_noted:
                is_noted = True
                reporter.note(f"{kind.singular}/{name} has no pods yet: waiting for its objects.")
            api.pause(LOOK_SECONDS)
    raise Interrupted(f"{stop.cause}: {kind.singular}/{name} goes on.")


def job_facts(api: Api, kind: JobKind, name: str) -> JobFacts | None:
    """Read the facts of a job; None before there is the object with its pod templates.

    Raises :class:`BenchError`, also if there is no such job.
    """
    from k8sbench.adapters.kubernetes import observing as objects

    job = objects.read_job(api, kind, name)
    child = objects.read_child(api, kind, job) if kind.child else None
    return None if child is None and kind.child else observed_job.read_facts(kind, job, child)


def _described(job: str, facts: JobFacts) -> str:
    gpus = counted(facts.gpus_per_replica, "GPU")
    shape = f"{counted(len(facts.job.replicas), 'replica')} × {gpus}"
    place = f"namespace {facts.job.namespace}, container {facts.job.container}"
    return f"{job}: {shape}, {place}; case {facts.benchmark}, set {facts.set_name}"


def run_of(facts: JobFacts, place: Location, options: ObserveOptions) -> Run:
    """Make the run of a job that is followed; its facts are complete when it is measured."""
    known = Facts(
        run_id=facts.run_id,
        set_name=options.set_name or facts.set_name,
        repeat=1,
        benchmark=facts.benchmark,
        spec_source="",
        spec_digest="",
        variant="unknown",
        impl="unknown",
        framework=None,
        precision=None,
        amp_dtype=None,
        device="cuda" if facts.gpus_per_replica else None,
        replicas=len(facts.job.replicas),
        processes_per_replica=facts.gpus_per_replica or None,
        batch_size=options.measured.batch_size,
        preset="full",
        mode="throughput",
        data="unknown",
        unit="samples",
        window=PlannedWindow(
            warmup=0, iterations=0, log_interval=1, min_steady_seconds=0.0, rule=UNREAD_LOG
        ),
        log="k8sbench",
        fingerprint=None,
        options={},
        sync_bn=False,
        pool=NodePool(name=POOL, gpus_per_node=facts.gpus_per_replica, gpu_model=None),
        notes=(),
        is_packed=False,
        stated_by=facts.job.sources,
        **_of_job(facts),
    )
    created = Transition(
        phase=Phase.CREATED,
        at=facts.created_at,
        cause="Created by somebody else.",
        job_uid=facts.uid,
    )
    return Run(
        known=known,
        created_at=facts.created_at,
        process=None,
        history=(created,),
        location=place,
    )


def _of_job(facts: JobFacts) -> dict[str, Any]:
    """Return the facts that the job's objects state."""
    return {
        "backend": "observed",
        "job": facts.job,
        "kind": facts.job.kind,
        "queue": facts.queue,
        "image": facts.image,
        "image_reason": "the image of an observed job",
    }


def _measure(files: Mapping[str, str], first: str, *, options: MeasureOptions) -> MeasuredLog:
    return imports.measure_run(files, first, imports.candidates(options), options)


# -- a job is observed -----------------------------------------------------------------------------


class Observer(NamedTuple):
    """One job, the store of its run, and the cluster."""

    options: ObserveOptions
    facts: JobFacts
    measure: Callable[..., MeasuredLog]
    """Measures logs as :func:`.imports.measure_run` does."""
    store: SqlStore
    api: Api
    reporter: Reporter
    stop: Stop

    def observe(self, run: Run) -> Run:
        """Follow the job to its end; return its recorded run."""
        from k8sbench.adapters.kubernetes import kinds
        from k8sbench.adapters.kubernetes import observing as objects
        from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
        from k8sbench.store import exchange
        from k8sbench.store.log_archive import LogWriter
        from k8sbench.store.run_folder import RunFolder

        facts, job = self.facts, self.options.job
        selection = kinds.JobSelection(
            run.run_id, kind_of(run.plan), facts.job.name, facts.created_at
        )
        with (
            self._folder() as folder,
            contextlib.closing(KubernetesCluster(self.api, selection=selection)) as cluster,
        ):
            seen = observing.follow(run, cluster, LogWriter(folder), self.reporter, self.stop)
            if seen.is_unreadable:
                raise Unreachable(
                    seen.run.history[-1].cause,
                    f"When logs can be read again: k8sbench observe {job}",
                )
            if not seen.run.phase.final:
                raise Interrupted(
                    f"{self.stop.cause}: {job} goes on; it is {seen.run.phase}.",
                    f"Observe it again with: k8sbench observe {job}",
                )
            pods = objects.pods(self.api, selection)
            seen.gaps += self.unread(seen)
            run = self.measured(folder, seen)
            gaps = [*seen.gaps, *shortened(folder)]
            if gaps:
                RunFolder(folder).write(run_artifacts.GAPS, msgspec.json.encode(gaps))
            RunFolder(folder).save(run)
            exchange.move_into_store(self.store, {run.run_id: folder})
            self._note_unstated(run.facts)
            return self._with_gpu_metrics(cluster, run, pods)

    def unread(self, seen: Observation) -> list[LogGap]:
        """Read from the cluster which pods and attempts of the ended job nobody has seen."""
        from k8sbench.adapters.kubernetes import observing as objects

        facts = self.facts
        last = objects.last_states(self.api, kind_of(seen.run.plan), facts.job.name, facts.uid)
        return list(observed_job.missing_logs(facts, *last, seen.restarts))

    @contextlib.contextmanager
    def _folder(self) -> Iterator[Path]:
        """Provide the folder of the job's logs to one process at a time.

        It stays where the logs could not be measured.
        """
        from k8sbench.store import disk

        run_id = self.facts.run_id
        if not self.store.claims.claim(run_id):
            raise UsageError(
                f"Another k8sbench process observes {self.options.job}.",
                f"Its run will be {run_id}: k8sbench status {run_id}",
            )
        folder = self.store.root / OBSERVING / run_id
        try:
            with disk.translate_errors(f"write {folder}"):
                shutil.rmtree(folder, ignore_errors=True)
                disk.make_folder(folder)
            yield folder
        except InputError:
            raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self.store.claims.release(run_id)

    def measured(self, folder: Path, seen: Observation) -> Run:
        """Measure the archived logs of the ended job; return its run."""
        from k8sbench.adapters.kubernetes import observing as objects
        from k8sbench.store import log_archive
        from k8sbench.store.run_folder import LOG_SUFFIX, LOGS

        job, given = self.options.job, self.options.measured
        logs = log_archive.sort_by_attempt((folder / LOGS).glob(f"*{LOG_SUFFIX}"))
        if not logs:
            end = seen.run.history[-1]
            raise NotFound(
                f"{job} left no log: {end.cause}",
                end.action or "Observe a job while its pods are there.",
            )
        try:
            files = {str(path): path.stem for path in logs}
            log = self.measure(files, job, options=self._given())
            model = objects.gpu_model(self.api, filter(None, seen.nodes.values()))
            found = _stated(log.measurement, self.facts, model)
            known = imported_logs.make_facts(
                found, log.origin, run_id=seen.run.run_id, set_name=seen.run.set_name
            )
        except InputError as error:
            annotations = " and ".join(observed_job.annotations_for(error.action))
            annotate = f"\n  Or annotate the job with {annotations}." if annotations else ""
            raise InputError(
                error.message.removeprefix(f"{error.file}: "),
                f"{error.action}{annotate}\n  Its logs are in {folder / LOGS}.",
                file=job,
            ) from error
        known = msgspec.structs.replace(
            known,
            benchmark=self.facts.benchmark,
            spec_source="",  # a label may name a benchmark of the catalog
            spec_digest="",
            pool=msgspec.structs.replace(known.pool, name=POOL),
            **_of_job(self.facts),
        )
        known = msgspec.structs.replace(known, stated_by=self._sources(log, known))
        repeat = self.store.next_repeat(known.set_name, case_key(known))
        run = msgspec.structs.replace(
            seen.run,
            known=msgspec.structs.replace(known, repeat=repeat),
            image_digest=seen.images.pop() if len(seen.images) == 1 else None,
        )
        unseen = sum(observed_job.UNSEEN in gap.replica for gap in seen.gaps)
        restarts = max(found.restarts, unseen + max(seen.restarts.values(), default=0))
        found = recorded.judged_with_run(
            msgspec.structs.replace(found, restarts=restarts),
            run,
            accept=given.accept,
            gaps=seen.gaps,
            nodes=seen.node_facts,
        )
        is_result = recorded.is_result(run, found)
        return msgspec.structs.replace(run, measurement=found if is_result else None)

    def _note_unstated(self, facts: Facts) -> None:
        """Note what nothing states, and what the latest run of the case had of it."""
        unstated = [name.replace("_", "-") for name in facts.unstated]
        if not unstated:
            return
        runs = self.store.runs(RunFilter(benchmark=facts.benchmark))
        earlier = (run for run in runs if run.facts.job is not None and not run.facts.unstated)
        latest = max(earlier, key=lambda run: run.started_at or run.created_at, default=None)
        options = " and ".join(f"--{name}" for name in unstated)
        annotations = " and ".join(observed_job.annotations_for(options))
        text = f"Give it with {options}, or annotate the job with {annotations}."
        if latest is not None:
            had = latest.facts
            values = {
                "framework": had.framework,
                "precision": had.amp_dtype or had.precision,
                "batch-size": significant(had.batch_size or 0, 10),
            }
            given = " ".join(f"--{name} {values[name]}" for name in unstated)
            text += f" {latest.run_id} had {given}."
        what = " and ".join(name.replace("-", " ") for name in unstated)
        self.reporter.note(f"note: nothing states the {what}. {text}")

    def _sources(self, log: MeasuredLog, known: Facts) -> dict[str, str]:
        """Return in words where the facts come from."""
        options = self.options.measured.sources
        if self.options.set_name is not None:
            options["set"] = "option --set"
        given = observed_job.annotation_sources(self.facts) | options
        by_objects = dict(self.facts.job.sources)
        if known.pool.gpu_model is not None:
            by_objects["gpu_model"] = f"label {PRODUCT} of the nodes"
        return by_objects | imported_logs.stated_by(log, known, given)

    def _given(self) -> MeasureOptions:
        """Add the case that the job's objects state to what the user states."""
        facts = self.facts
        given = self._annotated(self.options.measured)
        if given.case is None and given.gpus is None and facts.gpus_per_replica:
            case = f"{len(facts.job.replicas)}x{facts.gpus_per_replica}"
            given = msgspec.structs.replace(given, case=case)
        return msgspec.structs.replace(given, one_run=True)

    def _annotated(self, given: MeasureOptions) -> MeasureOptions:
        """Add what annotations of the job state; the user's options count first."""
        options = option_values.options(MeasureOptions, LOG_FLAGS)
        stated = {}
        for name, text in self.facts.stated.items():
            if getattr(given, name) is None:
                try:
                    stated[name] = options[name].read(text)
                except UsageError as error:
                    annotation = f"{LABEL_DOMAIN}/{name.replace('_', '-')}"
                    raise UsageError(
                        f"The annotation {annotation} of {self.options.job} is wrong:"
                        f" {error.message}",
                        error.action,
                    ) from error
        return msgspec.structs.replace(given, **stated)

    def wants_gpu_metrics(self, run: Run, pods: Mapping[str, str | None]) -> bool:
        """Keep which GPU metrics a measured run wants; False if none."""
        steady = run.measurement.steady if run.measurement else None
        if steady is None or not pods or run.plan.device == "cpu":
            return False
        wanted = SeriesQuery(
            run_id=run.run_id,
            namespace=self.facts.job.namespace,
            nodes=dict(pods),
            uuids=tuple(steady.gpu_uuids),
            start=steady.started_at,
            end=steady.ended_at,
        )
        run_artifacts.keep_value(self.store, run.run_id, WANTED, wanted)
        return True

    def _with_gpu_metrics(self, cluster: Cluster, run: Run, pods: Mapping[str, str | None]) -> Run:
        """Fetch the GPU metrics of the measured window, by the names of the job's pods."""
        store = self.store
        run = store.run(run.run_id)
        if not self.wants_gpu_metrics(run, pods):
            return run
        sources = connections.metric_sources(self.options.prometheus, self.api, store)
        context = run_contexts.run_context(
            store,
            cluster,
            self.api,
            metric_sources=sources,
            accept=self.options.measured.accept,
        )
        fetcher = GpuMetricsFetcher(context, self.reporter)
        fetcher.add(run)
        return fetcher.finish([run], self.stop)[0]


def shortened(folder: Path) -> Iterator[LogGap]:
    """Shorten long logs, which are measured already; yield what is left out."""
    from k8sbench.store import log_archive, run_folder

    for path in sorted((folder / run_folder.LOGS).glob("*")):
        cut = log_archive.shorten_log(path, MOST_LOG_BYTES)
        if cut is not None:
            before, after = cut
            yield LogGap(
                replica=path.stem,
                after=before,
                before=after,
                why=f"Its middle: {MOST_LOG_BYTES >> 20} MiB are kept. It was measured whole.",
            )


def _stated(found: Measurement, facts: JobFacts, model: str | None) -> Measurement:
    """Add what the job's objects state and the log does not."""
    device = found.device or ("cuda" if facts.gpus_per_replica else "cpu")
    return msgspec.structs.replace(
        found,
        device=device,
        gpu_model=found.gpu_model or (model if device == "cuda" else None),
        environment=facts.environment | found.environment,
    )
