"""Comparison of a log with its expectation.

Benchmark, model, GPUs, batch and precision must match. Statements that a log repeats must be equal,
too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from k8sbench.model import rules
from k8sbench.model.arithmetic import SAME_MODEL
from k8sbench.model.errors import Finding
from k8sbench.model.log_format import LogFormat
from k8sbench.model.plain_text import counted, significant
from k8sbench.model.verdict import IntegrityRule
from k8sbench.reader.family import BATCH_DOUBT
from k8sbench.reader.measuring import estimates, log_statements, log_units
from k8sbench.reader.measuring.log_statements import Case

SAME_BATCH = 0.02
"""Relative difference of a step's samples in the head and in the lines."""
OTHER_BATCH = 0.05
"""Relative difference of two batches that rounding does not explain.

One is given, one follows from the log's rates and times, whose last digit is rounded.
"""
_SCOPE_OF_BATCH = "Is the program's batch of one GPU, or of the whole job, as with nn.DataParallel?"
_DECLARE_BATCH = (
    f"{_SCOPE_OF_BATCH} If the log states it, add a fact: (?P<batch_size>\\d+) reads one GPU's,"
    " (?P<global_batch>\\d+) the job's, as '\\bbatch_size=(?P<global_batch>\\d+)'."
)
_COMPARE_RATE = "Make sure that `unit`, `per` and --gpus are those of the printed rate."
_RENAME_BATCH = (
    f"{_SCOPE_OF_BATCH} Name the group of the fact `global_batch` if it is the job's; else give the"
    " batch that one GPU had."
)


def reasons(case: Case) -> Iterator[Finding]:
    """Yield what differs from what was expected, or is not known."""
    yield from _identity(case)
    yield from _changing(case)
    yield from _model(case)
    yield from _gpus(case)
    yield from _batch(case)
    yield from _redundancy(case)
    yield from _precision(case)
    yield from _name(case)


def _identity(case: Case) -> Iterator[Finding]:
    log, expected = case.log, case.log.expected
    framework = log.facts.first("framework") or log.family.framework
    yield from _other(case, rules.FRAMEWORK, "framework", expected.framework, framework)
    yield from _other(case, rules.DEVICE, "device", expected.device, log.facts.first("device"))
    if not expected.planned:
        return
    if case.smoke and not expected.smoke:
        text = "The log is of a smoke run, a functional test with a small model."
        yield rules.PRESET.finding(text, log.facts.places("preset"))
    for name in ("benchmark", "variant"):
        wanted = getattr(expected, name)
        yield from _other(case, rules.OTHER_BENCHMARK, name, wanted, log.facts.first(name))


RULES_OF_FACTS = {
    "gpus": rules.GPU_COUNT,
    "batch_size": rules.BATCH_MISMATCH,
    "global_batch": rules.BATCH_MISMATCH,
    "tokens_per_step": rules.BATCH_MISMATCH,
    "sequence_length": rules.BATCH_MISMATCH,
    "precision": rules.PRECISION,
    "amp_dtype": rules.PRECISION,
    "model": rules.OTHER_BENCHMARK,
    "parameters": rules.OTHER_BENCHMARK,
    "gpu_model": rules.MIXED_GPU_MODEL,
}
"""Fact of the whole run → the rule that a log breaks which states two values of it."""
_TITLES = {"gpus": "number of GPUs", "gpu_model": "GPU model", "parameters": "number of parameters"}


def _changing(case: Case) -> Iterator[Finding]:
    """Yield what a log states with two values: of ranks or nodes, or behind a restart."""
    for name, rule in RULES_OF_FACTS.items():
        stated = dict(case.log.facts.get(name, {}))
        if name == "gpus" and case.log.expected.gpus is None:
            # It may count nodes: whoever gives the number knows better.
            stated |= case.log.facts.get("gpus_by_environment", {})
        if len(stated) > 1 and name not in case.log.family.facts_of_run:
            what = _TITLES.get(name, name.replace("_", " "))
            text = f"By the log the {what} is {' and '.join(stated)}."
            yield rule.finding(text, stated.values())


