"""Facts and runs of imported logs.

What is known of the case of an imported log comes from the log itself, the user's options and the
catalog. A fact that none of them states is None; nothing is guessed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import msgspec

from k8sbench.catalog import plan_choices
from k8sbench.catalog.planning import LoadedSpec
from k8sbench.catalog.spec import Variant
from k8sbench.model.errors import InputError
from k8sbench.model.facts import Facts
from k8sbench.model.identity import case_values
from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import Measurement
from k8sbench.model.names import NAME_LIMIT
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plain_text import counted, readable
from k8sbench.model.plan import (
    GIVEN_WARMUP,
    SEQUENCE_LENGTH,
    WHOLE_LOG,
    Device,
    PlannedWindow,
)
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from k8sbench.model.spec_values import AmpDtype, Impl, Precision

POOL = "imported"
MOST_ON_ONE_NODE = 8
"""GPUs assumed to be on one node if no number of nodes is stated."""
ID_DIGITS = 12
NO_CASE = "Give it with --case, as 4x8; logs of other cases need a command of their own."
CAUSE_ID = "imported"
STDIN_NAME = "<stdin>"
"""Name of standard input as a log, which says nothing about its origin."""

Shape = tuple[int, int]
"""Nodes, and GPUs (CPU processes) on each."""

_COUNT = r"([1-9]\d{0,4})"
_IN_NAMES = {
    # No more than 16 GPUs are in a node: 512x1024 is a crop.
    "case": (rf"n{_COUNT}[-_]?[gc]{_COUNT}", rf"{_COUNT}n{_COUNT}g", rf"{_COUNT}x(\d|1[0-6])"),
    "gpus": (rf"gpus?[-_x]?{_COUNT}", rf"{_COUNT}[-_]?gpus?", rf"[cg]{_COUNT}"),
    # The b5 of efficientnet_b5 is part of a model's name.
    "batch_size": (
        *(rf"bs[-_]?{_COUNT}", rf"batch(?:[-_]?size)?[-_]?{_COUNT}"),
        rf"(?:(?<![-_])|(?<=\d[-_])|(?<=amp[-_]))b[-_]?{_COUNT}",
    ),
    "precision": (r"(fp32|fp16|bf16)", r"(?<!no[-_])(amp)(?![-_](?:off|false)(?![a-z0-9]))"),
}
"""Option → pattern of a word in a log's name, in lower case."""


def options_in_name(name: str) -> dict[str, Any]:
    """Read options from a log's name: ``n4g8_amp_bs128.log``, ``gpu8/1.log``.

    Keys are options of ``import``. A folder's name counts if the names below it have no value. A
    value that a name has twice is dropped.
    """
    words_by_option: dict[str, tuple[str, ...]] = {}
    for part in reversed(name.lower().split("/")):
        for option, expressions in _IN_NAMES.items():
            for expression in expressions:
                word = rf"(?<![a-z0-9])(?:{expression})(?![a-z0-9])"
                values = {match.groups() for match in re.finditer(word, part)}
                if len(values) == 1:
                    words_by_option.setdefault(option, values.pop())
    if "case" in words_by_option:
        words_by_option.pop("gpus", None)
    return {
        option: "x".join(words) if option in {"case", "precision"} else int(words[0])
        for option, words in words_by_option.items()
    }


class LogOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Information about a log from outside it."""

    file: str
    """File name as the user gave it, for errors."""
    loaded: LoadedSpec | None = None
    """Benchmark of the log; None if only the format is known."""
    variant: Variant | None = None
    shape: Shape | None = None
    """Nodes and GPUs, as the user gives them."""
    gpu_model: str | None = None
    """The user's GPU model, for logs that do not state one."""
    gives_warmup: bool = False
    """True if an option or an annotation gives the warm-up."""


