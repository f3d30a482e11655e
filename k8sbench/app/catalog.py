"""Benchmarks, data and settings; ``render``, ``pools`` and ``doctor``.

From what was asked for to what would run, and where. Frameworks, shapes and repeats are multiplied
out, each case is planned once, and the target is this machine or a pool, with the reason.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from k8sbench import limits
from k8sbench.app import connections
from k8sbench.lifecycle.context import BENCHMARK, Note, Reporter
from k8sbench.lifecycle.submitting import PlannedCase
from k8sbench.model import choices, kinds
from k8sbench.model.choices import Site
from k8sbench.model.errors import (
    BenchError,
    DoesNotFit,
    Finding,
    Interrupted,
    JobFailed,
    NotFound,
    Unreachable,
    UsageError,
    few,
)
from k8sbench.model.identity import checked_run_id, checked_set_name
from k8sbench.model.kinds import OPERATORS
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import LoadedSpec, make_plan
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.run import Location
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.model.times import LOOK_SECONDS
from k8sbench.model.training import KnownDataSet, data_set
from k8sbench.ports import Manifest
from k8sbench.threads import Threads

if TYPE_CHECKING:
    from k8sbench.adapters.files.catalog import LoadedPools, PublishedPools
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.lifecycle.context import Stop
    from k8sbench.model.image import ListedImage
    from k8sbench.model.kube import KubeObject
    from k8sbench.model.pool import NodePool
    from k8sbench.ports import Store


EVERY = "all"
"""Stands for every built-in benchmark."""
PROGRAM = "k8sbench.trainers.check_data"
"""Draws and checks data sets, in a process beside us."""


class DataSetList(msgspec.Struct, frozen=True, kw_only=True):
    """Output of ``data list -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    data_sets: tuple[KnownDataSet, ...]
    """In the order of the table of ``k8sbench data list``."""


def settings() -> dict[str, dict[str, Any]]:
    """Read existing config files, the project's first: path → values."""
    from k8sbench.adapters.files import config_files

    return config_files.load(os.environ)


def benchmarks() -> list[LoadedSpec]:
    """Return the built-in catalog."""
    from k8sbench.adapters.files import catalog

    return list(catalog.load_all())


def names() -> list[str]:
    """Return the names of the built-in benchmarks, without reading them."""
    from k8sbench.adapters.files import catalog

    return catalog.names()


def benchmark(name: str) -> LoadedSpec:
    """Return one benchmark by its name, or by the path of its file."""
    from k8sbench.adapters.files import catalog

    return catalog.find(name)


def named(name: str) -> list[LoadedSpec]:
    """Return the benchmark of a name or a file's path; ``all``: every built-in one."""
    return benchmarks() if name == EVERY else [benchmark(name)]


def images(spec: BenchmarkSpec) -> tuple[ListedImage, ...]:
    """Return the images that the variants of a benchmark run in."""
    from k8sbench.adapters.files import catalog

    return tuple(catalog.image_table().of_benchmark(spec))


def finder(store: Store, note: Note) -> Callable[[RunPlan], BenchmarkSpec | None]:
    """Return a function that finds the catalog entry of a plan.

    Each file is read once, on first use. If a user's file is gone or now holds another benchmark,
    the run's copy is read instead.
    """
    known: dict[tuple[str, str], BenchmarkSpec | None] = {}

    def find(plan: RunPlan) -> BenchmarkSpec | None:
        if not plan.spec_source:
            return None  # an imported log of no benchmark
        name = plan.benchmark if plan.spec_source == "built-in" else plan.spec_source
        if (name, plan.benchmark) not in known:
            known[name, plan.benchmark] = _entry(plan, name, store, note)
        return known[name, plan.benchmark]

    return find


def _entry(plan: RunPlan, name: str, store: Store, note: Note) -> BenchmarkSpec | None:
    from k8sbench.adapters.files import catalog

    try:
        spec = benchmark(name).spec
        if spec.name == plan.benchmark:
            return spec
        why = f"it holds {spec.name}, not {plan.benchmark}."
    except BenchError as error:
        why = error.message
    try:
        if copy := store.kept(plan.run_id, BENCHMARK):
            return catalog.copied(copy, f"{plan.run_id}/{BENCHMARK}")
    except BenchError:
        pass  # a run of elsewhere: what is wrong with the file itself says more
    note(f"warning: the catalog entry {name} cannot be used: {why}")
    return None


