"""``import``: logs that exist already become runs of the store, and rows like any others.

All logs of one command are recorded, or none: a set that lacks one of its repeats shows another
spread than it has.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.app import context, measure, results, stores
from k8sbench.app.measure import PRECISIONS, Candidate, MeasureOptions
from k8sbench.app.results import Rows
from k8sbench.model import choices, imported
from k8sbench.model.errors import InputError, UsageError
from k8sbench.model.identity import case_key, case_values, checked_set_name
from k8sbench.model.imported import Origin, Shape
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.store.intake import ImportedFile
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.stores import Note

Candidates = Callable[[str], tuple[list[Candidate], Shape | None]]
"""From a file to what it may be, and to its case where that was given."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of the logs besides what they state.

    Each of the first four holds texts ``[PATH=]VALUE``: for all logs, or for a file, what is below
    a folder, or what fits a pattern (``*gpu8*``). Of several that fit the last one holds.
    """

    gpus: tuple[str, ...] = ()
    """Of the whole job."""
    case: tuple[str, ...] = ()
    """Nodes and GPUs of each: ``4x8``."""
    batch_size: tuple[str, ...] = ()
    """Samples per GPU and step."""
    precision: tuple[str, ...] = ()
    gpu_model: str | None = None
    """GPU of logs that do not state it."""
    measure: MeasureOptions
    """What they are measured by; without GPUs, batch and precision."""
    set_name: str | None = None
    """None: a new one."""
    skip_unreadable: bool = False
    """Whether logs that cannot be measured are left out, instead of all."""
    store: str | None = None
    """Folder or URL; None: the default place."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the logs."""

    set_name: str
    added: tuple[Run, ...]
    there: tuple[Run, ...]
    """Runs of this set that were here already, of the same logs."""
    failures: tuple[InputError, ...]
    """Without ``skip_unreadable`` nothing was recorded where there are any."""
    rows: Rows | None
    """Of the groups that these runs belong to; None where nothing was recorded."""
    measurements: tuple[Measurement, ...] = ()
    """Of every log that could be measured, also where nothing was recorded."""


class Rule(NamedTuple):
    """One ``[PATH=]VALUE``."""

    path: str | None
    value: Any
    text: str

    def fits(self, file: str) -> bool:
        """Whether it is about a file: itself, a folder above it, or the ends of their paths."""
        if self.path is None or fnmatch.fnmatchcase(file, self.path):
            return True
        path, places = Path(self.path), (Path(file), *Path(file).parents)
        return path in places or (path.name != "" and any(p.match(str(path)) for p in places))


class _Taken(NamedTuple):
    """A log that was copied and measured."""

    number: int
    run_id: str
    files: tuple[ImportedFile, ...]
    measured: Measurement
    origin: Origin


def of_measure(options: MeasureOptions) -> ImportOptions:
    """What ``measure`` was told, for ``import``."""

    def rule(value: object) -> tuple[str, ...]:
        return () if value is None else (str(value),)

    return ImportOptions(
        gpus=rule(options.gpus),
        batch_size=rule(options.batch_size),
        precision=rule(options.precision),
        measure=msgspec.structs.replace(options, gpus=None, batch_size=None, precision=None),
    )


