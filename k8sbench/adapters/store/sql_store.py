"""The store: a database row for each run, beside its folder of plain files.

Every change goes to the folder first and to the database second, inside one transaction that
excludes other writers: a process killed between the two leaves a folder that knows more than the
row, never a row that knows more than the folder. :meth:`SqlStore.caught_up` closes that gap for a
run, :mod:`k8sbench.adapters.store.upkeep` for a whole store.

One code path serves SQLite (the default) and PostgreSQL; what differs is in
:mod:`k8sbench.adapters.store.database`.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import platform
import shutil
import urllib.parse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, database, migrations, places
from k8sbench.adapters.store.artifacts import LogWriter, RunFolder, RunRecord
from k8sbench.adapters.store.claims import FileClaims
from k8sbench.adapters.store.database import Database, FolderLock
from k8sbench.model.errors import NotFound, RepeatTaken, StoreError, UsageError
from k8sbench.model.identity import SET_NAME, case_key
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import FINAL, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run
from k8sbench.ports import Claims, LogMark, RunFilter

_METADATA = sa.MetaData()
RUNS = sa.Table(
    "runs",
    _METADATA,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("set_name", sa.Text, nullable=False),
    sa.Column("case_key", sa.Text, nullable=False),
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("benchmark", sa.Text, nullable=False),
    sa.Column("framework", sa.Text, nullable=False),
    sa.Column("backend", sa.Text, nullable=False),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("artifacts", sa.Text, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("owner", sa.Text),
    sa.Column("measurement", sa.Text),
    sa.Column("location", sa.Text),
    sa.Column("image_digest", sa.Text),
)
"""As the steps in :mod:`k8sbench.adapters.store.migrations` left it; a test holds the two equal."""
TRANSITIONS = sa.Table(
    "transitions",
    _METADATA,
    sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("cause", sa.Text, nullable=False),
    sa.Column("cause_id", sa.Text),
    sa.Column("action", sa.Text),
    sa.Column("hopeless", sa.Boolean, nullable=False, server_default=sa.false()),
)


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
        return _opened(
            database.open_postgres(root), folder or places.default_folder(), relative=False
        )
    try:
        known = (root / database.DATABASE).exists()
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        if not known and any((root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")):
            raise StoreError(
                f"There are runs in {root / artifacts.RUNS}, but their database is gone.",
                f"Make it anew from them with: {database.rebuild_command(root)}",
            )
        if not known and not create:
            return _opened(database.open_memory(str(root)), root, relative=True, absent=True)
        if not known:
            (root / artifacts.RUNS).mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        raise artifacts.store_error(wrong, f"open the store {root}") from wrong
    lock = FolderLock.take(root, alone=False)
    try:
        return _opened(database.open_sqlite(root, lock=lock), root, relative=True)
    except BaseException:
        lock.release()
        raise


class SqlStore:
    """Implements :class:`k8sbench.ports.Store`."""

    def __init__(self, base: Database, root: Path, *, relative: bool, absent: bool = False) -> None:
        self.database = base
        self.root = root
        """The folder that holds ``runs/``."""
        self.absent = absent
        """True where there is no store yet, and this one only reads as empty."""
        self.unreadable: dict[str, str] = {}
        """Run id → why its row could not be read, of the rows met so far."""
        self._relative = relative
        self.claims: Claims = FileClaims(root)

    @property
    def where(self) -> str:
        """The place, for people; never with a password."""
        return self.database.shown

    def next_repeat(self, set_name: str, case_key: str) -> int:
        """The first repeat number that no run of this case has in this set."""
        with self.database.reading() as db:
            taken = set(
                db.scalars(
                    sa.select(RUNS.c.repeat).where(
                        RUNS.c.set_name == set_name, RUNS.c.case_key == case_key
                    )
                )
            )
        return next(n for n in range(1, len(taken) + 2) if n not in taken)

    def record(
        self, plan: RunPlan, *, at: float, owner: Owner | None, location: Location | None = None
    ) -> Run:
        """Record a run before it starts."""
        _check_names(plan, at)
        artifacts.encoded(plan)  # says no, in our words, to what is no text
        folder = RunFolder(self.root / artifacts.RUNS / plan.run_id)
        record = RunRecord(
            plan=plan, case_key=case_key(plan), created_at=at, owner=owner, location=location
        )
        run = Run(
            plan=plan,
            created_at=at,
            owner=owner,
            history=(artifacts.created(at),),
            artifacts=folder.path.as_uri(),
            location=location,
        )
        made = False
        try:
            with self.database.writing() as db:
                # The row first, because it may be refused; it counts only when the files stand.
                self.insert(db, run)
                made = not folder.path.exists()
                folder.create(record, run.history[0])
        except Exception:  # not an interrupt: it may come when all is done
            if made:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
        return run

    def move(self, run_id: str, transition: Transition) -> Run:
        """Add a transition; a run that is final already stays as it is."""
        transition = msgspec.structs.replace(
            transition,
            cause=_clean(transition.cause),
            action=transition.action and _clean(transition.action),
        )
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            if run.phase.final or run.history[-1] == transition:
                return run
            folder = self._local_folder(run)
            if folder is not None:
                folder.append(transition)
            return self._extend(db, run, history=(*run.history, transition))

    def measured(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            folder = self._local_folder(run)
            if folder is not None:
                folder.keep_measurement(measurement)
            return self._extend(db, run, measurement=measurement)

    def ran_image(self, run_id: str, digest: str) -> Run:
        """Keep the digest of the image that the run's replicas really ran."""
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            folder = self._local_folder(run)
            if folder is not None:
                folder.keep_image(digest)
            return self._extend(db, run, image_digest=digest)

    def caught_up(self, run_id: str) -> Run:
        """Take over what the run's folder has and its row has not; returns the run as it is then.

        That is what a process leaves which is killed after it wrote the file.
        """
        with self.database.writing() as db:
            run = self._locked(db, run_id)
            folder = self._local_folder(run)
            if folder is None:
                return run
            try:
                kept, _ = folder.run()
            except StoreError:  # damaged: the row is all there is; `store check` says so
                return run
            return self._extend(
                db,
                run,
                history=longer(run.history, kept.history),
                measurement=kept.measurement or run.measurement,
                image_digest=kept.image_digest or run.image_digest,
            )

    def run(self, run_id: str) -> Run:
        """The run, or :class:`NotFound` with the nearest ids."""
        with self.database.reading() as db:
            found = self._load(db, sa.select(RUNS).where(RUNS.c.run_id == run_id))
            if not found:
                self._raise_unreadable(run_id)
                raise not_found(run_id, _ids(db), self.where)
        return found[0]

    def runs(self, wanted: RunFilter) -> list[Run]:
        """The runs that match, oldest first; rows that cannot be read are in :attr:`unreadable`."""
        if wanted.limit is not None and wanted.limit <= 0:
            return []
        newest = _filtered(wanted).order_by(RUNS.c.created_at.desc(), RUNS.c.run_id.desc())
        if wanted.limit is not None:
            newest = newest.limit(wanted.limit)
        with self.database.reading() as db:
            return self._load(db, newest)[::-1]

    def ids(self) -> list[str]:
        """All run ids, oldest first."""
        with self.database.reading() as db:
            return _ids(db)

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts."""
        with self.database.reading() as db:
            url = db.scalar(sa.select(RUNS.c.artifacts).where(RUNS.c.run_id == run_id))
            if url is None:
                raise not_found(run_id, _ids(db), self.where)
        path = self._path(url)
        if path is None:
            raise StoreError(
                f"The files of {run_id} lie on another machine: {url}.", "Ask for them there."
            )
        return path

    def last_sign(self, run_id: str) -> float | None:
        """When anything in the run's folder was last written; None where that cannot be seen."""
        try:
            return RunFolder(self.folder(run_id)).last_sign()
        except (StoreError, NotFound):
            return None

    def keep(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact whole, or not at all."""
        RunFolder(self.folder(run_id)).write(name, text.encode("utf-8", "backslashreplace"))

    def archive(self, run_id: str) -> LogWriter:
        """Open the run's log files for appending."""
        return LogWriter(self.folder(run_id))

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """How far each replica's log is archived, by replica."""
        marks = {path.stem: artifacts.log_mark(path) for path in self.log_files(run_id)}
        return {replica: mark for replica, mark in marks.items() if mark is not None}

    def log_files(self, run_id: str) -> list[Path]:
        """The run's log files, rank 0's replica first; empty if it left none."""
        return RunFolder(self.folder(run_id)).log_files()

    def close(self) -> None:
        """Let go of the database, and of all claims."""
        self.claims.close()
        self.database.close()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def insert(self, db: sa.Connection, run: Run) -> None:
        """Add a run's rows, or say which of its names is taken."""
        plan = run.plan
        if db.scalar(sa.select(RUNS.c.run_id).where(RUNS.c.run_id == plan.run_id)) is not None:
            raise _id_taken(plan)
        if db.scalar(
            sa.select(RUNS.c.run_id).where(
                RUNS.c.set_name == plan.set_name,
                RUNS.c.case_key == run.case_key,
                RUNS.c.repeat == plan.repeat,
            )
        ):
            raise _repeat_taken(plan)
        try:
            db.execute(sa.insert(RUNS).values(self._row(run)))
        except sa.exc.IntegrityError as wrong:
            # Only where writers do not exclude each other (PostgreSQL): asked above, taken since.
            taken = _repeat_taken if "runs_one_of_each_repeat" in str(wrong.orig) else _id_taken
            raise taken(plan) from wrong
        _insert_history(db, run.run_id, run.history, start=0)

    def load_all(self, db: sa.Connection) -> list[Run]:
        """Read every run that can be read, oldest first."""
        return self._load(db, _filtered(RunFilter()).order_by(RUNS.c.created_at, RUNS.c.run_id))

    def _locked(self, db: sa.Connection, run_id: str) -> Run:
        """Read a run that no other process may change until the transaction ends."""
        found = self._load(db, sa.select(RUNS).where(RUNS.c.run_id == run_id).with_for_update())
        if not found:
            self._raise_unreadable(run_id)
            raise not_found(run_id, _ids(db), self.where)
        return found[0]

    def _extend(self, db: sa.Connection, run: Run, **changes: Any) -> Run:
        new = msgspec.structs.replace(run, **changes)
        if new == run:
            return run
        row = self._row(new)
        db.execute(
            sa.update(RUNS)
            .where(RUNS.c.run_id == run.run_id)
            .values({name: row[name] for name in ("phase", "measurement", "image_digest")})
        )
        kept = _common(run.history, new.history)
        if kept < len(run.history):
            db.execute(
                sa.delete(TRANSITIONS).where(
                    TRANSITIONS.c.run_id == run.run_id, TRANSITIONS.c.number > kept
                )
            )
        _insert_history(db, run.run_id, new.history[kept:], start=kept)
        return new

    def _row(self, run: Run) -> dict[str, Any]:
        plan = run.plan
        return {
            "run_id": plan.run_id,
            "set_name": plan.set_name,
            "case_key": run.case_key,
            "repeat": plan.repeat,
            "benchmark": plan.benchmark,
            "framework": plan.framework,
            "backend": plan.backend,
            "phase": run.phase.value,
            "created_at": run.created_at,
            "artifacts": self._url(run),
            "plan": artifacts.encoded(plan).decode(),
            "owner": None if run.owner is None else artifacts.encoded(run.owner).decode(),
            "measurement": None
            if run.measurement is None
            else artifacts.encoded(run.measurement).decode(),
            "location": None if run.location is None else artifacts.encoded(run.location).decode(),
            "image_digest": run.image_digest,
        }

    def _load(self, db: sa.Connection, wanted: sa.Select[Any]) -> list[Run]:
        rows = db.execute(wanted).mappings().all()
        histories = _histories(db, [row["run_id"] for row in rows])
        found = []
        for row in rows:
            try:
                found.append(self._as_run(row, histories.get(row["run_id"], ())))
            except (StoreError, ValueError) as wrong:
                self.unreadable[row["run_id"]] = str(wrong)
        return found

    def _as_run(self, row: sa.RowMapping, history: tuple[Transition, ...]) -> Run:
        where = f"The row of run {row['run_id']}"
        measurement, owner, location = row["measurement"], row["owner"], row["location"]
        return Run(
            plan=artifacts.decoded(row["plan"], RunPlan, where),
            created_at=row["created_at"],
            owner=None if owner is None else artifacts.decoded(owner, Owner, where),
            history=history or (artifacts.created(row["created_at"]),),
            artifacts=self._absolute(row["artifacts"]),
            measurement=None
            if measurement is None
            else artifacts.decoded(measurement, Measurement, where),
            location=None if location is None else artifacts.decoded(location, Location, where),
            image_digest=row["image_digest"],
        )

    def _raise_unreadable(self, run_id: str) -> None:
        if run_id in self.unreadable:
            raise StoreError(
                self.unreadable[run_id], "k8sbench store check looks at everything there is."
            )

    def _url(self, run: Run) -> str:
        """What a row holds: relative to a SQLite store's folder, which may then be moved."""
        path = Path(urllib.parse.unquote(urllib.parse.urlsplit(run.artifacts).path))
        if self._relative and path.is_relative_to(self.root):
            return urllib.parse.quote(path.relative_to(self.root).as_posix())
        if self._relative or urllib.parse.urlsplit(run.artifacts).netloc:
            return run.artifacts
        return f"file://{platform.node()}{urllib.parse.quote(str(path))}"

    def _absolute(self, url: str) -> str:
        path = self._path(url)
        return url if path is None else path.as_uri()

    def _path(self, url: str) -> Path | None:
        """The folder that a row's URL means; None if it is on another machine."""
        parts = urllib.parse.urlsplit(url)
        if not parts.scheme:
            return self.root / urllib.parse.unquote(parts.path)
        if parts.scheme == "file" and parts.netloc in {"", "localhost", platform.node()}:
            return Path(urllib.parse.unquote(parts.path))
        return None

    def _local_folder(self, run: Run) -> RunFolder | None:
        """The run's folder; None if it is on another machine, or somebody deleted it."""
        path = self._path(run.artifacts)
        return RunFolder(path) if path is not None and path.is_dir() else None


def not_found(run_id: str, ids: Sequence[str], where: str) -> NotFound:
    """Build the error of a run id that stands for nothing, with the nearest that do."""
    near = difflib.get_close_matches(run_id, ids, n=3, cutoff=0.5)
    hint = f"Nearest: {', '.join(near)}." if near else "k8sbench list shows the runs."
    return NotFound(f"There is no run {run_id!r} in the store {where}.", hint)


def longer(row: tuple[Transition, ...], folder: tuple[Transition, ...]) -> tuple[Transition, ...]:
    """Choose between two histories of one run: the folder is written first, so it knows more.

    Only a folder that lost lines (a damaged disk, an editor) knows less than the row.
    """
    return folder if len(folder) >= len(row) else row


def _opened(base: Database, root: Path, *, relative: bool, absent: bool = False) -> SqlStore:
    try:
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
    except BaseException:
        base.close()
        raise
    return SqlStore(base, root, relative=relative, absent=absent)


def _check_names(plan: RunPlan, at: float) -> None:
    """Refuse what must not become a folder, a label or a time, wherever it came from."""
    if not artifacts.is_run_id(plan.run_id):
        raise UsageError(
            f"{plan.run_id!r} cannot name a run.",
            "Use lower-case letters, digits and '-', a letter first.",
        )
    if not SET_NAME.fullmatch(plan.set_name) or not plan.set_name.isprintable():
        raise UsageError(
            f"{plan.set_name!r} cannot name a set.",
            "Use at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends.",
        )
    if plan.repeat < 1:
        raise UsageError(f"{plan.repeat} is no repeat number.", "The first repeat is 1.")
    if not math.isfinite(at):
        raise StoreError(f"{at} is no time.", "This is a fault of k8sbench.")


def _id_taken(plan: RunPlan) -> UsageError:
    return UsageError(
        f"There is a run {plan.run_id!r} already.", f"See: k8sbench status {plan.run_id}"
    )


def _repeat_taken(plan: RunPlan) -> RepeatTaken:
    return RepeatTaken(
        f"Set {plan.set_name} has repeat {plan.repeat} of {plan.benchmark} {plan.framework}"
        f" {plan.case} {plan.precision} already.",
        "Draw the next repeat.",
    )


def _clean(text: str) -> str:
    """Make a sentence that quotes a log fit for every database: no NUL, no half characters."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def _filtered(wanted: RunFilter) -> sa.Select[Any]:
    query = sa.select(RUNS)
    for column, value in (
        (RUNS.c.benchmark, wanted.benchmark),
        (RUNS.c.framework, wanted.framework),
        (RUNS.c.set_name, wanted.set_name),
        (RUNS.c.phase, wanted.phase and wanted.phase.value),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.since is not None:
        query = query.where(RUNS.c.created_at >= wanted.since)
    if wanted.unfinished:
        owing = sa.and_(RUNS.c.phase == Phase.SUCCEEDED.value, RUNS.c.measurement.is_(sa.null()))
        query = query.where(sa.or_(RUNS.c.phase.not_in([phase.value for phase in FINAL]), owing))
    return query


def _ids(db: sa.Connection) -> list[str]:
    return list(db.scalars(sa.select(RUNS.c.run_id).order_by(RUNS.c.created_at, RUNS.c.run_id)))


def _histories(db: sa.Connection, run_ids: Sequence[str]) -> dict[str, tuple[Transition, ...]]:
    histories: dict[str, tuple[Transition, ...]] = {}
    for some in _slices(run_ids):
        rows = db.execute(
            sa.select(TRANSITIONS)
            .where(TRANSITIONS.c.run_id.in_(some))
            .order_by(TRANSITIONS.c.run_id, TRANSITIONS.c.number)
        )
        for row in rows:
            with contextlib.suppress(ValueError):  # a phase of another version
                transition = Transition(
                    phase=Phase(row.phase),
                    at=row.at,
                    cause=row.cause,
                    cause_id=row.cause_id,
                    action=row.action,
                    hopeless=row.hopeless,
                )
                histories[row.run_id] = (*histories.get(row.run_id, ()), transition)
    return histories


def _slices(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Part a long list: databases limit the number of values in one question."""
    size = 500
    for start in range(0, len(run_ids), size):
        yield run_ids[start : start + size]


def _insert_history(
    db: sa.Connection, run_id: str, transitions: Sequence[Transition], *, start: int
) -> None:
    if transitions:
        db.execute(
            sa.insert(TRANSITIONS),
            [
                {
                    "run_id": run_id,
                    "number": start + place,
                    "phase": transition.phase.value,
                    "at": transition.at,
                    "cause": transition.cause,
                    "cause_id": transition.cause_id,
                    "action": transition.action,
                    "hopeless": transition.hopeless,
                }
                for place, transition in enumerate(transitions, start=1)
            ],
        )


def _common(one: Sequence[Transition], other: Sequence[Transition]) -> int:
    """Count the transitions that two histories begin with alike."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
