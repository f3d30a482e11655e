"""``submit``: plan → create → watch → collect → measure → store → row, for each case asked for."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.app import cases, catalog, connections, context, follow, results, stores, targets
from k8sbench.app.cases import CaseOptions
from k8sbench.app.connections import ClusterAccess
from k8sbench.app.results import Rows
from k8sbench.app.targets import Target
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.identity import case_key, checked_run_id, checked_set_name
from k8sbench.model.planning import describe
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec, Framework
from k8sbench.ports import Cluster, Manifest, Store
from k8sbench.runs import submitting
from k8sbench.runs.context import PlannedCase, Reporter, RunContext, Stop
from k8sbench.runs.following import FollowOptions

if TYPE_CHECKING:
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.diagnose.preflight.facts import Line

INSTALLED_AS = {"pytorch": ("torch", "torch"), "paddle": ("paddle", "paddle")}
"""Framework → its module and our extra that installs it."""


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run, and how."""

    cases: CaseOptions
    access: ClusterAccess = ClusterAccess()
    store: str | None = None
    """Folder or URL; None: the default place."""
    run_id: str | None = None
    set_name: str | None = None
    resume: str | None = None
    """Set of which only what is missing is run."""
    parallel: int = 1
    """Jobs at a time."""
    detach: bool = False
    """Whether to create the jobs and leave them alone."""
    dry_run: Literal["client", "server"] | None = None
    follow: FollowOptions = FollowOptions()
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What would be created. Nothing was."""

    manifests: tuple[Manifest, ...]
    checks: tuple[Line, ...] | None
    """What the cluster says to it; None where it was not asked."""


class Detached(msgspec.Struct, frozen=True, kw_only=True):
    """The runs whose jobs were created, or that exist already; nobody follows them."""

    runs: tuple[Run, ...]
    failure: BenchError | None = None
    """Why no more were created; the runs go on."""


def submit(options: SubmitOptions, reporter: Reporter, stop: Stop) -> Rows | Detached | DryRun:
    """Run what is asked for; returns the rows, unless detached or a dry run.

    Raises :class:`Interrupted` where it is asked to stop before all runs are over.
    """
    if options.resume is not None and options.set_name is not None:
        raise UsageError("--resume and --set both name the set.", "Give one of them.")
    found = catalog.benchmark(options.cases.benchmark)
    target = targets.for_submit(options.cases.target, options.access)
    _check_target(target, options)
    # Every case is planned and rendered before the first one starts: a mistake in the last of
    # them must not show after hours.
    planned = cases.prepare(found, options.cases, target.site)
    run_id = options.run_id
    if run_id is not None:
        checked_run_id(run_id)
        if sum(case.repeats for case in planned) > 1:
            raise UsageError("--run-id names one run.", "Ask for one case without repeats.")
    examples = [case.plan(run_id or "draft", "draft") for case in planned]
    objects = [case.manifests(plan) for case, plan in zip(planned, examples, strict=True)]
    if options.dry_run is not None:
        for plan in examples:
            reporter.plan(plan)
        reporter.note(target.why)
        checks = None
        if options.dry_run == "server" and target.api is not None:
            from k8sbench.adapters.kubernetes import dry_run

            asked = zip(examples, objects, strict=True)
            checks = tuple(
                line for plan, ours in asked for line in dry_run.check(target.api, plan, ours)
            )
        return DryRun(manifests=tuple(one for ours in objects for one in ours), checks=checks)
    _check_readiness(target, options, found.spec, planned)
    # Whoever submits a run of one name at once means one set, too.
    named = options.resume or options.set_name or run_id
    name = checked_set_name(named or context.new_set_name())
    with stores.to_write(options.store) as store, _cluster(target, options, store) as cluster:
        there: list[Run] = []
        missing: list[PlannedCase] = []
        for case in planned:
            done = _done_before(case, store, name, reporter) if options.resume else []
            there += done
            missing += [case] * (case.repeats - len(done))
        here = context.run_context(
            store,
            cluster,
            location=target.api.place if target.api else None,
            accept=options.accept,
        )
        for case in missing[:1]:
            reporter.plan(case.draft)
        reporter.note(target.why)
        wanted = submitting.SubmitOptions(
            set_name=name, run_id=run_id, parallel=options.parallel, follow=options.follow
        )
        if options.detach:
            return _create(missing, here, wanted, reporter, stop)
        runs = _run(missing, here, store, wanted, options.access, reporter, stop)
        return results.rows(store, [*there, *runs], reporter.note, accept=options.accept)


def _create(
    missing: Sequence[PlannedCase],
    here: RunContext,
    wanted: submitting.SubmitOptions,
    reporter: Reporter,
    stop: Stop,
) -> Detached:
    runs: list[Run] = []
    try:
        with stop:
            # One by one: before an error, too, the list holds what was created.
            runs.extend(
                one.run for one in submitting.create_all(missing, here, reporter, stop, wanted)
            )
    except BenchError as wrong:
        if not runs:
            raise
        return Detached(runs=tuple(runs), failure=wrong)
    return Detached(runs=tuple(runs))


def _run(
    missing: Sequence[PlannedCase],
    here: RunContext,
    store: SqlStore,
    wanted: submitting.SubmitOptions,
    access: ClusterAccess,
    reporter: Reporter,
    stop: Stop,
) -> list[Run]:
    """Run the cases; a joined run that another process follows is watched by its record."""
    runs: list[Run] = []
    with stop:
        done = list(submitting.submit(missing, here, reporter, stop, wanted))
    for one in done:
        run = one.run
        if one.state == "followed-elsewhere":
            run = follow.follow(store, run, access, wanted.follow, reporter, stop)
        elif one.state == "over-before":
            own = run.plan.set_name
            of_set = "" if own == wanted.set_name else f" of set {own}"
            reporter.note(f"Run {run.run_id}{of_set} was over before, and is not run again.")
        runs.append(run)
    return runs


def _done_before(case: PlannedCase, store: Store, set_name: str, reporter: Reporter) -> list[Run]:
    """Find what a set already has of a case, and note it."""
    key = case_key(case.draft)
    done = submitting.finished_repeats(store, set_name, key)[: case.repeats]
    nothing = "" if len(done) < case.repeats else ": nothing to do"
    reporter.note(describe(case.draft))
    reporter.note(f"  {len(done)} of {case.repeats} there already{nothing}")
    return done


def _check_target(target: Target, options: SubmitOptions) -> None:
    keep = options.follow.keep
    if target.api is None:
        given = {"--detach": options.detach, "--keep": keep}
        given["--dry-run=server"] = options.dry_run == "server"
        given["--parallel"] = options.parallel > 1
        for option, is_given in given.items():
            if is_given:
                raise UsageError(
                    f"{option} is for jobs on a cluster, and this run is local"
                    f" ({target.why.removeprefix('backend local: ')}).",
                    f"Leave out {option}, or name a cluster with --backend kubernetes.",
                )
    elif options.detach and options.parallel > 1:
        raise UsageError(
            "--detach leaves nobody to start the next job when one has ended.",
            "Leave out --parallel: all jobs are created at once, and the cluster queues them.",
        )
    elif options.detach and keep:
        raise UsageError(
            "--detach leaves nobody to whom --keep could be said.",
            "Give it to whoever ends the run: k8sbench collect RUN --keep",
        )


def _check_readiness(
    target: Target, options: SubmitOptions, spec: BenchmarkSpec, planned: Sequence[PlannedCase]
) -> None:
    if target.api is None:
        _check_frameworks(spec, {case.draft.framework for case in planned})
        return
    asked = options.cases.target.backend == "kubernetes" or options.access.named
    targets.check_answers(target.api, asked=asked)
    if options.cases.request.gang:
        from k8sbench.adapters.kubernetes import preflight

        preflight.refuse_gang(target.api)


def _check_frameworks(spec: BenchmarkSpec, frameworks: set[Framework]) -> None:
    for framework in sorted(frameworks):
        module, extra = INSTALLED_AS[framework]
        if importlib.util.find_spec(module) is None:
            others = [f for f in spec.frameworks if f not in frameworks]
            raise UsageError(
                f"A local run of {spec.name} on {framework} needs {module}, which is not installed"
                f" beside k8sbench ({sys.executable}).",
                f"Install it: pip install 'k8sbench[{extra}]'"
                + (f"; or choose --framework {others[0]}." if others else "."),
            )


@contextlib.contextmanager
def _cluster(target: Target, options: SubmitOptions, store: SqlStore) -> Iterator[Cluster]:
    if target.api is None:
        from k8sbench.adapters.local.cluster import LocalCluster

        with contextlib.closing(LocalCluster()) as local:
            yield local
        return
    # Who creates jobs and goes has no more use for them than anybody who collects them.
    user = None if options.detach else store
    keep, waits = options.follow.keep, options.follow.wait
    with connections.opened(target.api, keep=keep, waits=waits, store=user) as cluster:
        yield cluster
