"""``measure`` and ``import``: logs that exist already, whoever wrote them.

All logs of one import are recorded, or none: a set that lacks one of its repeats shows another
spread than it has.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.app import connections, results, stores
from k8sbench.app.results import RunRows
from k8sbench.catalog import imported_logs, plan_choices, spec_files
from k8sbench.catalog.imported_logs import LogOrigin, MeasuredLog
from k8sbench.catalog.measure_options import HALF_TYPES, MeasureOptions
from k8sbench.lifecycle.context import Note
from k8sbench.lifecycle.run_artifacts import BENCHMARK
from k8sbench.model.errors import InputError, UsageError
from k8sbench.model.facts import Facts
from k8sbench.model.identity import case_key
from k8sbench.model.names import checked_set_name
from k8sbench.model.plain_text import readable
from k8sbench.model.run import Run
from k8sbench.reader.measuring import expectation
from k8sbench.reader.measuring.expectation import LogCandidate
from k8sbench.store.interface import RunFilter

if TYPE_CHECKING:
    from k8sbench.results.report.explanation import Row
    from k8sbench.store.sql_store import SqlStore


def measure(
    logs: Sequence[str], options: MeasureOptions
) -> tuple[list[MeasuredLog], list[InputError]]:
    """Measure files, folders, or ``-``; a failed log spares the others."""
    possible = candidates(options)
    runs, failures = _find(logs, options)
    measured: list[MeasuredLog] = []
    for files in runs:
        try:
            measured.append(measure_run(files, next(iter(files)), possible, options))
        except InputError as error:
            failures.append(error)
    return measured, failures


def candidates(options: MeasureOptions) -> list[LogCandidate]:
    """List possible interpretations of a log, by the options and the catalog."""
    results.check_accepted(options.accept, of_groups=False)
    if options.benchmark is not None:
        return expectation.candidates(options, [spec_files.load_spec(options.benchmark)])
    return expectation.candidates(options, spec_files.load_all() if options.family is None else [])


def _find(
    logs: Sequence[str], options: MeasureOptions
) -> tuple[list[dict[str, str | None]], list[InputError]]:
    """Return the logs of each run, by path, and errors of missing files.

    A path that leads nowhere must not cost the others their figures, unless all are one run's: one
    that lacks one of its files would be another run.
    """
    from k8sbench.reader import log_files

    files: dict[str, None] = {}
    failures: list[InputError] = []
    for path in logs:
        try:
            files |= dict.fromkeys(log_files.find([path]))
        except InputError as error:
            failures.append(error)
    if failures and options.one_run:
        raise failures[0]
    names = log_files.names(logs, files)
    runs = [names] if options.one_run else [{file: names[file]} for file in files]
    return runs, failures


def measure_run(
    files: Mapping[str, str | None],
    first: str,
    candidates: Sequence[LogCandidate],
    options: MeasureOptions,
) -> MeasuredLog:
    """Measure the logs of one run, by path and name.

    ``first`` is the path of the first log as given. Raises :class:`InputError` if they cannot be
    measured.
    """
    from k8sbench.reader import log_files
    from k8sbench.reader.measuring import measuring

    values = options.values
    expected = [msgspec.structs.replace(each.expected, **values) for each in candidates]
    judged = measuring.judge(log_files.opened(files), expected)
    chosen = candidates[expected.index(judged.expected)]
    origin = LogOrigin(
        file=readable(first),
        loaded=chosen.loaded,
        variant=chosen.variant,
        shape=options.shape,
        gpu_model=options.gpu_model,
        gives_warmup=options.warmup is not None,
    )
    return MeasuredLog(
        imported_logs.add_gpu_model(judged.measurement, origin),
        origin,
        judged.recognised,
        judged.possible,
        sources=judged.sources,
    )


# -- formats of logs ------------------------------------------------------------------------------


def explain_format(name: str, log: str) -> list[Row]:
    """Return the lines of a log that the expressions of a benchmark's file match."""
    from k8sbench.reader import declared, log_files
    from k8sbench.reader.measuring import evidence
    from k8sbench.results.report import explanation

    spec = spec_files.load_spec(name).spec
    formats = declared.formats(spec)
    if not formats:
        families = ", ".join(sorted({str(each.log) for each in spec.variants}))
        raise InputError(
            f"declares no log format: its variants name families ({families}).",
            f"See what they read with: k8sbench measure {log} --benchmark {name}",
            file=name,
        )
    (source,) = log_files.opened(log_files.names([log], [log]))
    quote = functools.partial(evidence.place, source.name)
    read, tried = declared.matches(source, formats, quote)
    if not read:
        raise InputError("is empty.", "Give the log of a training run.", file=log)
    return list(explanation.of_expressions(source.name, read, tried))


