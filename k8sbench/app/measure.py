"""``measure`` and ``import``: logs that exist already, whoever wrote them.

All logs of one import are recorded, or none: a set that lacks one of its repeats shows another
spread than it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from k8sbench.app import catalog, context, results, stores
from k8sbench.app.results import Rows
from k8sbench.lifecycle.context import BENCHMARK
from k8sbench.measure.group import rejections
from k8sbench.model import choices, imported
from k8sbench.model.errors import InputError, UsageError, did_you_mean
from k8sbench.model.identity import case_key, case_values, checked_set_name
from k8sbench.model.imported import LogOrigin, Shape, completed
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.model.spec import Framework
from k8sbench.parse.families import NAMES
from k8sbench.ports import RunFilter

if TYPE_CHECKING:
    from k8sbench.adapters.store.exchange import ImportedFile
    from k8sbench.adapters.store.sql_store import SqlStore
    from k8sbench.app.stores import Note
    from k8sbench.measure.run.expectation import Expectation
    from k8sbench.model.spec import BenchmarkSpec, Variant

AUTO = "auto"
"""The log family that is recognised by the log's lines."""


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """User-given facts about logs that lack them; None is "not known"."""

    benchmark: str | None = None
    """Benchmark of the logs, a name or file.

    None without a family: the catalog benchmark that each log states.
    """
    family: str | None = None
    """Log family, if no benchmark is given; :data:`AUTO` detects it."""
    gpus: int | None = None
    """GPUs of the whole job."""
    case: str | None = None
    """Nodes and GPUs of each: ``4x8``."""
    batch_size: int | None = None
    """Samples per GPU and step."""
    precision: Literal["fp32", "amp", "fp16", "bf16"] | None = None
    """The half types count as AMP."""
    gpu_model: str | None = None
    """GPU of logs that do not state it."""
    framework: Framework | None = None
    variant: str | None = None
    warmup: int | None = None
    """Iterations left out."""
    one_run: bool = False
    """All logs are one run's: its ranks or its pieces."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""

    @property
    def shape(self) -> Shape | None:
        """The case as nodes and GPUs of each; raises :class:`UsageError`."""
        return None if self.case is None else choices.parse_case(self.case)


class LogCandidate(NamedTuple):
    """Possible interpretation of a log.

    Its catalog entry is None if only the log's format is known.
    """

    expected: Expectation
    loaded: catalog.LoadedSpec | None = None
    variant: Variant | None = None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Results of measuring several logs; a failed log spares the others."""

    measurements: tuple[Measurement, ...]
    failures: tuple[InputError, ...]
    recognised: dict[str, str | None]
    """Log → its benchmark and how to choose another, in words; None if unknown."""

    @property
    def rejected(self) -> bool:
        """Return True if any measured log is invalid."""
        return any(measurement.verdict == "rejected" for measurement in self.measurements)


def measure(logs: Sequence[str], options: MeasureOptions) -> Measured:
    """Measure files, folders, or ``-``; what cannot be read is among the failures."""
    candidates = _candidates(options)
    runs, failures = _find(logs, options)
    measurements, recognised = list[Measurement](), dict[str, str | None]()
    for files in runs:
        first = next(iter(files))
        try:
            measured, _, recognised[first] = _of_run(files, first, candidates, options)
            measurements.append(measured)
        except InputError as error:
            failures.append(error)
    found, failed = tuple(measurements), tuple(failures)
    return Measured(measurements=found, failures=failed, recognised=recognised)


def _find(
    logs: Sequence[str], options: MeasureOptions
) -> tuple[list[dict[str, str | None]], list[InputError]]:
    """Return the logs of each run, by path, and errors of missing files.

    A path that leads nowhere must not cost the others their figures, unless all are one run's: one
    that lacks one of its files would be another run.
    """
    from k8sbench.adapters.files import log_files

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


def _of_run(
    files: Mapping[str, str | None],
    first: str,
    candidates: Sequence[LogCandidate],
    options: MeasureOptions,
) -> tuple[Measurement, LogOrigin, str | None]:
    """Measure the logs of one run, by path and name.

    ``first`` is the path of the first log as given. Also returns the benchmark that the logs state,
    in words. Raises :class:`InputError` if they cannot be measured.
    """
    from k8sbench.adapters.files import log_files
    from k8sbench.measure.run import measuring

    values = _values(options)
    expected = [msgspec.structs.replace(each.expected, **values) for each in candidates]
    judged = measuring.judge(log_files.opened(files), expected)
    chosen = candidates[expected.index(judged.expected)]
    recognised, name = None, judged.stated and judged.stated.benchmark
    if judged.unfit:
        why = f"not {name} ({', '.join(judged.unfit)})"
        recognised = f"{judged.measurement.format}, {why}; --benchmark {name} says why."
    elif name:
        recognised = f"{name}; use --benchmark for another, --format {AUTO} for none."
    origin = LogOrigin(
        file=first,
        spec=chosen.loaded.spec if chosen.loaded else None,
        spec_digest=chosen.loaded.digest if chosen.loaded else "",
        spec_source=chosen.loaded.source if chosen.loaded else "",
        spec_text=chosen.loaded.text if chosen.loaded else "",
        variant=chosen.variant,
        shape=options.shape,
        gpu_model=options.gpu_model,
    )
    return completed(judged.measurement, origin), origin, recognised


