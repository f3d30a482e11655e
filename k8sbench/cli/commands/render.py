"""``k8sbench render``: the manifest that submit would create; needs no cluster and no store."""

from __future__ import annotations

from collections.abc import Sequence

import click

from k8sbench.app import cases
from k8sbench.cli.options import format_option, request_options
from k8sbench.cli.terminal import output, reporter
from k8sbench.model.request import CASE_FLAGS, SHAPE_FLAGS, TRAINING_FLAGS, SubmitRequest
from k8sbench.ports import Manifest


@click.command()
@request_options(CASE_FLAGS | SHAPE_FLAGS | TRAINING_FLAGS, access=False)
@click.option("--run-id", default=None, help="Name of the job; default: BENCHMARK-example.")
@click.option("--set", "set_name", default="example", help="Name of the set; default: example.")
@format_option("yaml", "json")
def command(request: SubmitRequest, run_id: str | None, set_name: str, output_format: str) -> None:
    """Print the manifest that submit would create.

    The text goes to stdout and can be piped into kubectl; the plan goes to stderr. The run id is
    drawn by submit; here it is an example unless --run-id names one.
    """
    with reporter.reporting(drawn=False) as progress:
        objects = cases.render(request, progress, run_id=run_id, set_name=set_name)
    write(objects, output_format)


def write(objects: Sequence[Manifest], output_format: str) -> None:
    """Print manifests as one JSON list, or else as YAML documents."""
    if output_format == "json":
        output.write_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        from k8sbench.render import to_yaml

        output.write(to_yaml(objects))
