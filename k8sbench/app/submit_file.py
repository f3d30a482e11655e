"""``submit -f``: the Benchmark objects of a file, which ``kubectl apply`` takes, too."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.app import object_cases, objects, submit, targets
from k8sbench.app.objects import Created
from k8sbench.app.submission import Submission
from k8sbench.app.submit import Detached, DryRun
from k8sbench.lifecycle.context import Agree, Reporter
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import benchmark_object
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import UsageError
from k8sbench.model.request import OF_OBJECT, SubmitRequest
from k8sbench.ports.cluster import Manifest

if TYPE_CHECKING:
    from k8sbench.app.results import RunRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class _FromFile:
    """An object of a file, with its checked submission."""

    asked: Mapping[str, Any]
    submission: Submission


@dataclasses.dataclass(frozen=True, kw_only=True)
class Submitted:
    """Outcome of a submit, or of the objects of a file."""

    rows: RunRows | None = None
    """Rows of the runs that were followed; None without any."""
    detached: Detached | None = None
    created: tuple[Created, ...] = ()
    """Objects that an operator runs, and nobody follows here."""


def submit_file(
    request: SubmitRequest, reporter: Reporter, stop: Stop, agree: Agree | None = None
) -> Submitted | DryRun:
    """Submit the objects of a file; all are checked before the first one starts.

    Where an operator serves the namespace of an object, it is created on the API server. Raises
    :class:`UsageError` for an object that cannot run or that the options contradict.
    """
    from k8sbench.catalog import object_file

    assert request.object_file is not None
    found = object_file.read(request.object_file)
    _check_names(found, request)
    planned = [_planned(asked, request, reporter) for asked in found]
    if request.dry_run:
        return DryRun(manifests=tuple(_manifests(planned)))
    for one in planned:
        of_object = one.submission
        if of_object.target.api is None:
            submit.check_agreed(of_object.planned, of_object.request, agree)
    resolved = [dataclasses.replace(one, submission=_resolved(one)) for one in planned]
    return _run(resolved, reporter, stop)


def _check_names(found: Sequence[Mapping[str, Any]], request: SubmitRequest) -> None:
    names = [asked["metadata"]["name"] for asked in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"Two objects of the file are named {twice}.", "Give each its own name.")
    if request.resume is not None:
        sets = {asked["spec"].get("set", asked["metadata"]["name"]) for asked in found}
        if sets != {request.resume}:
            raise UsageError(
                f"--resume names set {request.resume}; the file is of {', '.join(sorted(sets))}.",
                "Resume the set of the file.",
            )


def _planned(asked: Mapping[str, Any], given: SubmitRequest, reporter: Reporter) -> _FromFile:
    """Plan the cases of an object with the code that an operator plans with."""
    # The uid is the API server's to give.
    benchmark = benchmark_object.read({**asked, "metadata": {**asked["metadata"], "uid": ""}})
    request = _request(benchmark, asked["metadata"].get("namespace"), given)
    pool = object_cases.own_pool(benchmark)
    target = targets.choose_target(request, pool=pool)
    if target.api is None and (pool is not None or benchmark.spec.nodes):
        raise UsageError(
            f"Benchmark {benchmark.name} names a pool or nodes of a cluster, and this run is local"
            f" ({target.why}).",
            "Name a cluster with --context or --kubeconfig.",
        )
    planned = object_cases.plan_on(target, request, benchmark, reporter.note)
    submission = Submission(
        request=request,
        planned=planned,
        target=target,
        operator=None,
        nodes=benchmark.spec.nodes,
    )
    return _FromFile(asked=asked, submission=submission)


def _request(benchmark: Benchmark, namespace: str | None, given: SubmitRequest) -> SubmitRequest:
    """Return what an object asks for, with the options of the command."""
    access = given.access
    if namespace is not None:
        if access.namespace not in {None, namespace}:
            raise UsageError(
                f"Benchmark {benchmark.name} is of namespace {namespace}, and --namespace names"
                f" {access.namespace}.",
                "Leave out one of the two.",
            )
        access = msgspec.structs.replace(access, namespace=namespace)
    names = set(SubmitRequest.__struct_fields__) - OF_OBJECT - {"benchmark", "access"}
    own = {name: getattr(given, name) for name in names}
    set_name = None if given.resume else benchmark.set_name
    return msgspec.structs.replace(benchmark.request(), access=access, set_name=set_name, **own)


def _manifests(planned: Sequence[_FromFile]) -> list[Manifest]:
    made: list[Manifest] = []
    for one in planned:
        name = one.asked["metadata"]["name"]
        for number, case in enumerate(one.submission.planned, start=1):
            manifests = case.manifests(case.plan(f"{name}-{number}", name))
            made += [each for each in manifests if each not in made]
    return made


def _resolved(one: _FromFile) -> Submission:
    """Check an object against its cluster and store, and find who runs it."""
    of = one.submission
    resolved = submit.resolve(of.planned, of.request, of.target, of.nodes)
    return msgspec.structs.replace(resolved, asked=one.asked)


def _run(resolved: Sequence[_FromFile], reporter: Reporter, stop: Stop) -> Submitted:
    """Create the objects of operators, then run or follow one after the other."""
    with contextlib.ExitStack() as stack:
        begun: dict[str, Benchmark] = {}
        for one in resolved:
            of = one.submission
            if of.operator is not None:
                assert of.target.api is not None
                stack.enter_context(contextlib.closing(of.target.api))
                reporter.plan(of.planned[0].draft)
                reporter.note(of.target.why)
                made = objects.begin(
                    of.target.api, one.asked, of.request, of.operator, reporter.note
                )
                begun[made.name] = made
        done = [
            _followed(one.submission, begun.get(one.asked["metadata"]["name"]), reporter, stop)
            for one in resolved
        ]
    rows = [one for one in done if not isinstance(one, Detached | Created)]
    detached = [one for one in done if isinstance(one, Detached)]
    return Submitted(
        rows=_joined(rows) if rows else None,
        detached=_together(detached) if detached else None,
        created=tuple(one for one in done if isinstance(one, Created)),
    )


def _joined(rows: Sequence[RunRows]) -> RunRows:
    from k8sbench.app import results  # --detach does not need it

    return results.joined(*rows)


def _followed(
    submission: Submission, begun: Benchmark | None, reporter: Reporter, stop: Stop
) -> RunRows | Detached | Created:
    request, api = submission.request, submission.target.api
    if begun is None:
        return submit.run(submission, reporter, stop)
    assert api is not None
    if request.detach:
        return Created(namespace=api.place.namespace, name=begun.name)
    reporter.expect(sum(case.repeats for case in submission.planned), 0, request.parallel or 1)
    return objects.follow(api, begun, request.access, reporter, stop)


def _together(detached: Sequence[Detached]) -> Detached:
    failures = [one.failure for one in detached if one.failure is not None]
    runs = tuple(run for one in detached for run in one.runs)
    return Detached(runs=runs, failure=next(iter(failures), None))