def declare(logs: Sequence[str], options: MeasureOptions) -> str:
    """Write the template of a benchmark file for logs that no family reads."""
    from k8sbench.adapters import templates
    from k8sbench.reader import format_template, log_files, numbered_lines, reading

    sources = log_files.opened(log_files.names(logs, log_files.find(logs)))
    lines = numbered_lines.first_lines(itertools.chain.from_iterable(sources))
    name = " ".join(logs)
    if (family := reading.family_in(lines)) is not None:
        raise InputError(
            f"needs no file: it is read as {family.name}.",
            f"Measure it: k8sbench measure {name} --gpus N",
            file=sources[0].name,
        )
    values = format_template.fill(lines, batch=options.batch_size)
    if values is None:
        raise InputError(
            "has no line that comes again and again with a step and a rate or time.",
            "Print both in one line every few steps, as: step 120/250 loss 0.53 412.7 img/s. "
            "Not read: progress bars, whose rates are smoothed, and decimal commas: print 0.53, "
            "not 0,53.",
            file=sources[0].name,
        )
    template = string.Template((templates.PACKAGE / "first-benchmark.yaml").read_text())
    return template.substitute(values, log=name)


# -- import ---------------------------------------------------------------------------------------


class ImportedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of importing logs."""

    added: tuple[Run, ...] = ()
    there: tuple[Run, ...] = ()
    """Runs of their sets that were here already, of the same logs."""
    replaced: tuple[str, ...] = ()
    """Ids of earlier runs that were removed for those added."""
    failures: tuple[InputError, ...]
    """Without ``skip_unreadable`` nothing was recorded where there are any."""
    recognised: tuple[MeasuredLog, ...] = ()
    """The logs of ``added``."""
    rows: RunRows | None = None
    """Rows of these runs' groups; None if nothing was recorded."""


