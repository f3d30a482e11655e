"""The store: a database row for each run, beside its folder of plain files.

Every change goes to the folder first and to the database second, inside one transaction that
excludes other writers: a process killed between the two leaves a folder that knows more than the
row, never a row that knows more than the folder. :meth:`SqlStore.update_from_folder` closes that
gap for a run, :mod:`k8sbench.adapters.store.upkeep` for a whole store.

One code path serves SQLite (the default) and PostgreSQL; what differs is in
:mod:`k8sbench.adapters.store.database` and :mod:`k8sbench.adapters.store.claims`.
"""

from __future__ import annotations

import difflib
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import (
    artifacts,
    baselines,
    claims,
    database,
    disk,
    migrations,
    places,
    rows,
    run_logs,
)
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.database import Database
from k8sbench.adapters.store.outages import made_again
from k8sbench.adapters.store.rows import IDENTITY, RUNS, free_repeat
from k8sbench.adapters.store.run_logs import LogFiles, LogWriter
from k8sbench.model import creation
from k8sbench.model.baseline import Baseline
from k8sbench.model.errors import FilesElsewhere, NotFound, RepeatTaken, StoreError, UsageError
from k8sbench.model.identity import checked_run_id, checked_set_name
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run, Wish
from k8sbench.ports import LogMark, RunFilter

IDENTITY_FILE = "store.id"
"""Keeps the identity of a SQLite store for a database that is made anew."""