class MeasuredLog(NamedTuple):
    """The logs of one run, measured."""

    measurement: Measurement
    origin: LogOrigin
    recognised: str | None
    """Benchmark that the logs state and how to choose another, in words."""
    possible: str | None = None
    """The only benchmark of the logs' format, if they state none."""
    digests: tuple[str, ...] = ()
    """SHA-256 of each file; empty unless they are imported."""
    set_name: str = ""
    """Set of the run; empty unless it is imported."""
    sources: Mapping[str, str] = MappingProxyType({})
    """Fact → where it comes from, in words; facts that only the catalog states are absent."""

    @property
    def run_ids(self) -> tuple[str, str]:
        """Possible ids of the run in its set; one that is replaced by the other has the first."""
        loaded = self.origin.loaded
        name = loaded.spec.name if loaded else self.measurement.format
        replacing = (*self.digests, "replaces")
        return run_id(name, self.set_name, self.digests), run_id(name, self.set_name, replacing)

    def is_of(self, run: Run) -> bool:
        """Return True if a run of its set was made of the same log."""
        measured = run.measurement
        is_same = measured is not None and measured.is_same_log(self.measurement)
        return run.set_name == self.set_name and (run.run_id in self.run_ids or is_same)

    def is_same(self, other: MeasuredLog) -> bool:
        """Return True if the two have a file or all records in common."""
        has_its_file = not set(self.digests).isdisjoint(other.digests)
        return has_its_file or self.measurement.is_same_log(other.measurement)


def run_id(benchmark: str, set_name: str, digests: Sequence[str]) -> str:
    """Return the run id of logs in a set, equal for equal logs."""
    text = "\n".join((set_name, *digests)).encode()
    digest = hashlib.sha256(text).hexdigest()[:ID_DIGITS]
    # A family's name may have a dot, which no id has.
    name = benchmark.replace(".", "-")[: NAME_LIMIT - ID_DIGITS - 1].rstrip("-")
    return f"{name}-{digest}"


def make_run(facts: Facts, measurement: Measurement, at: float) -> Run:
    """Make the run of a measured log, which ended before its import."""
    history = (
        Transition(phase=Phase.CREATED, at=at, cause="Recorded from a log that was imported."),
        Transition(
            phase=Phase.SUCCEEDED,
            at=at,
            cause="Imported: its program ran elsewhere, and k8sbench measured its log.",
            cause_id=CAUSE_ID,
        ),
    )
    return Run(
        known=facts,
        created_at=at,
        process=None,
        history=history,
        artifacts=None,
        measurement=measurement,
    )


def add_gpu_model(measurement: Measurement, origin: LogOrigin) -> Measurement:
    """Return the measurement with the user's GPU model, if the log has none."""
    if origin.gpu_model is None or measurement.gpu_model == origin.gpu_model:
        return measurement
    if measurement.gpu_model is not None:
        raise InputError(
            f"states the GPU {measurement.gpu_model}, and --gpu-model says {origin.gpu_model}.",
            "Leave --gpu-model out where logs state their GPU.",
            file=origin.file,
        )
    return msgspec.structs.replace(
        measurement, gpu_model=origin.gpu_model, device=measurement.device or "cuda"
    )


def make_facts(measurement: Measurement, origin: LogOrigin, *, run_id: str, set_name: str) -> Facts:
    """Return what is known of the case of a measured log, as its first repeat.

    Raises :class:`InputError` if the log may be of several cases, which only the user can tell
    apart.
    """
    loaded, variant = origin.loaded, origin.variant
    notes: list[str] = []
    replicas, processes = choose_shape(measurement, origin, notes)
    device = _device(measurement)
    precision: Any = measurement.precision if measurement.precision in get_args(Precision) else None
    impl: Any = measurement.impl if measurement.impl in get_args(Impl) else "unknown"
    model = variant.fingerprint if variant else None
    is_alone = replicas * processes == 1
    environment = measurement.environment
    length = environment.get("option.sequence_length") or environment.get("sequence_length")
    grows = model is not None and model.position_gmac is not None and length is not None
    return Facts(
        run_id=run_id,
        set_name=set_name,
        repeat=1,
        benchmark=loaded.spec.name if loaded else measurement.format,
        spec_source=readable(loaded.source) if loaded else "",
        spec_digest=loaded.digest if loaded else "",
        variant=variant.name if variant else measurement.format,
        impl=impl,
        framework=measurement.framework,
        precision=precision,
        amp_dtype=_amp_dtype(measurement, variant),
        device=device,
        replicas=replicas,
        processes_per_replica=processes,
        batch_size=measurement.batch_size_per_gpu,
        preset="smoke" if environment.get("preset") == "smoke" else "full",
        mode="train" if measurement.mode == "train" else "throughput",
        data=measurement.data or "unknown",
        unit=loaded.spec.unit if loaded else _unit(measurement),
        window=_window(measurement, origin, is_alone=is_alone),
        log=variant.log if variant and isinstance(variant.log, LogFormat) else measurement.format,
        fingerprint=model,
        options={SEQUENCE_LENGTH: int(str(length))} if grows else {},
        sync_bn=bool(variant and variant.sync_bn and device != "cpu" and not is_alone),
        image=None,
        image_reason="imported logs: no image",
        pool=NodePool(
            name=POOL,
            gpus_per_node=0 if device == "cpu" else processes,
            gpu_model=None if device == "cpu" else measurement.gpu_model,
        ),
        kind=None,
        queue=None,
        notes=tuple(notes),
        backend="imported",
        job=None,
        is_packed=False,
    )


