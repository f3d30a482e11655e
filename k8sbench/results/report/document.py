"""Results as data: the JSON document, and the flat rows of CSV.

Both come from one dictionary per group. CSV drops nested values or spreads them over columns. A
missing figure is null (empty in CSV), and ``missing`` holds the reason under the figure's name.
``k8sbench schema results`` describes every field, held equal by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from k8sbench.messages import Note, note, quoted
from k8sbench.model.facts import Facts
from k8sbench.model.gpu_metrics import ROW_FIGURES
from k8sbench.model.group import (
    NOTHING_STATES_GPUS,
    SCRATCH,
    Deviation,
    Group,
    Parity,
    Result,
    TrainingOfGroup,
)
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Baseline, Location, Process, Run, Wish
from k8sbench.results.report import group_words, range_words
from k8sbench.results.report.noted_tables import of_runs
from k8sbench.results.report.words import english

Field = Callable[[Group], Any]
NO_STATEMENT = note("no-statement")
"""Reason why a run that nobody planned lacks a fact."""


def _fields_of_part(part: str, *names: str) -> dict[str, Field]:
    """Build the fields of a part of the group; None without the part."""

    def field(name: str) -> Field:
        return lambda group: getattr(getattr(group, part), name, None)

    return {name: field(name) for name in names}


def _gpu(name: str) -> Field:
    return lambda group: group.gpu.get(name)


_OF_GROUP: dict[str, Field] = {
    "group": lambda g: g.key.id,
    "set": lambda g: g.key.set_name,
    "created_at": lambda g: g.latest,
    **_fields_of_part("key", "benchmark"),
    **_fields_of_part("facts", "framework", "variant", "impl", "case"),
    **_fields_of_part("facts", "replicas", "processes_per_replica"),
    "gpus": lambda g: g.hardware.gpus,
    "machines": lambda g: g.hardware.machines,
    "precision": lambda g: g.facts.precision,
    **_fields_of_part("key", "precision_effective"),
    **_fields_of_part("facts", "amp_dtype"),
    "batch_size_per_gpu": lambda g: g.facts.batch_size,
    **_fields_of_part("key", "preset", "mode", "training", "data"),
    "window": lambda g: g.window,
    "options": lambda g: g.key.options if g.key.options != "-" else "",
    **_fields_of_part("key", "backend", "pool"),
    "node": lambda g: g.planned and g.planned.node,
    **_fields_of_part("key", "namespace", "measured_by"),
    "device": lambda g: g.device or g.facts.device,
    **_fields_of_part("key", "gpu_model", "image"),
    "program": lambda g: g.program,
    "state": lambda g: g.state,
    "runs_valid": lambda g: g.counted,
    "runs_total": lambda g: len(g.members),
    "runs_in_progress": lambda g: g.in_progress,
    "throughput": lambda g: g.spread and g.spread.median,
    "unit": lambda g: g.unit,
    "estimator": lambda g: g.estimator,
    **_fields_of_part("spread", "mean", "minimum", "maximum", "cv"),
    "interval_low": lambda g: g.spread and g.spread.low,
    "interval_high": lambda g: g.spread and g.spread.high,
    "by_estimator": lambda g: g.by_estimator,
    "range": lambda g: g.range and g.range.text,
    "throughput_in_range": lambda g: g.row.in_range,
    **{name: _gpu(name) for name in ROW_FIGURES},
}
"""Fields of a JSON row that are the group's own."""
_DERIVED = ("speedup", "efficiency", "tflops_per_gpu", "peak_share")
_LAST = (
    *("gpu_hours", "queued_s", "data_fraction", "parameters", "gmac"),
    *("time_to_train_s", "runs_at_target"),
)
_DIGESTS = ("data_digest", "weights_digest")
_OF_TRAINING: dict[str, Field] = {
    **_fields_of_part("training", *TrainingOfGroup.__struct_fields__),
    "ended_by": lambda g: g.ended_by,
    **_fields_of_part("key", *_DIGESTS),
}
"""Further fields of a JSON row, for training runs."""
_SIDE = (
    *("group", "set", "impl", "batch_size_per_gpu", "data", "gpu_model", "precision_effective"),
    *("throughput", "unit", "estimator"),
)
"""Fields of each group in a Paddle : PyTorch pair."""
PLAIN = (
    *(name for name in _OF_GROUP if name != "by_estimator"),
    *(*_DERIVED, "baseline", "fastest_batch_size", "behind_s", *_LAST),
    *_OF_TRAINING,
)
"""Fields of a JSON row that are always columns of the CSV."""