def work_on_data(
    action: Literal["check", "make-sample"],
    name: str,
    place: str,
    words: Sequence[str],
    stop: Stop,
    tell: Callable[[str], None],
) -> int:
    """Check or draw a data set, report progress, return the exit code.

    The code is 0 if the data are complete, 2 if data are missing or the input is wrong, and 3 if
    the program could not finish. Raises :class:`Interrupted`, or another :class:`BenchError` if the
    program did not exit normally.
    """
    from k8sbench.adapters import processes

    data_set(name)
    if place.startswith("pvc:"):
        raise UsageError(
            f"{place} is a claim, and data {action} works on folders of this machine.",
            "Give the command in a pod that mounts the claim, with the path there"
            " (docs/training.md#on-a-claim).",
        )
    given = (action, name, str(Path(place).absolute()), *words)
    with stop, processes.running(PROGRAM, given) as process:
        code = None
        reading = Threads().start(lambda: processes.read_lines(process, tell), "data")
        while code is None and stop.cause is None:
            with contextlib.suppress(TimeoutError):
                code = reading.result(LOOK_SECONDS)
    if code is None:
        raise Interrupted(f"{stop.cause}; the program on this machine was ended.")
    if code not in {0, 2, 3}:
        raise JobFailed(f"The program ended with exit code {code}.", "The lines above say why.")
    return code


# -- from a request to planned cases ---------------------------------------------------------------


def prepare(
    benchmarks: Sequence[LoadedSpec],
    request: SubmitRequest,
    site: Site,
    note: Note,
) -> tuple[PlannedCase, ...]:
    """Plan each requested case once, baselines (1x1) first.

    Speedup needs the baselines. Raises :class:`UsageError` for a case that cannot run. With
    ``--all-cases`` or all benchmarks, cases that the pool or the machine cannot hold are left out,
    with a note.
    """
    if len(benchmarks) > 1 and request.variant is not None:
        raise UsageError(
            "--variant names a variant of one benchmark.", "Name that benchmark, or leave it out."
        )
    from k8sbench.adapters.files import catalog
    from k8sbench.render.manifest import manifests

    trainers = catalog.trainer_sources()
    templates = catalog.load_templates()
    render = functools.partial(manifests, templates=templates, trainers=trainers)
    planned: list[PlannedCase] = []
    left_out: list[UsageError] = []
    for loaded in benchmarks:
        spec = loaded.spec
        if len(benchmarks) > 1 and request.framework not in (None, "all", *spec.frameworks):
            left_out.append(UsageError(f"No benchmark has a variant for {request.framework}."))
            note(f"left out: {spec.name}: it has no variant for {request.framework}.")
            continue
        for single, repeats in choices.single_cases(spec, request):
            try:
                draft = make_plan(loaded, single, site, trainers_digest=trainers.digest)
            except DoesNotFit as error:
                if not request.all_cases and len(benchmarks) == 1:
                    raise
                left_out.append(error)
                shape = f"{single.replicas or 1}x{single.gpus or 1}"
                note(f"left out: {spec.name} {shape}: {error.message}")
                continue
            if site.backend == "local":
                from k8sbench.adapters.local import cluster

                cluster.check_files(draft)
            planned.append(
                PlannedCase(
                    draft=draft,
                    repeats=repeats,
                    benchmark_file=loaded.text,
                    manifests=render,
                )
            )
    if not planned:
        raise left_out[0]
    return tuple(sorted(planned, key=lambda case: case.draft.world_size > 1))


def render(
    request: SubmitRequest, reporter: Reporter, *, run_id: str | None, set_name: str
) -> list[Manifest]:
    """Plan and render each case; reports the plans.

    Without ``run_id`` the benchmark's name stands in the id's place; several cases are numbered.
    """
    benchmarks = named(request.benchmark)
    site = site_of(request)
    prepared = prepare(benchmarks, request, site, reporter.note)
    first = benchmarks[0].spec.name if len(benchmarks) == 1 else request.benchmark
    name = run_id or f"{first[:30].rstrip('-')}-example"
    objects: list[Manifest] = []
    for number, case in enumerate(prepared, start=1):
        suffix = "" if len(prepared) == 1 else f"-{number}"
        plan = case.plan(checked_run_id(name + suffix), checked_set_name(set_name))
        reporter.plan(plan)
        # The trainers are the same for all.
        objects += [made for made in case.manifests(plan) if made not in objects]
    return objects


def kept(
    planned: Sequence[PlannedCase],
    refusal: Callable[[RunPlan], UsageError | None],
    note: Note,
) -> tuple[PlannedCase, ...]:
    """Leave out the refused cases, each with a note; raises the refusal if none is left."""
    fitting: list[PlannedCase] = []
    refused = None
    for case in planned:
        if (error := refusal(case.draft)) is None:
            fitting.append(case)
        else:
            refused = error
            note(f"left out: {error.message}")
    if refused is not None and not fitting:
        raise refused
    return tuple(fitting)


