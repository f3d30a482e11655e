"""``measure``: logs that exist already, whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.app import catalog, results
from k8sbench.model.errors import InputError, UsageError
from k8sbench.model.spec import Framework
from k8sbench.parse.families import NAMES

if TYPE_CHECKING:
    from k8sbench.measure.run.expectation import Expectation
    from k8sbench.model.spec import Variant
    from k8sbench.runs.measuring import Outcome

PRECISIONS = {"fp32": "fp32", "amp": "amp", "fp16": "amp", "bf16": "amp"}
"""What may be asked for → what it is; the half types are kinds of AMP."""

AUTO = "auto"
"""The log family that is recognised by the log's lines."""


class Candidate(NamedTuple):
    """What a log may be, and the catalog's entry that says so; None: its format alone is known."""

    expected: Expectation
    found: catalog.LoadedSpec | None = None
    variant: Variant | None = None


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What logs are measured by; None is "not known"."""

    benchmark: str | None = None
    """Name or file of the benchmark that they are of."""
    family: str | None = None
    """Log family, where no benchmark is meant; :data:`AUTO`: whichever it turns out to be of."""
    gpus: int | None = None
    """Of the whole job."""
    batch_size: int | None = None
    """Samples per GPU and step."""
    framework: Framework | None = None
    variant: str | None = None
    precision: str | None = None
    """A key of :data:`PRECISIONS`."""
    warmup: int | None = None
    """Iterations left out."""
    one_run: bool = False
    """All logs are one run's: its ranks or its pieces."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""


def measure(logs: Sequence[str], options: MeasureOptions) -> Outcome:
    """Measure files, folders, or ``-``; what cannot be read is among the outcome's failures."""
    from k8sbench.adapters.files import line_limit, log_files
    from k8sbench.runs import measuring

    expected = [each.expected for each in candidates(options)]
    files, failures = find(logs)
    if options.one_run and failures:
        # A run that lacks one of its files would be another run.
        raise failures[0]
    names = log_files.names(logs, files)
    opened = line_limit.opened(names, declared=any(each.declared for each in expected))
    found = measuring.measure_logs(opened, expected, one_run=options.one_run)
    return msgspec.structs.replace(found, failures=(*failures, *found.failures))


def find(logs: Sequence[str]) -> tuple[list[str], list[InputError]]:
    """Expand folders; a path that leads nowhere must not cost the others their figures."""
    from k8sbench.adapters.files import log_files

    files: list[str] = []
    failures: list[InputError] = []
    for path in logs:
        try:
            files += [file for file in log_files.find([path]) if file not in files]
        except InputError as unfound:
            failures.append(unfound)
    return files, failures


def candidates(options: MeasureOptions) -> list[Candidate]:
    """What the logs may be, as the options say; the first one that a log fits holds."""
    from k8sbench.measure.run.expectation import Expectation, from_variant

    if (options.benchmark is None) == (options.family is None):
        raise UsageError(
            "Say what the logs are: either --benchmark or --format is needed, not both.",
            f"Formats: {AUTO}, {', '.join(NAMES)}.",
        )
    if options.variant is not None and options.benchmark is None:
        raise UsageError("--variant is one of a benchmark.", "Give --benchmark as well.")
    results.check_accepted(options.accept, of_groups=False)
    asked = options.precision
    given: dict[str, Any] = {
        "gpus": options.gpus,
        "batch_size": options.batch_size,
        "precision": None if asked is None else PRECISIONS[asked],
        "amp_dtype": asked if asked in {"fp16", "bf16"} else None,
        "warmup": options.warmup,
        "accept": options.accept,
    }
    if options.benchmark is None:
        assert options.family is not None
        families = NAMES if options.family == AUTO else [options.family]
        given |= {"framework": options.framework, "by_user": True}
        return [Candidate(Expectation(format=family, **given)) for family in families]
    found, name = catalog.benchmark(options.benchmark), options.variant
    spec = found.spec
    frameworks = [options.framework] if options.framework else list(spec.frameworks)
    variants = [
        variant
        for framework in frameworks
        for variant in spec.variants_of(framework)
        if variant.name == name or (name is None and variant == spec.default_variant(framework))
    ]
    if not variants:
        existing = ", ".join(f"{each.framework}/{each.name}" for each in spec.variants)
        wanted = "/".join(part for part in (options.framework, name) if part)
        raise UsageError(f"{spec.name} has no variant {wanted}.", f"Variants: {existing}.")
    return [Candidate(from_variant(spec, each, **given), found, each) for each in variants]
