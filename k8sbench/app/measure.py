"""``measure``: logs that exist already, whoever wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.app import catalog, results
from k8sbench.model import choices
from k8sbench.model.errors import InputError, UsageError
from k8sbench.model.imported import LogOrigin, Shape, completed
from k8sbench.model.spec import Framework
from k8sbench.parse.families import NAMES

if TYPE_CHECKING:
    from k8sbench.measure.run.expectation import Expectation
    from k8sbench.model.measurement import Measurement
    from k8sbench.model.spec import Variant

PRECISIONS = {"fp32": "fp32", "amp": "amp", "fp16": "amp", "bf16": "amp"}
"""What may be asked for → what it is; the half types are kinds of AMP."""

AUTO = "auto"
"""The log family that is recognised by the log's lines."""


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of logs besides what they state; None is "not known"."""

    gpus: int | None = None
    """Of the whole job."""
    case: str | None = None
    """Nodes and GPUs of each: ``4x8``."""
    batch_size: int | None = None
    """Samples per GPU and step."""
    precision: str | None = None
    """Key of :data:`PRECISIONS`."""
    benchmark: str | None = None
    """Name or file of the benchmark that they are of."""
    family: str | None = None
    """Log family, where no benchmark is meant; :data:`AUTO`: whichever it turns out to be of."""
    framework: Framework | None = None
    variant: str | None = None
    gpu_model: str | None = None
    """GPU of logs that do not state it."""
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
    """What a log may be, and the catalog's entry that says so; None: its format alone is known."""

    expected: Expectation
    loaded: catalog.LoadedSpec | None = None
    variant: Variant | None = None


class GivenLogs(NamedTuple):
    """The logs of a command, and what is said of them."""

    runs: list[dict[str, str | None]]
    """The logs of each run: path → name; None: the path itself."""
    failures: list[InputError]
    """Of what cannot be found."""
    candidates: list[LogCandidate]
    """What each of the logs may be."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came of several logs: nothing that could be measured is lost to one that could not."""

    measurements: tuple[Measurement, ...]
    failures: tuple[InputError, ...]

    @property
    def rejected(self) -> bool:
        """Whether any log was measured and is not to be trusted."""
        return any(measurement.verdict == "rejected" for measurement in self.measurements)


def measure(logs: Sequence[str], options: MeasureOptions) -> Measured:
    """Measure files, folders, or ``-``; what cannot be read is among the failures."""
    given = find(logs, options)
    measurements: list[Measurement] = []
    failures = given.failures
    for files in given.runs:
        try:
            measurements.append(of_run(files, next(iter(files)), given, options)[0])
        except InputError as error:
            failures.append(error)
    return Measured(measurements=tuple(measurements), failures=tuple(failures))


def find(logs: Sequence[str], options: MeasureOptions) -> GivenLogs:
    """Expand folders, and read what is said of the logs.

    A path that leads nowhere must not cost the others their figures, unless all are one run's: one
    that lacks one of its files would be another run.
    """
    from k8sbench.adapters.files import log_files

    candidates = _candidates(options)
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
    return GivenLogs(runs, failures, candidates)


def of_run(
    files: Mapping[str, str | None], first: str, given: GivenLogs, options: MeasureOptions
) -> tuple[Measurement, LogOrigin]:
    """Measure the logs of one run, by path and name; ``first`` is the path of the first as given.

    Raises :class:`InputError` where they cannot be measured.
    """
    from k8sbench.adapters.files import line_limit
    from k8sbench.measure.run import measuring

    candidates = given.candidates
    model = options.gpu_model
    expected = [
        msgspec.structs.replace(candidate.expected, gpu_model=model) for candidate in candidates
    ]
    opened = line_limit.opened(files, declared=any(log.declared for log in expected))
    measurement = measuring.measure(opened, expected, alone=True)
    chosen = _matching(candidates, measurement)
    origin = LogOrigin(
        file=first,
        spec=chosen.loaded.spec if chosen.loaded else None,
        spec_digest=chosen.loaded.digest if chosen.loaded else "",
        spec_source=chosen.loaded.source if chosen.loaded else "",
        variant=chosen.variant,
        shape=options.shape,
        gpu_model=options.gpu_model,
    )
    return completed(measurement, origin), origin


def _matching(candidates: Sequence[LogCandidate], measurement: Measurement) -> LogCandidate:
    """The candidate that a log was measured by: of its format, else of its framework."""

    def likeness(candidate: LogCandidate) -> tuple[bool, bool, bool]:
        expected = candidate.expected
        name = expected.format if isinstance(expected.format, str) else expected.format.name
        own = measurement.environment.get("variant")
        return (
            name == measurement.format,
            expected.framework == measurement.framework,
            expected.variant == own,
        )

    return max(candidates, key=likeness)


def _candidates(options: MeasureOptions) -> list[LogCandidate]:
    """What a log may be, as the options say; the first one that it fits holds."""
    from k8sbench.measure.run.expectation import Expectation, from_variant

    if (options.benchmark is None) == (options.family is None):
        raise UsageError(
            "Say what the logs are: either --benchmark or --format is needed, not both.",
            f"Formats: {AUTO}, {', '.join(NAMES)}.",
        )
    if options.variant is not None and options.benchmark is None:
        raise UsageError("--variant is one of a benchmark.", "Give --benchmark as well.")
    results.check_accepted(options.accept, of_groups=False)
    gpus, shape, precision = options.gpus, options.shape, options.precision
    if shape is not None and gpus not in {None, shape[0] * shape[1]}:
        raise UsageError(f"--case {options.case} and --gpus {gpus} differ.", "Give one of them.")
    given: dict[str, Any] = {
        "gpus": gpus if shape is None else shape[0] * shape[1],
        "batch_size": options.batch_size,
        "precision": None if precision is None else PRECISIONS[precision],
        "amp_dtype": precision if precision in {"fp16", "bf16"} else None,
        "warmup": options.warmup,
        "accept": options.accept,
    }
    if options.benchmark is None:
        assert options.family is not None
        families = NAMES if options.family == AUTO else [options.family]
        given |= {"framework": options.framework, "by_user": True}
        return [LogCandidate(Expectation(format=family, **given)) for family in families]
    loaded, name = catalog.benchmark(options.benchmark), options.variant
    spec = loaded.spec
    frameworks = [options.framework] if options.framework else list(spec.frameworks)
    variants = [
        variant
        for framework in frameworks
        for variant in spec.variants_of(framework)
        if variant.name == name or (name is None and variant == spec.default_variant(framework))
    ]
    if not variants:
        existing = ", ".join(f"{variant.framework}/{variant.name}" for variant in spec.variants)
        wanted = "/".join(part for part in (options.framework, name) if part)
        raise UsageError(f"{spec.name} has no variant {wanted}.", f"Variants: {existing}.")
    return [
        LogCandidate(from_variant(spec, variant, **given), loaded, variant) for variant in variants
    ]
