"""The store: a folder per run, indexed by a SQLite file.

The folders are the truth, and the file is their index, which :mod:`.open_store` keeps so. A query
finds the ids of runs in the index, and each run is read from its folder.

A change writes the folder inside the transaction that writes the row and excludes other writers. A
process that is killed before the transaction ends, or meets a full disk, leaves a row that is
behind its folder. The state in the row of an open run is therefore never relied on.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace

from k8sbench.model import creation
from k8sbench.model.errors import NotFound, StoreError, UsageError, did_you_mean
from k8sbench.model.facts import Facts
from k8sbench.model.kinds import rank_order
from k8sbench.model.measurement import Measurement
from k8sbench.model.names import checked_run_id, checked_set_name
from k8sbench.model.phase import Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogMark
from k8sbench.model.run import Baseline, Location, Process, Run, Wish
from k8sbench.model.series import AcceptedLevel, SeriesRange
from k8sbench.store import (
    baselines,
    disk,
    index,
    indexing,
    json_files,
    log_archive,
    run_folder,
    series_files,
)
from k8sbench.store.database import DATABASE, Database
from k8sbench.store.group_index import GroupIndex
from k8sbench.store.interface import EVERY_RUN, RunFilter
from k8sbench.store.log_archive import LogWriter
from k8sbench.store.run_folder import RunFolder

IDENTITY_FILE = "store.id"
"""Keeps the identity of a store."""
PROBE, PROBE_BYTES = "writable", 4096
"""A file that is written to see whether there is room."""
REINDEX = "Rebuild the index and list damaged runs: k8sbench store reindex"


class SqlStore:
    """Implements :class:`k8sbench.store.interface.Store`, on a database of the present layout."""

    def __init__(self, base: Database, root: Path) -> None:
        self.database = base
        self.root = root
        """The folder that holds ``runs/``."""
        self.where = base.shown
        """The place, for people."""
        self.absent = False
        """True without a store; this one is empty and cannot be written."""
        self.unreadable: dict[str, str] = {}
        """Reason by run id for runs that could not be read."""
        self.damaged_baselines: dict[str, str] = {}
        """Reason by name for baselines that could not be read."""
        self.claims = disk.FileClaims(root)
        self._inodes_when_opened = self._inodes()

    @property
    def group_index(self) -> GroupIndex:
        """The groups of the store."""
        return GroupIndex(self.database)

    @property
    def identity(self) -> str:
        """Id of the store on clusters, independent of host and path.

        Lower-case letters and digits, drawn at its creation.
        """
        if self.absent:
            return secrets.token_hex(8)
        path = self.root / IDENTITY_FILE
        with disk.lock_folder(self.root), disk.translate_errors(f"read {path}"):
            if not path.exists():
                disk.write_whole(path, f"{secrets.token_hex(8)}\n".encode())
            identity = path.read_text(errors="replace").strip()
        if re.fullmatch(r"[a-z0-9]+", identity) is None:
            action = "Bring it back from a copy. Without it the store gets another identity."
            raise StoreError(f"{path} does not hold the store's identity.", action)
        return identity

    def next_repeat(self, set_name: str, case_key: str) -> int:
        """Return the first free repeat of a case in a set."""
        with self.database.reading() as db:
            taken_repeats = index.taken_repeats(db, set_name, case_key)
        return min(set(range(1, len(taken_repeats) + 2)) - taken_repeats)

    def record(
        self,
        case: RunPlan | Facts,
        /,
        *,
        at: float,
        process: Process | None,
        location: Location | None = None,
        has_job: bool = False,
    ) -> Run:
        """Record a new run; ``has_job``: another store has submitted it."""
        # A plan may come from a job's annotation: its names become a folder and labels.
        checked_set_name(case.set_name)
        folder = self.run_folder(checked_run_id(case.run_id))
        run = Run(
            planned=case if isinstance(case, RunPlan) else None,
            known=case if isinstance(case, Facts) else None,
            created_at=at,
            process=process,
            history=(run_folder.first_transition(at),),
            artifacts=str(folder.path),
            location=location,
        )
        is_new_folder = False
        try:
            with self.changing_folders() as db:
                if index.has_row(db, case.run_id):
                    raise UsageError(
                        f"There is a run {case.run_id!r} already.",
                        f"See: k8sbench status {case.run_id}",
                    )
                if not has_job:
                    index.check_repeat(db, run)
                index.put(db, run)
                # A folder without a run was left by a process that was killed.
                if folder.holds_a_run:
                    raise StoreError(
                        f"There is a run in {folder.path} that the database does not know.",
                        "Add it to the database with: k8sbench store reindex",
                    )
                is_new_folder = not folder.path.exists()
                folder.save(run)
        except Exception:  # not an interrupt: it may come when all is done
            if is_new_folder:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        return run

    def move(
        self,
        run_id: str,
        transition: Transition,
        *,
        owes: Wish | None = None,
        image: str | None = None,
    ) -> Run:
        """Add a transition and its companions; a final run stays unchanged."""
        action = transition.action and _clean_text(transition.action)
        transition = replace(transition, cause=_clean_text(transition.cause), action=action)

        def add_transition(run: Run) -> Run:
            if run.phase.final or run.history[-1] == transition:
                return run
            is_new = owes and run.wish(owes.kind) is None
            return replace(
                run,
                history=(*run.history, transition),
                wishes=(*run.wishes, owes) if owes and is_new else run.wishes,
                image_digest=image or run.image_digest,
            )

        return self._change(run_id, add_transition)

    def wish(self, run_id: str, wish: Wish) -> Run:
        """Record a request in place of the previous one of its kind.

        A final run is not cancelled any more.
        """
        wish = replace(wish, cause=_clean_text(wish.cause))
        return self._change(run_id, lambda run: _replace_wish(run, wish.kind, wish))

    def remove_wish(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        """Remove a fulfilled or refused request, if any."""
        return self._change(run_id, lambda run: _replace_wish(run, kind))

    def reopen(
        self, plan: RunPlan, *, at: float, process: Process | None, location: Location | None
    ) -> Run:
        """Reopen a run whose job was not created, or an ended one whose training continues."""

        def reopen_run(run: Run) -> Run:
            if creation.may_be_submitted_again(run) or creation.waits_for_turn(run):
                again = creation.submitted_again(at)
            elif creation.keeps_checkpoints(run):
                again = creation.training_continues(plan, run.attempt, at)
            else:
                raise StoreError(f"Run {run.run_id} is {run.phase}.", "Take another --run-id.")
            return replace(
                run,
                planned=plan,
                process=process,
                location=location,
                history=(*run.history, again),
                wishes=(),
                measurement=None,
            )

        return self._change(plan.run_id, reopen_run)

    def save_measurement(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""
        return self._change(run_id, lambda run: replace(run, measurement=measurement))

    def save_facts(self, run_id: str, facts: Facts) -> Run:
        """Replace the facts of a run: those of an observed job are complete at its end."""
        return self._change(run_id, lambda run: replace(run, planned=None, known=facts))

    def _change(self, run_id: str, change: Callable[[Run], Run]) -> Run:
        """Change a run, in its row and its folder."""
        folder = self.run_folder(run_id)
        with self.database.writing() as db:
            run = self._find_run(db, run_id)
            new = change(run)
            after = replace(new, wishes=run_folder.still_open(new.wishes, new.phase))
            if after.case_key != run.case_key:
                index.check_repeat(db, after)
            index.put(db, after)
            folder.save(new, run)
        return after

    def run(self, run_id: str) -> Run:
        """The run, or :class:`NotFound` with the nearest ids."""
        with self.database.reading() as db:
            return self._find_run(db, run_id)

    def runs(self, run_filter: RunFilter, known: Mapping[str, Run] | None = None) -> list[Run]:
        """Return the matching runs, oldest first; see also :attr:`unreadable`.

        Runs in ``known`` are not read again.
        """
        with self.database.reading() as db:
            run_ids = index.ids(db, run_filter)
        runs: list[Run] = []
        for run_id in reversed(run_ids):
            if run_filter.limit is not None and len(runs) == run_filter.limit:
                break
            run = (known or {}).get(run_id)
            if run is None and run_filter.wished and not self.run_folder(run_id).has_wishes:
                continue
            run = run or self.read_run(run_id)
            if run is not None and index.matches(run, run_filter):
                runs.append(run)
        return runs[::-1]

    def ids(self, run_filter: RunFilter = EVERY_RUN) -> list[str]:
        """Return the ids of the runs that match, oldest first, by the index alone.

        A filter of states also gives runs that do not match.
        """
        with self.database.reading() as db:
            return index.ids(db, run_filter)

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts."""
        run_folder = self.run_folder(run_id)
        if not run_folder.is_there:
            self.run(run_id)  # raises: there is no such run, or it is damaged
        return run_folder.path

    def last_written_at(self, run_id: str) -> float | None:
        """Return when a file of the run was last written; None if unknown."""
        with contextlib.suppress(OSError):
            files = self.run_folder(run_id).path.rglob("*")
            return max((file.lstat().st_mtime for file in files if file.exists()), default=None)
        return None

    def write_artifact(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact whole, or not at all."""
        RunFolder(self.folder(run_id)).write(name, text.encode("utf-8", "backslashreplace"))

    def read_artifact(self, run_id: str, name: str) -> bytes | None:
        """Read one artifact; None without it."""
        return disk.read(self.folder(run_id) / name)

    def archive(self, run_id: str) -> LogWriter:
        """Open the run's log files for appending."""
        return LogWriter(self.folder(run_id))

    def _log_begins(self, run_id: str) -> dict[str, int]:
        """Return the start of the present attempt's logs, by replica, bytes."""
        return RunFolder(self.folder(run_id)).read(run_folder.LOG_BEGINS, dict[str, int]) or {}

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """Return the archive marks of the present attempt's logs, by replica."""
        begins = self._log_begins(run_id)
        marks = {
            path.stem: log_archive.find_log_mark(path, begins.get(path.stem, 0))
            for path in self.log_files(run_id)
        }
        return {replica: mark for replica, mark in marks.items() if mark is not None}

    def begin_attempt(self, run_id: str) -> None:
        """Record where the logs of a new attempt begin."""
        with disk.translate_errors(f"read the logs of run {run_id}"):
            sizes = {path.stem: disk.whole_size(path) for path in self.log_files(run_id)}
        self.write_artifact(
            run_id, run_folder.LOG_BEGINS, msgspec.json.encode(sizes).decode() + "\n"
        )

    def log_files(self, run_id: str) -> list[Path]:
        """Return the run's log files, master first, then workers by number."""
        logs = self.folder(run_id) / run_folder.LOGS
        with disk.translate_errors(f"read {logs}"):
            paths = [path for path in logs.glob(f"*{run_folder.LOG_SUFFIX}") if path.is_file()]
        return sorted(paths, key=lambda path: rank_order(path.stem))

    def save_baseline(self, baseline: Baseline, *, replace: bool = False) -> None:
        """Store a baseline; an existing name is an error unless replaced."""
        name = checked_set_name(baseline.name, "baseline")
        with self.database.writing():
            existing = None if replace else baselines.read(self.root, name)
            if existing not in (None, baseline):
                raise UsageError(
                    f"There is a baseline {name!r} already.",
                    "Choose another name, or replace it with --replace.",
                )
            disk.write_whole(baselines.path_of(self.root, name), json_files.encode_file(baseline))

    def baselines(self) -> list[Baseline]:
        """All readable baselines, by name; see also :attr:`damaged_baselines`."""
        saved = []
        for name in baselines.list_names(self.root):
            try:
                saved.append(baselines.read(self.root, name))
            except StoreError as damage:
                self.damaged_baselines[name] = str(damage)
        return [baseline for baseline in saved if baseline is not None]

    def remove_baseline(self, name: str) -> None:
        """Remove a baseline, even an unreadable one; raises :class:`NotFound`."""
        with self.database.writing():
            names = baselines.list_names(self.root)
            if name not in names:
                action = did_you_mean(name, names) + "k8sbench baseline list shows them."
                raise NotFound(f"There is no baseline {name!r}.", action)
            with disk.translate_errors(f"remove the baseline {name}"):
                baselines.path_of(self.root, name).unlink()

    def accepted_levels(self) -> tuple[AcceptedLevel, ...]:
        """Return the accepted levels, one for each case."""
        return series_files.LEVELS.read(self.root)

    def accept_levels(self, levels: Iterable[AcceptedLevel]) -> None:
        """Accept levels of cases."""
        with self.database.writing():
            series_files.LEVELS.add(self.root, levels, replaces=True)

    def add_levels(self, levels: Iterable[AcceptedLevel]) -> None:
        """Accept levels of cases of which none was accepted."""
        with self.database.writing():
            series_files.LEVELS.add(self.root, levels, replaces=False)

    def series_ranges(self) -> tuple[SeriesRange, ...]:
        """Return the ranges of series, one for each case that has one."""
        return series_files.RANGES.read(self.root)

    def fix_ranges(self, ranges: Iterable[SeriesRange], *, replaces: bool = False) -> None:
        """Keep ranges of cases; a case that has one keeps it unless the new one replaces it."""
        with self.database.writing():
            series_files.RANGES.add(self.root, ranges, replaces=replaces)

    def _inodes(self) -> list[int]:
        """Return the inodes of the folder and the index that the store's path names now."""
        paths = (self.root, self.root / DATABASE)
        return [path.stat().st_ino for path in paths if path.exists()]

    def check_writable(self) -> None:
        """Raise :class:`StoreError` if runs cannot be recorded now.

        A store that was deleted or replaced since it was opened still takes rows, which nobody will
        ever read.
        """
        with disk.translate_errors(f"read the store {self.root}"):
            is_same = self._inodes() == self._inodes_when_opened
        if not is_same:
            raise StoreError(
                f"The store {self.root} was deleted or replaced since it was opened.",
                "Bring its folder back from a copy.",
            )
        disk.write_whole(self.root / PROBE, bytes(PROBE_BYTES))
        with self.database.writing():
            pass

    def close(self) -> None:
        """Release all claims and close the database."""
        self.claims.close()
        self.database.close()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_run(self, run_id: str) -> Run | None:
        """Read a run; None if it was just removed, or for one in :attr:`unreadable`."""
        folder = self.run_folder(run_id)
        try:
            run = folder.run()
        except StoreError as damage:
            if folder.path.exists():
                self.unreadable[run_id] = str(damage)
            return None
        self.unreadable.pop(run_id, None)
        return run

    def _find_run(self, db: sqlite3.Connection, run_id: str) -> Run:
        run = self.read_run(run_id) if index.has_row(db, run_id) else None
        if run is not None:
            return run
        if run_id in self.unreadable:
            raise StoreError(self.unreadable[run_id], REINDEX)
        action = did_you_mean(run_id, index.ids(db, EVERY_RUN)) + "k8sbench list shows the runs."
        raise NotFound(f"There is no run {run_id!r} in the store {self.where}.", action)

    @contextlib.contextmanager
    def changing_folders(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction that makes or removes folders together with their rows."""
        with self.database.writing() as db:
            # Folders of a killed process are indexed now, before they look like changes of ours.
            if not indexing.is_current(db, self.root):
                indexing.index_changes(db, self.root)
            yield db
            indexing.note_generation(db, self.root)

    def run_folder(self, run_id: str) -> RunFolder:
        """Return the folder of a run's files, if they are here."""
        return RunFolder(self.root / run_folder.RUNS / run_id)


def _clean_text(text: str) -> str:
    """Return a quoted sentence without NUL and lone surrogates, which databases refuse."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _replace_wish(run: Run, kind: str, *wishes: Wish) -> Run:
    """Replace the request of a kind; a final run is not cancelled."""
    others = tuple(wish for wish in run.wishes if wish.kind != kind)
    return replace(run, wishes=run_folder.still_open((*others, *wishes), run.phase))