def _other(
    case: Case, rule: IntegrityRule, name: str, wanted: str | None, stated: str | None
) -> Iterator[Finding]:
    """Yield a finding if the stated fact is not the expected one."""
    if wanted and stated and wanted != stated:
        text = f"The {name.replace('_', ' ')} {wanted} was expected, the log says {stated}."
        yield rule.finding(text, case.log.facts.places(name))


def _model(case: Case) -> Iterator[Finding]:
    log, expected = case.log, case.log.expected
    model = log.facts.first("model")
    if expected.planned and expected.model:
        names = expected.logged_models
        reads_model = expected.by_user and expected.declared is None
        if model and names and not any(name in model.lower() for name in names):
            text = f"The benchmark's model is {expected.model}; the log's is {model}."
            yield rules.OTHER_BENCHMARK.finding(text, log.facts.places("model"))
        elif not (model and names) and reads_model and not log.family.states_plan:
            named = f"The log's model is {model}" if model else "The log names no model"
            text = f"{named}; whether it is the benchmark's, {expected.model}, is not known."
            yield rules.MODEL_UNVERIFIED.finding(text, log.facts.places("model"))
    parameters = log.facts.whole("parameters")
    wanted = expected.parameters
    if wanted and parameters and not case.smoke and abs(parameters / wanted - 1) > SAME_MODEL:
        text = f"The model has {parameters:,} parameters, the benchmark's has {wanted:,}."
        yield rules.OTHER_BENCHMARK.finding(text, log.facts.places("parameters"))


def _gpus(case: Case) -> Iterator[Finding]:
    log, expected = case.log, case.log.expected
    logged = log.facts.whole("gpus")
    given = f"{counted(case.gpus, 'GPU', ('was', 'were'))} given"
    ranks = len(log.ranks)
    if expected.gpus is not None and expected.gpus == expected.named.gpus:
        given = f"the log's name says {counted(case.gpus, 'GPU')}"
    if logged is not None and logged != case.gpus:
        text = f"{given[0].upper()}{given[1:]}, the log says {logged}."
        yield rules.GPU_COUNT.finding(text, log.facts.places("gpus"))
    elif case.gpus % (parallel := log.facts.whole("data_parallel") or 1):
        text = f"{given[0].upper()}{given[1:]}, no multiple of the log's {parallel} parallel ranks."
        yield rules.GPU_COUNT.finding(text, log.facts.places("data_parallel"))
    elif ranks > case.gpus:
        text = f"{ranks} ranks print training lines, and {given}."
        yield rules.GPU_COUNT.finding(text)
    elif (
        expected.by_user
        and expected.gpus is not None
        and logged is None
        and not (1 < ranks == case.gpus or _confirmed(case))
    ):
        text = f"The GPU count is not in the log; an option or its name says {case.gpus}."
        yield rules.GPUS_UNVERIFIED.finding(text)
    trainers = expected.trainers
    if trainers is not None and log.family.states_starts and len(log.started) != trainers:
        missing = sorted(set(range(trainers)) - log.started)
        which = f"; rank {', '.join(map(str, missing[:8]))} is missing" if missing else ""
        yield rules.TRAINER_COUNT.finding(
            f"{counted(trainers, 'rank', ('was', 'were'))} planned,"
            f" {len(log.started)} started{which}.",
        )
    nodes = set(log.nodes.values())
    # What not every rank reports may be on further nodes.
    if expected.nodes is not None and len(log.nodes) == case.gpus and len(nodes) < expected.nodes:
        names = ", ".join(sorted(nodes)[:8])
        text = f"{expected.nodes} replicas ran on {counted(len(nodes), 'node')}: {names}."
        yield rules.SHARED_NODE.finding(text, log.facts.get("node", {}).values())