def import_logs(
    logs: Sequence[str],
    options: MeasureOptions,
    note: Note,
    *,
    set_name: str | None = None,
    skip_unreadable: bool = False,
    from_names: bool = False,
    replace: bool = False,
    where: str | None = None,
) -> ImportedLogs:
    """Measure logs and record each as a run: all of them, or none.

    With ``from_names`` a log's name counts where the log states nothing. With ``replace`` a run of
    the set from the same log, or a log of the same name, is removed unless it is the same run.

    The same log twice, or one that another run of the store has, is among the failures. With
    ``skip_unreadable`` logs that cannot be measured are left out, instead of all. ``set_name`` is
    a new one, and ``where`` the default store, where it is None.
    """
    from k8sbench.reader import log_files
    from k8sbench.store import exchange, run_folder

    if replace and set_name is None:
        raise UsageError("--replace replaces runs of a set.", "Name the set with --set.")
    set_name = checked_set_name(set_name or connections.new_set_name())
    possible = candidates(options)
    runs, failures = _find(logs, options)
    if not runs:
        return ImportedLogs(failures=tuple(failures))
    with (
        stores.open_writable(where, note=note) as store,
        exchange.open_incoming(store.root) as incoming,
    ):
        taken: list[MeasuredLog] = []
        copies = {}
        for number, names in enumerate(runs):
            folder = incoming / f"import-{number}"
            first = next(iter(names))
            try:
                files = exchange.copy_logs(folder, log_files.opened(names))
                at = {str(folder / file.kept_as): file.name for file in files}
                said = imported_logs.options_in_name(first) if from_names else {}
                log = _measured(at, first, possible, options, said)
            except InputError as error:
                offered = error if from_names else imported_logs.offer_names(error, first)
                failures.append(offered)
                continue
            digests = tuple(file.sha256 for file in files)
            log = log._replace(digests=digests, set_name=set_name)
            if log.measurement.log_digest is None:  # a summary has no records
                only = msgspec.structs.replace(log.measurement, log_digest=log.digests[0])
                log = log._replace(measurement=only)
            if log.origin.loaded and log.origin.loaded.text:
                run_folder.RunFolder(folder).write(BENCHMARK, log.origin.loaded.text.encode())
            taken.append(log)
            copies[log.run_ids] = folder, files
        known = store.runs(RunFilter())
        of_set = imported_logs.imported_into(set_name, known)
        others = [run for run in known if run not in of_set] if replace else known
        doubles = imported_logs.find_duplicates(taken, others)
        failures += doubles
        planned = _Planned([], [], [])
        if not failures or (skip_unreadable and taken and not doubles):
            refused: list[InputError] = []
            planned = _planned(store, taken, known, refused, replace=replace)
            failures += (
                error if from_names else imported_logs.offer_names(error, str(error.file))
                for error in refused
            )
            if failures and not skip_unreadable:
                planned = _Planned([], [], [])
        added = [
            exchange.AddedRun(run, *copies[log.run_ids], replaces)
            for log, run, replaces in planned.added
        ]
        if added or planned.leftovers:
            exchange.add_runs(store, added, planned.leftovers)
        recorded = [store.run(each.run.run_id) for each in added]
        present = [*recorded, *planned.there]
        replaced = [*planned.leftovers, *(run_id for each in added for run_id in each.replaces)]
        return ImportedLogs(
            added=tuple(recorded),
            there=tuple(planned.there),
            replaced=tuple(dict.fromkeys(replaced)),
            failures=tuple(failures),
            recognised=tuple(log for log, _, _ in planned.added),
            rows=results.rows(store, present, note, accept=options.accept) if present else None,
        )


def _measured(
    files: Mapping[str, str | None],
    first: str,
    candidates: Sequence[LogCandidate],
    options: MeasureOptions,
    said: Mapping[str, Any],
) -> MeasuredLog:
    """Measure a log, of which its name says ``said``.

    The name supplies what neither the log nor an option states. The log must agree with what no
    option overrides.
    """
    has_case = options.gpus is not None or options.case is not None
    said = {
        option: value
        for option, value in said.items()
        if getattr(options, option) is None and not (has_case and option in {"gpus", "case"})
    }
    named = expectation.named_values(said)
    candidates = [
        each._replace(expected=msgspec.structs.replace(each.expected, named=named))
        for each in candidates
    ]
    given = options.sources
    while True:
        missing = {"gpus", "case"}
        try:
            log = measure_run(files, first, candidates, options)
        except InputError:
            if missing.isdisjoint(said):
                raise
        else:
            missing = _missing(log, files, first, candidates, options, said)
            if missing.isdisjoint(said):
                return log._replace(sources={**given, **log.sources})
        more = {option: value for option, value in said.items() if option in missing}
        given |= dict.fromkeys(more, "the names of the log's file and folders")
        said = {option: value for option, value in said.items() if option not in more}
        options = msgspec.structs.replace(options, **more)


