"""Comparison of a log with its expectation.

Benchmark, model, GPUs, batch and precision must match. Statements that a log repeats must be equal,
too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from k8sbench.messages import Arg, Note, and_list, note, of_catalog, or_list
from k8sbench.model import rules
from k8sbench.model.arithmetic import SAME_MODEL
from k8sbench.model.errors import Finding
from k8sbench.model.log_format import LogFormat
from k8sbench.model.plain_text import significant
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
        yield rules.PRESET.finding(note("preset-smoke"), log.facts.places("preset"))
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


def _fact(name: str) -> Note:
    """Name a fact of a log."""
    return note(f"fact-of-{name.replace('_', '-')}")


def _changing(case: Case) -> Iterator[Finding]:
    """Yield what a log states with two values: of ranks or nodes, or behind a restart."""
    for name, rule in RULES_OF_FACTS.items():
        stated = dict(case.log.facts.get(name, {}))
        if name == "gpus" and case.log.expected.gpus is None:
            # It may count nodes: whoever gives the number knows better.
            stated |= case.log.facts.get("gpus_by_environment", {})
        if len(stated) > 1 and name not in case.log.family.facts_of_run:
            said = note("log-states-two", fact=_fact(name), values=and_list([*stated]))
            yield rule.finding(said, stated.values())


def _other(
    case: Case, rule: IntegrityRule, name: str, wanted: str | None, stated: str | None
) -> Iterator[Finding]:
    """Yield a finding if the stated fact is not the expected one."""
    if wanted and stated and wanted != stated:
        said = note("fact-expected", fact=_fact(name), expected=wanted, stated=stated)
        yield rule.finding(said, case.log.facts.places(name))


def _model(case: Case) -> Iterator[Finding]:
    log, expected = case.log, case.log.expected
    model = log.facts.first("model")
    if expected.planned and expected.model:
        names = expected.logged_models
        reads_model = expected.by_user and expected.declared is None
        if model and names and not any(name in model.lower() for name in names):
            said = note("other-benchmark-model", expected=of_catalog(expected.model), model=model)
            yield rules.OTHER_BENCHMARK.finding(said, log.facts.places("model"))
        elif not (model and names) and reads_model and not log.family.states_plan:
            said = note("model-unverified-unnamed", expected=of_catalog(expected.model))
            if model:
                said = note(
                    "model-unverified-named", expected=of_catalog(expected.model), model=model
                )
            yield rules.MODEL_UNVERIFIED.finding(said, log.facts.places("model"))
    parameters = log.facts.whole("parameters")
    wanted = expected.parameters
    if wanted and parameters and not case.smoke and abs(parameters / wanted - 1) > SAME_MODEL:
        said = note(
            "other-benchmark-parameters", parameters=f"{parameters:,}", expected=f"{wanted:,}"
        )
        yield rules.OTHER_BENCHMARK.finding(said, log.facts.places("parameters"))


def _gpus(case: Case) -> Iterator[Finding]:
    log, expected = case.log, case.log.expected
    logged = log.facts.whole("gpus")
    ranks = len(log.ranks)
    is_named = expected.gpus is not None and expected.gpus == expected.named.gpus
    by = "named" if is_named else "given"
    if logged is not None and logged != case.gpus:
        said = note(f"gpu-count-{by}", gpus=case.gpus, logged=logged)
        yield rules.GPU_COUNT.finding(said, log.facts.places("gpus"))
    elif case.gpus % (parallel := log.facts.whole("data_parallel") or 1):
        said = note(f"gpu-count-multiple-{by}", gpus=case.gpus, ranks=parallel)
        yield rules.GPU_COUNT.finding(said, log.facts.places("data_parallel"))
    elif ranks > case.gpus:
        yield rules.GPU_COUNT.finding(note(f"gpu-count-ranks-{by}", ranks=ranks, gpus=case.gpus))
    elif (
        expected.by_user
        and expected.gpus is not None
        and logged is None
        and not (1 < ranks == case.gpus or _confirmed(case))
    ):
        yield rules.GPUS_UNVERIFIED.finding(note("gpus-unverified", gpus=case.gpus))
    trainers = expected.trainers
    if trainers is not None and log.family.states_starts and len(log.started) != trainers:
        missing = sorted(set(range(trainers)) - log.started)
        counts: dict[str, Arg] = {"planned": trainers, "started": len(log.started)}
        yield rules.TRAINER_COUNT.finding(
            note("trainer-count-missing", missing=tuple(missing[:8]), **counts)
            if missing
            else note("trainer-count", **counts)
        )
    nodes = set(log.nodes.values())
    # What not every rank reports may be on further nodes.
    if expected.nodes is not None and len(log.nodes) == case.gpus and len(nodes) < expected.nodes:
        names = tuple(sorted(nodes)[:8])
        said = note("shared-node", replicas=expected.nodes, nodes=len(nodes), names=names)
        yield rules.SHARED_NODE.finding(said, log.facts.get("node", {}).values())


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
            note("batch-unverified-unequal"),
            severity="reject",
            action="Print the tokens or the seconds of each step, or pack sequences to one length.",
        )
    elif case.job_batch is None and by_batch and (rank is None or rank.tally.records):
        # Lines that state a batch state none where none of them counts.
        yield rules.BATCH_UNVERIFIED.finding(note("batch-unverified-none"), severity="reject")
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
        said = note(
            "batch-size-expected",
            expected=or_list([str(one) for one in sorted(wanted)]),
            logged=str(logged),
        )
        reads_batch = expected.declared is not None and _reads_batch(expected.declared)
        yield rules.BATCH_SIZE.finding(
            said,
            where,
            severity="reject" if matters else "warn",
            action=_RENAME_BATCH if reads_batch and case.gpus > 1 else None,
        )
    elif expected.varies and not by_batch:
        if case.job_batch is None:
            varies = note("batch-unverified-varies")
            yield rules.BATCH_UNVERIFIED.finding(varies, action=_COMPARE_RATE)
    elif (
        (by_batch or expected.declared is not None)
        and logged is None
        and total is None
        and expected.by_user
        and expected.knows_batch
        and case.batch is not None
        and not _confirmed(case)
    ):
        lacks_fact = expected.declared is not None and not _reads_batch(expected.declared)
        where_from = "fact" if lacks_fact else "log"
        by = "benchmark" if given is None else "option"
        step = str(case.batch * case.gpus)
        yield rules.BATCH_UNVERIFIED.finding(
            note(f"batch-unverified-{where_from}-{by}", batch=str(case.batch), step=step),
            action=_DECLARE_BATCH if lacks_fact else None,
        )


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
        said = note(
            "batch-mismatch-card" if rank.shape.is_per_card else "batch-mismatch-step",
            printed=significant(printed, 10),
            computed=significant(rank.sums.batch or printed, 4),
        )
        names = ("batch_size", "global_batch", "tokens_per_step")
        places = next(filter(None, map(log.facts.places, names)), [])
        yield rules.BATCH_MISMATCH.finding(said, [*places, *rank.sums.line_of_batch])
    yield from _lines_and_head(case)
    if (doubt := log.facts.said(BATCH_DOUBT)) is not None:
        yield rules.BATCH_MISMATCH.finding(doubt, log.facts.places(BATCH_DOUBT))
    total = log_statements.stated_samples(log)
    if total is not None and batch is not None and not math.isclose(total, batch * case.gpus):
        said = note(
            f"batch-mismatch-job{_by_name(case)}",
            total=significant(total, 10),
            gpus=case.gpus,
            batch=str(batch),
        )
        where = log.facts.places("global_batch") or log.facts.places("tokens_per_step")
        if not log_statements.shares_samples(log, case.gpus):
            yield rules.BATCH_MISMATCH.finding(said, where)
        elif batch != log.facts.whole("micro_batch"):
            # Nobody can tell the batch of one GPU of a model that several share.
            yield rules.BATCH_SIZE.finding(note("log-counts", said=said), where, severity="warn")
    possible = log_statements.possible_samples(log)
    size = log.airank.samples
    steps = rank.total if rank is not None else None
    if possible is not None and size and steps and batch and batch * case.gpus not in possible:
        said = note(
            f"batch-mismatch-data{_by_name(case)}",
            samples=f"{size[0]:,}",
            steps=f"{steps:,}",
            each=significant(size[0] / steps, 5),
            gpus=case.gpus,
            batch=str(batch),
        )
        yield rules.BATCH_MISMATCH.finding(said, [size[1]])


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
        said = note("batch-mismatch-head", stated=stated, lines=significant(of_lines, 5))
        yield rules.BATCH_MISMATCH.finding(said, log.facts.places(name))


def _by_name(case: Case) -> str:
    """Return the end of the id of a message that names the log's name as a source."""
    expected = case.log.expected
    gpus, batch = expected.named.gpus, expected.named.batch_size
    known = {("gpus", expected.gpus), ("batch", expected.batch_size)}
    by_name = known & {("gpus", gpus or 0), ("batch", batch or 0)}
    return "-named" if by_name else ""


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
        said = note("precision-expected-none", expected=wanted)
        yield rules.PRECISION.finding(said, log.facts.places("precision_assumed"))
    elif wanted == "amp" and expected.amp_dtype and half and expected.amp_dtype != half:
        yield from _other(case, rules.PRECISION, "amp_dtype", expected.amp_dtype, half)
    elif wanted not in {None, logged, assumed, default} and (expected.by_user or default):
        by = "option" if expected.by_user else "plan"
        stated = " ".join(filter(None, (wanted, expected.amp_dtype)))
        yield rules.PRECISION_UNVERIFIED.finding(
            note(f"precision-unverified-{by}", precision=stated)
        )
    elif wanted is None and logged is None and default:
        said = note("precision-unverified-default", precision=default)
        yield rules.PRECISION_UNVERIFIED.finding(said)
    elif (wanted or logged) == "amp" and effective == "fp32":
        on_cpu = (log.facts.first("device") or expected.device) == "cpu"
        yield rules.PRECISION_WITHOUT_EFFECT.finding(
            note("precision-without-effect"),
            log.facts.places("precision_effective"),
            severity="warn" if case.smoke and on_cpu else "reject",
        )


