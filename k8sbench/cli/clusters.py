"""How commands reach a cluster: the options that name it, and the world of runs on it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from k8sbench.cli.commands import reading
from k8sbench.cli.terminal import output
from k8sbench.model.errors import BenchError, NotFound, UsageError
from k8sbench.model.identity import TOKEN_LENGTH, TOKEN_LETTERS, draw_run_id, draw_set_name
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Location, Run
from k8sbench.runs import collecting, records, unrecorded
from k8sbench.runs.world import Stop, World

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster
    from k8sbench.adapters.kubernetes.sharing import User
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.model.sample import LogGap
    from k8sbench.ports import Cluster, FoundJob, Store

F = TypeVar("F", bound=Callable[..., Any])
GLIMPSE_SECONDS = 5.0
"""For the first answer of a cluster that is only looked at."""
LOOK_SECONDS = 10.0
"""For each further answer of such a one."""
SILENT_SECONDS = 2.0
"""For the first answer of one with which there is more to do, until a word is said."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster and namespace were named on the command line."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    @property
    def named(self) -> bool:
        """Whether anything was."""
        return self != Access()


_OPTIONS = (
    click.option("-n", "--namespace", metavar="NAME", help="Namespace; default: the context's."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig; default: kubectl's."),
)


def access_options(function: F) -> F:
    """Add kubectl's options to a command; it receives them as ``access``."""

    @functools.wraps(function)
    def command(
        *, namespace: str | None, context: str | None, kubeconfig: str | None, **rest: Any
    ) -> Any:
        access = Access(
            namespace=namespace,
            context=context,
            kubeconfig=None if kubeconfig is None else str(Path(kubeconfig).absolute()),
        )
        return function(access=access, **rest)

    wrapped: Any = command
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    result: F = wrapped
    return result


def connect(access: Access) -> Api:
    """Reach the cluster that was named, or the current one; nothing is asked of it yet."""
    from k8sbench.adapters.kubernetes.client import connection

    return connection.connect(
        kubeconfig=access.kubeconfig, context=access.context, namespace=access.namespace
    )


def of_location(location: Location, access: Access) -> Api:
    """Reach the cluster on which a run's job is; what was typed comes first."""
    return connect(
        Access(
            namespace=access.namespace or location.namespace,
            context=access.context or location.context,
            kubeconfig=access.kubeconfig or location.kubeconfig,
        )
    )


@contextlib.contextmanager
def cluster_of(
    run: Run,
    access: Access,
    *,
    keep: bool = False,
    store: SqlStore | None = None,
    say: Callable[[str], None] = output.note,
) -> Iterator[KubernetesCluster]:
    """Give the cluster of a run; refuses a local one, and a place where it is not.

    ``store`` as :func:`opened`.
    """
    api = _api_of(run, access)
    say_if_silent(api, say)
    with opened(api, keep=keep, store=store) as cluster:
        collecting.check_place(run, cluster, api.place)
        yield cluster


@contextlib.contextmanager
def glimpse_of(run: Run, access: Access) -> Iterator[KubernetesCluster]:
    """Give the cluster of a run to look at it once: :func:`cluster_of` and :func:`glimpsed`."""
    with glimpsed(_api_of(run, access)) as cluster:
        collecting.check_place(run, cluster, cluster.api.place)
        yield cluster


def _api_of(run: Run, access: Access) -> Api:
    if run.plan.backend != "kubernetes":
        raise UsageError(
            f"Run {run.run_id} is a local one; it has nothing on a cluster.",
            f"See: k8sbench status {run.run_id}",
        )
    location = run.location or Location(server="", namespace=access.namespace or "default")
    return of_location(location, access)


@contextlib.contextmanager
def opened(
    api: Api, *, keep: bool = False, waits: bool = False, store: SqlStore | None = None
) -> Iterator[KubernetesCluster]:
    """Open the cluster behind a connection; lets go of both at the end.

    With ``waits`` the jobs that are created wait even for what cannot come by itself. ``store`` is
    where jobs are followed into: they stay while other stores need them, too.
    """
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    user = None if store is None else _user(store, keep=keep)
    with contextlib.closing(api):
        cluster = KubernetesCluster(api, keep=keep, waits=waits, user=user)
        try:
            yield cluster
        finally:
            cluster.close()


@contextlib.contextmanager
def glimpsed(api: Api) -> Iterator[KubernetesCluster]:
    """Open a cluster to look at it once: one that does not answer soon is an error soon."""
    from k8sbench.adapters.kubernetes.cluster import KubernetesCluster

    with contextlib.closing(api):
        wrong = silence(api, GLIMPSE_SECONDS)
        if wrong is not None:
            raise wrong
        api.patience = LOOK_SECONDS
        yield KubernetesCluster(api)


def silence(api: Api, seconds: float) -> BenchError | None:
    """Say why an API server does not answer; None where it does, be it with a refusal."""
    fault = api.no_answer(seconds)
    if fault is None or (fault.status is not None and not fault.passes):
        return None
    return api.explained(fault, "its version be read")


def say_if_silent(api: Api, say: Callable[[str], None] = output.note) -> None:
    """Say that the API server does not answer: what is asked of it next is tried for a while."""
    fault = api.no_answer(SILENT_SECONDS)
    if fault is not None and fault.passes:
        say(f"The API server does not answer ({fault.message}); trying on.")


def world(
    store: Store, cluster: Cluster, *, location: Location | None = None, accept: Sequence[str] = ()
) -> World:
    """Put together what runs need of the outside."""
    from k8sbench.adapters import processes

    return World(
        store=store,
        cluster=cluster,
        clock=time.time,
        owner=None if cluster.jobs_outlive_us else processes.this_process(),
        alive=processes.alive,
        draw_run_id=lambda benchmark: draw_run_id(benchmark, at=time.time(), token=_token()),
        measure=functools.partial(_measure, store, accept),
        location=location,
    )


def run_of(store: Store, text: str, access: Access) -> Run:
    """Find a run by its id, or a unique beginning of one, in the store; else on the cluster.

    A job that somebody else submitted is recorded here, by what it says of itself.
    """
    try:
        return records.find(store, text, alive=reading.alive(), now=reading.now())
    except NotFound as missing:
        try:
            job, here = _stranger(store, text, access, missing)
        except NotFound:
            # Another process of this store may have recorded it just now.
            with contextlib.suppress(NotFound):
                return records.find(store, text, alive=reading.alive(), now=reading.now())
            raise
        return collecting.recorded(job, here)


def ids_of(store: Store, texts: Sequence[str], access: Access) -> list[str]:
    """Find several runs as :func:`run_of` does, each once; all before the first is touched."""
    return list(dict.fromkeys(run_of(store, text, access).run_id for text in texts))


def look_up(store: Store, text: str, access: Access) -> tuple[Run, bool]:
    """Find a run as :func:`run_of` does, and say whether it is recorded; records nothing."""
    try:
        return records.find(store, text, alive=reading.alive(), now=reading.now()), True
    except NotFound as missing:
        job, here = _stranger(store, text, access, missing)
        assert here.location is not None
        return unrecorded.as_run(job, here.location), False


def _stranger(store: Store, text: str, access: Access, missing: NotFound) -> tuple[FoundJob, World]:
    """Find the job of a run that the store does not know; gives where it would be recorded.

    A cluster that nobody named need not answer: then there is no such run, and what hindered the
    search is said.
    """
    if not configured(access):
        raise missing
    try:
        with glimpsed(connect(access)) as cluster:
            place = cluster.api.place
            here = world(store, cluster, location=place)
            jobs = cluster.jobs()
    except BenchError as wrong:
        if access.named:
            raise
        why = f"The cluster was not asked: {wrong.message}"
        raise NotFound(missing.message, f"{missing.action} {why}") from wrong
    known = store.ids()
    return unrecorded.named(unrecorded.among(jobs, known), text, known, place), here


def new_set_name() -> str:
    """Draw the name of a set that is opened now."""
    return draw_set_name(at=time.time(), token=_token())


@contextlib.contextmanager
def stopping() -> Iterator[Stop]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into one orderly end; a second one is a kill."""
    causes = {
        signal.SIGINT: "Interrupted (Ctrl-C)",
        signal.SIGTERM: "Interrupted (SIGTERM)",
        signal.SIGHUP: "Interrupted (terminal closed)",
    }
    stop = Stop()
    before: dict[signal.Signals, Any] = {}

    def handler(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if stop.cause is not None:
            raise KeyboardInterrupt
        stop(causes[signal.Signals(number)])

    for number in causes:
        before[number] = signal.signal(number, handler)
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def configured(access: Access) -> bool:
    """Whether there is any sign of a cluster: a kubeconfig, or a pod's own service account."""
    named = access.kubeconfig or os.environ.get("KUBECONFIG")
    if access.named or named:
        return True
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return True
    try:
        return (Path.home() / ".kube" / "config").exists()
    except (OSError, RuntimeError):
        return False


def _measure(store: Store, accept: Sequence[str], run: Run, gaps: Sequence[LogGap]) -> Measurement:
    from k8sbench.adapters.files.log_files import LogFile
    from k8sbench.runs import measuring

    logs = [LogFile(str(path), path.name) for path in store.log_files(run.run_id)]
    return measuring.measure_run(run, logs, accept=accept, gaps=gaps)


def _user(store: SqlStore, *, keep: bool) -> User:
    from k8sbench.adapters.kubernetes.sharing import User

    host = platform.node()
    # As far as claims reach: of two machines each counts, be it the same folder.
    place = f"{host}\n{store.root.resolve()}".encode()
    return User(store=hashlib.sha256(place).hexdigest()[:10], host=host, keep=keep)


def _token() -> str:
    return "".join(random.SystemRandom().choices(TOKEN_LETTERS, k=TOKEN_LENGTH))
