"""``baseline``: runs that are kept under a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from k8sbench.app import collectors, sides, stores
from k8sbench.app.sides import StoresRead
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import checked_set_name
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.run import Baseline, kept_run
from k8sbench.ports import RunFilter

Note = Callable[[str], None]


class BaselineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One baseline in ``baseline list -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Name of the baseline, as ``compare`` takes it."""
    saved_at: float
    """Unix seconds."""
    of: tuple[str, ...]
    """Names of the runs, groups and sets given to ``baseline save``."""
    benchmarks: tuple[str, ...]
    """The benchmarks of its runs."""
    sets: tuple[str, ...]
    """The sets of its runs."""
    runs: int
    """Number of runs in the baseline."""
    source: str = "here"
    """Store of the baseline: ``here`` or ``collector``."""


def save(
    name: str, texts: Sequence[str], where: str | None, note: Note, *, replace: bool, at: float
) -> Baseline:
    """Keep the runs of a side that count, under a name."""
    checked_set_name(name, "baseline")
    with stores.to_write(where, create=False) as store:
        known = sides.made_of(store.runs(RunFilter()), store.baselines())
        side = sides.side(",".join(texts), known)
        counted = [m.run_id for g in side.groups for m in g.members if m.rate is not None]
        left_out = sum(len(group.members) for group in side.groups) - len(counted)
        if not counted:
            raise UsageError(
                f"No run of {side.name} counts, so there is nothing to compare with.",
                "See why with: k8sbench results",
            )
        if left_out:
            note(
                f"{left_out} of the runs do not count and are left out; k8sbench results says why."
            )
        kept = tuple(kept_run(side.runs[run_id]) for run_id in counted)
        made = Baseline(name=name, saved_at=at, of=tuple(texts), runs=kept)
        store.save_baseline(made, replace=replace)
    return made


def listed(scope: StoresRead, note: Note) -> list[BaselineInfo]:
    """List baselines by name, a collector's after local ones."""
    insist = scope.where == stores.CLUSTER
    with stores.to_read(stores.NOWHERE if insist else scope.where, note) as store:
        here = store.baselines()
    names = {baseline.name for baseline in here}
    theirs = collectors.baselines(scope.access, note, insist=insist)
    there = [baseline for baseline in theirs if baseline.name not in names]
    return [
        *(_info(baseline, "here") for baseline in here),
        *(_info(baseline, collectors.SOURCE) for baseline in there),
    ]


def remove(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    with stores.to_write(where, create=False) as store:
        store.remove_baseline(name)


def _info(baseline: Baseline, source: str) -> BaselineInfo:
    plans = [run.plan for run in baseline.runs]
    return BaselineInfo(
        name=baseline.name,
        saved_at=baseline.saved_at,
        of=baseline.of,
        benchmarks=tuple(sorted({plan.benchmark for plan in plans})),
        sets=tuple(dict.fromkeys(plan.set_name for plan in plans)),
        runs=len(plans),
        source=source,
    )
