"""The local cluster: the port :class:`~k8sbench.ports.cluster.Cluster` on this machine's processes.

It runs the same manifests as Kubernetes would. Each replica is a process group of its own, in the
environment that the training operator would have made. A ``local.json`` in the run's folder says
what was started: each replica's command, folder and environment.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

import k8sbench
from k8sbench.adapters.local import launch
from k8sbench.adapters.local.job import ENDED, LocalJob, LocalReplica
from k8sbench.catalog.plan_choices import Site
from k8sbench.model import errors
from k8sbench.model.errors import EarlierAttempt, JobFailed, NotFound, UsageError
from k8sbench.model.plain_text import counted
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import CPU_POOL
from k8sbench.model.replica_logs import LogMark
from k8sbench.model.run import Run
from k8sbench.model.times import SAVE_SECONDS
from k8sbench.ports.cluster import Cluster, JobEvent, Manifest
from k8sbench.store import disk

MOUNTS = "mounts"
WORK = "work"
"""Folder of a run with the working folders of a user's own program."""
RECORD = "local.json"
"""In a run's folder: what was started."""
GRACE = 5.0
"""Between SIGTERM and SIGKILL, seconds. A trainer without checkpoints ends at once."""
FINISH_GRACE = 60.0
"""Seconds for other replicas to finish after the leading one.

They have taken the same steps, and only tidy up.
"""

INSTALLED_AS = {"pytorch": "torch", "paddle": "paddle"}
"""Framework → its module, and our extra that installs it."""
SHARED_WAIT = 0.1
"""Longest wait for the first of several jobs, seconds."""