def _batch(case: Case) -> Iterator[Finding]:
    log, expected, rank = case.log, case.log.expected, case.rank
    logged = log_statements.printed_batch(log)
    given = expected.batch_size
    # A submitted run has the batch of the other precision, where the catalog has none of its own.
    sizes = expected.batch_sizes_of(case.precision) or set(expected.batch_sizes.values())
    wanted = sizes if given is None else {given}
    if rank is not None:
        by_batch = not rank.shape.is_rate
    else:
        by_batch = (
            log.summaries.whole_run is not None
            and log.summaries.whole_run[0].number("whole_run_rate") is None
        )
    total = log_statements.stated_samples(log)
    if log_units.conversion(log) is None and (case.job_batch is None or not by_batch):
        yield rules.BATCH_UNVERIFIED.finding(
            log_units.NO_LENGTH.reason,
            severity="reject",
            action="Name a benchmark that counts what the program does, or declare its format.",
        )
    elif rank is not None and estimates.has_unequal_steps(log, rank, case.job_batch):
        yield rules.BATCH_UNVERIFIED.finding(
            "The log does not state the tokens of its steps, whose rates differ: means by equal"
            " times and by equal tokens are 5 % apart or more.",
            severity="reject",
            action="Print the tokens or the seconds of each step, or pack sequences to one length.",
        )
    elif case.job_batch is None and by_batch and (rank is None or rank.tally.records):
        # Lines that state a batch state none where none of them counts.
        text = "The log gives seconds per iteration and no batch: give it with --batch-size."
        yield rules.BATCH_UNVERIFIED.finding(text, severity="reject")
    elif logged is not None and wanted and logged not in wanted:
        where = log.facts.places("batch_size")
        # One card's rate times its seconds: either may have been multiplied by the GPUs.
        multiplied = (
            given is not None
            and rank is not None
            and rank.shape.is_per_card
            and abs(logged / given - 1) > OTHER_BATCH
        )
        matters = expected.planned or by_batch or multiplied
        text = (
            f"A batch of {' or '.join(map(str, sorted(wanted)))} per GPU was expected, the log's "
            f"is {logged}."
        )
        reads_batch = expected.declared is not None and _reads_batch(expected.declared)
        yield rules.BATCH_SIZE.finding(
            text,
            where,
            severity="reject" if matters else "warn",
            action=_RENAME_BATCH if reads_batch and case.gpus > 1 else None,
        )
    elif expected.varies and not by_batch:
        if case.job_batch is None:
            text = "The benchmark's batch is null: its steps differ. No stamp checks the rate."
            yield rules.BATCH_UNVERIFIED.finding(text, action=_COMPARE_RATE)
    elif (
        (by_batch or expected.declared is not None)
        and logged is None
        and total is None
        and expected.by_user
        and expected.knows_batch
        and case.batch is not None
        and not _confirmed(case)
    ):
        step = f"{case.batch * case.gpus} per step of the job"
        by = "the benchmark's is" if given is None else "an option or its name says"
        stated = f"{by} {case.batch} per GPU, {step}."
        action = None
        if expected.declared is not None and not _reads_batch(expected.declared):
            text = f"No fact of the format reads the batch; {stated}"
            action = _DECLARE_BATCH
        elif given is None:
            text = f"The log does not state its batch; {stated}"
        else:
            text = f"The batch is not in the log; {stated}"
        yield rules.BATCH_UNVERIFIED.finding(text, action=action)


def _reads_batch(declared: LogFormat) -> bool:
    """True if a fact of a format names the batch."""
    names = ("batch_size", "global_batch", "tokens_per_step")
    return any(f"(?P<{name}>" in text for text in declared.facts for name in names)