def _values(options: MeasureOptions) -> dict[str, Any]:
    """The values of logs that options give, as fields of :class:`Expectation`."""
    gpus, shape, precision = options.gpus, options.shape, options.precision
    if shape is not None and gpus not in {None, shape[0] * shape[1]}:
        raise UsageError(f"--case {options.case} and --gpus {gpus} differ.", "Give one of them.")
    return {
        "gpus": gpus if shape is None else shape[0] * shape[1],
        "batch_size": options.batch_size,
        "precision": "amp" if precision in {"fp16", "bf16"} else precision,
        "amp_dtype": precision if precision in {"fp16", "bf16"} else None,
        "gpu_model": options.gpu_model,
    }


def _candidates(options: MeasureOptions) -> list[LogCandidate]:
    """List possible interpretations of a log; the first match wins."""
    from k8sbench.measure.run.expectation import Expectation, from_variant

    if options.benchmark is not None and options.family is not None:
        raise UsageError(
            "--benchmark and --format cannot be combined.",
            "Give --benchmark NAME, or --format FAMILY for logs without a benchmark, or neither: "
            "each log's family and benchmark are then recognised.",
        )
    if options.family not in {None, AUTO, *NAMES}:
        hint = did_you_mean(str(options.family), NAMES) + f"Families: {', '.join(NAMES)}."
        raise UsageError(f"There is no log family {options.family!r}.", hint)
    if options.variant is not None and options.benchmark is None:
        raise UsageError("--variant is one of a benchmark.", "Give --benchmark as well.")
    results.check_accepted(options.accept, of_groups=False)
    _values(options)
    given: dict[str, Any] = {"warmup": options.warmup, "accept": options.accept}
    found: list[LogCandidate] = []
    if options.benchmark is not None:
        benchmarks = [catalog.benchmark(options.benchmark)]
    else:
        framework = options.framework
        for family in NAMES if options.family in {AUTO, None} else [str(options.family)]:
            plain = Expectation(format=family, framework=framework, by_user=True, **given)
            found.append(LogCandidate(plain))
        benchmarks = catalog.benchmarks() if options.family is None else []
        given["if_stated"] = True
    for loaded in benchmarks:
        for variant in _variants(loaded.spec, options):
            declared_in = None if isinstance(variant.log, str) else loaded.source
            expected = from_variant(loaded.spec, variant, declared_in=declared_in, **given)
            found.append(LogCandidate(expected, loaded, variant))
    return found


def _variants(spec: BenchmarkSpec, options: MeasureOptions) -> list[Variant]:
    """List candidate variants, defaults first; all without a given benchmark."""
    mine = [each for each in spec.variants if options.framework in {None, each.framework}]
    usual = [each for name in spec.frameworks if (each := spec.default_variant(name)) in mine]
    if options.benchmark is None:
        return [*usual, *(each for each in mine if each not in usual)]
    found = [each for each in mine if each.name == options.variant] if options.variant else usual
    if not found:
        existing = ", ".join(f"{variant.framework}/{variant.name}" for variant in spec.variants)
        wanted = "/".join(part for part in (options.framework, options.variant) if part)
        raise UsageError(f"{spec.name} has no variant {wanted}.", f"Variants: {existing}.")
    return found


class ImportedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of importing logs."""

    set_name: str
    added: tuple[Run, ...] = ()
    there: tuple[Run, ...] = ()
    """Runs of this set that were here already, of the same logs."""
    failures: tuple[InputError, ...]
    """Without ``skip_unreadable`` nothing was recorded where there are any."""
    recognised: dict[str, str | None] = {}
    """As of :class:`Measured`."""
    rows: Rows | None = None
    """Rows of these runs' groups; None if nothing was recorded."""


class TakenLog(NamedTuple):
    """The logs of a run, copied and measured."""

    folder: Path
    """Folder of the copied logs."""
    run_id: str
    files: tuple[ImportedFile, ...]
    measured: Measurement
    origin: LogOrigin
    recognised: str | None