def _missing(
    log: MeasuredLog,
    files: Mapping[str, str | None],
    first: str,
    candidates: Sequence[LogCandidate],
    options: MeasureOptions,
    said: Mapping[str, Any],
) -> set[str]:
    """Return the options that a log does not state, among those that its name says."""
    found = log.measurement
    batch, precision = found.batch_size_per_gpu, found.precision
    if batch != said.get("batch_size", batch) and log.origin.variant is not None:
        # It may be the benchmark's, which counts after the name.
        without = [
            each._replace(expected=msgspec.structs.replace(each.expected, batch_sizes={}))
            for each in candidates
        ]
        batch = measure_run(files, first, without, options).measurement.batch_size_per_gpu
    is_half = said.get("precision") in HALF_TYPES
    if "precision_default" in found.environment or (
        precision == "amp" and is_half and found.amp_dtype is None
    ):
        precision = None
    stated = {
        "precision": precision,
        "batch_size": batch,
        "case": found.environment.get("replicas"),
    }
    missing = {option for option, value in stated.items() if value is None}
    if "case" in said and math.prod(plan_choices.parse_case(said["case"])) != found.gpus:
        missing.discard("case")
    return missing


class _Planned(NamedTuple):
    """Changes of an import."""

    added: list[tuple[MeasuredLog, Run, tuple[str, ...]]]
    """New runs, with the ids of those that they replace."""
    there: list[Run]
    """Runs that are recorded already."""
    leftovers: list[str]
    """Ids of runs that these replaced, by an import that was killed."""


def _planned(
    store: SqlStore,
    taken: Sequence[MeasuredLog],
    known: Sequence[Run],
    failures: list[InputError],
    *,
    replace: bool,
) -> _Planned:
    """Plan the runs to add, and find those already recorded."""
    from k8sbench.store import exchange

    planned = _Planned([], [], [])
    gone = set[str]()
    ids = set(store.ids())
    now = connections.now()
    cases = list[tuple[MeasuredLog, Facts, list[Run]]]()
    for log in taken:
        first, second = log.run_ids
        try:
            run_id = second if first in ids else first
            facts = imported_logs.make_facts(
                log.measurement, log.origin, run_id=run_id, set_name=log.set_name
            )
            sources = imported_logs.stated_by(log, facts, {})
            facts = msgspec.structs.replace(facts, stated_by=sources)
            if not replace and not ids.isdisjoint(log.run_ids):
                run = store.run(first if first in ids else second)
                imported_logs.check_same_case(run, facts, log.origin.file)
                planned.there.append(run)
                continue
            unchanged = [
                run.run_id
                for run in known
                if replace
                and log.is_of(run)
                and imported_logs.is_unchanged(run, facts, log.measurement)
            ]
            earlier = imported_logs.replaced_runs(log, taken, known) if replace else []
            if unchanged:
                planned.there.append(store.run(unchanged[0]))
                replaced = {*exchange.read_replaced(store, unchanged[0])}
                replaced |= {run.run_id for run in earlier} - {*unchanged}
                planned.leftovers.extend(ids.intersection(replaced))
                continue
        except InputError as error:
            failures.append(error)
            continue
        gone.update(run.run_id for run in earlier)
        cases.append((log, facts, earlier))
    gone.update(planned.leftovers)
    repeats = defaultdict[tuple[str, str], set[int]](set)
    for run in known:
        if run.run_id not in gone:
            repeats[run.set_name, run.case_key].add(run.repeat)
    for number, (log, facts, earlier) in enumerate(cases):
        key = case_key(facts)
        used = repeats[facts.set_name, key]
        kept = {run.repeat for run in earlier if run.case_key == key} - used
        repeat = min(kept or set(range(1, len(used) + 2)) - used)
        used.add(repeat)
        # Seconds that differ by a millionth keep the order in which the logs were named.
        at = now + number / 1e6
        run = imported_logs.make_run(
            msgspec.structs.replace(facts, repeat=repeat), log.measurement, at
        )
        planned.added.append((log, run, tuple(each.run_id for each in earlier)))
    return planned