def import_logs(logs: Sequence[str], options: ImportOptions, note: Note) -> Imported:
    """Measure logs and record each as a run: all of them, or none.

    The same log twice, or one that another run of the store has, is among the failures.
    """
    from k8sbench.adapters.files import log_files
    from k8sbench.adapters.store import intake

    set_name = checked_set_name(options.set_name or context.new_set_name())
    files, failures = measure.find(logs)
    if failures and (options.measure.one_run or not files):
        # A run that lacks one of its files would be another run.
        raise failures[0]
    candidates, shown = _candidates(options, files), log_files.names(logs, files)
    groups = [files] if options.measure.one_run else [[file] for file in files]
    with stores.to_write(options.store) as store, intake.receiving(store.root) as incoming:
        taken: list[_Taken] = []
        for number, names in enumerate(groups):
            try:
                given = {file: shown[file] for file in names}
                taken.append(_taken(incoming, number, given, set_name, options, candidates))
            except InputError as wrong:
                failures.append(wrong)
        measurements = tuple(one.measured for one in taken)
        known = store.runs(RunFilter())
        doubles = _doubles(taken, known, intake.known_digests(store, known))
        keeps = options.skip_unreadable and taken and not doubles
        failures += doubles
        if failures and not keeps:
            return Imported(
                set_name=set_name,
                added=(),
                there=(),
                failures=tuple(failures),
                rows=None,
                measurements=measurements,
            )
        added, there = _planned(store, taken, set_name, context.now(), failures)
        if len(added) + len(there) < len(taken) and not options.skip_unreadable:
            added, there = [], []
        runs = [(one.number, run, one.files) for one, run in added]
        for finding in intake.add(store, incoming, runs) if runs else ():
            note(f"{finding.path}: {finding.message}")
        recorded = [store.run(run.run_id) for _, run in added]
        present = [*recorded, *there]
        accept = options.measure.accept
        return Imported(
            set_name=set_name,
            added=tuple(recorded),
            there=tuple(there),
            failures=tuple(failures),
            rows=results.rows(store, present, note, accept=accept) if present else None,
            measurements=measurements,
        )


def _candidates(options: ImportOptions, files: Sequence[str]) -> Candidates:
    """Make the function that says what a file may be, and its case where that was given."""
    gpus = _rules("--gpus", options.gpus, _count, files)
    shapes = _rules("--case", options.case, choices.parse_case, files)
    batches = _rules("--batch-size", options.batch_size, _count, files)
    precisions = _rules("--precision", options.precision, _precision, files)

    @functools.cache
    def made(gpus: int | None, batch: int | None, precision: str | None) -> list[Candidate]:
        more = {"gpus": gpus, "batch_size": batch, "precision": precision}
        return measure.candidates(msgspec.structs.replace(options.measure, **more))

    def of(file: str) -> tuple[list[Candidate], Shape | None]:
        shape, count = _value(shapes, file), _value(gpus, file)
        if shape is not None and count not in {None, shape[0] * shape[1]}:
            raise InputError(
                f"--case {shape[0]}x{shape[1]} and --gpus {count} differ.",
                "Give one of them.",
                file=file,
            )
        count = count if shape is None else shape[0] * shape[1]
        return made(count, _value(batches, file), _value(precisions, file)), shape

    made(None, None, None)  # what is wrong with the options is said before anything is done
    return of


def _rules(
    option: str, texts: Sequence[str], read: Callable[[str], Any], files: Sequence[str]
) -> list[Rule]:
    found = []
    for text in texts:
        path, _, value = text.rpartition("=")
        try:
            rule = Rule(path or None, read(value), text)
        except ValueError as wrong:
            raise UsageError(f"{option} {text!r}: {wrong}.", "Write [PATH=]VALUE.") from wrong
        if not any(map(rule.fits, files)):
            raise UsageError(
                f"{option} {text!r}: no log is {path}, lies below it or fits it as a pattern.",
                "Name a file or folder as the logs are named, or a pattern such as '*gpu8*'.",
            )
        found.append(rule)
    # What is said of all comes first, so that what is said of some holds.
    return sorted(found, key=lambda rule: rule.path is not None)


def _value(rules: Sequence[Rule], file: str) -> Any:
    return next((rule.value for rule in reversed(rules) if rule.fits(file)), None)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:8]) >= 1 and len(text) < 8):
        raise ValueError(f"{text!r} is not a number of at least 1")
    return int(text)


def _precision(text: str) -> str:
    if text not in PRECISIONS:
        raise ValueError(f"{text!r} is none of {', '.join(PRECISIONS)}")
    return text


