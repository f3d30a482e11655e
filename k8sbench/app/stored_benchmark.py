"""The Benchmark of a submit without an operator: it lies in the store, and this process has it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from k8sbench.adapters import processes
from k8sbench.app import connections, objects, stored_objects
from k8sbench.app.submission import Submission
from k8sbench.lifecycle.context import Agree, Note
from k8sbench.lifecycle.lost_runs import mark_lost
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.model import benchmark_object, stored_object
from k8sbench.model.benchmark_object import LONGEST_NAME, Benchmark
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.stored_object import ObjectPlace, PrivateOptions
from k8sbench.model.times import Clock

if TYPE_CHECKING:
    from k8sbench.store.benchmark_objects import StoredObjects
    from k8sbench.store.sql_store import SqlStore


@contextlib.contextmanager
def held(
    store: SqlStore, submission: Submission, clock: Clock
) -> Iterator[tuple[StoredObjects, Benchmark]]:
    """Store the Benchmark of a submit, and keep other processes from reconciling it.

    One of the set that asks for the same is retried. Raises :class:`UsageError` for what no
    Benchmark may ask for.
    """
    from k8sbench.store.benchmark_objects import StoredObjects

    place, private, asked = _asked(submission)
    every = StoredObjects(store.root, clock)
    name = asked["metadata"]["name"]
    with contextlib.ExitStack() as claims:

        def is_ours(name: str) -> bool:
            claim = benchmark_object.claim_name(name)
            if not store.claims.claim(claim):
                return False
            claims.callback(store.claims.release, claim)
            return True

        benchmark = None
        candidates = _candidates(every, submission.request, name)
        for one in candidates:
            if (error := stored_objects.error_elsewhere(store, one)) is not None:
                raise error
        for one in candidates:
            if (
                benchmark_object.asks_for_same(asked, one)
                and not one.spec.cancel
                and is_ours(one.name)
            ):
                _check_process(every, one)
                benchmark = _retried(every, one, asked, place)
                break
        if benchmark is None:
            if every.find(name) is not None or not is_ours(name):
                name = objects.drawn_name(submission.planned[0].draft.benchmark)
                is_ours(name)
            asked = {
                **asked,
                "metadata": {**asked["metadata"], "name": name},
                # Another name changes no set.
                "spec": {**asked["spec"], "set": submission.request.joined_set},
            }
            benchmark = every.create(asked, place, private)
        try:
            yield StoredObjects(store.root, clock, names={benchmark.name}), benchmark
        finally:
            with contextlib.suppress(BenchError):  # as if this process were killed
                _leave(every, benchmark)


def _leave(every: StoredObjects, one: Benchmark) -> None:
    """Record that no process reconciles an object any more, so that any machine may collect it."""
    current, stored = every.find(one.name), every.read_stored(one)
    if current is None or stored is None or current.is_over:
        return
    if stored.place.process == processes.this_process():
        left = msgspec.structs.replace(stored.place, process=None)
        every.place(one, left, before=stored.place)


def _candidates(every: StoredObjects, request: SubmitRequest, name: str) -> Sequence[Benchmark]:
    """Return the objects that a submit may ask to be retried, those that are not over first."""
    if request.resume is not None:
        of_set = (one for one in every.list_all() if one.set_name == request.resume)
        return sorted(of_set, key=lambda one: one.is_over)
    found = every.find(name)
    return () if found is None else (found,)


def _check_process(every: StoredObjects, one: Benchmark) -> None:
    """Reject an object whose process lives, although it does not hold it."""
    stored = every.read_stored(one)
    process = None if stored is None else stored.place.process
    if one.is_over or process is None or process.pid == os.getpid():
        return
    if processes.alive(process):
        raise stored_objects.error_of(one, f"as process {process.pid}, which still runs")


def take_over(store: SqlStore, one: Benchmark, agree: Agree, note: Note) -> None:
    """Make this machine the place of an object, if the user agrees.

    Its local runs on another machine are lost. Raises :class:`UsageError` if the user does not
    agree, or a process of this machine has the object.
    """
    every = stored_objects.of_store(store)
    stored = every.read_stored(one)
    if stored is None or one.is_over:
        return
    claim = benchmark_object.claim_name(one.name)
    if not store.claims.claim(claim):
        raise UsageError(
            f"A process of this machine runs Benchmark {one.name}.",
            f"End it with: k8sbench cancel {one.name}",
        )
    try:
        process = stored.place.process
        if process is None or not (processes.is_elsewhere(process) or processes.alive(process)):
            return
        who = f"k8sbench (pid {process.pid} on {process.host})"
        if not agree(
            f"Benchmark {one.name} belongs to {who}. If this machine takes it over while that"
            " process runs, both go on with it."
        ):
            raise UsageError(f"Benchmark {one.name} was not taken over.")
        here = msgspec.structs.replace(stored.place, process=processes.this_process())
        if every.place(one, here, before=stored.place) is None:
            raise UsageError(f"Another k8sbench has taken Benchmark {one.name} over.")
        for run in stored_objects.runs_of(store, one):
            if run.process == process and not run.phase.final:
                mark_lost(store, run, now=connections.now())
        note(f"Benchmark {one.name} belongs to this machine now.")
    finally:
        store.claims.release(claim)


def _retried(
    every: StoredObjects, one: Benchmark, asked: Mapping[str, Any], place: ObjectPlace
) -> Benchmark | None:
    """Make this process the one that reconciles an object, and have it retried."""
    before = every.read_stored(one)
    if before is None or every.place(one, place, before=before.place) is None:
        return None
    spec = asked["spec"]
    return every.change(
        one,
        lambda current: {
            "retry": current.spec.retry + 1,
            "parallel": spec.get("parallel"),
            "keep": spec.get("keep"),
        },
    )


def _asked(submission: Submission) -> tuple[ObjectPlace, PrivateOptions, Mapping[str, Any]]:
    """Return where a submit runs, what this machine alone understands, and its object."""
    request, planned = submission.request, submission.planned
    api = submission.target.api
    request, private = stored_object.split_request(request)
    if planned[0].benchmark_file:
        path = str(Path(request.benchmark).absolute())
        private = msgspec.structs.replace(private, benchmark=path)
    access = ClusterAccess()
    if api is not None:
        there = api.place
        access = ClusterAccess(
            namespace=there.namespace, context=there.context, kubeconfig=there.kubeconfig
        )
    place = ObjectPlace(
        backend="local" if api is None else "kubernetes",
        access=access,
        process=processes.this_process(),
    )
    asked = submission.asked or _object_of(planned, request, submission)
    return place, private, asked


def _object_of(
    planned: Sequence[PlannedCase], request: SubmitRequest, submission: Submission
) -> Mapping[str, Any]:
    """Return the object; a run's name that no object may have is not its name."""
    run_id = request.run_id
    if run_id is not None and len(run_id) > LONGEST_NAME:
        request = msgspec.structs.replace(request, run_id=None)
    return objects.object_of(planned, request, nodes=submission.nodes, name=submission.name)