def stated_by(log: MeasuredLog, facts: Facts, given: Mapping[str, str]) -> dict[str, str]:
    """Return in words who states each fact: the log, what is given, the catalog.

    ``given`` are the sources of facts that options or annotations state. What is stated twice is
    from the log.
    """
    loaded = log.origin.loaded
    of_format = "the log's format"
    of_benchmark = {}
    if loaded is not None:
        of_format = f"benchmark {loaded.spec.name} ({readable(loaded.source)})"
        of_benchmark = {"model": of_format}
    of_program = dict.fromkeys(("warmup", "framework", "precision", "batch_size"), of_format)
    sources = {**of_program, **of_benchmark, **given, **log.sources}
    unknown = {name for name in sources if getattr(facts, name, "") is None}
    return {name: source for name, source in sources.items() if name not in unknown}


def _device(measurement: Measurement) -> Device | None:
    """Return the device by the log, or by the GPU model; None if nothing states it."""
    if measurement.device == "cpu":
        return "cpu"
    return None if measurement.gpu_model is None else "cuda"


def _amp_dtype(measurement: Measurement, variant: Variant | None) -> AmpDtype | None:
    """Return AMP's half type by the log or the catalog."""
    half_type = measurement.amp_dtype or (variant.amp_dtype if variant else None)
    if measurement.precision != "amp" or half_type is None:
        return None
    return "bf16" if half_type == "bf16" else "fp16"


def choose_shape(measurement: Measurement, origin: LogOrigin, notes: list[str]) -> Shape:
    """Return nodes and GPUs per node.

    As given, as the log states, or as the catalog's only such case.
    """
    if origin.shape is not None:
        return origin.shape
    gpus = measurement.gpus
    nodes = measurement.environment.get("replicas")
    assert gpus is not None, "no log is measured without them"
    if nodes is not None and str(nodes).isdecimal() and int(nodes) > 0 and gpus % int(nodes) == 0:
        return int(nodes), gpus // int(nodes)
    cases = (
        [plan_choices.parse_case(case) for case in origin.variant.cases] if origin.variant else []
    )
    fitting = [(replicas, per_node) for replicas, per_node in cases if replicas * per_node == gpus]
    if len(fitting) == 1:
        if gpus > 1:
            name = "x".join(map(str, fitting[0]))
            notes.append(
                f"nothing states the nodes: {gpus} GPUs are taken to be {name}, its only case"
            )
        return fitting[0]
    gpus_in_words = counted(gpus, "GPU")
    if fitting:
        names = " or ".join(f"{replicas}x{per_node}" for replicas, per_node in fitting)
        raise InputError(f"{gpus_in_words} may be the case {names}.", NO_CASE, file=origin.file)
    if gpus > MOST_ON_ONE_NODE:
        raise InputError(
            f"does not state on how many nodes the {gpus_in_words} were.", NO_CASE, file=origin.file
        )
    if gpus > 1:
        notes.append(f"nothing states the nodes: {gpus_in_words} are taken to be of one")
    return 1, gpus


# -- logs that are in the store already -----------------------------------------------------------


def find_duplicates(logs: Sequence[MeasuredLog], runs: Sequence[Run]) -> list[InputError]:
    """Return an error for each log that is a copy: of an earlier log, or of the log of a run."""
    errors = []
    for number, log in enumerate(logs):
        first = next(filter(log.is_same, logs[:number]), None)
        other = next(
            (
                run
                for run in runs
                if run.run_id not in log.run_ids
                and run.measurement is not None
                and run.measurement.is_same_log(log.measurement)
            ),
            None,
        )
        if first is not None:
            message = f"is the same log as {first.origin.file}."
            action = "Give each log once."
        elif other is not None:
            message = f"is in set {other.set_name} already."
            action = (
                "A log counts once: leave it out, replace the runs of logs that have changed with"
                f" --replace, or {_removal_command(other)}"
            )
        else:
            continue
        errors.append(InputError(message, action, file=log.origin.file))
    return errors