def drop_too_large(planned: Sequence[PlannedCase], api: Api, note: Note) -> tuple[PlannedCase, ...]:
    """Drop cases that need more nodes than the pool has.

    Each is noted. If nodes may not be listed, all cases stay. Raises :class:`DoesNotFit` if no case
    is left.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight import nodes

    if all(case.draft.replicas == 1 for case in planned):
        return tuple(planned)
    pool = planned[0].draft.pool
    try:
        of_pool: Sequence[KubeObject] = listing.nodes(api, pool.selector)
    except BenchError as error:
        note(f"Whether pool {pool.name} holds every case is not known: {error.message}")
        return tuple(planned)
    return kept(planned, functools.partial(nodes.no_room, of_pool), note)


SILENT_SECONDS = 2.0
"""Timeout of a cluster whose answer is not needed."""


class RunTarget:
    """Target machine or pool, with a one-line reason."""

    def __init__(
        self, site: Site, why: str, api: Api | None = None, *, has_own_pool: bool = False
    ) -> None:
        self.site, self.why, self.api = site, why, api
        """``api``: the connection to the cluster, if there is one."""
        self.has_own_pool = has_own_pool
        """True if the pool is from a file that no operator reads."""


def target_of(request: SubmitRequest, *, may_be_local: bool = True) -> RunTarget:
    """Choose where ``submit`` runs; a cluster must answer, and take our credentials.

    Unless it ``may_be_local`` no error advises this machine. A dry run of the client does not wait
    for a cluster that does not answer. Creating is tried for a minute while the server does not
    answer, which is for one that was there a moment ago.
    ``--backend auto`` takes the cluster that is configured, and this machine only where there is
    none: a run that was meant for a cluster is not started here. Naming a cluster is asking for it.
    Options that only a cluster has are rejected for this machine.
    """
    if request.backend == "local":
        return _here(None, request)
    if not request.names_cluster and not connections.configured(request.access):
        reason = "no cluster is configured: there is no ~/.kube/config, and this is not a pod"
        return _here(reason, request)
    from k8sbench.adapters.kubernetes.client import connection

    try:
        api = connections.connect(request.access)
        target = target_on_cluster(api, request)
        if request.dry_run is None:
            api.check_answers(limits.now.api_answer)
    except connection.NoCluster as error:
        if request.names_cluster:
            raise
        return _here(f"{error.message[0].lower()}{error.message[1:].rstrip('.')}", request)
    except Unreachable as error:
        if request.names_cluster or not may_be_local:
            raise
        # What a plugin gives as its hint need not be a sentence.
        action = f"{error.action.rstrip('.')}; or run on this machine: --backend local"
        error.action = action.lstrip()
        raise
    return target


def site_of(request: SubmitRequest) -> Site:
    """Choose what ``render`` renders for: a pool of a cluster, unless ``--backend local``."""
    if request.backend == "local":
        return _here(None, request).site
    from k8sbench.adapters.files import catalog

    return _site(catalog.load_pools(request.pools_file), request)


def _here(reason: str | None, request: SubmitRequest) -> RunTarget:
    """Choose this machine; reject the first cluster-only option given."""
    from k8sbench.adapters.local import cluster

    site, devices = cluster.site()
    target = RunTarget(site, f"backend local: {devices}" + (f"; {reason}" if reason else ""))
    option = next(request.options_of_clusters(), None)
    if option is not None:
        raise UsageError(
            f"{option} is for jobs on a cluster, and this run is local"
            f" ({target.why.removeprefix('backend local: ')}).",
            f"Leave out {option}, or name a cluster with --backend kubernetes.",
        )
    return target


def known_pools(file: str | None, access: ClusterAccess) -> tuple[LoadedPools, str | None]:
    """Return the pools for ``submit``, and why the cluster's are missing.

    The reason is None if they were read, if there is no cluster, or if a file takes precedence. A
    named cluster must answer; raises :class:`BenchError`.
    """
    if not connections.configured(access):
        from k8sbench.adapters.files import catalog

        return catalog.load_pools(file), None
    return _pools(
        file,
        lambda: contextlib.closing(connections.connect(access)),
        seconds=limits.now.api_answer,
        is_needed=access.named,
    )


def _pools(
    file: str | None,
    connected: Callable[[], contextlib.AbstractContextManager[Api]],
    *,
    seconds: float,
    is_needed: bool,
) -> tuple[LoadedPools, str | None]:
    """Return the pools, and why those that the chart publishes are missing.

    Unless the cluster ``is_needed`` it need not answer.
    """
    from k8sbench.adapters.files import catalog
    from k8sbench.adapters.kubernetes import listing

    unread = []

    def published() -> PublishedPools | None:
        try:
            with connected() as api:
                api.check_answers(seconds)
                return listing.published_pools(api)
        except Unreachable as error:
            if is_needed:
                raise
            unread.append(error.message)
            return None

    return catalog.load_pools(file, published=published), unread[0] if unread else None


def target_on_cluster(api: Api, request: SubmitRequest, pool: NodePool | None = None) -> RunTarget:
    """Choose a pool, unless given, and the kind of jobs.

    The kind is explained if the cluster serves several, or a single one other than the first.
    """
    from k8sbench.adapters.kubernetes import listing

    offline = request.dry_run is not None
    loaded, unread = _pools(
        request.pools_file,
        lambda: contextlib.nullcontext(api),
        seconds=SILENT_SECONDS if offline else limits.now.api_answer,
        is_needed=not offline,
    )
    site = _site(loaded, request)
    if pool is not None:
        site = msgspec.structs.replace(site, pool=pool)
    why = f"backend kubernetes: {api.why}, namespace {api.place.namespace}"
    why += f"; pools from {loaded.source}"
    if unread is not None:
        why += f" (those of the cluster were not read: {unread.rstrip('.')})"
    words = [] if offline or request.job_kind != "auto" else listing.job_kinds(api)
    if words not in ([], ["v1"]):
        site = msgspec.structs.replace(site, job_kind=kinds.WORDS[words[0]])
        others = (f", {OPERATORS[word].name} with --job-kind {word}" for word in words[1:])
        why += f"; jobs of {OPERATORS[words[0]].name}{''.join(others)}"
    if not api.is_verified:
        why += "; the server's certificate is not checked (insecure-skip-tls-verify)"
    return RunTarget(site, why, api, has_own_pool=loaded.is_users)


def _site(loaded: LoadedPools, request: SubmitRequest) -> Site:
    from k8sbench.adapters.files import catalog

    return Site(
        backend="kubernetes",
        pool=loaded.pool(request.node_pool),
        images=catalog.image_table(),
        job_kind=kinds.WORDS.get(request.job_kind),
    )


# -- doctor: is a cluster ready for a run? ---------------------------------------------------------


def proposed_pools(access: ClusterAccess) -> str:
    """Write a pools file for the nodes of a cluster.

    Raises :class:`Unreachable` where they may not be listed, :class:`NotFound` without any.
    """
    from k8sbench.adapters.kubernetes import listing
    from k8sbench.diagnose.preflight.nodes import left_out, proposed

    with contextlib.closing(connections.connect(access)) as api:
        nodes = listing.nodes(api, {})
    text = proposed(nodes)
    if not text and (away := left_out(nodes)):
        raise NotFound(
            f"No node with GPUs takes pods: {few(away)}.",
            "See why: kubectl describe nodes.",
        )
    if not text:
        raise NotFound(
            f"None of {len(nodes)} nodes offers GPUs.",
            "See whether the device plugin runs: kubectl describe nodes.",
        )
    return text


DOCTORS_BENCHMARK = "deeplabv3p"
"""Benchmark of the dry-run jobs; it runs on both frameworks."""


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the checks."""

    findings: tuple[Finding, ...]
    location: Location | None = None
    """Location on the cluster; None if no cluster is configured."""

    @property
    def is_ready(self) -> bool:
        """Return True if no check failed."""
        return all(finding.severity != "fail" for finding in self.findings)


