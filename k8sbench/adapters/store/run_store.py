"""The store: a folder of plain files for each run, and a database row that is an index over it.

Every change goes to the folder first and to the row second, inside one transaction that excludes
other writers: a process that is killed between the two, or meets a full disk there, leaves a row
that is behind. A run that goes on is therefore always read from both; what its folder knows more
counts, and the next change writes it to the row. :mod:`k8sbench.adapters.store.sql_store` does the
same for a whole store, and opens stores.

One code path serves SQLite (the default) and PostgreSQL; what differs is in
:mod:`k8sbench.adapters.store.database` and :mod:`k8sbench.adapters.store.claims`. On PostgreSQL the
rows of requests decide: any machine may record or fulfil one, also one without the run's folder.
"""

from __future__ import annotations

import contextlib
import platform
import secrets
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, claims, disk, index, run_logs
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.database import Database, made_again
from k8sbench.adapters.store.index import IDENTITY, RUNS
from k8sbench.adapters.store.run_logs import LogWriter
from k8sbench.model import attempts, creation
from k8sbench.model.baseline import Baseline
from k8sbench.model.errors import (
    FilesElsewhere,
    NotFound,
    RepeatTaken,
    StoreError,
    UsageError,
    did_you_mean,
)
from k8sbench.model.identity import checked_run_id, checked_set_name
from k8sbench.model.kinds import rank_order
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run, Wish
from k8sbench.ports import LogMark, RunFilter

IDENTITY_FILE = "store.id"
"""Keeps the identity of a SQLite store."""
PROBE, PROBE_BYTES = "writable", 4096
"""A file that is written to see whether there is room."""
REINDEX = "See what is left of it with: k8sbench store reindex"


