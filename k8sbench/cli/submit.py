"""``k8sbench submit``: plan → create → watch → collect → measure → store → print the row."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import click

from k8sbench.cli import output, progress, sites
from k8sbench.cli.plan_options import Typed, not_available, plan_options
from k8sbench.model.errors import REJECTED_EXIT_CODE, UsageError
from k8sbench.model.identity import (
    TOKEN_LENGTH,
    TOKEN_LETTERS,
    case_key,
    checked_run_id,
    checked_set_name,
    draw_run_id,
    draw_set_name,
)
from k8sbench.model.phase import Phase
from k8sbench.model.planning import SpecSource, describe
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec
from k8sbench.runs import preparing, submitting

INSTALLED_AS = {"pytorch": ("torch", "torch"), "paddle": ("paddle", "paddle")}
"""Framework → its module and our extra that installs it."""
EXIT_ORDER = (1, 6, 3, 4, REJECTED_EXIT_CODE, 0)
"""Of several runs' exit codes, the first of these that occurs is the command's."""


@click.command()
@plan_options
@click.option("--run-id", help="Identity of the run; of one that exists: join it.")
@click.option("--set", "set_name", help="Set to open or to join; default: a new one.")
@click.option("--resume", metavar="SET", help="Run what is missing of a set.")
@click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    default=None,
    type=click.Choice(["client", "server"]),
    help="Plan and print the manifest; start and record nothing.",
)
@click.option(
    "--accept", multiple=True, metavar="REASON", help="Overrule a rejection by its id; marked."
)
@click.option("--store", "where", metavar="FOLDER|URL", help="Store; default K8SBENCH_STORE.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "markdown", "csv", "json", "name"]),
    default="table",
    help="Format of the rows.",
)
@not_available("--parallel")
@not_available("--detach", flag=True)
@not_available("--wait", flag=True)
@not_available("--keep", flag=True)
@not_available("--prometheus")
@not_available("-n", "--namespace")
@not_available("--context")
@not_available("--kubeconfig")
def command(
    typed: Typed,
    run_id: str | None,
    set_name: str | None,
    resume: str | None,
    dry_run: str | None,
    accept: tuple[str, ...],
    where: str | None,
    form: str,
) -> int:
    """Plan, run, measure and record a benchmark.

    Prints the plan before anything starts and the measured row at the end. Exit code: 0 measured
    and valid, 2 bad input, 3 job failed, 4 timed out, 5 measured but rejected, 130 interrupted.
    """
    from k8sbench.adapters import catalog, templates, trainer_sources
    from k8sbench.render import manifests, to_yaml

    if resume is not None and set_name is not None:
        raise UsageError("--resume and --set both name the set.", "Give one of them.")
    if dry_run == "server":
        from k8sbench.model.errors import NotAvailableYet

        raise NotAvailableYet("--dry-run=server", "Use --dry-run=client.")
    found = catalog.find(typed.benchmark)
    chosen = sites.for_submit(typed)
    sources = trainer_sources.read()
    texts = templates.read()
    wanted = list(preparing.requests(found.spec, typed.request, typed.selection))
    if run_id is not None:
        checked_run_id(run_id)
        if len(wanted) > 1 or any(repeats > 1 for _, repeats in wanted):
            raise UsageError("--run-id names one run.", "Ask for one case without repeats.")
    works = [
        (
            preparing.work(
                found.spec,
                SpecSource(digest=found.digest, source=found.source),
                request,
                chosen.site,
                trainers_digest=sources.digest,
                render=lambda plan: manifests(plan, templates=texts, trainers=sources),
                text=to_yaml,
            ),
            repeats,
        )
        for request, repeats in wanted
    ]
    # Every case is planned and rendered before the first one starts: a mistake in the last of
    # them must not show after hours.
    drafts = [work.plan(run_id or "draft", "draft", 1) for work, _ in works]
    objects = [work.manifests(draft) for (work, _), draft in zip(works, drafts, strict=True)]
    if dry_run:
        for draft in drafts:
            progress.tell(draft)
        output.write(to_yaml([manifest for group in objects for manifest in group]))
        return 0
    _check_frameworks(found.spec, {draft.framework for draft in drafts})
    output.note(chosen.why)
    draw = _Drawer()
    name = checked_set_name(resume or set_name or draw.set_name())
    return _run_all(works, name, run_id, resume is not None, accept, where, form, draw)


class _Drawer:
    """Clock and randomness of this process, in the forms that identities need."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def token(self) -> str:
        return "".join(self._random.choices(TOKEN_LETTERS, k=TOKEN_LENGTH))

    def set_name(self) -> str:
        return draw_set_name(at=time.time(), token=self.token())

    def run_id(self, benchmark: str) -> str:
        return draw_run_id(benchmark, at=time.time(), token=self.token())


