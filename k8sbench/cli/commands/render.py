"""``k8sbench render``: the manifest that submit would create; needs no cluster and no store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from k8sbench.adapters.files import catalog, templates, trainer_sources
from k8sbench.cli import sites
from k8sbench.cli.commands.plan_options import Typed, plan_options
from k8sbench.cli.terminal import output, progress
from k8sbench.model.identity import checked_run_id, checked_set_name
from k8sbench.model.planning import SpecSource, make_plan
from k8sbench.ports import Manifest
from k8sbench.render import manifests, to_yaml
from k8sbench.runs import preparing


@click.command()
@plan_options
@click.option("--run-id", default=None, help="Name of the job; default: BENCHMARK-example.")
@click.option("--set", "set_name", default="example", help="Name of the set; default: example.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", help="Format."
)
def command(typed: Typed, run_id: str | None, set_name: str, form: str) -> None:
    """Print the manifest that submit would create.

    The text goes to stdout and can be piped into kubectl; the plan goes to stderr. The run id is
    drawn by submit; here it is an example unless --run-id names one.
    """
    found = catalog.find(typed.benchmark)
    chosen = sites.for_render(typed)
    sources = trainer_sources.read()
    texts = templates.read()
    objects: list[dict[str, Any]] = []
    wanted = list(preparing.requests(found.spec, typed.request, typed.selection))
    for number, (request, _) in enumerate(wanted, start=1):
        suffix = "" if len(wanted) == 1 else f"-{number}"
        name = run_id or f"{found.spec.name[:30].rstrip('-')}-example"
        plan = make_plan(
            found.spec,
            SpecSource(digest=found.digest, source=found.source),
            request,
            chosen.site,
            run_id=checked_run_id(name + suffix),
            set_name=checked_set_name(set_name),
            repeat=1,
            trainers_digest=sources.digest,
        )
        progress.tell(plan)
        objects += manifests(plan, templates=texts, trainers=sources)
    write(objects, form)


def write(objects: Sequence[Manifest], form: str) -> None:
    """Print manifests as one JSON list, or else as YAML documents."""
    if form == "json":
        output.write_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        output.write(to_yaml(objects))