def imported_into(set_name: str, runs: Sequence[Run]) -> list[Run]:
    """Return the runs of a set that were imported."""
    return [run for run in runs if run.facts.backend == "imported" and run.set_name == set_name]


def replaced_runs(
    log: MeasuredLog, others: Sequence[MeasuredLog], runs: Sequence[Run]
) -> list[Run]:
    """List the runs that a log replaces: runs of its set with the same log, or a log of its name.

    ``others`` are the other logs of the import, which replace their own runs. Raises
    :class:`InputError` if several logs of its name have runs.
    """
    of_set = imported_into(log.set_name, runs)
    of_same_log = [run for run in of_set if log.is_of(run)]
    of_same_name = [
        run
        for run in of_set
        if run.measurement is not None
        and run.measurement.files == log.measurement.files
        and run not in of_same_log
        and not any(other.is_of(run) for other in others if other is not log)
    ]
    if STDIN_NAME in log.measurement.files:
        of_same_name = []
    if len(of_same_name) > 1:
        ids = " ".join(run.run_id for run in of_same_name)
        raise InputError(
            f"may replace any of {len(of_same_name)} runs of set {log.set_name}, whose logs had its"
            " name.",
            f"Remove those that it replaces: k8sbench store remove {ids}",
            file=log.origin.file,
        )
    return [*of_same_log, *of_same_name]


def is_unchanged(run: Run, facts: Facts, measurement: Measurement) -> bool:
    """Return True if a run has this case and measurement already."""
    encode = msgspec.json.encode  # nan equals itself
    has_case = case_values(run.facts) == case_values(facts)
    return has_case and encode(run.measurement) == encode(measurement)


def check_same_case(run: Run, facts: Facts, file: str) -> None:
    """Reject a log that was imported as a run of another case."""
    was = case_values(run.facts)
    now = case_values(facts)
    set_name = run.set_name
    differing = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    if differing:
        words = dict.fromkeys(_FIELD_WORDS.get(name, name) for name in differing)
        raise InputError(
            f"was imported into set {set_name} with another {', '.join(words)}.",
            "Give the options of that import, or --replace to replace its run.",
            file=file,
        )


_CASE = "case (--gpus, --case)"
_FIELD_WORDS = {
    "amp_dtype": "precision",
    "batch_size": "batch (--batch-size)",
    "case": _CASE,
    "pool.gpu_model": "GPU model (--gpu-model)",
    "pool.gpus_per_node": _CASE,
    "processes_per_replica": _CASE,
    "replicas": _CASE,
}
"""Field of a case → what an error calls it."""


def _removal_command(run: Run) -> str:
    """Name the command that removes a run's set."""
    return f"remove the set with: k8sbench store remove {run.set_name}"


_STATED_IN_NAMES = {
    "--gpus": ("gpus", "case"),
    "--case": ("case",),
    "--batch-size": ("batch_size",),
    "--precision": ("precision",),
}
"""Option named by an error → values of a log's name that state it."""


def offer_names(error: InputError, name: str) -> InputError:
    """Return an error that also offers --from-names, if the name states what is missing."""
    options = options_in_name(name)
    stating = (names for option, names in _STATED_IN_NAMES.items() if option in error.action)
    if not any(option in options for names in stating for option in names):
        return error
    message = error.message.removeprefix(f"{error.file}: ")
    action = f"{error.action}\n  Or add --from-names: the names of files and folders say it."
    return InputError(message, action, file=error.file)


def _window(measurement: Measurement, origin: LogOrigin, *, is_alone: bool) -> PlannedWindow:
    """Return the benchmark's window; without a benchmark the measured one."""
    variant = origin.variant
    if variant is None:
        log_interval = (
            max(round(measurement.iterations / measurement.records), 1)
            if measurement.records
            else 1
        )
        rule = GIVEN_WARMUP if origin.gives_warmup else WHOLE_LOG
        iterations = measurement.iterations
    else:
        log_interval = variant.window.log_interval["one_gpu" if is_alone else "many_gpus"]
        rule, iterations = variant.window.rule, variant.window.iterations
    return PlannedWindow(
        warmup=measurement.warmup_iterations,
        iterations=iterations,
        log_interval=log_interval,
        min_steady_seconds=0.0,
        rule=rule,
    )


def _unit(measurement: Measurement) -> str:
    figures = measurement.throughput or measurement.unverified
    return (figures.unit if figures else "samples/s").partition("/")[0]