def _run_all(
    works: Sequence[tuple[submitting.Work, int]],
    set_name: str,
    run_id: str | None,
    resume: bool,
    accept: Sequence[str],
    where: str | None,
    form: str,
    draw: _Drawer,
) -> int:
    from k8sbench.adapters import processes
    from k8sbench.adapters.local.cluster import LocalCluster
    from k8sbench.adapters.log_files import LogFile
    from k8sbench.adapters.sql_store import open_store
    from k8sbench.cli import results
    from k8sbench.runs import measuring

    stop = submitting.Stop()
    codes: list[int] = []
    done: list[str] = []
    with contextlib.ExitStack() as stack:
        store = open_store(where)
        stack.callback(store.close)
        cluster = LocalCluster()
        stack.callback(cluster.close)
        stack.enter_context(_signals(stop))
        world = submitting.World(
            store=store,
            cluster=cluster,
            clock=time.time,
            owner=processes.this_process(),
            alive=processes.alive,
            draw_run_id=draw.run_id,
            measure=lambda run: measuring.measure_run(
                run,
                [LogFile(str(path), path.name) for path in store.log_files(run.run_id)],
                accept=accept,
            ),
        )
        tell = progress.Progress(time.time)
        for work, repeats in works:
            missing = repeats
            if resume:
                draft = work.plan("draft", set_name, 1)
                there = submitting.finished_repeats(store, set_name, case_key(draft))
                done += [run.run_id for run in there[:repeats]]
                missing = max(0, repeats - len(there))
                codes += [0] if there else []
                output.note(
                    f"{describe(draft)}\n  {len(there)} of {repeats} there already"
                    + ("" if missing else ": nothing to do")
                )
            for _ in range(missing):
                run = submitting.submit(work, world, tell, stop, set_name=set_name, run_id=run_id)
                done.append(run.run_id)
                codes.append(exit_code(run))
                if stop.cause is not None:
                    raise submitting.interrupted(stop, run)
        if results.print_runs(store, done, form, accept=accept):
            codes.append(REJECTED_EXIT_CODE)
    return next(code for code in EXIT_ORDER if code in codes)


def exit_code(run: Run) -> int:
    """The exit code that one finished run stands for."""
    if run.phase is Phase.SUCCEEDED:
        valid = run.measurement is not None and run.measurement.verdict == "valid"
        return 0 if valid else REJECTED_EXIT_CODE
    return 4 if run.history[-1].cause_id == "timeout" else 3


def _check_frameworks(spec: BenchmarkSpec, frameworks: set[str]) -> None:
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
def _signals(stop: submitting.Stop) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into one orderly end; a second one is a kill."""
    causes = {
        signal.SIGINT: "Interrupted (Ctrl-C)",
        signal.SIGTERM: "Interrupted (SIGTERM)",
        signal.SIGHUP: "Interrupted (terminal closed)",
    }
    before: dict[signal.Signals, Any] = {}

    def handler(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.cause is not None:
            raise KeyboardInterrupt
        stop(causes[signal.Signals(number)])

    for number in causes:
        before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
