"""``data``: which sets there are; drawn, prepared and checked in a folder here or on a claim.

All work is done by the trainers' own program. For a folder of this machine it is a process beside
us, for a claim a Job of Kubernetes; each line that it prints is passed on.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.app import catalog, connections, targets
from k8sbench.lifecycle.pool import in_thread
from k8sbench.model.data_set import DataTask, KnownDataSet, data_set
from k8sbench.model.errors import InputError, Interrupted, JobFailed, UsageError
from k8sbench.model.limits import LOOK_SECONDS
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.pool import CPU_POOL
from k8sbench.ports import Manifest

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.api import Api
    from k8sbench.lifecycle.context import Stop

__all__ = ["ConvertedWeights", "KnownDataSet"]

PROGRAM = "k8sbench.trainers.prepare_data"
CONVERTER = "k8sbench.trainers.convert_weights"
Tell = Callable[[str], None]


class DataSetList(msgspec.Struct, frozen=True, kw_only=True):
    """What ``data list -o json`` prints."""

    schema: int = SCHEMA
    """Version of the document."""
    data_sets: tuple[KnownDataSet, ...]
    """In the order of the table of ``k8sbench data list``."""


class ConvertedWeights(msgspec.Struct, frozen=True):
    """What ``data convert`` made."""

    kind: str
    tensors: int
    digest: str
    verified: bool
    """Whether the published file's name carries its checksum, and it was right."""


def run(task: DataTask, stop: Stop, tell: Tell) -> int:
    """Carry out a task, and tell what its program prints; returns its exit code.

    It is 0 where all is there, 2 where something is missing or the input is wrong, and 3 where the
    task could not be completed. Raises :class:`Interrupted`, and another :class:`BenchError` where
    the program did not come to its end.
    """
    data_set(task.data_set)
    if task.place.startswith("pvc:"):
        return _on_claim(task, stop, tell)
    if task.secret is not None:
        raise UsageError(
            "--secret names a Secret of a cluster, and the folder is on this machine.",
            "Set the variables that docs/data.md names.",
        )
    words = (task.action, task.data_set, str(Path(task.place).absolute()), *task.words)
    code = _exit_code(PROGRAM, words, stop, tell)
    if code is None:
        raise Interrupted(
            f"{stop.cause}; the program on this machine was ended.",
            "The same command continues with what is there.",
        )
    if code not in {0, 2, 3}:
        raise JobFailed(f"The program ended with exit code {code}.", "The lines above say why.")
    return code


def _on_claim(task: DataTask, stop: Stop, tell: Tell) -> int:
    from k8sbench.adapters.kubernetes import data_jobs

    with stop, contextlib.closing(connections.connect(task.access)) as api:
        connections.await_answer(api, tell)
        job, is_new = data_jobs.start(api, _job(task, api))
        where = f"Job {job['metadata']['name']} in namespace {api.place.namespace}"
        tell(f"Created {where}." if is_new else f"{where} is there already; following it.")
        code = _until(lambda: data_jobs.follow(api, job, tell), stop)
        if code is None:
            raise Interrupted(
                f"{stop.cause}; {where} goes on.", "To follow it again, give the same command."
            )
    return code


def _job(task: DataTask, api: Api) -> Manifest:
    """Return the Job that carries out a task on a claim."""
    from k8sbench.adapters.files import packaged, pools
    from k8sbench.render import data_job

    pool = CPU_POOL  # of any node
    if task.node_pool is not None:
        published = functools.partial(targets.cluster_pools, api)
        pool = pools.load(task.pools_file, published=published).pool(task.node_pool)
    return data_job.manifest(
        task,
        image=task.image or catalog.images().image("pytorch", "public").name,
        pool=pool,
        templates=packaged.load_templates(),
        trainers=packaged.trainer_sources(),
    )


def convert(source: str, target: str, stop: Stop) -> ConvertedWeights:
    """Convert published weights to a file of start weights; raises :class:`InputError`."""
    lines = [""]
    code = _exit_code(CONVERTER, (source, target), stop, lines.append)
    if code is None:
        raise Interrupted(f"{stop.cause}; nothing was written.")
    if code:
        why = lines[-1].strip().removeprefix("k8sbench: error: ")
        raise InputError(f"{source} is not converted: {why}.", "docs/data.md says what is taken.")
    return msgspec.json.decode(lines[-1], type=ConvertedWeights)


def _exit_code(module: str, words: Sequence[str], stop: Stop, tell: Tell) -> int | None:
    """Run one of the trainers' programs; None: a stop was asked for before it ended."""
    from k8sbench.adapters.local import program

    with stop, program.running(module, words) as process:
        return _until(lambda: program.read(process, tell), stop)


def _until(call: Callable[[], int], stop: Stop) -> int | None:
    """Make a call on another thread; None: a stop was asked for before it ended."""
    code = in_thread(call, "data")
    while stop.cause is None:
        with contextlib.suppress(TimeoutError):
            return code.result(LOOK_SECONDS)
    return None