class SqlStore:
    """Implements :class:`k8sbench.ports.Store`, on a database of the present layout."""

    def __init__(self, base: Database, root: Path) -> None:
        self.database = base
        self.root = root
        """The folder that holds ``runs/``."""
        self.absent = False
        """True where there is no store yet, and this one only reads as empty."""
        self.unreadable: dict[str, str] = {}
        """Run id → why neither its row nor its folder could be read, of those met so far."""
        self._behind = set[str]()
        """Runs whose rows and folders were seen to differ, or of which one cannot be read."""
        self.claims: claims.FileClaims | claims.PostgresClaims = claims.FileClaims(root)
        if base.kind == "postgresql":
            self.claims = claims.PostgresClaims(base)

    @property
    def has_all_folders(self) -> bool:
        """Whether every run has its folder here: then the folders alone decide."""
        return self.database.kind == "sqlite"

    @property
    def where(self) -> str:
        """The place, for people; never with a password."""
        return self.database.shown

    @property
    def identity(self) -> str:
        """What the store is known by on clusters, from whatever host and path it is opened.

        Lower-case letters and digits, drawn when it was made.
        """
        if self.absent:
            return secrets.token_hex(8)
        if self.has_all_folders:
            path = self.root / IDENTITY_FILE
            with disk.locked(self.root), disk.translated(f"read {path}"):
                if not path.exists():
                    disk.write_whole(path, f"{secrets.token_hex(8)}\n".encode())
                return path.read_text(errors="replace").strip()
        with self.database.reading() as db:
            return str(db.scalar(sa.select(IDENTITY.c.id)))

    @made_again
    def next_repeat(self, set_name: str, case_key: str) -> int:
        """The first repeat number that no run of this case has in this set."""
        with self.database.reading() as db:
            return index.free_repeat(db, set_name, case_key)

    @made_again
    def record(
        self, plan: RunPlan, *, at: float, owner: Owner | None, location: Location | None = None
    ) -> Run:
        """Record a run before it starts."""
        # A plan may come from a job's annotation: its names become a folder and labels.
        checked_set_name(plan.set_name)
        folder = self.run_folder(checked_run_id(plan.run_id))
        artifacts.encoded(plan)  # raises for what is no valid text
        run = Run(
            plan=plan,
            created_at=at,
            owner=owner,
            history=(artifacts.created(at),),
            artifacts=str(folder.path),
            location=location,
        )
        made = False
        try:
            with self.database.writing() as db:
                # The row first, because it may be refused; it counts only when the files stand.
                self._insert(db, run)
                # One without a run was left by a process that was killed before it was recorded.
                if folder.holds_a_run:
                    raise StoreError(
                        f"There is a run in {folder.path} that the database does not know.",
                        "Add it to the database with: k8sbench store reindex",
                    )
                made = not folder.path.exists()
                folder.save(run)
        except Exception:  # not an interrupt: it may come when all is done
            if made:
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
        """Add a transition, and what comes with it; a final run stays as it is."""
        transition = msgspec.structs.replace(
            transition,
            cause=_clean(transition.cause),
            action=transition.action and _clean(transition.action),
        )

        def moved(run: Run) -> Run:
            if run.phase.final or run.history[-1] == transition:
                return run
            is_new = owes is not None and run.wish(owes.kind) is None
            return msgspec.structs.replace(
                run,
                history=(*run.history, transition),
                wishes=(*run.wishes, owes) if owes and is_new else run.wishes,
                image_digest=image or run.image_digest,
            )

        return self._change(run_id, moved)

    def wish(self, run_id: str, wish: Wish) -> Run:
        """Record a wish, replacing an earlier one of its kind; a final run is not cancelled."""
        wish = msgspec.structs.replace(wish, cause=_clean(wish.cause))
        return self._change(run_id, lambda run: _wishing(run, wish.kind, wish))

    def fulfilled(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        """Take back a wish that was fulfilled, or refused; does nothing if there is none."""
        return self._change(run_id, lambda run: _wishing(run, kind))

    def reopen(
        self, plan: RunPlan, *, at: float, owner: Owner | None, location: Location | None
    ) -> Run:
        """Take a run up again that is over: its job was not created, or its training goes on."""

        def reopened(run: Run) -> Run:
            if creation.may_be_submitted_again(run):
                again = creation.again(at)
            elif attempts.keeps_checkpoints(run):
                again = attempts.continued(plan, run.attempt, at)
            else:
                raise StoreError(f"Run {run.run_id} is {run.phase}.", "Take another --run-id.")
            return msgspec.structs.replace(
                run,
                plan=plan,
                owner=owner,
                location=location,
                history=(*run.history, again),
                wishes=(),
                measurement=None,
            )

        return self._change(plan.run_id, reopened)

    def measured(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""
        return self._change(
            run_id, lambda run: msgspec.structs.replace(run, measurement=measurement)
        )

    def update_from_folder(self, run_id: str) -> Run:
        """Copy what the folder has and the row lacks into the row; returns the run as it is then.

        That is what a process leaves which is killed after it wrote the file. What cannot be read
        of the folder is written anew from the row.
        """

        return self._change(run_id, lambda run: run)

    @made_again
    def _change(self, run_id: str, change: Callable[[Run], Run]) -> Run:
        """Change a run: its folder first, then its row, with what the folder knew more than it."""
        with self.database.writing() as db:
            run = self._one(db, index.LOCKED_RUN, run_id)
            self.claims.check(run_id, db)
            new = change(run)
            if new.plan is not run.plan:  # it may be of another case, whose repeat is taken
                index.delete(db, run_id)
                self._insert(db, new)
            if run.artifacts is not None:
                self.run_folder(run_id).save(new)
            wishes = artifacts.pertinent(new.wishes, new.phase)
            new = msgspec.structs.replace(new, wishes=wishes)
            index.update(db, new)
        return new

    @made_again
    def run(self, run_id: str) -> Run:
        """The run, or :class:`NotFound` with the nearest ids."""
        with self.database.reading() as db:
            run = self._one(db, index.RUN, run_id)
        self._mend()
        return run

    @made_again
    def runs(self, wanted: RunFilter) -> list[Run]:
        """The runs that match, oldest first; what cannot be read is in :attr:`unreadable`."""
        with self.database.reading() as db:
            found = self.load(db, index.filtered(wanted))
            runs = [run for run in found if index.matches(run, wanted)]
        self._mend()
        return runs if wanted.limit is None else runs[max(len(runs) - wanted.limit, 0) :]

    @made_again
    def ids(self) -> list[str]:
        """All run ids, oldest first."""
        with self.database.reading() as db:
            return index.ids(db)

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts; :class:`FilesElsewhere` if it is not here."""
        here = self.run_folder(run_id)
        if here.is_there:  # the row would say the same
            return here.path
        run = self.run(run_id)
        if run.artifacts is None:
            missing = run.artifacts_missing or ""
            raise FilesElsewhere(missing, "Ask for them there, or copy the folder from there.")
        return Path(run.artifacts)

    @made_again
    def ensure_folder(self, run_id: str) -> None:
        """Make a run's folder from its row where its files are not here, and say so in the row."""
        with self.database.writing() as db:
            run = self._one(db, index.LOCKED_RUN, run_id)
            self.claims.check(run_id, db)
            if run.artifacts is None:
                self.run_folder(run_id).save(run)
                index.files_are_at(db, run_id, self.here)

    def last_written_at(self, run_id: str) -> float | None:
        """When anything in the run's folder was last written; None where that cannot be seen."""
        folder, written = self.run_folder(run_id).path, list[float]()
        for path in (*folder.glob("*"), *folder.glob(f"{run_logs.LOGS}/*")):
            with contextlib.suppress(OSError):
                written.append(path.stat().st_mtime)
        return max(written, default=None)

    def keep(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact whole, or not at all."""
        RunFolder(self.folder(run_id)).write(name, text.encode("utf-8", "backslashreplace"))

    def kept(self, run_id: str, name: str) -> bytes | None:
        """Read one artifact; None where the run has none of the name."""
        return disk.read(self.folder(run_id) / name)

    def archive(self, run_id: str) -> LogWriter:
        """Open the run's log files for appending."""
        check = partial(self.claims.check, run_id)
        return LogWriter(self.folder(run_id), check, partial(self._shorten_log, run_id))

    def _shorten_log(self, run_id: str, replica: str, at: int, by: int) -> None:
        """Note that of a log so many bytes from a place on are about to be left out."""
        begins = self._log_begins(run_id)
        if (begin := begins.get(replica, 0)) > at:
            begins[replica] = max(at, begin - by)
            self.keep(run_id, artifacts.LOG_BEGINS, msgspec.json.encode(begins).decode() + "\n")

    def _log_begins(self, run_id: str) -> dict[str, int]:
        """Read where the logs of the present attempt begin, by replica, in bytes."""
        return RunFolder(self.folder(run_id)).read(artifacts.LOG_BEGINS, dict[str, int]) or {}

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """How far each replica's log is archived, by replica, of the run's present attempt."""
        begins = self._log_begins(run_id)
        marks = {
            path.stem: run_logs.log_mark(path, begins.get(path.stem, 0))
            for path in self.log_files(run_id)
        }
        return {replica: mark for replica, mark in marks.items() if mark is not None}

    def begin_attempt(self, run_id: str) -> None:
        """Note where the logs of another attempt begin: where those of the one before end."""
        with disk.translated(f"read the logs of run {run_id}"):
            sizes = {path.stem: disk.whole_size(path) for path in self.log_files(run_id)}
        self.keep(run_id, artifacts.LOG_BEGINS, msgspec.json.encode(sizes).decode() + "\n")

    def log_files(self, run_id: str) -> list[Path]:
        """The run's log files, master first, then workers by number; empty if it left none."""
        logs = self.folder(run_id) / run_logs.LOGS
        with disk.translated(f"read {logs}"):
            found = [path for path in logs.glob(f"*{run_logs.LOG_SUFFIX}") if path.is_file()]
        return sorted(found, key=lambda path: rank_order(path.stem))

    @made_again
    def save_baseline(self, baseline: Baseline, *, replace: bool = False) -> None:
        """Keep a baseline; one of its name is an error, unless it is to be replaced."""
        name = checked_set_name(baseline.name, "baseline")
        with self.database.writing() as db:
            known = None if replace else index.baselines(self.root, db).get(name)
            if known is not None and index.baseline_of(name, known) != baseline:
                raise UsageError(
                    f"There is a baseline {name!r} already.",
                    "Choose another name, or replace it with --replace.",
                )
            index.put_baseline(self.root, db, name, baseline)

    @made_again
    def baselines(self) -> list[Baseline]:
        """All baselines, by name."""
        with self.database.reading() as db:
            kept = index.baselines(self.root, db)
        return [index.baseline_of(name, content) for name, content in kept.items()]

    @made_again
    def remove_baseline(self, name: str) -> None:
        """Remove a baseline, also one that cannot be read, or raise :class:`NotFound`."""
        with self.database.writing() as db:
            names = list(index.baselines(self.root, db))
            if name not in names:
                action = did_you_mean(name, names) + "k8sbench baseline list shows them."
                raise NotFound(f"There is no baseline {name!r}.", action)
            index.put_baseline(self.root, db, name, None)

    def check_writable(self) -> None:
        """Raise :class:`StoreError` where runs cannot be recorded now: no room, no database."""
        disk.write_whole(self.root / PROBE, bytes(PROBE_BYTES))
        with self.database.writing() as db:
            db.execute(sa.select(RUNS.c.run_id).limit(1))

    def close(self) -> None:
        """Release all claims and close the database."""
        self.claims.close()
        self.database.close()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _insert(self, db: sa.Connection, run: Run) -> None:
        """Add a run's rows, or say which of its names is taken."""
        plan = run.plan
        if index.has(db, plan.run_id):
            raise UsageError(
                f"There is a run {plan.run_id!r} already.", f"See: k8sbench status {plan.run_id}"
            )
        try:
            index.insert(db, index.of_run(run, self.here), run.wishes)
        except sa.exc.IntegrityError as wrong:
            # Or another machine recorded the id just now: with the next repeat the id is refused.
            raise RepeatTaken(
                f"Set {plan.set_name} has repeat {plan.repeat} of {plan.benchmark} {plan.framework}"
                f" {plan.case} {plan.precision} already.",
                "Draw the next repeat.",
            ) from wrong

    def load(self, db: sa.Connection, query: sa.Select[Any], **values: str) -> list[Run]:
        """Read the runs of some rows, those that go on also from their folders."""
        runs = []
        for row in db.execute(query, values).mappings():
            try:
                runs.append(self._read(row))
            except (StoreError, ValueError) as damage:
                self.unreadable[row["run_id"]] = str(damage)
        return runs

    def _read(self, row: sa.RowMapping) -> Run:
        folder = self.run_folder(row["run_id"])
        is_there = folder.is_there
        try:
            run = index.run_of(row)
        except (StoreError, ValueError):
            if not is_there:
                raise
            kept, _ = folder.run()  # the row is an index: the folder has all of it
            self._behind.add(kept.run_id)
            wishes = kept.wishes if self.has_all_folders else index.wishes_of(row)
            return msgspec.structs.replace(index.numbered(kept, row["repeat"]), wishes=wishes)
        if not is_there:
            known = f"; they were last written on {row['files_at']}" if row["files_at"] else ""
            missing = f"The files of run {run.run_id} are not in {folder.path}{known}."
            return msgspec.structs.replace(run, artifacts_missing=missing)
        run = msgspec.structs.replace(run, artifacts=str(folder.path))
        if row["closed"]:
            return run
        try:
            kept, problems = folder.run()
        except StoreError:
            self._behind.add(run.run_id)
            return run
        merged = self.merged(run, kept, whole=not problems)
        if problems or merged != run:
            self._behind.add(run.run_id)
        return merged

    def merged(self, row: Run, kept: Run, *, whole: bool) -> Run:
        """Combine a run's row with its folder, which is written first and so holds more.

        A folder that is not ``whole`` may hold less. On PostgreSQL another machine may have gone on
        with the run: there the folder counts where it continues what the row says.
        """
        continues = kept.history[: len(row.history)] == row.history
        if self.has_all_folders:
            continues = continues or len(kept.history) >= len(row.history)
        first, second = (kept, row) if self.has_all_folders and whole else (row, kept)
        history = kept.history if continues else row.history
        return msgspec.structs.replace(
            index.numbered(kept, row.plan.repeat),
            history=history,
            measurement=first.measurement or second.measurement,
            image_digest=first.image_digest or second.image_digest,
            wishes=artifacts.pertinent(first.wishes, history[-1].phase),
        )

    def _mend(self) -> None:
        """Mend the runs that were met and whose rows and folders differ, or cannot be read."""
        behind, self._behind = self._behind, set()
        for run_id in behind if self.database.writable else ():
            # Where it cannot be written now, a later command does it.
            with contextlib.suppress(StoreError, NotFound):
                self.update_from_folder(run_id)
                self._behind.discard(run_id)

    def _one(self, db: sa.Connection, query: sa.Select[Any], run_id: str) -> Run:
        runs = self.load(db, query, id=run_id)
        if runs:
            return runs[0]
        if run_id in self.unreadable:
            raise StoreError(self.unreadable[run_id], REINDEX)
        action = did_you_mean(run_id, index.ids(db)) + "k8sbench list shows the runs."
        raise NotFound(f"There is no run {run_id!r} in the store {self.where}.", action)

    def run_folder(self, run_id: str) -> RunFolder:
        """Where a run has its files, if they are here."""
        return RunFolder(self.root / artifacts.RUNS / run_id)

    @property
    def here(self) -> str:
        """Where this process keeps files: a hint for people, which nothing depends on."""
        return f"{platform.node()}:{self.root}"


def _clean(text: str) -> str:
    """Make a sentence that quotes a log fit for every database: no NUL, no half characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _wishing(run: Run, kind: str, *wishes: Wish) -> Run:
    """Replace the wish of a kind; a run that is final is not cancelled any more."""
    others = tuple(wish for wish in run.wishes if wish.kind != kind)
    return msgspec.structs.replace(run, wishes=artifacts.pertinent((*others, *wishes), run.phase))
