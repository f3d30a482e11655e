"""``render``: the manifests that submit would create; needs no cluster and no store."""

from __future__ import annotations

from k8sbench.app import cases, catalog, targets
from k8sbench.lifecycle.context import Reporter
from k8sbench.model.identity import checked_run_id, checked_set_name
from k8sbench.model.request import SubmitRequest
from k8sbench.ports import Manifest


def render(
    request: SubmitRequest, reporter: Reporter, *, run_id: str | None, set_name: str
) -> list[Manifest]:
    """Plan and render each case; reports the plans.

    Without ``run_id`` the benchmark's name stands in the id's place; several cases are numbered.
    """
    benchmarks = catalog.named(request.benchmark)
    site = targets.for_render(request).site
    prepared = cases.prepare(benchmarks, request, site, reporter.note)
    first = benchmarks[0].spec.name if len(benchmarks) == 1 else request.benchmark
    name = run_id or f"{first[:30].rstrip('-')}-example"
    objects: list[Manifest] = []
    for number, case in enumerate(prepared, start=1):
        suffix = "" if len(prepared) == 1 else f"-{number}"
        plan = case.plan(checked_run_id(name + suffix), checked_set_name(set_name))
        reporter.plan(plan)
        # The trainers are the same for all.
        objects += [one for one in case.manifests(plan) if one not in objects]
    return objects
