"""Client of the collector: its runs, merged with the local store's.

After everything else is read, the collector has two seconds left to answer. If it is unreachable, a
note says so and the local runs are shown alone; ``--store cluster`` makes that an error.
"""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec

from k8sbench.app import connections, records
from k8sbench.app.records import RunStatus
from k8sbench.lifecycle.context import in_thread
from k8sbench.lifecycle.gathering import is_owed
from k8sbench.model.errors import BenchError, NotFound, Unreachable, is_refused
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.model.run import Baseline, Run

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.adapters.kubernetes.collectors import CollectorProxy

T = TypeVar("T")

SECONDS = 2.0
"""Timeout of the collector's answer, after everything else is read."""
INSIST_SECONDS = 10.0
"""The same timeout if no other data are shown."""
LOG_SECONDS = 30.0
"""Until the next piece of a log must come."""
SOURCE = "collector"
"""The source of its runs."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class _File(msgspec.Struct):
    """Fields read from an entry of ``/artifacts``."""

    name: str
    bytes: int


# Made once, here: msgspec crashes where two threads are the first to use a type.
_RUN = msgspec.json.Decoder(RunStatus)
_RUNS = msgspec.json.Decoder(list[RunStatus])
_FILES = msgspec.json.Decoder(list[_File])
_BASELINES = msgspec.json.Decoder(list[Baseline])


class CollectorRequest(Generic[T]):
    """Request to a collector, running in a thread."""

    def __init__(
        self, access: ClusterAccess, read: Callable[[CollectorProxy], T], *, insist: bool = False
    ) -> None:
        self._seconds = INSIST_SECONDS if insist else SECONDS
        self._insist, self._read = insist, read
        self._answer: Future[T | None] | None = None
        if insist or connections.configured(access):
            self._answer = in_thread(lambda: self._ask(access), "collector")

    def _ask(self, access: ClusterAccess) -> T | None:
        with opened(access, self._seconds) as collector:
            if collector is not None:
                with _understood():
                    return self._read(collector)
        if self._insist:
            raise Unreachable(
                "There is no collector in the namespace.",
                "Name its namespace with -n, or install it with the chart.",
            )
        return None

    def answer(
        self,
        note: Callable[[str], None],
        *,
        without: Callable[[], str] = lambda: "the runs of a collector",
        parts: Callable[[], int] = lambda: 0,
    ) -> T | None:
        """Return the answer; None if there is no reachable collector.

        A failure is noted together with ``without``, the data missing from the output. With
        ``insist`` it raises :class:`Unreachable`, and the wait goes on as long as more ``parts``
        arrive.
        """
        if self._answer is None:
            return None
        arrived = 0
        while True:
            try:
                return self._answer.result(self._seconds)
            except TimeoutError:
                if self._insist and parts() > arrived:
                    arrived = parts()
                    continue
                wrong: BenchError = Unreachable(
                    f"It has not answered in {self._seconds:g} s.", "Try again."
                )
            except BenchError as fault:
                wrong = fault
            if self._insist:
                raise Unreachable(f"The collector cannot be read: {wrong.message}", wrong.action)
            note(f"note: without {without()}: {wrong.message}")
            return None


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Make an error of an answer that this version cannot read; :class:`Unreachable`."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise Unreachable(
            f"Its answer is not one that this version of k8sbench reads ({error}).",
            "Use the version of k8sbench that the collector has.",
        ) from error


class CollectorRunsRequest:
    """Paged request for a collector's runs, newest first.

    Optionally of one benchmark or framework.
    """

    def __init__(
        self,
        access: ClusterAccess,
        *,
        benchmark: str | None = None,
        framework: str | None = None,
        insist: bool = False,
    ) -> None:
        query = {"detail": "status", "benchmark": benchmark, "framework": framework}
        self._query = {name: value for name, value in query.items() if value is not None}
        self._insist = insist
        self._pages: list[list[RunStatus]] = []
        self._is_enough = False
        self._asked = CollectorRequest(access, self._read, insist=insist)

    def runs(self, note: Callable[[str], None]) -> list[Run]:
        """Return the runs, oldest first; note if older ones are missing."""
        self._asked.answer(note, without=self._missing, parts=lambda: len(self._pages))
        self._is_enough = True
        by_id = {status.run_id: status for page in list(self._pages) for status in page}
        runs = sorted(by_id.values(), key=lambda status: (status.created_at, status.run_id))
        return [as_run(status) for status in runs]

    def _missing(self) -> str:
        if not self._pages:
            return "the runs of a collector"
        oldest = datetime.datetime.fromtimestamp(_oldest(self._pages[-1]), datetime.UTC)
        more = "" if self._insist else "--store cluster waits for all, "
        before = f"those created before {oldest:%Y-%m-%dT%H:%M:%SZ}"
        return f"some runs of a collector, {before} ({more}--benchmark asks for fewer)"

    def _read(self, there: CollectorProxy) -> None:
        known, given = set[str](), self._query | {"limit": f"{records.PAGE}"}
        while not self._is_enough:
            page = _RUNS.decode(there.read("runs", dict(given)) or b"[]")
            new = {status.run_id for status in page} - known
            self._pages.append(page)
            known |= new
            if not new or len(page) < records.PAGE:
                return
            # The oldest one comes again: another may have been created at the same time.
            given["until"] = repr(_oldest(page))


def _oldest(page: Sequence[RunStatus]) -> float:
    return min(status.created_at for status in page)


def run(
    access: ClusterAccess, text: str, note: Callable[[str], None], *, insist: bool = False
) -> Run | None:
    """Return the run with this id or unique id prefix.

    Returns None if there is none; with ``insist`` that raises :class:`NotFound`.
    """

    there = CollectorRequest(access, partial(_run, text), insist=insist).answer(note)
    if there is None and insist:
        raise NotFound(f"The collector has no such run: {text}.")
    return there


def _run(text: str, there: CollectorProxy) -> Run | None:
    answer = there.read(f"runs/{text}", {})
    return None if answer is None else as_run(_RUN.decode(answer))


def baselines(access: ClusterAccess, *, insist: bool = False) -> CollectorRequest[list[Baseline]]:
    """Ask for the baselines; none of a collector that knows no such."""
    return CollectorRequest(
        access,
        lambda there: _BASELINES.decode(there.read("baselines", {}) or b"[]"),
        insist=insist,
    )


def copied(
    access: ClusterAccess, run_id: str, folder: Path, *kinds: Literal["logs", "gpu", ""]
) -> list[Path]:
    """Copy a run's files from a collector into a folder.

    These are its logs, GPU series or other files (``""``). Returns the copies; raises
    :class:`BenchError`.
    """
    from k8sbench.adapters.kubernetes.client.faults import ApiFault
    from k8sbench.adapters.store import disk

    copies = []
    with opened(access, LOG_SECONDS) as collector:
        if collector is None:
            return []
        files = collector.read(f"runs/{run_id}/artifacts", {}) or b"[]"
        with _understood():
            entries = _FILES.decode(files)
        for entry in entries:
            kind, _, name = entry.name.rpartition("/")
            if kind not in kinds or _FILE_NAME.fullmatch(name) is None:
                continue
            path = folder / kind / name
            disk.make_folder(path.parent)
            copies.append(path)
            try:
                with disk.create(path, "wb") as out:
                    if entry.bytes:
                        out.writelines(collector.pieces(f"runs/{run_id}/artifacts/{entry.name}"))
            except ApiFault as fault:
                raise Unreachable(
                    f"The collector's file {entry.name} of run {run_id} cannot be read:"
                    f" {fault.message.rstrip('.')}.",
                    "Try again.",
                ) from fault
    return copies


def collected_elsewhere(access: ClusterAccess, run: Run, folder: Path) -> Run | None:
    """Return the collector's record of a run, and copy its files.

    Returns None if this user may read no collector, or it does not know the run. Raises
    :class:`Unreachable` if it does not answer, still follows the run, or is still fetching its GPU
    metrics.
    """
    there = connections.access_to(run.location, access)
    if not connections.configured(there):
        return None
    try:
        with opened(there, INSIST_SECONDS) as collector, _understood():
            theirs = None if collector is None else _run(run.run_id, collector)
        if theirs is not None and (theirs.attempt < run.attempt or theirs.is_collected_elsewhere):
            return None  # of the attempts before it was continued, or taken over from it
        is_complete = theirs is not None and theirs.is_closed and not is_owed(theirs)
        if is_complete:
            copied(there, run.run_id, folder, "logs", "gpu")
    except BenchError as error:
        if is_refused(error):
            return None
        raise
    except OSError as error:
        raise Unreachable(f"Its files cannot be copied: {error.strerror}.", "Try again.") from error
    if theirs is not None and not is_complete:
        raise Unreachable("The collector follows it still.", "Collect it again later.")
    return theirs


@contextlib.contextmanager
def opened(access: ClusterAccess, seconds: float = SECONDS) -> Iterator[CollectorProxy | None]:
    """Give the collector of a namespace; None where it has none."""
    from k8sbench.adapters.kubernetes.collectors import CollectorProxy

    api: Api = connections.connect(access)
    with contextlib.closing(api):
        api.retry_s = seconds
        collector = CollectorProxy(api)
        yield collector if collector.is_there() else None


def as_run(status: RunStatus) -> Run:
    """Make of its answer the run that it has."""
    return Run(
        plan=status.plan,
        created_at=status.created_at,
        owner=None,
        history=status.history,
        artifacts=None,
        artifacts_missing="The collector has its files: k8sbench logs " + status.run_id,
        measurement=status.measurement,
        image_digest=status.image_digest,
        location=status.location,
        wishes=status.wishes,
        source=SOURCE,
    )


def may_know_more(ours: Run) -> bool:
    """Return True if a collector may know more about a run."""
    return ours.plan.backend == "kubernetes" and _known(ours) < (False, True)


def knows_more(theirs: Run, ours: Run | None) -> bool:
    """Return True if the collector's record should replace ours."""
    return ours is None or _known(theirs) > _known(ours)


def merged(ours: Sequence[Run], theirs: Sequence[Run]) -> tuple[list[Run], set[str]]:
    """Merge both stores' runs, oldest first, without duplicates.

    Also returns the ids of the runs taken from the collector.
    """
    by_id = {run.run_id: run for run in ours}
    added = {run.run_id: run for run in theirs if knows_more(run, by_id.get(run.run_id))}
    both = sorted((by_id | added).values(), key=lambda run: (run.created_at, run.run_id))
    return both, set(added)


def _known(run: Run) -> tuple[bool, bool]:
    return run.measurement is not None, run.phase.final and run.phase is not Phase.LOST