def document(results: Sequence[Result], parities: Sequence[Parity]) -> dict[str, Any]:
    """Build the document of ``-o json``."""
    return {
        "schema": SCHEMA,
        "rows": [row(result) for result in results],
        "parity": [_parity(pair) for pair in parities],
    }


def row(result: Result) -> dict[str, Any]:
    """Build the fields of one group, figures against other groups included."""
    group = result.group
    missing = _missing(group)
    fields = group_fields(group, _OF_GROUP)
    for name in _DERIVED:
        figure = getattr(result, name)
        fields[name] = figure.value
        missing[name] = figure.reason or note("not-measured-figure")
    fields |= {
        "baseline": result.baseline,
        "fastest_batch_size": result.fastest_batch_size,
        "behind_s": result.behind_s,
        **{name: getattr(group, name) for name in _LAST},
        **group_fields(group, _OF_TRAINING),
        "accuracy": msgspec.to_builtins(group.accuracy),
        "changed": msgspec.to_builtins(result.changed),
        "alternating": result.alternating and group_words.levels(result.alternating),
        "missing_in": msgspec.to_builtins(result.missing_in),
        "newer": msgspec.to_builtins(result.newer),
        **with_messages("notes", (*result.speedup.notes, *result.peak_share.notes)),
        **with_messages("judgements", group.judgements),
        **with_messages("marks", [mark.whole for mark in group_words.marks(group)]),
        "reasons": msgspec.to_builtins(group.reasons),
        "members": msgspec.to_builtins(group.members),
        "published": list(map(_published, result.deviations or ())) or None,
    }
    missing["baseline"] = result.speedup.reason or note("no-baseline")
    missing["fastest_batch_size"] = note("no-fastest-batch")
    missing["behind_s"] = note("not-behind")
    missing["changed"] = note("no-change-of-set")
    missing["alternating"] = note("no-alternation")
    missing["missing_in"] = note("not-missing")
    missing["newer"] = note("no-newer")
    missing["published"] = result.deviations_reason or note("not-requested")
    return fields | with_messages("missing", _reasons_of_nulls(missing, fields))


def group_fields(group: Group, names: Iterable[str]) -> dict[str, Any]:
    """Build the named fields of a group; an unknown value is None."""
    fields = {name: (_OF_GROUP | _OF_TRAINING)[name](group) for name in names}
    nullable = ("precision_effective", "gpu_model", "image", "training", "namespace", "measured_by")
    for name in (*nullable, *_DIGESTS):
        if fields.get(name) in ("unknown", "-"):
            fields[name] = None
    return fields


def _published(one: Deviation) -> dict[str, Any]:
    """Build the fields of a published figure."""
    fields: dict[str, Any] = msgspec.to_builtins(one)
    return fields | with_messages("notes", one.notes)


def with_messages(name: str, said: Mapping[str, Note] | Iterable[Note]) -> dict[str, Any]:
    """Build two fields: texts in English, and the same as ids with arguments.

    ``missing`` has the texts, ``missing_messages`` the ids.
    """
    if isinstance(said, Mapping):
        texts = {of: english(one) for of, one in said.items()}
        return {name: texts, f"{name}_messages": msgspec.to_builtins(dict(said))}
    once = list(dict.fromkeys(said))
    return {name: [*map(english, once)], f"{name}_messages": msgspec.to_builtins(once)}


def _reasons_of_nulls(missing: Mapping[str, Note], fields: Mapping[str, Any]) -> dict[str, Note]:
    """Select the reasons of the fields that are null."""
    return {k: why for k, why in sorted(missing.items()) if k in fields and fields[k] is None}


