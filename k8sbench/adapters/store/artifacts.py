"""A run's folder of plain files: what the database can be rebuilt from.

::

    runs/<run id>/run.json          plan, case key, time, owner; written before anything starts
                  events.jsonl      one change of state per line, appended as they happen
                  measurement.json  the figures and the verdict
                  manifest.yaml     what was asked of the cluster
                  image-digest.txt  the image that its replicas really ran
                  wishes.json       what its cluster is still to be asked for, if anything
                  logs/<replica>.log   every line of every replica, stamped
                  log-begins.json   where in them the present attempt begins, if there were others
                  gpu/<source>.jsonl   series of GPU metrics, one on each line

A process can be killed between any two steps here. Whole files are therefore written under
another name, flushed to the disk and renamed; lines are appended with one write each, and a last
line without its end is what a killed writer leaves: it is passed over, not an error.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import mmap
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from k8sbench.model.creation import may_follow
from k8sbench.model.errors import StoreError
from k8sbench.model.kinds import rank_order
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run, Wish
from k8sbench.ports import LogLine, LogMark

RUNS = "runs"
RUN_FILE = "run.json"
EVENTS = "events.jsonl"
MEASUREMENT = "measurement.json"
IMAGE = "image-digest.txt"
WISHES = "wishes.json"
LOGS = "logs"
LOG_SUFFIX = ".log"
LOG_BEGINS = "log-begins.json"
UNFINISHED = re.compile(r"^\..*\.tmp$")
"""Files that a killed process left half written."""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) ")
OPEN_LOGS = 256
"""Log files that are open at one time; as many logs are read at once, and some were just before."""
DISORDER_SECONDS = 1.0
"""By how much stamps of a log's lines may go back; see :class:`~k8sbench.ports.LogMark`."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_T = TypeVar("_T")


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``: what is known of a run before it starts."""

    schema: int = SCHEMA
    plan: RunPlan
    case_key: str
    """For other readers; this program computes it from the plan."""
    created_at: float
    owner: Owner | None
    location: Location | None = None


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """``wishes.json``: what is to happen to a run's job and has not happened yet."""

    schema: int = SCHEMA
    wishes: tuple[Wish, ...]


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, run: Run) -> None:
        """Make the folder of a new run and write its first files.

        A folder of that name whose run ever started belongs to another run and is an error. One
        that holds only the first files was left by a process that was killed before its run was
        recorded, and is used again.
        """
        with translated(f"read {self.path}"):
            names = {path.name for path in self.path.glob("*") if not UNFINISHED.match(path.name)}
        if not names <= {RUN_FILE, EVENTS} or len(self.events()[0]) > 1:
            raise StoreError(
                f"There is a run in {self.path} that the database does not know.",
                "Add it to the database with: k8sbench store rebuild",
            )
        self.adopt(run)

    def adopt(self, run: Run) -> None:
        """Make a run's folder and its files from what its row holds.

        ``run.json`` comes last: with it the folder counts as the run's.
        """
        with translated(f"make the run's folder {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
            _sync_folder(self.path.parent)
        self.write(EVENTS, b"".join(encoded(one) + b"\n" for one in run.history))
        if run.measurement is not None:
            self.keep_measurement(run.measurement)
        if run.image_digest is not None:
            self.keep_image(run.image_digest)
        if run.wishes:
            self.keep_wishes(run.wishes)
        record = RunRecord(
            plan=run.plan,
            case_key=run.case_key,
            created_at=run.created_at,
            owner=run.owner,
            location=run.location,
        )
        self.write(RUN_FILE, _pretty(record))

    @property
    def is_there(self) -> bool:
        """Whether the run's files are here."""
        return (self.path / RUN_FILE).is_file()

    def write(self, name: str, data: bytes) -> None:
        """Write one file whole, or not at all; makes the folder that it names."""
        path = self.path / name
        if path.parent != self.path:
            with translated(f"make {path.parent}"):
                path.parent.mkdir(exist_ok=True)
        write_whole(path, data)

    def append(self, transition: Transition) -> None:
        """Append a line to ``events.jsonl`` and flush it to the disk."""
        path = self.path / EVENTS
        with translated(f"write {path}"), _open_to_append(path) as file:
            _write_all(file, msgspec.json.encode(transition) + b"\n")
            os.fsync(file.fileno())

    def keep_measurement(self, measurement: Measurement) -> None:
        """Write ``measurement.json``, replacing an earlier one."""
        self.write(MEASUREMENT, _pretty(measurement))

    def keep_image(self, digest: str) -> None:
        """Write which image the replicas really ran."""
        self.write(IMAGE, f"{digest}\n".encode())

    def keep_wishes(self, wishes: tuple[Wish, ...]) -> None:
        """Write what the run's cluster is still to be asked for; without any there is no file."""
        if wishes:
            self.write(WISHES, _pretty(Wishes(wishes=wishes)))
            return
        with translated(f"remove {self.path / WISHES}"):
            (self.path / WISHES).unlink(missing_ok=True)

    def wishes(self) -> tuple[Wish, ...]:
        """Read what the run's cluster is still to be asked for."""
        data = _read(self.path / WISHES)
        return () if data is None else decoded(data, Wishes, str(self.path / WISHES)).wishes

    def image(self) -> str | None:
        """Read the digest of the image that the replicas ran; None if that is not known."""
        return (_read(self.path / IMAGE) or b"").decode(errors="replace").strip() or None

    def record(self) -> RunRecord:
        """Read ``run.json``; :class:`StoreError` names what is wrong with it."""
        data = _read(self.path / RUN_FILE)
        if data is None:
            raise StoreError(f"{self.path} holds no {RUN_FILE}.", "It is not the folder of a run.")
        record = decoded(data, RunRecord, str(self.path / RUN_FILE))
        if record.plan.run_id != self.path.name:
            raise StoreError(
                f"{self.path / RUN_FILE} belongs to run {record.plan.run_id}.",
                "A run's folder carries its run id; rename it back.",
            )
        return record

    def events(self) -> tuple[tuple[Transition, ...], list[str]]:
        """Read the history as far as it goes, and what could not be read of it.

        Nothing follows a final state, unless no job was created and the run was submitted again. A
        state that was written twice (the database said no after the first) counts once.
        """
        path = self.path / EVENTS
        history: list[Transition] = []
        problems: list[str] = []
        # What follows the last line end was written by a process that was killed.
        *lines, _ = (_read(path) or b"").split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                transition = msgspec.json.decode(_renamed(line), type=Transition)
            except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
                problems.append(f"{path}:{number}: {wrong}")
                continue
            if transition in history[-1:] or (history and not may_follow(history[-1], transition)):
                continue
            history.append(transition)
        return tuple(history), problems

    def measurement(self) -> Measurement | None:
        """Read ``measurement.json``; None if the run has none."""
        path = self.path / MEASUREMENT
        data = _read(path)
        return None if data is None else decoded(data, Measurement, str(path))

    def run(self) -> tuple[Run, list[str]]:
        """Read the whole run, and what could not be read of it."""
        record = self.record()
        history, problems = self.events()
        if not history or history[0].phase is not Phase.CREATED:
            history = (created(record.created_at), *history)
        try:
            measurement = self.measurement()
        except StoreError as wrong:
            measurement = None
            problems.append(str(wrong))
        try:
            wishes = self.wishes()
        except StoreError as wrong:
            wishes = ()
            problems.append(str(wrong))
        run = Run(
            plan=record.plan,
            created_at=record.created_at,
            owner=record.owner,
            history=history,
            artifacts=str(self.path),
            measurement=measurement,
            location=record.location,
            image_digest=self.image(),
            wishes=pertinent(wishes, history[-1].phase),
        )
        return run, problems

    def last_written_at(self) -> float | None:
        """When anything in the folder was last written, Unix seconds; None if it is gone."""
        written = []
        for path in (*self.path.glob("*"), *self.path.glob(f"{LOGS}/*")):
            with contextlib.suppress(OSError):
                written.append(path.stat().st_mtime)
        return max(written, default=None)

    def log_files(self) -> list[Path]:
        """List the log files: master first, then workers by number."""
        with translated(f"read {self.path / LOGS}"):
            found = [path for path in (self.path / LOGS).glob(f"*{LOG_SUFFIX}") if path.is_file()]
        return sorted(found, key=lambda path: rank_order(path.stem))

    def begin_logs(self) -> None:
        """Note where the logs of another attempt begin: where those of the one before end."""
        with translated(f"read {self.path / LOGS}"):
            sizes = {path.stem: _whole(path) for path in self.log_files()}
        self.write(LOG_BEGINS, msgspec.json.encode(sizes) + b"\n")

    def log_begins(self) -> dict[str, int]:
        """Read where the logs of the present attempt begin, by replica, in bytes."""
        data = _read(self.path / LOG_BEGINS)
        return {} if data is None else decoded(data, dict[str, int], str(self.path / LOG_BEGINS))


def _renamed(event: bytes) -> bytes:
    """An event with the keys of schema 2, also where schema 1 wrote it."""
    return event.replace(b'"hopeless":', b'"unrecoverable":')


class LogFiles:
    """Log files that are open to be appended to, at most ``limit``: a process has 1,024 by default,
    and a thousand runs have more logs. One thread writes.
    """

    def __init__(self, limit: int = OPEN_LOGS) -> None:
        self._limit = limit
        self._open: dict[Path, BinaryIO] = {}
        """The one that was written last comes last."""

    def get(self, path: Path, *, is_whole: bool) -> BinaryIO:
        """Return a file, opened if need be; one that is not known to be whole is cut to lines."""
        file = self._open.pop(path, None)
        if file is None:
            while len(self._open) >= self._limit:
                self.close(next(iter(self._open)))
            file = path.open("ab", buffering=0) if is_whole else _open_to_append(path)
        self._open[path] = file
        return file

    def close(self, path: Path) -> None:
        """Close a file; does nothing if it is not open."""
        file = self._open.pop(path, None)
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


class LogWriter:
    """Writes a run's log lines, one file per replica.

    What is handed over is one write to the system, so a kill loses nothing of it. The first failure
    is raised; the lines after it are dropped, so that one full disk is one error.
    """

    def __init__(
        self,
        folder: Path,
        check: Callable[[], None] = lambda: None,
        files: LogFiles | None = None,
    ) -> None:
        self._folder = folder / LOGS
        self._check = check
        """Raises when the run is no longer this process's to follow."""
        self._files = LogFiles() if files is None else files
        self._paths: dict[str, Path] = {}
        """By replica, of the logs that were written here."""
        self._failed = False

    def write(self, first: LogLine, *more: LogLine) -> None:
        """Append lines of one replica with their time stamps."""
        if self._failed:
            return
        self._check()
        try:
            file = self._file(first.replica)
            _write_all(file, b"".join(map(_stamped, (first, *more))))
        except OSError as wrong:
            self._failed = True
            raise store_error(
                wrong, f"write the log of {first.replica} in {self._folder}"
            ) from wrong

    def close(self) -> None:
        """Close the files; idempotent."""
        while self._paths:
            self._files.close(self._paths.popitem()[1])

    def _file(self, replica: str) -> BinaryIO:
        path = self._paths.get(replica)
        if path is not None:
            return self._files.get(path, is_whole=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{replica}{LOG_SUFFIX}"
        # Half a line of a writer that was killed goes: no mark counts it, so it is read again.
        file = self._files.get(path, is_whole=False)
        self._paths[replica] = path
        return file


class LogTail:
    """Reads a log file in pieces, as far as it is written."""

    def __init__(self, path: Path) -> None:
        self.replica = path.stem
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._at = 0.0

    def lines(self, *, to_end: bool = False) -> Iterator[tuple[float, bytes]]:
        """Yield (time, line) of the lines that have come since the last call.

        A line still without its end is kept for the next call, or yielded with ``to_end``. Lines
        without a stamp get that of the line before; times never go back.
        """
        with translated(f"read {self._path}"):
            if self._file is None:
                self._file = self._path.open("rb")
            while piece := self._file.readline():
                self._rest += piece
                if self._rest.endswith(b"\n"):
                    yield self._stamped()
        if to_end and self._rest:
            yield self._stamped()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _stamped(self) -> tuple[float, bytes]:
        line, self._rest = self._rest.rstrip(b"\n"), b""
        at, text = split_stamp(line)
        self._at = max(self._at, at or 0.0)
        return self._at, text


def _stamped(line: LogLine) -> bytes:
    begin = stamp(line.at) + b" "
    text = line.text.encode("utf-8", "surrogateescape")
    # What looks like several lines to a reader is written as several.
    return begin + text.replace(b"\n", b"\n" + begin) + b"\n"


def split_stamp(line: bytes) -> tuple[float | None, bytes]:
    """Split a log line into its time (Unix seconds; None without a stamp) and its text."""
    match = _STAMP.match(line)
    if match is None:
        return None, line
    try:
        at = datetime.datetime.fromisoformat(match[1].decode()).timestamp()
    except ValueError:
        return None, line
    return at, line[match.end() :]


def log_mark(path: Path, begin: int = 0) -> LogMark | None:
    """Return how far a log was archived from a byte on; None if no line of it was.

    Read from the end, as far back as stamps may be out of order: a log may be large.
    """
    latest, lines, since = None, 0, 0
    with translated(f"read {path}"), contextlib.suppress(FileNotFoundError):
        for line in _lines_backwards(path, begin):
            since += 1
            at, _ = split_stamp(line)
            if at is None:
                continue
            if latest is not None and abs(at - latest) > DISORDER_SECONDS:
                break
            if latest is None or at >= latest:
                latest, lines = at, since
    return None if latest is None else LogMark(latest, lines)


def _lines_backwards(path: Path, begin: int) -> Iterator[bytes]:
    """Yield the whole lines of a file from a byte on, the last one first."""
    with _mapped(path) as data:
        end = data.rfind(b"\n", begin)
        while end >= begin:
            start = max(data.rfind(b"\n", begin, end) + 1, begin)
            yield data[start:end]
            end = start - 1


def stamp(at: float) -> bytes:
    """Write a time (Unix seconds) as log lines begin with it: ``2026-11-20T08:15:30.123456Z``."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='microseconds')}Z".encode()


def created(at: float) -> Transition:
    """Build the first state of every run."""
    return Transition(phase=Phase.CREATED, at=at, cause="Recorded; nothing was started yet.")


def pertinent(wishes: tuple[Wish, ...], phase: Phase) -> tuple[Wish, ...]:
    """Return the wishes of a run in a phase: one that is final is not cancelled any more."""
    return tuple(wish for wish in wishes if not (phase.final and wish.kind == "cancel"))


def decoded(data: bytes | str, kind: type[_T], where: str) -> _T:
    """Decode JSON that k8sbench wrote once; :class:`StoreError` says where it is not that."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise StoreError(
            f"{where} cannot be read: {wrong}.",
            "It was damaged, or written by another version of k8sbench.",
        ) from wrong


def encoded(value: msgspec.Struct) -> bytes:
    """Encode as JSON; refuses what could not be read back (NaN where a figure must be)."""
    try:
        text = msgspec.json.encode(value)
        msgspec.json.decode(text, type=type(value))
    except (msgspec.MsgspecError, UnicodeError, OverflowError) as wrong:
        raise StoreError(
            f"A {type(value).__name__} holds what JSON cannot: {wrong}.",
            "This is a fault of k8sbench, or of a name that is no valid text.",
        ) from wrong
    return text


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader, and a kill at any moment, finds the old or the new one."""
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file piece by piece that is there when it is complete, and not before."""
    half = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with translated(f"write {path}"):
        try:
            with half.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        except BaseException:
            half.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def store_error(wrong: OSError, doing: str) -> StoreError:
    """Describe why a file could not be read or written."""
    if wrong.errno in _DISK_FULL:
        return StoreError(
            f"Cannot {doing}: the disk is full, or its quota is used up.",
            "Free some space and try again; what was recorded before is kept.",
        )
    return StoreError(
        f"Cannot {doing}: {wrong.strerror or wrong}.",
        "Name another place with --store or K8SBENCH_STORE if this one cannot be used.",
    )


@contextlib.contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn the system's errors into :class:`StoreError`."""
    try:
        yield
    except OSError as wrong:
        raise store_error(wrong, doing) from wrong


def _read(path: Path) -> bytes | None:
    """Read a file; None if it is not there."""
    with translated(f"read {path}"), contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _pretty(value: msgspec.Struct) -> bytes:
    return msgspec.json.format(encoded(value), indent=2) + b"\n"


def _write_all(file: BinaryIO, data: bytes) -> None:
    """Write unbuffered to the end: the system may take a part only."""
    while data:
        data = data[file.write(data) :]


def _open_to_append(path: Path) -> BinaryIO:
    """Open a file of lines, unbuffered, without the half line that a killed writer left."""
    file = path.open("ab", buffering=0)
    if (size := file.tell()) and (whole := _whole(path)) < size:
        file.truncate(whole)
    return file


def _whole(path: Path) -> int:
    """Count the bytes of a file up to its last line end."""
    with _mapped(path) as data:
        return data.rfind(b"\n") + 1


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap | bytes]:
    """Map a file into memory: only the parts that are looked at are read."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # nothing can be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def _sync_folder(path: Path) -> None:
    """Flush a rename or a new folder to the disk, where the file system can."""
    with contextlib.suppress(OSError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
