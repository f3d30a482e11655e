"""The folder of plain files of one run, which the database indexes.

::

    runs/<run id>/run.json          plan or facts, case key, time, process; written first
                  events.jsonl      one change of state per line, as they happen
                  measurement.json  the figures and the verdict
                  manifest.yaml     objects that were sent to the cluster
                  image-digest.txt  image that its replicas really ran
                  nodes.json        facts of its nodes, where they could be read
                  wishes.json       open requests to its cluster, if any
                  logs/<replica>.log   every line of every replica, stamped
                  log-begins.json   where in them the present attempt begins, if it is not the first
                  gpu/<source>.jsonl   series of GPU metrics, one per line

A process can be killed between any two steps; :mod:`.disk` says what it leaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from k8sbench.model import rules
from k8sbench.model.errors import StoreError
from k8sbench.model.facts import Facts
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Moment, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Process, Run, Wish
from k8sbench.store import disk
from k8sbench.store.json_files import DAMAGED_OR_OTHER, decode_json, encode_file, encode_json

RUNS = "runs"
RUN_FILE = "run.json"
EVENTS = "events.jsonl"
MEASUREMENT = "measurement.json"
IMAGE = "image-digest.txt"
WISHES = "wishes.json"
LOG_BEGINS = "log-begins.json"
LOGS = "logs"
LOG_SUFFIX = ".log"

_T = TypeVar("_T")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``: what is known of a run before it starts."""

    schema: int = SCHEMA
    """Version of the document."""
    planned: RunPlan | None = msgspec.field(default=None, name="plan")
    """The case with all its parameters, fixed before it started; None if nobody planned it."""
    known: Facts | None = msgspec.field(default=None, name="facts")
    """Facts about the case of an imported or observed run; None if it was planned."""
    case_key: str
    """Case key for other readers; this program computes it from plan or facts."""
    created_at: Moment
    """Unix seconds at which the run was recorded."""
    process: Process | None = msgspec.field(name="owner")
    """Process that follows a local run; None on a cluster."""
    location: Location | None = None
    """Location of the job on a cluster; None for a local run."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """``wishes.json``: open requests for a run's job."""

    schema: int = SCHEMA
    """Version of the document."""
    wishes: tuple[Wish, ...]
    """At most one of each kind."""


def run_ids(root: Path) -> set[str]:
    """List the run folders of a store, damaged ones included."""
    absent = (FileNotFoundError, NotADirectoryError)
    with disk.translate_errors(f"read {root / RUNS}"), contextlib.suppress(*absent):
        return {path.name for path in (root / RUNS).iterdir() if path.name.isprintable()}
    return set()


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, run: Run, before: Run | None = None) -> None:
        """Write the files of a run that have changed.

        ``before`` is the run as the files have it; None: they are read and compared. Wishes are
        written before the event that ends a run, so that an ended run never lacks them. The
        measurement of a reopened run is removed first. ``run.json`` is written last: a folder
        without it holds no run.
        """
        files = [
            (name, content(run))
            for name, fields, content in _FILES
            if any(
                before is None or getattr(run, field) != getattr(before, field) for field in fields
            )
        ]
        with disk.translate_errors(f"write the run's folder {self.path}"):
            if not self.path.exists():
                disk.make_folder(self.path)
                disk.sync_folder(self.path.parent)
            for name, data in files:
                if data and (before is not None or data != disk.read(self.path / name)):
                    self.write(name, data)
                elif not data and name in {MEASUREMENT, WISHES}:
                    (self.path / name).unlink(missing_ok=True)

    @property
    def is_there(self) -> bool:
        """True if the folder has a ``run.json``."""
        return (self.path / RUN_FILE).is_file()

    @property
    def has_wishes(self) -> bool:
        """True if the run may have open requests."""
        return (self.path / WISHES).exists()

    @property
    def holds_a_run(self) -> bool:
        """True for the folder of a started run, even a damaged one."""
        return any((self.path / name).exists() for name in (RUN_FILE, MEASUREMENT, LOGS))

    def write(self, name: str, data: bytes) -> None:
        """Write one file atomically; create its folder."""
        disk.write_whole(self.path / name, data)

    def read(self, name: str, kind: type[_T]) -> _T | None:
        """Read a file of JSON; None if it is not there."""
        path = self.path / name
        data = disk.read(path)
        return None if data is None else decode_json(data, kind, path)

    def run(self) -> Run:
        """Read the whole run; :class:`StoreError` names an unreadable file."""
        record = self.read(RUN_FILE, RunRecord)
        if record is None:
            raise StoreError(f"{self.path} holds no {RUN_FILE}.", DAMAGED_OR_OTHER)
        case = record.planned or record.known
        if case is None:
            raise StoreError(f"{self.path / RUN_FILE} has neither plan nor facts.")
        if case.run_id != self.path.name:
            raise StoreError(f"{self.path / RUN_FILE} belongs to run {case.run_id}.")
        history = self._history()
        document = self.read(WISHES, Wishes)
        image = disk.read(self.path / IMAGE) or b""
        measurement = self.read(MEASUREMENT, Measurement)
        return Run(
            planned=record.planned,
            known=record.known,
            created_at=record.created_at,
            process=record.process,
            history=history,
            artifacts=str(self.path),
            measurement=measurement and rules.with_maker(measurement),
            location=record.location,
            image_digest=image.decode(errors="replace").strip() or None,
            wishes=still_open(document.wishes if document else (), history[-1].phase),
        )

    def _history(self) -> tuple[Transition, ...]:
        path = self.path / EVENTS
        lines = (disk.read(path) or b"").splitlines()
        if not lines:
            raise StoreError(f"{path} holds no event.", DAMAGED_OR_OTHER)
        return tuple(
            decode_json(line, Transition, f"{path}:{number}")
            for number, line in enumerate(lines, start=1)
        )


def first_transition(at: float) -> Transition:
    """Build the first state of every run."""
    return Transition(phase=Phase.CREATED, at=at, cause="Recorded; nothing was started yet.")


def still_open(wishes: tuple[Wish, ...], phase: Phase) -> tuple[Wish, ...]:
    """Return the requests that still apply in a phase.

    A final run is not cancelled any more.
    """
    wishes_left = (wish for wish in wishes if not (phase.final and wish.kind == "cancel"))
    return tuple(sorted(wishes_left, key=lambda wish: wish.kind))


def _encode_wishes(wishes: tuple[Wish, ...]) -> bytes:
    return encode_file(Wishes(wishes=wishes)) if wishes else b""


def _encode_record(run: Run) -> bytes:
    names = RunRecord.__struct_fields__[1:]
    return encode_file(RunRecord(**{name: getattr(run, name) for name in names}))


_FILES: tuple[tuple[str, tuple[str, ...], Callable[[Run], bytes]], ...] = (
    (
        MEASUREMENT,
        ("measurement",),
        lambda run: encode_file(run.measurement) if run.measurement else b"",
    ),
    (
        IMAGE,
        ("image_digest",),
        lambda run: f"{run.image_digest}\n".encode() if run.image_digest else b"",
    ),
    (WISHES, ("wishes",), lambda run: _encode_wishes(run.wishes)),
    (
        EVENTS,
        ("history",),
        lambda run: b"".join(encode_json(transition) + b"\n" for transition in run.history),
    ),
    (WISHES, ("wishes", "history"), lambda run: _encode_wishes(still_open(run.wishes, run.phase))),
    (RUN_FILE, ("planned", "known", "created_at", "process", "location"), _encode_record),
)
"""Files of a run in the order of writing: name, fields, content."""