def _name(case: Case) -> Iterator[Finding]:
    """Yield what the log's name says and the log contradicts."""
    log, named = case.log, case.log.expected.named
    nodes = log.facts.whole("replicas")
    if named.gpus is not None and named.gpus != case.gpus:
        yield _misnamed(
            case, rules.GPU_COUNT, "gpus", note("named-gpus", gpus=named.gpus), case.gpus
        )
    elif named.nodes is not None and nodes is not None and named.nodes != nodes:
        yield _misnamed(
            case, rules.GPU_COUNT, "replicas", note("named-nodes", nodes=named.nodes), nodes
        )
    yield from _named_batch(case)
    yield from _named_precision(case)


def _misnamed(case: Case, rule: IntegrityRule, fact: str, named: Arg, stated: object) -> Finding:
    said = note("name-says", named=named, stated=str(stated))
    return rule.finding(said, case.log.facts.places(fact))


def _named_batch(case: Case) -> Iterator[Finding]:
    log, expected, batch = case.log, case.log.expected, case.batch
    named = expected.named.batch_size
    if named is None or batch is None or named == batch:
        return
    # What follows from rates and times is rounded.
    if log.facts.whole("batch_size") is not None or abs(batch / named - 1) > OTHER_BATCH:
        yield _misnamed(
            case, rules.BATCH_SIZE, "batch_size", note("named-batch", batch=str(named)), batch
        )


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
        said = note("name-says-precision-none", named=named.precision)
        yield rules.PRECISION.finding(said, log.facts.places("precision_assumed"))
    elif named.amp_dtype and half and named.precision == "amp" and named.amp_dtype != half:
        yield _misnamed(case, rules.PRECISION, "amp_dtype", named.amp_dtype, half)
