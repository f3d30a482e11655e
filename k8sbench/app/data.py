"""``data``: which sets there are; drawn, prepared and checked in a folder here or on a claim.

All work is done by the trainers' own program, as a process beside us or as a Job of Kubernetes;
each line that it prints is passed on.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from k8sbench.app import catalog, connections, targets
from k8sbench.lifecycle.pool import in_thread
from k8sbench.model.data_set import DATA_SETS, KnownDataSet, data_set
from k8sbench.model.errors import InputError, Interrupted, JobFailed, TimedOut, UsageError
from k8sbench.model.limits import LOOK_SECONDS
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.request import ClusterAccess
from k8sbench.render.claims import Claim
from k8sbench.render.data_job import DataJob

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.lifecycle.context import Stop
    from k8sbench.model.pool import NodePool

__all__ = ["ClusterAccess", "ConvertedWeights", "KnownDataSet"]

PROGRAM = "k8sbench.trainers.prepare_data"
CONVERTER = "k8sbench.trainers.convert_weights"
DAY_SECONDS = 86_400
"""Time limit of a Job, unless another is given."""
Action = Literal["make-sample", "check", "prepare"]
Tell = Callable[[str], None]


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
    """Carry a task out, and tell what its program prints; returns the program's exit code.

    It is 0 where all is there, 2 where something is missing or the input is wrong, and 3 where the
    task could not be completed. Raises :class:`Interrupted`, and another :class:`BenchError` where
    the program did not come to its end.
    """
    data_set(task.data_set)
    with stop:
        if task.place.startswith("pvc:"):
            return _on_claim(task, stop, tell)
        return _here(task, stop, tell)


def convert(source: str, target: str, stop: Stop) -> ConvertedWeights:
    """Convert published weights to a file of start weights; raises :class:`InputError`."""
    from k8sbench.adapters.local import program

    lines = [""]
    with stop, program.running(CONVERTER, (source, target)) as process:
        code = _until(in_thread(lambda: program.read(process, lines.append), "data"), stop)
    if code is None:
        raise Interrupted(f"{stop.cause}; nothing was written.")
    if code:
        why = lines[-1].strip().removeprefix("k8sbench: error: ")
        raise InputError(f"{source} is not converted: {why}.", "docs/data.md says what is taken.")
    return msgspec.json.decode(lines[-1], type=ConvertedWeights)


def _here(task: Task, stop: Stop, tell: Tell) -> int:
    from k8sbench.adapters.local import program

    if task.secret is not None:
        raise UsageError(
            "--secret names a Secret of a cluster, and the folder is on this machine.",
            "Set the variables that docs/data.md names.",
        )
    words = (task.action, task.data_set, str(Path(task.place).absolute()), *task.words)
    with program.running(PROGRAM, words) as process:
        code = _until(in_thread(lambda: program.read(process, tell), "data"), stop)
    if code is None:
        raise Interrupted(
            f"{stop.cause}; the program on this machine was ended.",
            "The same command continues with what is there.",
        )
    if code not in {0, 2, 3}:
        raise JobFailed(f"The program ended with exit code {code}.", "The lines above say why.")
    return code


def _on_claim(task: Task, stop: Stop, tell: Tell) -> int:
    from k8sbench.adapters.files import templates, trainer_sources
    from k8sbench.adapters.kubernetes import data_jobs
    from k8sbench.render import data_job

    claim = Claim.parse(task.place, f"{task.place!r} names no claim.")
    with contextlib.closing(connections.connect(task.access)) as api:
        connections.note_silence(api, tell)
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
            tell(f"Created Job {where}, image {job.image}.")
        else:
            tell(f"Job {where} is at work already; following it.")
        try:
            code = _until(in_thread(lambda: data_jobs.follow(api, job.name, tell), "data"), stop)
        except (JobFailed, TimedOut):
            data_jobs.remove(api, job.name)
            raise
        if code is None:
            raise Interrupted(
                f"{stop.cause}; the Job {where} goes on.",
                "To follow it again, give the same command.",
            )
        data_jobs.remove(api, job.name)
    return code


def _pool(task: Task, api: Api) -> NodePool | None:
    if task.node_pool is None:
        return None
    from k8sbench.adapters.files import pools

    published = functools.partial(targets.cluster_pools, api)
    return pools.load(task.pools_file, published=published).pool(task.node_pool)


def _until(code: Future[int], stop: Stop) -> int | None:
    """Wait for an exit code; None: a stop was asked for before there was one."""
    while stop.cause is None:
        with contextlib.suppress(TimeoutError):
            return code.result(LOOK_SECONDS)
    return None