def examine(options: SubmitRequest, note: Note) -> Preflight:
    """Ask the cluster whether it is ready for a run, and judge its answers."""
    from k8sbench.adapters.kubernetes import preflight
    from k8sbench.diagnose.preflight import checks

    location = None
    wanted = msgspec.structs.replace(options, framework=options.framework or "all", force=True)
    try:
        with contextlib.closing(connections.connect(options.access)) as api:
            api.give_up_at = time.monotonic() + limits.now.doctor_checks
            location = api.place
            target = target_on_cluster(api, options)
            note(target.why)
            planned = prepare([benchmark(DOCTORS_BENCHMARK)], wanted, target.site, note)
            plans = [case.plan("k8sbench-doctor", "doctor") for case in planned]
            jobs = [case.manifests(plan) for case, plan in zip(planned, plans, strict=True)]
            facts = preflight.ask(api, plans[0], jobs, options.prometheus)
    except Unreachable as error:
        return Preflight(
            findings=(checks.unreachable(error.message, error.action),), location=location
        )
    return Preflight(findings=checks.findings(facts), location=location)


def init_template() -> str:
    """Return the text of the init container that passes the restricted Pod Security Standard."""
    from k8sbench.adapters.kubernetes.client.faults import ROLE

    return ROLE.with_name("init-container.yaml").read_text(encoding="utf-8")


def crd() -> str:
    """Return the text of the CRD of ``Benchmark``."""
    from k8sbench.adapters.files import catalog

    return catalog.crd()