def open_store(
    where: str | None = None, *, create: bool = True, folder: Path | None = None
) -> SqlStore:
    """Open a store: a folder, or a ``postgresql://`` URL.

    Without ``where`` it is ``$K8SBENCH_STORE``, else ``$XDG_DATA_HOME/k8sbench``. With
    ``create=False`` a place without a store reads as an empty one, and is not made. ``folder`` is
    where a PostgreSQL store keeps the runs' folders; by default that same data folder.
    """
    root = places.place(where)
    if isinstance(root, str):
        folder = folder or places.default_folder()
        _keep_private(folder)
        return SqlStore(database.open_postgres(root), folder)
    with disk.translated(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        if (root / database.DATABASE).exists():
            _keep_private(root)
            return SqlStore(database.open_sqlite(root), root)
        if any((root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")):
            raise StoreError(
                f"There are runs in {root / artifacts.RUNS}, but their database is gone.",
                f"Create it again from them with: {database.rebuild_command(root)}",
            )
        if not create:
            return SqlStore(database.open_memory(str(root)), root, absent=True)
        if root.exists() and not any(root.iterdir()):
            disk.restrict(root)  # a folder that was made for it; any other is left as it is
        disk.make_folder(root / artifacts.RUNS)
        return SqlStore(database.open_sqlite(root), root)


def _keep_private(root: Path) -> None:
    """Restrict what a version of before made for all to read."""
    runs = root / artifacts.RUNS
    if runs.is_dir() and runs.stat().st_mode & 0o077:
        names = (f"{database.DATABASE}*", IDENTITY_FILE, claims.CLAIMS, baselines.FOLDER)
        disk.restrict(*(path for name in names for path in root.glob(name)), runs)


class SqlStore:
    """Implements :class:`k8sbench.ports.Store`; brings the database's schema up to date."""

    def __init__(self, base: Database, root: Path, *, absent: bool = False) -> None:
        self.database = base
        self.root = root
        """The folder that holds ``runs/``."""
        self.absent = absent
        """True where there is no store yet, and this one only reads as empty."""
        self.unreadable: dict[str, str] = {}
        """Run id → why its row could not be read, of the rows met so far."""
        self._log_files = LogFiles()
        try:
            self._bring_up_to_date()
            self.claims: claims.FileClaims | claims.PostgresClaims = claims.FileClaims(root)
            if base.kind == "postgresql":
                self.claims = claims.PostgresClaims(base)
        except BaseException:
            base.close()
            raise

    def _bring_up_to_date(self) -> None:
        base = self.database
        with base.reading() as db:
            missing = migrations.check(migrations.version(db))
        if missing and not base.writable:
            raise StoreError(
                f"The store {base.shown} was written by an older k8sbench and can only be read.",
                "Open it once from where it can be written.",
            )
        if missing:
            with base.translated():
                migrations.migrate(base.writing_engine)
            if base.kind == "sqlite" and not self.absent:
                self._keep_identity()

    def _keep_identity(self) -> None:
        """Write the identity of a new database beside it, or give it that of the one before."""
        path = self.root / IDENTITY_FILE
        with disk.translated(f"write {path}"), self.database.writing() as db:
            kept = path.read_text(errors="replace").strip() if path.exists() else ""
            if kept.isalnum():
                db.execute(sa.update(IDENTITY).values(id=kept))
            else:
                disk.write_whole(path, f"{db.scalar(sa.select(IDENTITY.c.id))}\n".encode())

    @property
    def where(self) -> str:
        """The place, for people; never with a password."""
        return self.database.shown

    @property
    def identity(self) -> str:
        """What the store is known by on clusters, from whatever host and path it is opened.

        Lower-case letters and digits, drawn when it was made.
        """
        with self.database.reading() as db:
            return str(db.scalar(sa.select(IDENTITY.c.id)))

    def next_repeat(self, set_name: str, case_key: str) -> int:
        """The first repeat number that no run of this case has in this set."""
        with self.database.reading() as db:
            return free_repeat(db, set_name, case_key)

    def record(
        self, plan: RunPlan, *, at: float, owner: Owner | None, location: Location | None = None
    ) -> Run:
        """Record a run before it starts."""
        # A plan may come from a job's annotation: its names become a folder and labels.
        checked_set_name(plan.set_name)
        folder = self._folder(checked_run_id(plan.run_id))
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
                self.insert(db, run)
                made = not folder.path.exists()
                folder.create(run)
        except Exception:  # not an interrupt: it may come when all is done
            if made:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        return run

    @made_again
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
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            if run.phase.final or run.history[-1] == transition:
                return run
            wishes = run.wishes
            if owes is not None and run.wish(owes.kind) is None:
                wishes = (*wishes, owes)
            left = artifacts.pertinent(wishes, transition.phase)
            if run.artifacts is not None:
                folder = self._folder(run_id)
                if image is not None:
                    folder.keep_image(image)
                if wishes != run.wishes:
                    folder.keep_wishes(wishes)
                folder.append(transition)
                if left != wishes:
                    folder.keep_wishes(left)
            return rows.extended(
                db,
                run,
                history=(*run.history, transition),
                wishes=left,
                image_digest=image or run.image_digest,
            )

    @made_again
    def wish(self, run_id: str, wish: Wish) -> Run:
        """Record a wish, replacing an earlier one of its kind; a final run is not cancelled."""
        wish = msgspec.structs.replace(wish, cause=_clean(wish.cause))
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            others = tuple(one for one in run.wishes if one.kind != wish.kind)
            return self._wishing(db, run, artifacts.pertinent((*others, wish), run.phase))

    @made_again
    def fulfilled(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        """Take back a wish that was fulfilled, or refused; does nothing if there is none."""
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            left = tuple(one for one in run.wishes if one.kind != kind)
            return self._wishing(db, run, left)

    def _wishing(self, db: sa.Connection, run: Run, wishes: tuple[Wish, ...]) -> Run:
        if wishes != run.wishes and run.artifacts is not None:
            self._folder(run.run_id).keep_wishes(wishes)
        return rows.extended(db, run, wishes=wishes)

    def reopen(self, plan: RunPlan, *, at: float, location: Location | None) -> Run:
        """Take a run up again that has ended because its job was not created."""
        with self.database.writing() as db:
            run = self._locked(db, plan.run_id)
            if not creation.may_be_submitted_again(run):
                raise StoreError(f"Run {run.run_id} is {run.phase}.", "Take another --run-id.")
            again = msgspec.structs.replace(
                run,
                plan=plan,
                location=location,
                history=(*run.history, creation.again(at)),
                artifacts=str(self._folder(run.run_id).path),
                artifacts_missing=None,
            )
            self._folder(run.run_id).adopt(again)
            row = rows.of_run(again, self._here())
            changed = {name: row[name] for name in ("plan", "location", "files_at")}
            db.execute(sa.update(RUNS).where(RUNS.c.run_id == run.run_id).values(changed))
            return rows.extended(db, run, **msgspec.structs.asdict(again))

    @made_again
    def measured(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            if run.artifacts is not None:
                self._folder(run_id).keep_measurement(measurement)
            return rows.extended(db, run, measurement=measurement)

    @made_again
    def update_from_folder(self, run_id: str) -> Run:
        """Copy what the folder has and the row lacks into the row; returns the run as it is then.

        That is what a process leaves which is killed after it wrote the file.
        """
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            if run.artifacts is None:
                return run
            try:
                kept, _ = self._folder(run_id).run()
            except StoreError:  # damaged: `store check` reports it
                return run
            new = merged(run, kept)
            return rows.extended(
                db,
                run,
                history=new.history,
                measurement=new.measurement,
                image_digest=new.image_digest,
                wishes=new.wishes,
            )

    @made_again
    def run(self, run_id: str) -> Run:
        """The run, or :class:`NotFound` with the nearest ids."""
        with self.database.reading() as db:
            return self._one(db, rows.RUN, run_id)

    @made_again
    def runs(self, wanted: RunFilter) -> list[Run]:
        """The runs that match, oldest first; rows that cannot be read are in :attr:`unreadable`."""
        if wanted.limit is not None and wanted.limit <= 0:
            return []
        newest = rows.filtered(wanted).order_by(RUNS.c.created_at.desc(), RUNS.c.run_id.desc())
        if wanted.limit is not None:
            newest = newest.limit(wanted.limit)
        with self.database.reading() as db:
            return self._load(db, newest)[::-1]

    @made_again
    def ids(self) -> list[str]:
        """All run ids, oldest first."""
        with self.database.reading() as db:
            return self._ids(db)

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts; :class:`FilesElsewhere` if it is not here."""
        here = self._folder(run_id)
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
            run = self._locked(db, run_id)
            if run.artifacts is None:
                self._folder(run_id).adopt(run)
                self.files_are_here(db, run_id)

    def last_written_at(self, run_id: str) -> float | None:
        """When anything in the run's folder was last written; None where that cannot be seen."""
        return self._folder(run_id).last_written_at()

    def keep(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact whole, or not at all."""
        RunFolder(self.folder(run_id)).write(name, text.encode("utf-8", "backslashreplace"))

    def kept(self, run_id: str, name: str) -> bytes | None:
        """Read one artifact; None where the run has none of the name."""
        return disk.read(self.folder(run_id) / name)

    def archive(self, run_id: str) -> LogWriter:
        """Open the run's log files for appending."""
        check = partial(self.claims.check, run_id)
        return LogWriter(self.folder(run_id), check, self._log_files)

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """How far each replica's log is archived, by replica, of the run's present attempt."""
        begins = RunFolder(self.folder(run_id)).log_begins()
        marks = {
            path.stem: run_logs.log_mark(path, begins.get(path.stem, 0))
            for path in self.log_files(run_id)
        }
        return {replica: mark for replica, mark in marks.items() if mark is not None}

    def begin_attempt(self, run_id: str) -> None:
        """Have the marks of the logs count from here on."""
        RunFolder(self.folder(run_id)).begin_logs()

    def log_files(self, run_id: str) -> list[Path]:
        """The run's log files, rank 0's replica first; empty if it left none."""
        return RunFolder(self.folder(run_id)).log_files()

    @made_again
    def save_baseline(self, baseline: Baseline, *, replace: bool = False) -> None:
        """Keep a baseline; one of its name is an error, unless it is to be replaced."""
        with self.database.writing() as db:
            baselines.save(db, self._files_root(), baseline, replace=replace)

    @made_again
    def baselines(self) -> list[Baseline]:
        """All baselines, by name."""
        with self.database.reading() as db:
            return baselines.load(db)

    def remove_baseline(self, name: str) -> None:
        """Remove a baseline, or raise :class:`NotFound`."""
        with self.database.writing() as db:
            baselines.remove(db, self._files_root(), name)

    def _files_root(self) -> Path | None:
        """Where baselines have files; None where the database alone keeps them."""
        return self.root if self.database.kind == "sqlite" else None

    def close(self) -> None:
        """Release all claims and close the database."""
        self.claims.close()
        self.database.close()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def has(self, db: sa.Connection, run_id: str) -> bool:
        """Whether there is a row of a run, be it one that cannot be read."""
        return db.scalar(sa.select(RUNS.c.run_id).where(RUNS.c.run_id == run_id)) is not None

    def files_are_here(self, db: sa.Connection, run_id: str) -> None:
        """Say in a run's row that its files were last written here."""
        where = RUNS.c.run_id == run_id
        db.execute(sa.update(RUNS).where(where).values(files_at=self._here()))

    def insert(self, db: sa.Connection, run: Run) -> None:
        """Add a run's rows, or say which of its names is taken."""
        plan = run.plan
        id_taken = UsageError(
            f"There is a run {plan.run_id!r} already.", f"See: k8sbench status {plan.run_id}"
        )
        # Of a row that breaks both constraints a database names either.
        if self.has(db, plan.run_id):
            raise id_taken
        try:
            db.execute(sa.insert(RUNS).values(rows.of_run(run, self._here())))
        except sa.exc.IntegrityError as wrong:
            # PostgreSQL names the constraint, SQLite the columns.
            if re.search(r"runs_pkey|runs\.run_id", str(wrong.orig)):
                raise id_taken from wrong
            raise RepeatTaken(
                f"Set {plan.set_name} has repeat {plan.repeat} of {plan.benchmark} {plan.framework}"
                f" {plan.case} {plan.precision} already.",
                "Draw the next repeat.",
            ) from wrong
        rows.insert_history(db, run)

    def load_all(self, db: sa.Connection) -> list[Run]:
        """Read every run that can be read, oldest first."""
        return self._load(db, rows.filtered(RunFilter()).order_by(RUNS.c.created_at, RUNS.c.run_id))

    def _locked(self, db: sa.Connection, run_id: str) -> Run:
        """Read a run that no other process may change until the transaction ends."""
        run = self._one(db, rows.LOCKED_RUN, run_id)
        self.claims.check(run_id, db)
        return run

    def _one(self, db: sa.Connection, query: sa.Select[Any], run_id: str) -> Run:
        found = self._as_runs(
            db.execute(query, {"id": run_id}).mappings().all(),
            rows.by_run(db.execute(rows.HISTORY, {"id": run_id}).mappings()),
        )
        if found:
            return found[0]
        if run_id in self.unreadable:
            raise StoreError(
                self.unreadable[run_id], "k8sbench store check looks at everything there is."
            )
        near = difflib.get_close_matches(run_id, self._ids(db), n=3, cutoff=0.5)
        hint = f"Nearest: {', '.join(near)}." if near else "k8sbench list shows the runs."
        raise NotFound(f"There is no run {run_id!r} in the store {self.where}.", hint)

    def _ids(self, db: sa.Connection) -> list[str]:
        return list(db.scalars(sa.select(RUNS.c.run_id).order_by(RUNS.c.created_at, RUNS.c.run_id)))

    def _load(self, db: sa.Connection, wanted: sa.Select[Any]) -> list[Run]:
        found = db.execute(wanted).mappings().all()
        return self._as_runs(found, rows.histories(db, [row["run_id"] for row in found]))

    def _as_runs(
        self, found: Sequence[sa.RowMapping], histories: Mapping[str, tuple[Transition, ...]]
    ) -> list[Run]:
        runs = []
        for row in found:
            run_id = row["run_id"]
            try:
                runs.append(rows.run_of(row, histories.get(run_id, ()), self._folder(run_id)))
            except (StoreError, ValueError) as wrong:
                self.unreadable[run_id] = str(wrong)
        return runs

    def _folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.root / artifacts.RUNS / run_id)

    def _here(self) -> str:
        """Where this process keeps files: a hint for people, which nothing depends on."""
        return f"{platform.node()}:{self.root}"


def merged(row: Run, kept: Run) -> Run:
    """Combine a run's row with its folder, which is written first and so holds more.

    Only a folder that lost lines (a damaged disk, an editor) holds less than the row. Another
    machine may have recorded a wish in the row alone; one that is fulfilled already does no harm.
    """
    history = kept.history if len(kept.history) >= len(row.history) else row.history
    kinds = {wish.kind for wish in kept.wishes}
    wishes = (*kept.wishes, *(wish for wish in row.wishes if wish.kind not in kinds))
    return msgspec.structs.replace(
        kept,
        # The row may carry another repeat number, given by an earlier rebuild.
        plan=msgspec.structs.replace(kept.plan, repeat=row.plan.repeat),
        history=history,
        measurement=kept.measurement or row.measurement,
        image_digest=kept.image_digest or row.image_digest,
        wishes=artifacts.pertinent(wishes, history[-1].phase),
    )


def _clean(text: str) -> str:
    """Make a sentence that quotes a log fit for every database: no NUL, no half characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