class LocalCluster(Cluster):
    """Jobs as processes of this machine, which end with this process.

    No other process can see them. After a job ends, only its files remain.
    """

    name = "local"
    jobs_outlive_us = False
    owner = None

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        python: str = sys.executable,
        inventory: Callable[[], Inventory] | None = None,
        grace: float = GRACE,
        finish_grace: float = FINISH_GRACE,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._python = python
        self._inventory = inventory or (lambda: machine_gpus(self._environ))
        self._grace = grace
        self._finish_grace = finish_grace
        self._jobs: dict[str, LocalJob] = {}
        self._taken: dict[str, tuple[GPU, ...]] = {}
        """GPUs in use, by run."""
        self._creating = threading.Lock()
        self._is_closed = False

    def create(self, run: Run, manifests: Sequence[Manifest], folder: Path) -> None:
        """Start the job's replicas; of a run that this process has started already, nothing.

        One whose job is over is started again: nothing of it is left.

        Raises :class:`UsageError` for what cannot run here: a command that is not one of our
        trainers, more GPUs than there are.
        """
        with self._creating:
            if self._is_closed:
                raise UsageError("The local cluster is closed already.")
            before = self._jobs.get(run.run_id)
            if before is None or before.is_over:
                job = self._checked(run.plan, manifests)
                self._jobs[run.run_id] = self._start(run.plan, job, folder)

    def clear(self, run: Run) -> None:
        """Raise :class:`EarlierAttempt` while a process of an earlier attempt is there.

        Those of a k8sbench that was killed have a grace in which they save a checkpoint.
        """
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(launch.MARK, "").startswith(f"{run.run_id}/"):
                    raise EarlierAttempt(
                        f"process {process.pid} of the attempt before is not gone.",
                        f"If it does not end by itself: kill {process.pid}",
                    )

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:  # noqa: ARG002
        """Refuse: a local job ends with the process that started it."""
        raise UsageError(
            f"Run {run.run_id} ran on a machine, and ended with the k8sbench that started it.",
            f"Its archived logs: k8sbench logs {run.run_id}",
        )

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        """Return what has happened to the jobs, in order; see :mod:`.job`."""
        jobs = [job for job in self._jobs.values() if not job.is_over]
        events = [event for job in jobs for event in job.read(0.0)]
        if events or not jobs:
            return events
        if len(jobs) > 1:  # the others must not wait for the first
            seconds = SHARED_WAIT if seconds is None else min(seconds, SHARED_WAIT)
        return jobs[0].read(seconds)

    def release(self, run_id: str) -> None:
        """End the job: no other process follows it."""
        self.cancel(run_id, *ENDED)

    def cancel(
        self,
        run_id: str,
        cause: str,
        cause_id: str,
        *,
        keep: bool = False,  # noqa: ARG002
    ) -> None:
        """Ask the job to end: SIGTERM to all its processes, SIGKILL after a grace."""
        self.job(run_id).cancel(cause, cause_id)

    def close(self) -> None:
        """End all jobs and wait for their processes; idempotent."""
        with self._creating:
            self._is_closed = True
        for job in self._jobs.values():
            job.cancel(*ENDED)
        for job in self._jobs.values():
            job.close()

    def job(self, run_id: str) -> LocalJob:
        """Return a job that this process has started."""
        try:
            return self._jobs[run_id]
        except KeyError:
            raise NotFound(
                f"This process runs no local job named {run_id}.",
                "A local job ends with the k8sbench process that started it.",
            ) from None

    def _start(self, plan: RunPlan, job: launch.ManifestJob, folder: Path) -> LocalJob:
        try:
            with contextlib.ExitStack() as held:  # ends what was started, should the next one fail
                held.callback(self._taken.pop, plan.run_id, None)
                assigned = self._assign(plan)
                mounts = (folder / MOUNTS).resolve()
                for volume, files in job.files.items():
                    for name, content in files.items():
                        disk.make_folder((mounts / volume / name).parent)
                        with disk.create(mounts / volume / name) as file:
                            file.write(content)
                home = launch.home(plan)
                work = (folder / WORK).resolve()
                if home is not None:
                    for replica in job.replicas:
                        make_working_folder(work / replica.name, home)
                machine = launch.Machine(
                    python=self._python,
                    library=Path(k8sbench.__file__).parent.parent,
                    environ=self._environ,
                    cores=usable_cores(),
                    port=held.enter_context(held_port()),
                    # An empty list hides all GPUs from a replica planned without any.
                    gpus=None
                    if assigned is None
                    else [listed(of_replica) for of_replica in assigned],
                    work=None if home is None else work,
                )
                # Not in the run's folder: sockets have room for 107 bytes of path, and trainers
                # open some in TMPDIR. The subreaper removes them too, in case we are killed.
                scratches = [
                    held.enter_context(
                        tempfile.TemporaryDirectory(prefix="k8sbench-", ignore_cleanup_errors=True)
                    )
                    for _ in job.replicas
                ]
                launches = [
                    launch.launched(job, number, machine, mounts, scratch)
                    for number, scratch in enumerate(scratches)
                ]
                with disk.create(folder / RECORD) as file:
                    file.write(msgspec.json.format(msgspec.json.encode(launches)) + b"\n")
                grace = self._grace if plan.checkpoints is None else SAVE_SECONDS
                replicas = [
                    held.enter_context(contextlib.closing(LocalReplica(one, grace)))
                    for one in launches
                ]
                return LocalJob(
                    plan.run_id,
                    replicas,
                    node=platform.node(),
                    finish_grace=self._finish_grace,
                    release=held.pop_all().close,
                )
        except OSError as error:
            raise JobFailed(
                f"The local job could not be started: {error}.",
                "Look at the disk's room, the free ports, and the limits on processes and files.",
            ) from error

    def _checked(self, plan: RunPlan, manifests: Sequence[Manifest]) -> launch.ManifestJob:
        """Read the job back and refuse what must not run here."""
        job = launch.read_job(manifests, node=platform.node())
        for replica in job.replicas:
            if not launch.is_own(plan):  # whose command the user has confirmed
                launch.check_command(plan, replica.command)
                launch.check_variables(dict(replica.env))
        return job

    def _assign(self, plan: RunPlan) -> tuple[tuple[GPU, ...], ...] | None:
        """Choose the GPUs of each replica; None on a machine without a driver."""
        inventory = self._inventory()
        # A copy, because another thread may release GPUs meanwhile.
        taken = [gpu for others in list(self._taken.values()) for gpu in others]
        assigned = assign(inventory, plan.replicas, plan.gpus_per_replica, taken)
        self._taken[plan.run_id] = tuple(gpu for of_replica in assigned for gpu in of_replica)
        return assigned if inventory.driver is not None else None