def _missing(group: Group) -> dict[str, Note]:
    """Map each nullable field of the group → reason if it is null."""
    unknown = note("runs-do-not-tell")
    why = group_words.with_ids(group)
    alone = (group.spread and group.spread.interval_reason) or why
    missing = {
        **dict.fromkeys(("framework", "precision", "batch_size_per_gpu", "device"), NO_STATEMENT),
        **dict.fromkeys(("case", "processes_per_replica"), NOTHING_STATES_GPUS),
        "gpus": group_words.NO_GPU if group.on_cpu else NOTHING_STATES_GPUS,
        "machines": note("replicas-may-share"),
        "precision_effective": unknown,
        "amp_dtype": note("no-amp") if group.facts.precision == "fp32" else unknown,
        "node": note("not-pinned"),
        "namespace": note("no-namespace"),
        "measured_by": note("measured-by-us"),
        "window": why if group.spread is None else note("one-figure-of-run"),
        "training": note("no-training-length"),
        "program": note("imported-no-program"),
        "gpu_model": note("no-gpu-used") if group.on_cpu else unknown,
        "image": unknown if group.facts.image else quoted(group.facts.image_reason or ""),
        **_missing_of_training(group),
        **dict.fromkeys(("throughput", "mean", "minimum", "maximum"), why),
        **dict.fromkeys(("cv", "interval_low", "interval_high"), alone),
        **missing_in_range(group),
    }
    of_valid_runs = (
        ("data_fraction", "time_to_train_s", "runs_at_target", "accuracy", *ROW_FIGURES)
        if group.spread is None
        else ()
    )
    no_figure = dict.fromkeys(of_valid_runs, note("no-valid-figure"))
    return {**no_figure, **group.missing, **missing}


def missing_in_range(group: Group) -> dict[str, Note]:
    """Return why a group has no range, or no figure over it."""
    if group.range is not None:
        why = range_words.unjudged(group, group.range)
        return {} if why is None else {"throughput_in_range": why}
    fixed = note("range-needs-sets" if group.windows else "range-of-plan")
    return dict.fromkeys(("range", "throughput_in_range"), fixed)


def _missing_of_training(group: Group) -> dict[str, Note]:
    unstated = dict.fromkeys(_OF_TRAINING, note("not-stated-by-all"))
    if group.training is None:
        why = group_words.without_training(group)
        return unstated | dict.fromkeys(TrainingOfGroup.__struct_fields__, why)
    scratch = {"weights_digest": note("from-scratch")} if group.training.weights == SCRATCH else {}
    return unstated | scratch


def _parity(pair: Parity) -> dict[str, Any]:
    key = pair.paddle.key
    return {
        "benchmark": key.benchmark,
        "case": key.case,
        "precision": key.precision,
        "preset": key.preset,
        "paddle": _side(pair.paddle),
        "pytorch": _side(pair.pytorch),
        "ratio": pair.ratio,
        "not_comparable": list(pair.not_comparable),
        **with_messages("notes", pair.notes),
    }


def _side(group: Group) -> dict[str, Any]:
    fields = group_fields(group, _SIDE)
    fields["precision_effective"] = group.precision_effective
    fields |= {"parameters": group.parameters, "gmac": group.gmac}
    fields["arithmetic"] = group.arithmetic and group.arithmetic.types
    return fields | with_messages("missing", _reasons_of_nulls(_missing(group), fields))


def flat(results: Sequence[Result]) -> tuple[list[str], list[list[Any]]]:
    """Build the header and rows of the CSV: one row per group.

    There is a column for every figure. ``missing`` has the reasons of empty ones. Each published
    source has three columns.
    """
    sources = sorted({_column(d) for result in results for d in result.deviations or ()})
    header = [*PLAIN, "accuracy", "accuracy_metric", "accuracy_unit"]
    for source in sources:
        header += [f"published {source}", f"deviation {source}", f"deviation {source} notes"]
    header += ["judgements", "marks", "notes", "reasons", "missing"]
    table = []
    for result in results:
        fields = row(result)
        reached = fields["accuracy"] or {}
        line = [fields[name] for name in PLAIN]
        line += [reached.get("best"), reached.get("metric"), reached.get("unit")]
        by_source = {_column(d): d for d in result.deviations or ()}
        for source in sources:
            line += _flat_deviation(by_source.get(source))
        kinds = ("reject", "warn", "accepted")
        reasons = [
            english(of_runs(one, one.head or ""))
            for kind in kinds
            for one in group_words.reasons(result.group, kind)
        ]
        missing = [f"{name}: {why}" for name, why in fields["missing"].items()]
        texts = (fields["judgements"], fields["marks"], fields["notes"], reasons, missing)
        line += ["; ".join(text) for text in texts]
        table.append(line)
    return header, table