def _redundancy(case: Case) -> Iterator[Finding]:
    """Yield contradictions among the log's own statements of its batch."""
    log = case.log
    rank = case.rank
    batch = log_statements.batch(case.log) or case.batch
    printed = _printed_step(case, batch)
    if rank is not None and printed and rank.sums.has_other_batch(printed):
        what = "The batch is" if rank.shape.is_per_card else "A step of the job has"
        text = f"{what} {significant(printed, 10)}; rates times seconds are"
        text += f" {significant(rank.sums.batch or printed, 4)}."
        names = ("batch_size", "global_batch", "tokens_per_step")
        places = next(filter(None, map(log.facts.places, names)), [])
        yield rules.BATCH_MISMATCH.finding(text, [*places, *rank.sums.line_of_batch])
    yield from _lines_and_head(case)
    if (doubt := log.facts.first(BATCH_DOUBT)) is not None:
        yield rules.BATCH_MISMATCH.finding(doubt, log.facts.places(BATCH_DOUBT))
    total = log_statements.stated_samples(log)
    if total is not None and batch is not None and not math.isclose(total, batch * case.gpus):
        text = f"The log says {significant(total, 10)} samples per step of the job, not"
        text += f" {case.gpus} × {batch}{_by_name(case)}."
        where = log.facts.places("global_batch") or log.facts.places("tokens_per_step")
        if not log_statements.shares_samples(log, case.gpus):
            yield rules.BATCH_MISMATCH.finding(text, where)
        elif batch != log.facts.whole("micro_batch"):
            # Nobody can tell the batch of one GPU of a model that several share.
            yield rules.BATCH_SIZE.finding(f"{text} The log's counts.", where, severity="warn")
    possible = log_statements.possible_samples(log)
    size = log.airank.samples
    steps = rank.total if rank is not None else None
    if possible is not None and size and steps and batch and batch * case.gpus not in possible:
        text = (
            f"{size[0]:,} samples in {steps:,} steps are {significant(size[0] / steps, 5)} per step"
            f" of the job, not {case.gpus} × {batch}{_by_name(case)}."
        )
        yield rules.BATCH_MISMATCH.finding(text, [size[1]])


def _printed_step(case: Case, batch: float | None) -> float | None:
    """Return what a step has, as the lines count it: of a GPU or of the job; None if unknown."""
    log, rank = case.log, case.rank
    conversion = log_units.conversion(log)
    if rank is None or conversion is None or log_units.lacks_length(log):
        return None
    if rank.shape.is_per_card:
        return (batch or 0) * (log_units.sequence_length(log) or 1) / conversion
    return None if case.job_batch is None else case.job_batch / conversion


def _lines_and_head(case: Case) -> Iterator[Finding]:
    """Compare the samples of a step that the lines state with those that the head states."""
    log = case.log
    of_lines = log_units.step_of_lines(log)
    name = "tokens_per_step" if log_units.unit(log).startswith("tokens") else "global_batch"
    stated = log.facts.whole(name)
    if of_lines is None or stated is None or "rampup" in log.facts or log.expected.varies:
        return
    if not math.isclose(of_lines, stated, rel_tol=SAME_BATCH):
        text = (
            f"The log's head says {stated} per step of the job, its lines come to"
            f" {significant(of_lines, 5)}."
        )
        yield rules.BATCH_MISMATCH.finding(text, log.facts.places(name))


def _by_name(case: Case) -> str:
    """Name the source of GPUs or batch, if it is the log's name."""
    expected = case.log.expected
    gpus, batch = expected.named.gpus, expected.named.batch_size
    known = {("gpus", expected.gpus), ("batch", expected.batch_size)}
    by_name = known & {("gpus", gpus or 0), ("batch", batch or 0)}
    return ", as the log's name says" if by_name else ""


def _confirmed(case: Case) -> bool:
    """True if the log confirms GPUs × batch, both known independently."""
    # The case's batch may follow from what the log states of the job, by the GPUs.
    gpus = case.log.expected.gpus
    batch = log_statements.batch(case.log)
    if batch is None or gpus is None:
        return False
    return log_statements.certain_samples(case.log) == batch * gpus


