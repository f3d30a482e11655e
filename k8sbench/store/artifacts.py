"""A run's folder of plain files, which the database indexes.

::

    runs/<run id>/run.json          plan, case key, time, process; written before anything starts
                  events.jsonl      one change of state per line, as they happen
                  measurement.json  the figures and the verdict
                  manifest.yaml     what was asked of the cluster
                  image-digest.txt  the image that its replicas really ran
                  nodes.json        what its nodes said of themselves, where that could be read
                  wishes.json       what its cluster is still to be asked for, if anything
                  logs/<replica>.log   every line of every replica, stamped
                  log-begins.json   where in them the present attempt begins, if there were others
                  gpu/<source>.jsonl   series of GPU metrics, one on each line

A process can be killed between any two steps here; :mod:`.disk` says what it leaves.
"""

from __future__ import annotations

import contextlib
import datetime
import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from k8sbench.json_decoders import decoder
from k8sbench.model import rules
from k8sbench.model.errors import StoreError
from k8sbench.model.kinds import rank_order
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Moment, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogLine, LogMark, replica_of_log
from k8sbench.model.run import Location, Process, Run, Wish
from k8sbench.store import disk
from k8sbench.store.lines import MARKED_BYTES, digest

RUNS = "runs"
RUN_FILE = "run.json"
EVENTS = "events.jsonl"
MEASUREMENT = "measurement.json"
IMAGE = "image-digest.txt"
WISHES = "wishes.json"
LOG_BEGINS = "log-begins.json"

_T = TypeVar("_T")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``: what is known of a run before it starts."""

    schema: int = SCHEMA
    """Version of the document."""
    plan: RunPlan
    """The case with all its parameters, fixed before it started."""
    case_key: str
    """Case key for other readers; this program computes it from the plan."""
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
    with disk.translated(f"read {root / RUNS}"), contextlib.suppress(*absent):
        return {path.name for path in (root / RUNS).iterdir() if path.name.isprintable()}
    return set()


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, run: Run, before: Run | None = None) -> None:
        """Write the files of a run that have changed.

        ``before`` is the run as the files have it; None: they are read and compared. Its wishes
        stand before the event: a run that has ended never lacks what it owes. The measurement of
        one that goes on is gone before that. ``run.json`` comes last: with it the folder counts as
        the run's.
        """
        files = [
            (name, content(run))
            for name, fields, content in _FILES
            if any(before is None or getattr(run, at) != getattr(before, at) for at in fields)
        ]
        with disk.translated(f"write the run's folder {self.path}"):
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
        """True where the run's files are here."""
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
        return None if data is None else decoded(data, kind, path)

    def run(self) -> Run:
        """Read the whole run; :class:`StoreError` names an unreadable file."""
        record = self.read(RUN_FILE, RunRecord)
        if record is None:
            raise StoreError(f"{self.path} holds no {RUN_FILE}.", DAMAGED_OR_OTHER)
        if record.plan.run_id != self.path.name:
            raise StoreError(f"{self.path / RUN_FILE} belongs to run {record.plan.run_id}.")
        history = self._history()
        asked = self.read(WISHES, Wishes)
        image = disk.read(self.path / IMAGE) or b""
        measurement = self.read(MEASUREMENT, Measurement)
        return Run(
            plan=record.plan,
            created_at=record.created_at,
            process=record.process,
            history=history,
            artifacts=str(self.path),
            measurement=measurement and rules.with_maker(measurement),
            location=record.location,
            image_digest=image.decode(errors="replace").strip() or None,
            wishes=pertinent(asked.wishes if asked else (), history[-1].phase),
        )

    def _history(self) -> tuple[Transition, ...]:
        path = self.path / EVENTS
        lines = (disk.read(path) or b"").splitlines()
        if not lines:
            raise StoreError(f"{path} holds no event.", DAMAGED_OR_OTHER)
        return tuple(
            decoded(line, Transition, f"{path}:{number}")
            for number, line in enumerate(lines, start=1)
        )


def as_file(value: msgspec.Struct) -> bytes:
    """Encode a file of JSON."""
    return msgspec.json.format(encoded(value), indent=2) + b"\n"


def created(at: float) -> Transition:
    """Build the first state of every run."""
    return Transition(phase=Phase.CREATED, at=at, cause="Recorded; nothing was started yet.")


def pertinent(wishes: tuple[Wish, ...], phase: Phase) -> tuple[Wish, ...]:
    """Return the requests that still apply in a phase.

    A final run is not cancelled any more.
    """
    left = (wish for wish in wishes if not (phase.final and wish.kind == "cancel"))
    return tuple(sorted(left, key=lambda wish: wish.kind))