def make_working_folder(folder: Path, home: Path) -> None:
    """Make a working folder with links to the files of ``home``.

    Relative paths of ``home`` hold in it; new files stay in it. An earlier attempt of the run may
    have made it.
    """
    disk.make_folder(folder)
    for there in home.iterdir():
        with contextlib.suppress(FileExistsError):
            (folder / there.name).symlink_to(there)


def usable_cores() -> int:
    """Count the cores that this process may use: its affinity, and its cgroup's quota."""
    return min(len(os.sched_getaffinity(0)), machine_cores())


def machine_cores() -> int:
    """Count the cores of the machine, or of the cgroup's quota."""
    cores = os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max": no limit
    return cores


CGROUP = Path("/sys/fs/cgroup")
"""Folder of the cgroup of this process, in a container."""


def free_memory_gib() -> float:
    """Return the memory that programs can still take: the machine's, or the cgroup's, GiB."""
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError, KeyError):
        limit = int((CGROUP / "memory.max").read_text())  # "max": no limit
        used = int((CGROUP / "memory.current").read_text())
        words = (CGROUP / "memory.stat").read_text().split()
        facts = dict(zip(words[::2], words[1::2], strict=True))
        # The kernel takes back the pages of files when a program needs the memory.
        free = min(free, max(0, limit - used + int(facts["inactive_file"])))
    return free / 2**30


def site() -> tuple[Site, str]:
    """Return this machine, its GPUs as a pool of one node, and its devices in words."""
    found = machine_gpus()
    pool = CPU_POOL
    devices = f"no GPU ({found.reason})"
    if found.gpus:
        count = len(found.gpus)
        model = found.gpus[0].model
        pool = msgspec.structs.replace(pool, gpus_per_node=count, gpu_model=model)
        devices = f"{count} × {model}"
    here = Site(backend="local", pool=pool, cores=machine_cores(), memory_gib=free_memory_gib())
    return here, devices


def missing_framework(plan: RunPlan) -> UsageError | None:
    """Return the refusal of a case whose framework is not installed here."""
    module = INSTALLED_AS[plan.framework]
    # A program of the user's own brings what it needs.
    if plan.impl == "user" or importlib.util.find_spec(module) is not None:
        return None
    return UsageError(
        f"{plan.benchmark} {plan.framework} {plan.case}: {module} is not installed.",
        f"{errors.how_to_install(module)}; or choose another --framework, if the benchmark has"
        " several.",
    )


def check_files(plan: RunPlan) -> None:
    """Check the files and folders of a local run; raises :class:`UsageError`."""
    for option, place, kind, fits in (
        ("--data", plan.data, "folder", Path.is_dir),
        ("--weights", plan.weights, "file", Path.is_file),
    ):
        path = _path(place)
        if path is not None and not (os.access(path, os.R_OK) and fits(path)):
            raise UsageError(
                f"{option}: there is no {kind} {path} that you may read.",
                f"Name the {kind} that is meant.",
            )
    if (folder := _path(plan.checkpoints)) is not None:
        # The run makes what is missing of it.
        parent = next(path for path in (folder, *folder.parents) if os.access(path, os.F_OK))
        if not (parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)):
            raise UsageError(
                f"--checkpoints {folder}: {parent} is not a folder that you may write to.",
                "Name another folder.",
            )