def _column(one: Deviation) -> str:
    return one.source if one.quantity == "throughput" else f"{one.source} {one.quantity}"


def _flat_deviation(deviation: Deviation | None) -> list[Any]:
    if deviation is None:
        return [None, None, None]
    notes = "; ".join(map(english, deviation.notes))
    if deviation.not_comparable:
        notes = f"not comparable: {', '.join(deviation.not_comparable)}"
    return [deviation.published, deviation.ratio, notes]


# -- runs and baselines as data: list entries, and the status --------------------------------------


T = TypeVar("T", bound="RunView")


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that commands print of any run."""

    schema: int = SCHEMA
    """Version of the document."""
    run_id: str
    """Id of the run, also the job's name.

    ``status``, ``logs`` and ``--run-id`` take it.
    """
    object_name: str | None = None
    """Name of the Benchmark that requested the run; None without one."""
    phase: Phase
    """The present state, one of the phases."""
    cause: str
    """Reason for the state, one sentence."""
    cause_id: str | None
    """Stable id of the cause, such as ``owner-killed`` or ``timeout``.

    It is None if the state needs no diagnosis.
    """
    created_at: float
    """Time of recording, Unix seconds."""
    started_at: float | None
    """First time in state Running, Unix seconds; None if never."""
    ended_at: float | None
    """Time of the final state, Unix seconds; None before that."""
    restarts: int = 0
    """Number of times the job was re-created, including a pending one."""
    group: str
    """Id of the group that the run belongs to, as in ``results -o json``."""
    artifacts: str | None
    """Absolute path of the run's folder; None if not on this machine."""
    artifacts_missing: str | None
    """Reason for a missing folder; None if it is here.

    Includes where the folder was last written, if known.
    """
    recorded: bool = True
    """False: the store has no record of it, the cluster alone knows it."""
    source: str = "here"
    """Origin of the record: ``here``, ``operator`` or ``imported``.

    An ``imported`` run is in this store, and was never run by it.
    """


class ListedRun(RunView, frozen=True, kw_only=True):
    """One run in ``list -o json``."""

    set_name: str
    """The set that the run belongs to."""
    repeat: int
    """From 1, within (set, case)."""
    benchmark: str
    """Name in the catalog, or in the user's file."""
    variant: str
    """Name of the benchmark's variant, one of its programs."""
    framework: str | None
    """``pytorch`` or ``paddle``; None if nothing states it."""
    impl: str
    """Origin of the program: ``k8sbench``, ``upstream``, ``user`` or ``unknown``.

    ``unknown`` occurs only for imported logs.
    """
    case: str | None
    """Replicas × GPUs per replica, ``4x8``; ``2x1-cpu`` without GPUs.

    None if nothing states the GPUs.
    """
    precision: str | None
    """As requested: ``fp32`` or ``amp``; None if nothing states it."""
    preset: str
    """``full``; ``smoke`` is a functional test, not a speed measurement."""
    backend: str
    """``local`` or ``kubernetes``; ``imported``: k8sbench did not run it."""
    verdict: str | None
    """``valid`` or ``rejected``, as in its group; None if it is not measured."""
    reasons: tuple[str, ...]
    """Ids of the verdict's reasons."""
    throughput: float | None = None
    """The run's figure, by its benchmark's estimator; None unless the verdict is ``valid``."""
    unit: str | None = None
    """Unit of ``throughput``, such as ``images/s``; None without a throughput."""
    on_cluster: Phase | None = None
    """Phase of the job on its cluster; None if not queried.

    Queried only for runs that no k8sbench process follows.
    """


