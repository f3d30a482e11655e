"""``data``: which sets there are; drawn, prepared and checked in a folder here or on a claim.

All work is done by the trainers' own program, as a process beside us or as a Job of Kubernetes;
what it prints comes back as :class:`Said`, line by line.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.app import catalog, connections, targets
from k8sbench.model.data_set import DATA_SETS, KnownDataSet, data_set
from k8sbench.model.errors import InputError, Interrupted, JobFailed, TimedOut, UsageError
from k8sbench.model.limits import LOOK_SECONDS
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.request import ClusterAccess
from k8sbench.render.claims import Claim
from k8sbench.render.data_job import DataJob

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.model.pool import NodePool
    from k8sbench.runs.context import Stop

__all__ = ["ClusterAccess", "ConvertedWeights", "KnownDataSet"]

PROGRAM = "k8sbench.trainers.prepare_data"
CONVERTER = "k8sbench.trainers.convert_weights"
PREFIX = "K8SBENCH "
DAY_SECONDS = 86_400
"""Time limit of a Job, unless another is given."""
Action = Literal["make-sample", "check", "prepare"]


class Said(msgspec.Struct, frozen=True):
    """One line of the program; see ``k8sbench/trainers/prepare/said.py``."""

    event: str
    """``note``, ``progress``, ``missing``, ``failed`` or ``end``."""
    text: str = ""
    action: str = ""
    step: str = ""
    done: int = 0
    total: int | None = None
    unit: str = "bytes"
    problems: int | None = None
    code: int = 3
    """Of ``failed``: 2 where the input is wrong."""


Tell = Callable[[Said], None]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with a data set, and where."""

    action: Action
    data_set: str
    place: str
    """A folder of this machine, or ``pvc:NAME[/SUB]``."""
    words: tuple[str, ...] = ()
    """More words of the program."""
    access: ClusterAccess = ClusterAccess()
    image: str | None = None
    """None: the public image of PyTorch, which has numpy and Pillow."""
    secret: str | None = None
    node_pool: str | None = None
    pools_file: str | None = None
    seconds: int = DAY_SECONDS
    """After which a Job is ended."""


class ListedDataSet(KnownDataSet, frozen=True, kw_only=True):
    """One data set of ``data list``, with the archive that a report used."""

    archive: str | None = None
    """The archive that the benchmark's reports used; None where they name none."""
    md5: str | None = None
    """Of that archive, as the report gives it; None where it gives none."""


class DataSetList(msgspec.Struct, frozen=True, kw_only=True):
    """What ``data list -o json`` prints."""

    schema: int = SCHEMA
    """Version of the document."""
    data_sets: tuple[ListedDataSet, ...]
    """In the order of the table of ``k8sbench data list``."""


class ConvertedWeights(msgspec.Struct, frozen=True):
    """What ``data convert`` made."""

    kind: str
    tensors: int
    digest: str
    source_digest: str
    verified: bool
    """Whether the published file's name carries its checksum, and it was right."""


def listed() -> DataSetList:
    """Return the data sets, with the archives that the reports used."""
    archives = {
        spec.name: variant.data_set
        for spec in (loaded.spec for loaded in catalog.benchmarks())
        for variant in spec.variants
        if variant.data_set is not None
    }

    def entry(data_set: KnownDataSet) -> ListedDataSet:
        known = archives.get(data_set.benchmarks[0])
        return ListedDataSet(
            **msgspec.structs.asdict(data_set),
            archive=known.file if known else None,
            md5=known.md5 if known else None,
        )

    return DataSetList(data_sets=tuple(map(entry, DATA_SETS)))


def run(task: Task, stop: Stop, tell: Tell) -> int:
    """Carry a task out; returns 0 where all is there and 2 where something is missing.

    Raises :class:`Interrupted`, and another :class:`BenchError` where it failed.
    """
    data_set(task.data_set)
    watched = _Watched(tell)
    with stop:
        if task.place.startswith("pvc:"):
            _on_claim(task, stop, watched)
        else:
            _here(task, stop, watched)
    return watched.code()


