"""Checkpoints in a folder: written atomically, verified when read.

A checkpoint is a folder `step-0000001200`: `rank-0`, `rank-1`, … with what each rank wrote, and
`manifest.json` with the facts of the run, the size and SHA-256 of each file, and its own SHA-256.
It is filled under another name (`.step-0000001200.part`), each file and folder is brought to the
disk, and one rename makes it a checkpoint, so that a process killed at any moment leaves those
before it whole. The next save or `latest` removes what a killed one left. Rank 0 owns the folder,
which all ranks must share.

What a rank writes is its state, which is restored bit by bit. Rank 0 saves what all ranks have in
common: parameters, momentum, the gradient scaler. Each rank saves its own batch norm statistics,
which differ between ranks, its part of a sharded layer with that part's momentum, and, between two
changes of the weights, the gradients that it has added up. Tensors go by
their place in the model. Random states are not saved: a step's dropout is seeded by its number
(`Session.seed_step`), as its samples are. No framework is imported here.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from k8sbench.trainers.parts import samples, watch
from k8sbench.trainers.parts.samples import Array
from k8sbench.trainers.parts.settings import refuse

MANIFEST = "manifest.json"
KEPT = 2
CHUNK = 64 << 20  # bytes written between two signs of life
FORM = 4  # of a state's files; those of an earlier one are refused
COMMON, OWN = "common.npz", "own.npz"
MOMENTUM = "momentum of "
GRADIENT = "gradient of "


@dataclass(frozen=True)
class Checkpoint:
    """One that is whole."""

    step: int
    folder: Path
    facts: Mapping[str, Any]

    def rank_folder(self, rank: int) -> Path:
        """Return the folder that `rank` filled."""
        return self.folder / f"rank-{rank}"


class Checkpoints:
    """The checkpoints of one run, of which the newest :data:`KEPT` stay.

    `same` is what a later attempt must not change (batch size, number of ranks, model, …): it is
    written into each manifest and compared by `latest`. With several ranks each has its own object
    and calls the same methods; `agree` gives rank 0's number on every rank, `all_fine` whether it
    is true on all of them (see `session.Session`).
    """

    def __init__(
        self,
        folder: Path,
        *,
        same: Mapping[str, object] | None = None,
        rank: int = 0,
        agree: Callable[[int], int] = lambda number: number,
        all_fine: Callable[[bool], bool] = lambda fine: fine,
    ) -> None:
        self.folder, self.rank = folder, rank
        self.agree, self.all_fine = agree, all_fine
        self.same: dict[str, object] = json.loads(json.dumps(same or {}))
        # One sentence for each checkpoint that `latest` found damaged, by its name.
        self.damaged: dict[str, str] = {}

    def save(
        self, step: int, write: Callable[[Path], None], facts: Mapping[str, object]
    ) -> str | None:
        """Save on all ranks together: `write` fills this rank's own, empty folder.

        `facts` are plain JSON, as rank 0 has them. Where the disk is full or read-only, on any
        rank, nothing is raised: every rank is given a sentence, and the older checkpoints stay.
        """
        part = self.folder / f".{_name(step)}.part"

        def begin() -> None:
            self._sweep()
            part.mkdir(parents=True)

        def fill() -> None:
            own = part / f"rank-{self.rank}"
            own.mkdir()
            write(own)
            for path in (*own.rglob("*"), own):
                _to_disk(path)

        failed = None
        finish = partial(self._finish, part, step, facts)
        for act, by_all in ((begin, False), (fill, True), (finish, False)):
            try:
                if by_all or self.rank == 0:
                    act()
            except OSError as error:
                failed = _sentence(error, self.folder)
            if self.all_fine(failed is None):
                continue
            if self.rank == 0:
                shutil.rmtree(part, ignore_errors=True)
            elif failed is not None:
                print(f"k8sbench: checkpoint of step {step}: {failed}", file=sys.stderr, flush=True)
            failed = failed or "another rank could not write its part; its output says why"
            break
        return failed

    def latest(self) -> Checkpoint | None:
        """The newest whole checkpoint, on every rank; None where there is none.

        Those that are damaged are named in `damaged`. Ends a rank that cannot go on, as where they
        were written with other settings: its end ends the others.
        """
        try:
            newest = self._newest() if self.rank == 0 else None
            step = self.agree(-1 if newest is None else newest.step)
            return newest if self.rank == 0 or step < 0 else _read(self.folder / _name(step))
        except OSError as error:  # on other ranks a folder that the nodes do not share
            refuse(
                f"the checkpoints cannot be read: {_sentence(error, self.folder)}; mend the folder,"
                " or name one that all nodes share by --checkpoints",
                passing=True,  # another attempt may find a server of files that was away
            )

    def _newest(self) -> Checkpoint | None:
        with contextlib.suppress(FileNotFoundError):
            self._sweep()
            for folder in sorted(self._all(), reverse=True):
                try:
                    checkpoint = _read(folder, whole=True)
                except OSError as error:
                    self.damaged[folder.name] = (
                        f"{folder.name} is damaged, and skipped: {_sentence(error)}"
                    )
                    continue
                self._refuse_others(checkpoint)
                return checkpoint
        return None

    def _refuse_others(self, checkpoint: Checkpoint) -> None:
        before = checkpoint.facts["same"]
        changed = [
            f"{name} {before.get(name)!r} (now {self.same.get(name)!r})"
            for name in sorted({*before, *self.same})
            if before.get(name) != self.same.get(name)
        ]
        if changed:
            refuse(
                f"{checkpoint.folder} was written with {', '.join(changed)}; start as before, or"
                " name an empty folder by --checkpoints"
            )

    def _finish(self, part: Path, step: int, facts: Mapping[str, object]) -> None:
        """Write the manifest, make it a checkpoint and remove what is no longer needed."""
        written = {
            str(path.relative_to(part)): (path.stat().st_size, samples.digest(path))
            for path in sorted(part.rglob("*"))
            if path.is_file()
        }
        told = {"step": step, "facts": dict(facts), "same": self.same, "files": written}
        (part / MANIFEST).write_bytes(_sealed(json.dumps(told).encode()[:-1]))
        _to_disk(part / MANIFEST)
        _to_disk(part)
        final = self.folder / _name(step)
        if final.exists():  # a damaged one, left out by `latest`
            self._remove(final)
        part.rename(final)
        _to_disk(self.folder)
        whole = [saved for saved in sorted(self._all()) if saved.name not in self.damaged]
        for folder in self._all():
            if folder != final and folder not in whole[-KEPT:]:
                self._remove(folder)

    def _all(self) -> list[Path]:
        return [
            folder for folder in self.folder.iterdir() if re.fullmatch(r"step-\d{10}", folder.name)
        ]

    def _remove(self, folder: Path) -> None:
        """Remove a checkpoint so that no half of it is ever taken for one."""
        gone = folder.with_name(f".{folder.name}.gone.part")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
        self.damaged.pop(folder.name, None)

    def _sweep(self) -> None:
        """Remove what killed attempts left."""
        for unfinished in self.folder.glob(".step-*.part"):
            shutil.rmtree(unfinished, ignore_errors=True)


def _name(step: int) -> str:
    return f"step-{step:010d}"


def _sealed(text: bytes) -> bytes:
    """Append the SHA-256 of an object's JSON to it.

    `text` lacks its closing brace.
    """
    return text + f', "sha256": "{hashlib.sha256(text).hexdigest()}"}}'.encode()


SEAL = len(_sealed(b""))


def _read(folder: Path, *, whole: bool = False) -> Checkpoint:
    """Read a checkpoint's manifest; `whole`: verify all files. Raises OSError.

    Ends the run for one of version 0.3.0, whose manifest has no digest.
    """
    written = samples.content(folder / MANIFEST)
    if written != _sealed(written[:-SEAL]):
        with contextlib.suppress(ValueError, AttributeError):
            if json.loads(written).keys() == {"step", "facts", "same", "files"}:
                refuse(
                    f"{folder} was written by k8sbench 0.3.0 or earlier; go on with that version, "
                    "or name an empty folder by --checkpoints"
                )
        raise _damage(MANIFEST)
    told = json.loads(written)
    if folder.name != _name(told["step"]):
        raise _damage(MANIFEST)
    for name, (_, digest) in told["files"].items() if whole else ():
        if samples.digest(folder / name) != digest:
            raise _damage(name)
    return Checkpoint(told["step"], folder, {**told["facts"], "same": told["same"]})


def _damage(name: str) -> OSError:
    damage = OSError(None, "not as it was written")
    damage.filename = name
    return damage


def _to_disk(path: Path) -> None:
    """Bring a file, or a folder's list of names, to the disk."""
    held = os.open(path, os.O_RDONLY)
    try:
        os.fsync(held)
    except OSError as error:
        # Some file systems cannot do that with a folder.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP} or not path.is_dir():
            raise
    finally:
        os.close(held)