def _wishes(wishes: tuple[Wish, ...]) -> bytes:
    return as_file(Wishes(wishes=wishes)) if wishes else b""


def _record(run: Run) -> bytes:
    names = RunRecord.__struct_fields__[1:]
    return as_file(RunRecord(**{name: getattr(run, name) for name in names}))


_FILES: tuple[tuple[str, tuple[str, ...], Callable[[Run], bytes]], ...] = (
    (
        MEASUREMENT,
        ("measurement",),
        lambda run: as_file(run.measurement) if run.measurement else b"",
    ),
    (
        IMAGE,
        ("image_digest",),
        lambda run: f"{run.image_digest}\n".encode() if run.image_digest else b"",
    ),
    (WISHES, ("wishes",), lambda run: _wishes(run.wishes)),
    (EVENTS, ("history",), lambda run: b"".join(encoded(one) + b"\n" for one in run.history)),
    (WISHES, ("wishes", "history"), lambda run: _wishes(pertinent(run.wishes, run.phase))),
    (RUN_FILE, ("plan", "created_at", "process", "location"), _record),
)
"""Files of a run in the order of writing: name, fields, content."""


DAMAGED_OR_OTHER = "It was damaged, or written by another version of k8sbench."


class _Version(msgspec.Struct, frozen=True):
    schema: int = SCHEMA


def decoded(data: bytes | str, kind: type[_T], where: object, action: str = DAMAGED_OR_OTHER) -> _T:
    """Decode JSON of k8sbench; raises :class:`StoreError` if damaged or of a newer version."""
    try:
        value = decoder(kind).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            _check_version(decoder(_Version).decode(data), where)
        raise StoreError(f"{where} cannot be read: {wrong}.", action) from wrong
    _check_version(value, where)
    return value


def _check_version(value: object, where: object) -> None:
    schema = getattr(value, "schema", SCHEMA)
    if schema > SCHEMA:
        raise StoreError(
            f"{where} has schema {schema}; this version of k8sbench reads up to {SCHEMA}.",
            "Upgrade k8sbench.",
        )


def encoded(value: msgspec.Struct) -> bytes:
    """Encode as JSON; refuse values that cannot be read back.

    For example NaN for a required figure.
    """
    try:
        text = msgspec.json.encode(value)
        decoder(type(value)).decode(text)
    except (msgspec.MsgspecError, UnicodeError, OverflowError) as wrong:
        raise StoreError(
            f"A {type(value).__name__} holds what JSON cannot: {wrong}.",
            "This is a fault of k8sbench, or of a name that is no valid text.",
        ) from wrong
    return text


# -- logs: one file per replica, each line with its time -------------------------------------------

LOGS = "logs"
LOG_SUFFIX = ".log"
_STAMP_BYTES = 64
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ")


class LogWriter:
    """Writes a run's log lines, one file per replica.

    What is handed over is one write to the system, so a kill loses nothing of it. The first failure
    is raised; the lines after it are dropped, so that one full disk is one error. A file is open
    for its write only: a thousand runs have more logs than a process may have open files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / LOGS
        self._paths: dict[str, Path] = {}
        """Paths of the logs that were written here, by replica."""
        self._failed = False

    def write(self, first: LogLine, *more: LogLine) -> None:
        """Append lines of one replica with their time stamps."""
        if self._failed:
            return
        try:
            doing = f"write the log of {first.replica} in {self._folder}"
            with disk.translated(doing), self._file(first.replica) as file:
                file.write(b"".join(map(_stamped, (first, *more))))
        except StoreError:
            self._failed = True
            raise

    def _file(self, replica: str) -> BinaryIO:
        path = self._paths.get(replica)
        if path is not None:
            return path.open("ab")
        disk.make_folder(self._folder)
        path = self._folder / f"{replica}{LOG_SUFFIX}"
        file = disk.create(path, "ab")
        if file.tell():
            # Drop half a line of a killed writer; no mark counts it, so it is fetched again.
            file.truncate(disk.whole_size(path))
        self._paths[replica] = path
        return file


def in_order_of_attempts(logs: Iterable[Path]) -> list[Path]:
    """Return the logs of an observed run: those of its first attempts before those of the last."""
    attempts: dict[str, list[Path]] = {}
    for path in sorted(logs, key=_began):
        attempts.setdefault(replica_of_log(path.stem), []).append(path)
    numbers = {path: at for paths in attempts.values() for at, path in enumerate(paths)}
    return sorted(numbers, key=lambda path: (numbers[path], rank_order(replica_of_log(path.stem))))


def _began(log: Path) -> float:
    """Return the time of a log's first line, Unix seconds."""
    with disk.translated(f"read {log}"), log.open("rb") as file:
        return split_stamp(file.read(_STAMP_BYTES))[0] or 0.0