def convert(source: str, target: str, stop: Stop) -> ConvertedWeights:
    """Convert published weights to a file of start weights; raises :class:`InputError`."""
    from k8sbench.adapters.local import program

    with stop, program.running(CONVERTER, (source, target)) as process:
        assert process.stdout is not None
        lines = ["", *_until(process.stdout, stop)]
        if stop.cause is not None:
            raise Interrupted(f"{stop.cause}; nothing was written.")
        code = process.wait()
    if code:
        why = lines[-1].strip().removeprefix("k8sbench: error: ")
        raise InputError(f"{source} is not converted: {why}.", "docs/data.md says what is taken.")
    return msgspec.json.decode(lines[-1], type=ConvertedWeights)


class _Watched:
    """Reads what the program prints, and remembers how it ended."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last: Said | None = None

    def line(self, text: str) -> None:
        """Take one line; what is none of the program's events is shown as it is."""
        said = Said(event="note", text=text.rstrip())
        if text.startswith(PREFIX):
            with contextlib.suppress(msgspec.MsgspecError):
                said = msgspec.json.decode(text.removeprefix(PREFIX), type=Said)
        self.take(said)

    def take(self, said: Said) -> None:
        """Take one event."""
        if said.event in {"failed", "end"}:
            self._last = said
        else:
            self._tell(said)

    def code(self) -> int:
        """Return the exit code; raises what the program said that it failed by."""
        if self._last is None:
            raise JobFailed("The program ended without a result.", "The lines above say why.")
        if self._last.event == "failed":
            kind = UsageError if self._last.code == UsageError.exit_code else JobFailed
            raise kind(self._last.text, self._last.action)
        return 2 if self._last.problems else 0


def _here(task: Task, stop: Stop, watched: _Watched) -> None:
    from k8sbench.adapters.local import program

    if task.secret is not None:
        raise UsageError(
            "--secret names a Secret of a cluster, and the folder is on this machine.",
            "Set the variables that docs/data.md names.",
        )
    words = (task.action, task.data_set, str(Path(task.place).absolute()), *task.words)
    with program.running(PROGRAM, words) as process:
        assert process.stdout is not None
        for line in _until(process.stdout, stop):
            watched.line(line)
        if stop.cause is not None:
            raise Interrupted(
                f"{stop.cause}; the program on this machine was ended.",
                "The same command continues with what is there.",
            )


def _on_claim(task: Task, stop: Stop, watched: _Watched) -> None:
    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.adapters.kubernetes import data_jobs
    from k8sbench.render import data_job

    def note(text: str) -> None:
        watched.take(Said(event="note", text=text))

    claim = Claim.parse(task.place, f"{task.place!r} names no claim.")
    api = connections.connect(task.access)
    with contextlib.closing(api):
        connections.note_silence(api, note)
        job = DataJob(
            action=task.action,
            data_set=task.data_set,
            claim=claim,
            words=task.words,
            image=task.image or catalog.images().image("pytorch", "public").name,
            secret=task.secret,
            pool=_pool(task, api),
            seconds=task.seconds,
        )
        objects = data_job.manifests(
            job, templates=templates.load(), trainers=trainer_sources.read()
        )
        data_jobs.check_claim(api, claim.name, writes=task.action != "check")
        where = f"{job.name} in namespace {api.place.namespace}"
        if data_jobs.start(api, objects):
            note(f"Created Job {where}, image {job.image}.")
        else:
            note(f"Job {where} is at work already; following it.")
        try:
            for line in _until(data_jobs.follow(api, job.name, note), stop):
                watched.line(line)
        except (JobFailed, TimedOut):
            data_jobs.remove(api, job.name)
            raise
        if stop.cause is not None:
            raise Interrupted(
                f"{stop.cause}; the Job {where} goes on.",
                "To follow it again, give the same command.",
            )
        data_jobs.remove(api, job.name)


def _pool(task: Task, api: Api) -> NodePool | None:
    if task.node_pool is None:
        return None
    from k8sbench.adapters.files import pools

    published = functools.partial(targets.cluster_pools, api)
    return pools.load(task.pools_file, published=published).pool(task.node_pool)


def _until(lines: Iterable[str], stop: Stop) -> Iterator[str]:
    """Yield lines as they come, until they end or a stop is asked for, whichever is first."""
    come: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()

    def pump() -> None:
        try:
            for line in lines:
                come.put(line)
        except BaseException as error:
            come.put(error)
        else:
            come.put(None)

    threading.Thread(target=pump, daemon=True, name="data-lines").start()
    while stop.cause is None:
        try:
            item = come.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