def _path(place: str | None) -> Path | None:
    if place is None or not place.startswith("path:"):
        return None
    return Path(place.removeprefix("path:"))


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """Reserve a free loopback port until the job ends.

    A port that is only looked up may be taken before the job binds it seconds later. So a socket of
    ours stays bound to it and never listens. The kernel gives a port that is held so to nobody who
    asks for any free one, in this process or another; and it lets the job bind and listen on it,
    because both sides set SO_REUSEADDR (torch's TCPStore and Python's HTTP server, which Paddle's
    launcher uses, do). OSError if none is free.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((launch.LOOPBACK, 0))
        yield holder.getsockname()[1]


# -- GPUs ------------------------------------------------------------------------------------------
#
# Read through NVML (nvidia-ml-py), which is imported on use. No library, driver or GPU is a normal
# answer with a reason.

VISIBLE = "CUDA_VISIBLE_DEVICES"


class GPU(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU."""

    index: int
    """As NVML and nvidia-smi count: by PCI address."""
    uuid: str
    model: str
    """As the driver names it."""


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a local run may use."""

    gpus: tuple[GPU, ...]
    driver: str | None = None
    """The driver's version; None where there is none."""
    reason: str | None = None
    """Reason for missing GPUs; None if all are here."""


def machine_gpus(environ: Mapping[str, str] | None = None, library: Any = None) -> Inventory:
    """Ask the driver; heeds the user's ``CUDA_VISIBLE_DEVICES``. ``library`` stands for NVML."""
    environ = os.environ if environ is None else environ
    if library is None:
        try:
            import pynvml
        except ImportError:
            return Inventory(gpus=(), reason="nvidia-ml-py is not installed")
        library = pynvml
    try:
        library.nvmlInit()
        try:
            known = _ask(library)
        finally:
            library.nvmlShutdown()
    except library.NVMLError as error:
        return Inventory(gpus=(), reason=f"NVML: {error}")
    return visible(known, environ.get(VISIBLE))


def _ask(library: Any) -> Inventory:
    handles = map(library.nvmlDeviceGetHandleByIndex, range(library.nvmlDeviceGetCount()))
    gpus = tuple(
        GPU(
            index=index,
            uuid=library.nvmlDeviceGetUUID(handle),
            model=library.nvmlDeviceGetName(handle),
        )
        for index, handle in enumerate(handles)
    )
    reason = None if gpus else "the driver knows no GPU"
    return Inventory(gpus=gpus, driver=library.nvmlSystemGetDriverVersion(), reason=reason)


def visible(found: Inventory, wanted: str | None) -> Inventory:
    """Keep what ``CUDA_VISIBLE_DEVICES`` names, in its order, as CUDA reads it.

    Entries are indices or beginnings of UUIDs; the first that names no GPU ends the list.
    """
    if wanted is None or not found.gpus:
        return found
    kept: list[GPU] = []
    for entry in (part.strip() for part in wanted.split(",")):
        gpu = next((gpu for gpu in found.gpus if _is_named(gpu, entry)), None)
        if gpu is None or gpu in kept:
            break
        kept.append(gpu)
    reason = found.reason if kept == list(found.gpus) else f"{VISIBLE} is {wanted!r}"
    return msgspec.structs.replace(found, gpus=tuple(kept), reason=reason)


def _is_named(gpu: GPU, entry: str) -> bool:
    return entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))


def assign(
    found: Inventory, replicas: int, each: int, taken: Iterable[GPU] = ()
) -> tuple[tuple[GPU, ...], ...]:
    """Give every replica ``each`` GPUs of its own; raises :class:`UsageError` if they are short."""
    busy = set(taken)
    free = [gpu for gpu in found.gpus if gpu not in busy]
    needed = replicas * each
    if needed > len(free):
        why = f" ({found.reason})" if found.reason else ""
        used = f", {len(found.gpus) - len(free)} of them in use by other runs" if busy else ""
        wanted = f"{counted(replicas, 'replica')} × {counted(each, 'GPU')}"
        raise UsageError(
            f"{wanted} need {counted(needed, 'GPU')};"
            f" this machine has {len(found.gpus)}{why}{used}.",
            "Ask for fewer with --replicas and --gpus, or run it on a cluster.",
        )
    return tuple(tuple(free[n * each : (n + 1) * each]) for n in range(replicas))


def listed(gpus: Sequence[GPU]) -> str:
    """Write the value of ``CUDA_VISIBLE_DEVICES`` that names ``gpus``; empty for none.

    By index, with CUDA_DEVICE_ORDER=PCI_BUS_ID: paddle.distributed.launch reads numbers alone.
    """
    return ",".join(str(gpu.index) for gpu in gpus)