def _taken(
    incoming: Path,
    number: int,
    given: Mapping[str, str | None],
    set_name: str,
    options: ImportOptions,
    candidates: Candidates,
) -> _Taken:
    """Copy the logs of one run, by path and name, and measure the copies."""
    from k8sbench.adapters.files import line_limit
    from k8sbench.adapters.store import intake
    from k8sbench.runs import measuring

    first = next(iter(given))
    some, shape = candidates(first)
    files = intake.copied(incoming, number, given)
    paths: dict[str, str | None] = {
        intake.path_of(incoming, number, file): file.name for file in files
    }
    gpu_model = options.gpu_model
    expected = [msgspec.structs.replace(each.expected, gpu_model=gpu_model) for each in some]
    logs = line_limit.opened(paths, declared=any(each.declared for each in expected))
    outcome = measuring.measure_logs(logs, expected, one_run=True)
    for wrong in outcome.failures:
        raise wrong
    (found,) = outcome.measurements
    chosen = _matching(some, found)
    origin = Origin(
        file=first,
        spec=chosen.found.spec if chosen.found else None,
        spec_digest=chosen.found.digest if chosen.found else "",
        spec_source=chosen.found.source if chosen.found else "",
        variant=chosen.variant,
        shape=shape,
        gpu_model=options.gpu_model,
    )
    name = origin.spec.name if origin.spec else found.format
    run_id = imported.run_id(name, set_name, [file.sha256 for file in files])
    return _Taken(number, run_id, files, imported.completed(found, origin), origin)


def _matching(candidates: Sequence[Candidate], found: Measurement) -> Candidate:
    """The candidate that a log was measured by: of its format, else of its framework."""

    def likeness(each: Candidate) -> tuple[bool, bool, bool]:
        expected = each.expected
        name = expected.format if isinstance(expected.format, str) else expected.format.name
        own = found.environment.get("variant")
        return name == found.format, expected.framework == found.framework, expected.variant == own

    return max(candidates, key=likeness)


def _doubles(
    taken: Sequence[_Taken], known: Sequence[Run], contents: dict[str, Run]
) -> list[InputError]:
    """Name each log that is the same as an earlier one, or as that of another run."""
    of_runs = dict(contents)
    for run in known:
        if run.measurement is not None and run.measurement.log_digest is not None:
            of_runs.setdefault(run.measurement.log_digest, run)
    seen: dict[str, str] = {}
    found = []
    for one in taken:
        digests = [file.sha256 for file in one.files]
        if one.measured.log_digest is not None:
            digests.append(one.measured.log_digest)
        first = next((seen[each] for each in digests if each in seen), None)
        other = next((of_runs[each] for each in digests if each in of_runs), None)
        if first is not None:
            found.append(
                InputError(
                    f"is the same log as {first}.", "Give each log once.", file=one.origin.file
                )
            )
        elif other is not None and other.run_id != one.run_id:
            found.append(
                InputError(
                    f"is the log of run {other.run_id} of set {other.plan.set_name}.",
                    f"A log counts once. Leave it out, or remove {_removed(other)}",
                    file=one.origin.file,
                )
            )
        for each in digests:
            seen.setdefault(each, one.origin.file)
    return found


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
    for one in taken:
        run_id = one.run_id
        # Seconds that differ by a millionth keep the order in which the logs were named.
        at = now + one.number / 1e6
        try:
            plan = imported.plan(
                one.measured, one.origin, run_id=run_id, set_name=set_name, repeat=1
            )
            if run_id in ids:
                there.append(_same(store.run(run_id), plan, one.origin))
                continue
        except InputError as wrong:
            failures.append(wrong)
            continue
        key = case_key(plan)
        numbers[key] = repeat = numbers.get(key, store.next_repeat(set_name, key) - 1) + 1
        run = Run(
            plan=msgspec.structs.replace(plan, repeat=repeat),
            created_at=at,
            owner=None,
            history=imported.history(at),
            artifacts=None,
            measurement=one.measured,
        )
        added.append((one, run))
    return added, there


def _same(run: Run, plan: Any, origin: Origin) -> Run:
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