def _sentence(error: OSError, folder: Path | None = None) -> str:
    return f"{error.filename or folder}: {error.strerror or error}"


def save_state(folder: Path, run: Any) -> None:
    """Save a rank's state to its folder of a checkpoint; `run` is its `loop.Run`.

    Raises OSError, also for values that are not finite. There is no momentum before the first step.
    """
    here, scale = run.here, run.scaler.state_dict()

    def trained(kind: str, layer: Any) -> dict[str, Any]:
        parameters = here.trained(layer)
        momenta = here.momenta(run.optimizer, parameters)
        return arrays(kind, parameters) | arrays(f"{MOMENTUM}{kind}", momenta)

    def arrays(kind: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
        return {f"{kind}/{name}": here.array(tensor) for name, tensor in tensors.items()}

    if here.place.first:
        scalars = {f"scaler/{name}": value for name, value in scale.items()}
        _write_arrays(folder / COMMON, trained("model", run.bare) | scalars)
    own = arrays("model", here.statistics(run.bare))
    if run.sharded is not None:
        own |= trained("sharded", run.sharded)
    gradients: dict[str, Any] = {}
    if not run.whole(run.timer.steps):
        for kind, layer in (("model", run.bare), ("sharded", run.sharded)):
            if layer is not None:
                gradients |= arrays(f"{GRADIENT}{kind}", here.gradients(layer))
    # A scale that adapts, which alone has a state, leaves out a step whose gradients overflow.
    _write_arrays(folder / OWN, own | gradients, infinite=gradients if scale else ())


def restore_state(common: Path, own: Path, run: Any) -> None:
    """Put back what `save_state` wrote: `common` is rank 0's folder, `own` this rank's.

    Model and sharded layer are as they were built, on their device, and the optimizer has taken no
    step yet. Raises KeyError, ValueError or RuntimeError where they are others.
    """
    here = run.here
    state = _read_arrays(common / COMMON)
    mine = _read_arrays(own / OWN)
    parts = [("model", here.trained(run.bare), state), ("model", here.statistics(run.bare), mine)]
    if run.sharded is not None:
        parts.append(("sharded", here.trained(run.sharded), mine))
    momenta = []
    for kind, tensors, saved in parts:
        for name, tensor in tensors.items():
            here.put(tensor, saved[f"{kind}/{name}"])
            momentum = saved.get(f"{MOMENTUM}{kind}/{name}")
            if momentum is not None:
                momenta.append((tensor, momentum))
            gradient = mine.get(f"{GRADIENT}{kind}/{name}")
            if gradient is not None:
                here.put_gradient(tensor, gradient)
    here.put_momenta(run.optimizer, momenta)
    scale = {
        name.partition("/")[2]: value if value.ndim else value.item()
        for name, value in state.items()
        if name.startswith("scaler/")
    }
    if scale and run.scaler.state_dict():
        run.scaler.load_state_dict(scale)


def _write_arrays(path: Path, state: Mapping[str, Any], infinite: Collection[str] = ()) -> None:
    for name, values in state.items():
        if name not in infinite and not np.isfinite(values).all():  # nothing could go on from that
            raise OSError(None, f"{name} is not finite")
    # By way of memory: zipfile would hide why a disk takes no more.
    buffer = io.BytesIO()
    np.savez(buffer, **state)
    content = buffer.getbuffer()
    with path.open("wb") as file:
        for first in range(0, len(content), CHUNK):
            file.write(content[first : first + CHUNK])
            file.flush()
            os.fsync(file.fileno())
            watch.alive()  # as far as the disk has it: a slow one is no rank that hangs


def _read_arrays(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}
