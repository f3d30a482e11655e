"""``import``: logs that exist already become runs of the store, and rows like any others.

All logs of one command are recorded, or none: a set that lacks one of its repeats shows another
spread than it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.app import context, measure, results, stores
from k8sbench.app.measure import MeasureOptions
from k8sbench.app.results import Rows
from k8sbench.model import imported
from k8sbench.model.errors import InputError
from k8sbench.model.identity import case_key, case_values, checked_set_name
from k8sbench.model.imported import LogOrigin
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.store.exchange import ImportedFile
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.stores import Note


class ImportedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the logs."""

    set_name: str
    added: tuple[Run, ...] = ()
    there: tuple[Run, ...] = ()
    """Runs of this set that were here already, of the same logs."""
    failures: tuple[InputError, ...]
    """Without ``skip_unreadable`` nothing was recorded where there are any."""
    rows: Rows | None = None
    """Of the groups that these runs belong to; None where nothing was recorded."""


class _Taken(NamedTuple):
    """The logs of a run, copied and measured."""

    folder: Path
    """Where they were copied to."""
    run_id: str
    files: tuple[ImportedFile, ...]
    measured: Measurement
    origin: LogOrigin


def import_logs(
    logs: Sequence[str],
    options: MeasureOptions,
    note: Note,
    *,
    set_name: str | None = None,
    skip_unreadable: bool = False,
    where: str | None = None,
) -> ImportedLogs:
    """Measure logs and record each as a run: all of them, or none.

    The same log twice, or one that another run of the store has, is among the failures. With
    ``skip_unreadable`` logs that cannot be measured are left out, instead of all. ``set_name`` is
    a new one, and ``where`` the default store, where it is None.
    """
    from k8sbench.adapters.store import exchange

    set_name = checked_set_name(set_name or context.new_set_name())
    given = measure.find(logs, options)
    failures = given.failures
    if failures and not given.runs:
        raise failures[0]
    with stores.to_write(where) as store, exchange.unpacking(store.root) as incoming:
        taken: list[_Taken] = []
        for number, names in enumerate(given.runs):
            try:
                folder = incoming / f"import-{number}"
                files = exchange.copied(folder, names)
                copies: dict[str, str | None] = {
                    str(folder / file.kept_as): file.name for file in files
                }
                measured, origin = measure.of_run(copies, next(iter(names)), given, options)
            except InputError as error:
                failures.append(error)
                continue
            name = origin.spec.name if origin.spec else measured.format
            run_id = imported.run_id(name, set_name, [file.sha256 for file in files])
            taken.append(_Taken(folder, run_id, files, measured, origin))
        known = store.runs(RunFilter())
        doubles = _doubles(taken, known, exchange.known_digests(store, known))
        failures += doubles
        added, there = list[tuple[_Taken, Run]](), list[Run]()
        if not failures or (skip_unreadable and taken and not doubles):
            added, there = _planned(store, taken, set_name, context.now(), failures)
            if failures and not skip_unreadable:
                added, there = [], []
        runs = [(log.folder, run, log.files) for log, run in added]
        for run in exchange.add(store, incoming, runs) if runs else ():
            note(f"{run.run_id} is kept as repeat {run.plan.repeat}: its own number was taken.")
        recorded = [store.run(run.run_id) for _, run in added]
        present = [*recorded, *there]
        return ImportedLogs(
            set_name=set_name,
            added=tuple(recorded),
            there=tuple(there),
            failures=tuple(failures),
            rows=results.rows(store, present, note, accept=options.accept) if present else None,
        )


def _doubles(
    taken: Sequence[_Taken], known: Sequence[Run], contents: dict[str, Run]
) -> list[InputError]:
    """Name each log that is the same as an earlier one, or as that of another run."""
    of_runs = {
        run.measurement.log_digest: run
        for run in reversed(known)
        if run.measurement is not None and run.measurement.log_digest is not None
    } | contents
    seen: dict[str, str] = {}
    doubles = []
    for log in taken:
        digests = [file.sha256 for file in log.files]
        if log.measured.log_digest is not None:
            digests.append(log.measured.log_digest)
        first = next((seen[digest] for digest in digests if digest in seen), None)
        other = next((of_runs[digest] for digest in digests if digest in of_runs), None)
        if first is not None:
            doubles.append(
                InputError(
                    f"is the same log as {first}.", "Give each log once.", file=log.origin.file
                )
            )
        elif other is not None and other.run_id != log.run_id:
            doubles.append(
                InputError(
                    f"is the log of run {other.run_id} of set {other.plan.set_name}.",
                    f"A log counts once. Leave it out, or remove {_removed(other)}",
                    file=log.origin.file,
                )
            )
        for digest in digests:
            seen.setdefault(digest, log.origin.file)
    return doubles


def _planned(
    store: SqlStore,
    taken: Sequence[_Taken],
    set_name: str,
    now: float,
    failures: list[InputError],
) -> tuple[list[tuple[_Taken, Run]], list[Run]]:
    """Make the runs that are to be added, and find those that are there already."""
    added, there, numbers = list[tuple[_Taken, Run]](), list[Run](), dict[str, int]()
    ids = set(store.ids())
    for number, log in enumerate(taken):
        run_id = log.run_id
        # Seconds that differ by a millionth keep the order in which the logs were named.
        at = now + number / 1e6
        try:
            plan = imported.plan(
                log.measured, log.origin, run_id=run_id, set_name=set_name, repeat=1
            )
            if run_id in ids:
                there.append(_same(store.run(run_id), plan, log.origin))
                continue
        except InputError as error:
            failures.append(error)
            continue
        key = case_key(plan)
        numbers[key] = repeat = numbers.get(key, store.next_repeat(set_name, key) - 1) + 1
        run = Run(
            plan=msgspec.structs.replace(plan, repeat=repeat),
            created_at=at,
            owner=None,
            history=imported.history(at),
            artifacts=None,
            measurement=log.measured,
        )
        added.append((log, run))
    return added, there


def _same(run: Run, plan: Any, origin: LogOrigin) -> Run:
    """The run that is there, if it is what would be imported."""
    was, now = case_values(run.plan), case_values(plan)
    differing = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    if differing:
        raise InputError(
            f"was imported as run {run.run_id}, with another {', '.join(differing)}.",
            f"First remove {_removed(run)}",
            file=origin.file,
        )
    return run


def _removed(run: Run) -> str:
    """How its run is removed: in words that are the same for all runs of a set."""
    return (
        "that run with: k8sbench store remove RUN\n  All runs of its set are removed with:"
        f" k8sbench store remove {run.plan.set_name}"
    )
