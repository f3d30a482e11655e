"""``store export`` and ``store import``: whole runs from one store to another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from k8sbench.app import lookup, stores
from k8sbench.model.errors import InputError, UsageError

if TYPE_CHECKING:
    from k8sbench.adapters.store.exchange import Imported
    from k8sbench.app.stores import Note


def export(texts: Sequence[str], target: Path | BinaryIO, where: str | None, note: Note) -> int:
    """Write runs, or those of whole sets, to a file or a stream; returns how many.

    Without any named it is every run that is over and whose files are here.
    """
    from k8sbench.adapters.store import disk, exchange

    with stores.to_read(where, note) as store:
        run_ids = []
        for run_id in lookup.chosen(store, texts) if texts else lookup.all_ids(store):
            run = store.run(run_id)
            if run.phase.final and (texts or run.artifacts is not None):
                run_ids.append(run_id)
            elif texts:
                raise UsageError(
                    f"Run {run_id} has not ended: it is {run.phase}.", "Export it when it is."
                )
            else:
                note(f"{run_id} is left out: {run.artifacts_missing or f'it is {run.phase}.'}")
        if not run_ids:
            raise UsageError(f"There is nothing to export in the store {store.where}.")
        whole = disk.whole_file(target) if isinstance(target, Path) else nullcontext(target)
        with whole as file:
            exchange.export(store, run_ids, file, note=note)
    return len(run_ids)


def import_runs(source: Path | BinaryIO, where: str | None, note: Note) -> Imported:
    """Add the runs of an export to a store: all of them, or none."""
    from k8sbench.adapters.store import exchange

    with ExitStack() as stack:
        shown = str(source) if isinstance(source, Path) else "stdin"
        try:
            file = stack.enter_context(source.open("rb")) if isinstance(source, Path) else source
        except OSError as error:
            raise InputError(f"It cannot be read: {error.strerror}.", file=shown) from error
        store = stack.enter_context(stores.to_write(where))
        imported = exchange.import_runs(store, file, shown)
    for run in imported.renumbered:
        note(f"{run.run_id} is kept as repeat {run.plan.repeat}: its own number was taken.")
    return imported
