"""``doctor``: ask a cluster whether it is ready for a run."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, get_args

import msgspec

from k8sbench.app import connections, targets
from k8sbench.model.choices import Site
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.finding import Finding
from k8sbench.model.kinds import WORDS
from k8sbench.model.operators import OPERATORS
from k8sbench.model.planning import SpecSource, make_plan
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Location
from k8sbench.model.spec import Framework

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.diagnose.preflight.facts import DoctorRequest, PreflightFacts
    from k8sbench.ports import Manifest

Note = Callable[[str], None]
CHECKS_SECONDS = 10.0
"""For all checks together to repeat requests that fail, and to wait for answers."""


class Preflight(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the checks."""

    findings: tuple[Finding, ...]
    facts: PreflightFacts | None = None
    """None where the cluster does not answer."""
    location: Location | None = None
    """None where no cluster is configured."""

    @property
    def is_ready(self) -> bool:
        """Whether no check failed."""
        return all(finding.severity != "fail" for finding in self.findings)


def examine(options: SubmitRequest, note: Note) -> Preflight:
    """Ask the cluster whether it is ready for a run, and judge its answers."""
    from k8sbench.diagnose.preflight import checks

    data, location = tuple(_claims(options.data)), None
    try:
        with contextlib.closing(connections.connect(options.access)) as api, _in_time(api):
            location = api.place
            request = _request(options, data, api, note)
            facts = _facts(api, request, options)
    except Unreachable as error:
        finding = checks.unreachable(error.message, error.action)
        return Preflight(findings=(finding,), location=location)
    findings = checks.findings(facts)
    return Preflight(findings=findings, facts=facts, location=location)


@contextlib.contextmanager
def _in_time(api: Api) -> Iterator[None]:
    """Have the questions end in time."""
    api.give_up_at = time.monotonic() + CHECKS_SECONDS
    try:
        yield
    finally:
        api.give_up_at = math.inf


def _request(options: SubmitRequest, data: Sequence[str], api: Api, note: Note) -> DoctorRequest:
    """Return what must be possible; asks the cluster for its node pools."""
    from k8sbench.adapters.files import pools
    from k8sbench.diagnose.preflight.facts import DoctorRequest

    loaded = pools.load(options.pools_file, published=partial(targets.cluster_pools, api))
    pool = loaded.pool(options.node_pool)
    note(f"pool {pool.name} from {loaded.source}")
    if options.gpus is not None and not pool.gpus_per_node:
        raise UsageError(f"Pool {pool.name} has no GPUs.", "Leave --gpus out.")
    frameworks: tuple[Framework, ...] = ()
    if options.framework == "all":
        frameworks = get_args(Framework)
    elif options.framework is not None:
        frameworks = (options.framework,)
    return DoctorRequest(
        namespace=api.place.namespace,
        pool=pool,
        frameworks=frameworks,
        replicas=options.replicas or 1,
        gpus=options.gpus or pool.gpus_per_node,
        image=options.image,
        claims=(*data, *_claims(pool.python_packages)),
        queue=options.queue,
        gang=options.gang,
        job_kind=options.job_kind,
    )


def init_template() -> str:
    """Return the text of the init container that passes the restricted Pod Security Standard."""
    from k8sbench.adapters.kubernetes.client.faults import ROLE

    return ROLE.with_name("init-container.yaml").read_text(encoding="utf-8")


def _claims(volume: str | None) -> Iterator[str]:
    if volume in {None, "synthetic", "synthetic-host"}:
        return
    source, _, rest = volume.partition(":")
    name = rest.partition("/")[0]
    if source != "pvc" or not name:
        raise UsageError(f"--data {volume!r} names no volume claim.", "Write pvc:NAME[/SUB].")
    yield name


def _facts(api: Api, request: DoctorRequest, options: SubmitRequest) -> PreflightFacts:
    from k8sbench.adapters.kubernetes import preflight
    from k8sbench.adapters.kubernetes.client.faults import ApiFault

    jobs: dict[str, Sequence[Manifest]] = {}
    words = [
        word
        for word in WORDS
        if request.job_kind in {"auto", word}
        and (OPERATORS[word].gang_flag or not request.gang)  # or there can be no job to try
    ]
    for word, framework in product(words, request.frameworks or get_args(Framework)):
        _, *job = _job(options, request, framework, word)
        jobs.setdefault(job[-1]["kind"], job)
    try:
        return preflight.ask(api, request, jobs.values(), options.prometheus)
    except ApiFault as fault:
        raise api.explained(fault, "the cluster be looked at") from fault


def _job(
    options: SubmitRequest, request: DoctorRequest, framework: Framework, job_kind: str
) -> Sequence[Manifest]:
    """Render a job like those that are planned, for a dry run."""
    from k8sbench.adapters.files import catalog, packaged
    from k8sbench.render import manifests

    loaded, sources = catalog.find("allreduce"), packaged.trainer_sources()
    plan = make_plan(
        loaded.spec,
        SpecSource(digest=loaded.digest, source=loaded.source),
        msgspec.structs.replace(
            options,
            framework=framework,
            replicas=max(2, request.replicas),
            gpus=request.gpus or None,
            data="synthetic",
            force=True,
        ),
        Site(
            backend="kubernetes",
            # More GPUs than a node has are for the checks to report.
            pool=msgspec.structs.replace(request.pool, gpus_per_node=request.gpus),
            images=packaged.image_table(),
            job_kind=WORDS[job_kind],
        ),
        trainers_digest=sources.digest,
        run_id="k8sbench-doctor",
    )
    plan = msgspec.structs.replace(plan, pool=request.pool)
    return manifests(plan, templates=packaged.load_templates(), trainers=sources)