def _precision(case: Case) -> Iterator[Finding]:
    log, expected = case.log, case.log.expected
    wanted = expected.precision
    logged = log.facts.first("precision")
    half = log.facts.first("amp_dtype")
    effective = log.facts.first("precision_effective")
    assumed = None if logged else log.facts.first("precision_assumed")
    default = log.facts.first("precision_default")
    if wanted and logged and wanted != logged:
        yield from _other(case, rules.PRECISION, "precision", wanted, logged)
    elif wanted and assumed and wanted != assumed:
        text = f"{wanted} was expected; the log prints its configuration, which sets none."
        yield rules.PRECISION.finding(text, log.facts.places("precision_assumed"))
    elif wanted == "amp" and expected.amp_dtype and half and expected.amp_dtype != half:
        yield from _other(case, rules.PRECISION, "amp_dtype", expected.amp_dtype, half)
    elif wanted not in {None, logged, assumed, default} and (expected.by_user or default):
        by = "an option or its name" if expected.by_user else "the plan"
        said = " ".join(filter(None, (wanted, expected.amp_dtype)))
        text = f"The precision is not in the log; {by} says {said}."
        yield rules.PRECISION_UNVERIFIED.finding(text)
    elif wanted is None and logged is None and default:
        text = f"The precision is not in the log; {default} is assumed, the program's default."
        yield rules.PRECISION_UNVERIFIED.finding(f"{text} State it with --precision.")
    elif (wanted or logged) == "amp" and effective == "fp32":
        on_cpu = (log.facts.first("device") or expected.device) == "cpu"
        yield rules.PRECISION_WITHOUT_EFFECT.finding(
            "AMP was requested and had no effect: the program computed in fp32.",
            log.facts.places("precision_effective"),
            severity="warn" if case.smoke and on_cpu else "reject",
        )


def _name(case: Case) -> Iterator[Finding]:
    """Yield what the log's name says and the log contradicts."""
    log, named = case.log, case.log.expected.named
    nodes = log.facts.whole("replicas")
    if named.gpus is not None and named.gpus != case.gpus:
        yield _misnamed(case, rules.GPU_COUNT, "gpus", counted(named.gpus, "GPU"), case.gpus)
    elif named.nodes is not None and nodes is not None and named.nodes != nodes:
        yield _misnamed(case, rules.GPU_COUNT, "replicas", counted(named.nodes, "node"), nodes)
    yield from _named_batch(case)
    yield from _named_precision(case)


def _misnamed(case: Case, rule: IntegrityRule, fact: str, named: str, stated: object) -> Finding:
    return rule.finding(
        f"The log's name says {named}, the log says {stated}.", case.log.facts.places(fact)
    )


def _named_batch(case: Case) -> Iterator[Finding]:
    log, expected, batch = case.log, case.log.expected, case.batch
    named = expected.named.batch_size
    if named is None or batch is None or named == batch:
        return
    # What follows from rates and times is rounded.
    if log.facts.whole("batch_size") is not None or abs(batch / named - 1) > OTHER_BATCH:
        yield _misnamed(case, rules.BATCH_SIZE, "batch_size", f"a batch of {named} per GPU", batch)


def _named_precision(case: Case) -> Iterator[Finding]:
    log, named = case.log, case.log.expected.named
    logged = log.facts.first("precision")
    half = log.facts.first("amp_dtype")
    assumed = None if logged else log.facts.first("precision_assumed")
    if named.precision is None:
        return
    if logged and named.precision != logged:
        yield _misnamed(case, rules.PRECISION, "precision", named.precision, logged)
    elif assumed and named.precision != assumed:
        text = f"The log's name says {named.precision}; the configuration in the log sets none."
        yield rules.PRECISION.finding(text, log.facts.places("precision_assumed"))
    elif named.amp_dtype and half and named.precision == "amp" and named.amp_dtype != half:
        yield _misnamed(case, rules.PRECISION, "amp_dtype", named.amp_dtype, half)