def import_logs(
    logs: Sequence[str],
    options: MeasureOptions,
    note: Note,
    *,
    set_name: str | None = None,
    skip_unreadable: bool = False,
    from_names: bool = False,
    where: str | None = None,
) -> ImportedLogs:
    """Measure logs and record each as a run: all of them, or none.

    With ``from_names`` a log's name counts where the log states nothing.

    The same log twice, or one that another run of the store has, is among the failures. With
    ``skip_unreadable`` logs that cannot be measured are left out, instead of all. ``set_name`` is
    a new one, and ``where`` the default store, where it is None.
    """
    from k8sbench.adapters.store import artifacts, exchange

    set_name = checked_set_name(set_name or context.new_set_name())
    candidates = _candidates(options)
    runs, failures = _find(logs, options)
    if not runs:
        return ImportedLogs(set_name=set_name, failures=tuple(failures))
    with stores.to_write(where) as store, exchange.unpacking(store.root) as incoming:
        taken: list[TakenLog] = []
        for number, names in enumerate(runs):
            try:
                folder = incoming / f"import-{number}"
                files = exchange.copied(folder, names)
                copies: dict[str, str | None] = {
                    str(folder / file.kept_as): file.name for file in files
                }
                first = next(iter(names))
                said = imported.from_name(first) if from_names else {}
                measured, origin, stated = _measured(copies, first, candidates, options, said)
            except InputError as error:
                failures.append(error)
                continue
            name = origin.spec.name if origin.spec else measured.format
            run_id = imported.run_id(name, set_name, [file.sha256 for file in files])
            if measured.log_digest is None:  # a summary has no records
                measured = msgspec.structs.replace(measured, log_digest=files[0].sha256)
            if origin.spec_text:
                artifacts.RunFolder(folder).write(BENCHMARK, origin.spec_text.encode())
            taken.append(TakenLog(folder, run_id, files, measured, origin, stated))
        doubles = _doubles(taken, store.runs(RunFilter()))
        failures += doubles
        added, there = list[tuple[TakenLog, Run]](), list[Run]()
        if not failures or (skip_unreadable and taken and not doubles):
            added, there = _planned(store, taken, set_name, context.now(), failures)
            if failures and not skip_unreadable:
                added, there = [], []
        if added:
            exchange.add(store, [(log.folder, run, log.files) for log, run in added])
        recorded = [store.run(run.run_id) for _, run in added]
        present = [*recorded, *there]
        return ImportedLogs(
            set_name=set_name,
            added=tuple(recorded),
            there=tuple(there),
            failures=tuple(failures),
            recognised={log.origin.file: log.recognised for log, _ in added},
            rows=results.rows(store, present, note, accept=options.accept) if present else None,
        )


def _measured(
    files: Mapping[str, str | None],
    first: str,
    candidates: Sequence[LogCandidate],
    options: MeasureOptions,
    said: Mapping[str, Any],
) -> tuple[Measurement, LogOrigin, str | None]:
    """Measure a log; take missing facts from its file name."""
    said = {option: value for option, value in said.items() if getattr(options, option) is None}
    if options.gpus is not None or options.case is not None:
        said = {option: said[option] for option in said.keys() - {"gpus", "case"}}
    by_name: dict[str, Any] = {}
    while True:
        wanted = msgspec.structs.replace(options, **by_name)
        missing = ["gpus", "case"]
        try:
            measured, *_ = found = _of_run(files, first, candidates, wanted)
        except InputError:
            if not said.keys() & missing - by_name.keys():
                raise
        else:
            stated = {
                "precision": measured.precision,
                "batch_size": measured.batch_size_per_gpu,
                "case": measured.environment.get("replicas"),
            }
            missing = [option for option, value in stated.items() if value is None]
            if "case" in said and math.prod(choices.parse_case(said["case"])) != measured.gpus:
                missing.remove("case")
            if not said.keys() & missing - by_name.keys():
                return found
        by_name |= {option: said[option] for option in missing if option in said}


def _doubles(taken: Sequence[TakenLog], known: Sequence[Run]) -> list[InputError]:
    """Return an error for each copy of another log.

    The other is a log before it, or that of another run.
    """
    others = [(run, run.measurement) for run in known if run.measurement is not None]
    doubles = []
    for number, log in enumerate(taken):
        digests = {file.sha256 for file in log.files}
        first = next(
            (
                other.origin.file
                for other in taken[:number]
                if not digests.isdisjoint(file.sha256 for file in other.files)
                or rejections.is_same_log(other.measured, log.measured)
            ),
            None,
        )
        other = next(
            (
                run
                for run, measured in others
                if run.run_id != log.run_id and rejections.is_same_log(measured, log.measured)
            ),
            None,
        )
        if first is not None:
            message, action = f"is the same log as {first}.", "Give each log once."
        elif other is not None:
            message = f"is the log of run {other.run_id} of set {other.plan.set_name}."
            action = f"A log counts once. Leave it out, or remove {_removed(other)}"
        else:
            continue
        doubles.append(InputError(message, action, file=log.origin.file))
    return doubles


def _planned(
    store: SqlStore,
    taken: Sequence[TakenLog],
    set_name: str,
    now: float,
    failures: list[InputError],
) -> tuple[list[tuple[TakenLog, Run]], list[Run]]:
    """Plan the runs to add, and find those already recorded."""
    added, there, numbers = list[tuple[TakenLog, Run]](), list[Run](), dict[str, int]()
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
    """Describe how to remove the run, identically for a whole set."""
    return (
        "that run with: k8sbench store remove RUN\n  All runs of its set are removed with:"
        f" k8sbench store remove {run.plan.set_name}"
    )