def shorten(path: Path, most: int) -> tuple[float | None, float | None] | None:
    """Cut whole lines out of the middle of a log of over ``most`` bytes.

    Returns the times of the lines before and after the cut; None if the log is shorter.
    """
    with disk.translated(f"shorten {path}"), disk.mapped(path) as data:
        if len(data) <= most:
            return None
        first = data.rfind(b"\n", 0, most // 2) + 1
        last = data.find(b"\n", len(data) - most // 2) + 1
        before, _ = split_stamp(data[data.rfind(b"\n", 0, max(first - 1, 0)) + 1 : first])
        after, _ = split_stamp(data[last : last + 64])
        part = path.with_suffix(".part")
        with disk.create(part, "wb") as file:
            file.write(data[:first])
            file.write(data[last:])
        part.replace(path)
    return before, after


class LogTails:
    """Reader of the growing logs of a run's replicas."""

    def __init__(self, replica: str | None = None) -> None:
        self._replica = replica
        """Only this replica; None: all."""
        self._files: dict[Path, BinaryIO] = {}
        self._at: dict[Path, float] = {}
        """Time of the last line of each file, Unix seconds."""

    def lines(self, paths: Iterable[Path], *, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
        """Yield time, replica and text of the files' new lines, in the order of time.

        A line still without its end is left for the next call, or yielded with ``to_end``. Lines
        without a stamp get that of the line before; times never go back.
        """
        for path in paths:
            if path not in self._files and self._replica in {None, path.stem}:
                with disk.translated(f"read {path}"):
                    self._files[path] = path.open("rb")
        new = (self._new_lines(path, to_end=to_end) for path in self._files)
        yield from heapq.merge(*new, key=itemgetter(0))

    def _new_lines(self, path: Path, *, to_end: bool) -> Iterator[tuple[float, str, bytes]]:
        file = self._files[path]
        with disk.translated(f"read {path}"):
            while line := file.readline():
                if not (line.endswith(b"\n") or to_end):
                    file.seek(-len(line), os.SEEK_CUR)
                    return
                at, text = split_stamp(line.rstrip(b"\n"))
                self._at[path] = max(self._at.get(path, 0.0), at or 0.0)
                yield self._at[path], path.stem, text

    @property
    def is_found(self) -> bool:
        """True if there was a file to read."""
        return bool(self._files)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def log_mark(path: Path, begin: int = 0) -> LogMark | None:
    """Return a log's archive mark from a byte on; None without lines.

    It reads from the end, as far back as needed, because a log may be large.
    """
    last, lines, is_run, texts = None, 0, True, b""
    with disk.translated(f"read {path}"), contextlib.suppress(FileNotFoundError):
        for line in _lines_backwards(path, begin):
            at, text = split_stamp(line)
            if at is None:
                continue
            last = at if last is None else last
            is_run = is_run and at == last
            lines += is_run
            if len(texts) < MARKED_BYTES:
                texts = digest(text.decode("utf-8", "surrogateescape")) + texts
            elif not is_run:
                break
    return None if last is None else LogMark(last, lines, texts)


def _lines_backwards(path: Path, begin: int) -> Iterator[bytes]:
    """Yield a file's complete lines from a byte on, last first."""
    with disk.mapped(path) as data:
        end = data.rfind(b"\n", begin)
        while end >= begin:
            start = max(data.rfind(b"\n", begin, end) + 1, begin)
            yield data[start:end]
            end = start - 1


def _stamped(line: LogLine) -> bytes:
    begin = stamp(line.at) + b" "
    text = line.text.encode("utf-8", "surrogateescape")
    # A text with line ends becomes several stamped lines.
    return begin + text.replace(b"\n", b"\n" + begin) + b"\n"


def stamp(at: float) -> bytes:
    """Format Unix seconds as the stamp of a log line.

    For example ``2026-11-20T08:15:30.123456Z``.
    """
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds')}Z".encode()


def split_stamp(line: bytes) -> tuple[float | None, bytes]:
    """Split a line into time (Unix seconds, None without) and text."""
    match = _STAMP.match(line)
    if match is None:
        return None, line
    try:
        at = datetime.datetime.fromisoformat(match[1].decode()).timestamp()
    except ValueError:
        return None, line
    return at, line[match.end() :]