class ClusterState(Transition, frozen=True, kw_only=True):
    """State of a run's job on the cluster at time ``at``."""

    replicas: tuple[ReplicaState, ...]
    """Rank 0's replica first."""


class RunStatus(RunView, frozen=True, kw_only=True):
    """One run in ``status -o json``."""

    action: str | None
    """Suggested action; None if there is nothing to do."""
    unrecoverable: bool
    """The run cannot start unless someone changes the cluster or the job."""
    process: Process | None = msgspec.field(name="owner")
    """Process that follows a local run; None for a run on a cluster."""
    process_alive: bool | None = msgspec.field(name="owner_alive")
    """True if that process is alive.

    It is None if there is no process, or if this machine cannot tell.
    """
    history: tuple[Transition, ...]
    """Every change of state, oldest first; the first is Created."""
    case_key: str
    """Key of the case within its set.

    Repeats of one case share it, other runs differ; see the list of fields.
    """
    plan: RunPlan | None
    """The case with all its parameters, fixed before it started; None if nobody planned it."""
    facts: Facts
    """Known facts about the case, whoever planned it."""
    measurement: Measurement | None
    """Its figures and verdict; None if it is not measured."""
    log_files: tuple[str, ...]
    """Paths of the logs, rank 0's replica first.

    Empty if there are none, or they are on another machine.
    """
    location: Location | None
    """Location of the job on a cluster; None for a local run."""
    image_digest: str | None
    """Digest of the image that its replicas ran; None where that is not known."""
    wishes: tuple[Wish, ...]
    """Pending requests to its cluster."""
    on_cluster: ClusterState | None
    """Current state of the job on its cluster.

    It is None for a finished or local run, and if the cluster did not answer.
    """


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
    """Store of the baseline: ``here`` or ``operator``."""


def listed(run: Run, **given: Any) -> ListedRun:
    """Make the entry of a list from a run.

    ``given`` are fields that the run does not tell.
    """
    measured = run.measurement
    figure = None if measured is None else measured.throughput
    measurement = {
        "verdict": None if measured is None else measured.verdict,
        "reasons": () if measured is None else tuple(reason.id for reason in measured.reasons),
        "throughput": None if measured is None else measured.rate,
        "unit": None if figure is None else figure.unit,
    }
    return _built(ListedRun, run, **measurement, **given)


def status(
    run: Run,
    *,
    log_files: Iterable[str] = (),
    process_alive: bool | None = None,
    on_cluster: ClusterState | None = None,
    recorded: bool = True,
) -> RunStatus:
    """Build the status of a run, with its job's queried state."""
    return _built(
        RunStatus,
        run,
        log_files=tuple(log_files),
        process_alive=process_alive,
        on_cluster=on_cluster,
        recorded=recorded,
        plan=run.planned,
    )


def on_cluster(
    steps: Iterable[Transition], replicas: Iterable[ReplicaState], now: float
) -> ClusterState | None:
    """Make a job's present state of its reported steps."""
    for step in steps:
        about = msgspec.structs.asdict(step) | {"at": now}
        return ClusterState(**about, replicas=tuple(replicas))
    return None


def _built(kind: type[T], run: Run, **given: Any) -> T:
    """Build a view of given values and those on record."""
    values = {
        name: getattr(source, name)
        for source in (run.history[-1], run.facts, run)
        for name in kind.__struct_fields__
        if hasattr(source, name)
    }
    of_run = {"schema": SCHEMA, "group": run.group_key.id, "source": run.shown_source}
    return kind(**values | of_run | given)


def baseline_info(baseline: Baseline, source: str) -> BaselineInfo:
    """Describe a baseline by its runs."""
    return BaselineInfo(
        name=baseline.name,
        saved_at=baseline.saved_at,
        of=baseline.of,
        benchmarks=tuple(sorted({run.facts.benchmark for run in baseline.runs})),
        sets=tuple(dict.fromkeys(run.set_name for run in baseline.runs)),
        runs=len(baseline.runs),
        source=source,
    )
