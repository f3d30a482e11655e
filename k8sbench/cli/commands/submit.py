"""``k8sbench submit``, ``nodes`` and ``render``: run a benchmark, or print its manifest."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from k8sbench.app import cases, nodes, submit, submit_file
from k8sbench.app.objects import Created, rendered
from k8sbench.app.submit import Detached, DryRun
from k8sbench.app.submit_file import Submitted
from k8sbench.cli import rows
from k8sbench.cli.options import GroupedHelp, format_option, request_options, rows_option
from k8sbench.cli.running import SignalStop, reporting
from k8sbench.cli.terminal import output
from k8sbench.model.errors import REGRESSION_EXIT_CODE
from k8sbench.model.request import (
    CASE_FLAGS,
    FLAGS,
    SET_FLAGS,
    SHAPE_FLAGS,
    TRAINING_FLAGS,
    SubmitRequest,
)
from k8sbench.ports.cluster import Manifest
from k8sbench.results.report import document, formats

if TYPE_CHECKING:
    from k8sbench.app.results import RunRows


@click.command(cls=GroupedHelp)
@request_options(FLAGS, may_be_objects=True)
@rows_option
def command(request: SubmitRequest, output_format: str) -> int:
    """Plan, run, measure and record a benchmark.

    Prints the plan before anything starts and the measured row at the end. Ctrl-C ends local
    processes; a job on a cluster continues. Exit code: 0 measured and valid, 2 bad input, 3 job
    failed, 4 timed out, 5 measured but rejected, 6 cluster not reachable, 130 interrupted.

    \b
    k8sbench submit resnet50 --replicas 2 --gpus 1 --preset smoke    a first try
    k8sbench submit deeplabv3p --replicas 4 --amp    4 nodes, all of their GPUs
    k8sbench submit tsm --all-cases --detach         then: collect --all --follow
    k8sbench submit all --all-cases --repeats 5      after a kill: --resume SET
    k8sbench submit -f nightly.yaml                  Benchmark objects of a file
    """
    stop = SignalStop()
    agree = _confirm if sys.stdin.isatty() else None
    quiet = request.detach or request.dry_run is not None
    with reporting(drawn=not quiet) as reporter:
        if request.object_file is not None:
            done = submit_file.submit_file(request, reporter, stop, agree)
        else:
            done = _submitted(submit.submit(request, reporter, stop, agree))
    if isinstance(done, DryRun):
        # submit itself creates the trainers' ConfigMap.
        jobs = [one for one in done.manifests if one["kind"] != "ConfigMap"]
        _write_manifests(jobs, output_format)
        return 0
    if done.created:
        _print_created(done.created, output_format)
    if done.detached is not None:
        code = _print_detached(done.detached, output_format)
        _note_own_store(request)
        if done.detached.failure is not None:
            raise done.detached.failure
        return code
    if done.rows is None:
        return 0
    with stop:
        rows.write(done.rows, output_format)
        _note_own_store(request)
    return rows.code_of_rows(done.rows)


def _note_own_store(request: SubmitRequest) -> None:
    if request.no_operator:
        rows.note_own_store(request.store, request.access)


def _submitted(done: RunRows | Detached | Created | DryRun) -> Submitted | DryRun:
    """Return the end of one submit as that of a file with one object."""
    match done:
        case DryRun():
            return done
        case Detached():
            return Submitted(detached=done)
        case Created():
            return Submitted(created=(done,))
        case rows:
            return Submitted(rows=rows)


def _confirm(text: str) -> bool:
    output.error(text)
    return output.agreed("Run it here?")


def _print_detached(done: Detached, output_format: str) -> int:
    """Name the detached runs; return the exit code of those that had ended."""
    runs = done.runs
    if output_format == "json":
        output.write_json([document.listed(run) for run in runs])
    else:
        output.write_names(run.run_id for run in runs)
    over = [run for run in runs if run.phase.final]
    for run in over:
        output.note(
            f"  Run {run.run_id} is {run.phase} already: nothing was created."
            " For a new run take another --run-id, or none."
        )
    if len(over) < len(runs):
        way = runs[0].run_id if len(runs) == 1 else "--all"
        output.note(f"  Detached. Collect what it measures with: k8sbench collect {way} --follow")
    return rows.code_of_runs(over)


def _print_created(created: Sequence[Created], output_format: str) -> None:
    """Name the objects that the operator runs."""
    if output_format == "json":
        output.write_json(
            [{"kind": "Benchmark", "namespace": one.namespace, "name": one.name} for one in created]
        )
    else:
        output.write_names(one.name for one in created)
    namespace = created[0].namespace
    output.note(f"  Detached. See: kubectl get benchmark -n {namespace}; k8sbench results")


@click.command(cls=GroupedHelp)
@request_options(CASE_FLAGS | SHAPE_FLAGS | TRAINING_FLAGS, access=False)
@click.option("--run-id", default=None, help="Name of the job; default: BENCHMARK-example.")
@click.option("--set", "set_name", default=None, help="Name of the set; default: example.")
@click.option(
    "--with-trainers",
    is_flag=True,
    help="Print the ConfigMap with the trainers' sources, too (9,000 lines).",
)
@format_option(
    "yaml", "json", "benchmark", about="Format; benchmark: the Benchmark object of an operator."
)
def render_command(
    request: SubmitRequest,
    run_id: str | None,
    set_name: str | None,
    with_trainers: bool,
    output_format: str,
) -> None:
    """Print the manifest that submit would create.

    The text goes to stdout, the plan to stderr. To create it yourself:
    k8sbench render BENCHMARK --with-trainers | kubectl apply --server-side -f -
    The run id is drawn by submit; here it is an example unless --run-id names one.
    """
    with reporting(drawn=False) as reporter:
        if output_format == "benchmark":
            request = msgspec.structs.replace(request, run_id=run_id, set_name=set_name)
            _write_manifests([rendered(request, reporter)], "yaml")
            return
        set_name = set_name or "example"
        manifests = cases.render(request, reporter, run_id=run_id, set_name=set_name)
    shared = [] if with_trainers else [one for one in manifests if one["kind"] == "ConfigMap"]
    for one in shared:
        needed = f"The pods need the ConfigMap {one['metadata']['name']}"
        output.note(f"{needed}; --with-trainers prints it, too, and submit creates it.")
    _write_manifests([one for one in manifests if one not in shared], output_format)


def _write_manifests(objects: Sequence[Manifest], output_format: str) -> None:
    """Print manifests as one JSON list, or else as YAML documents."""
    if output_format == "json":
        output.write_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        from k8sbench.render.manifest import to_yaml

        output.write(to_yaml(objects))


@click.command()
@request_options(CASE_FLAGS | SET_FLAGS)
@click.option("-l", "--selector", default="", help="Only nodes with these labels, as for kubectl.")
@format_option(
    *formats.ROWS,
    about="Format of the rows; name: the nodes to cordon.",
)
def nodes_command(request: SubmitRequest, output_format: str, selector: str) -> int:
    """Run one case on each node of a pool, and name the slow nodes.

    One run is pinned to each node. A node is slow if its throughput is below that of the faster
    nodes; docs/kubernetes.md has the rule. No node is cordoned. Exit code: 0 no node is slow, 7 a
    node is slow or faulty, otherwise as submit.

    \b
    k8sbench nodes resnet50 --parallel 8   every node of the pool
    k8sbench nodes resnet50 -l rack=7      some of them
    """
    if selector:
        resuming = f"nodes --selector {shlex.quote(selector)}"
        request = msgspec.structs.replace(request, command=resuming)
    with reporting() as reporter:
        found, measured = nodes.measure_nodes(request, reporter, SignalStop(), selector=selector)
    from k8sbench.results.report.group_words import sentences

    rows.write_report(measured.report, output_format, found.to_cordon)
    for text in sentences(found):
        if output_format in formats.FOR_PEOPLE:
            output.write(f"{text}\n")
        else:
            output.note(text)
    _note_own_store(request)
    slow = REGRESSION_EXIT_CODE if found.to_cordon else 0
    return rows.worst_code((slow, rows.code_of_rows(measured)))
