"""Units of a log: of its throughput, of its lines, and the tokens of a sequence."""

from __future__ import annotations

from k8sbench.messages import note
from k8sbench.model.missing import Missing
from k8sbench.reader.measuring.log_facts import LogFacts

NO_LENGTH = Missing(note("no-throughput-sequence-length"))


def unit(log: LogFacts) -> str:
    """Return the unit of the throughput, per second.

    Of a built-in family that times steps, tokens only where the log tells those of a step.
    """
    found = log.expected.unit or log.facts.first("unit")
    if found is None:
        found = log.family.unit
        rank = log.rank
        counts = {"tokens_per_step", "sequence_length"}.isdisjoint(log.facts)
        timed = rank is not None and not rank.shape.is_rate and rank.tally.steps.mean is None
        if log.expected.declared is None and found == "tokens/s" and counts and timed:
            found = "samples/s"
    return found if "/" in found else f"{found}/s"


def conversion(log: LogFacts) -> float | None:
    """Return the units of the throughput in one that the lines count; None if unknown.

    A benchmark may count tokens where the program that it names counts sequences. A declared
    format counts what its benchmark does.
    """
    if log.expected.unit is None or log.expected.declared is not None:
        return 1.0
    counted = log.facts.first("unit") or log.family.unit
    tokens = unit(log).startswith("tokens")
    length = stated_length(log)
    if counted.startswith("tokens") == tokens:
        return 1.0
    if length is None:
        return None
    return float(length) if tokens else 1 / length


def step_of_lines(log: LogFacts) -> float | None:
    """Return a step of the job by the lines, in the throughput's unit; None if unknown."""
    counted = None if log.rank is None else log.rank.tally.steps.mean
    factor = conversion(log)
    return None if counted is None or factor is None else counted * factor


def sequence_length(log: LogFacts) -> int | None:
    """Return the tokens of a sequence; None where unknown, or of other units."""
    return stated_length(log) if unit(log).startswith("tokens") else None


def stated_length(log: LogFacts) -> int | None:
    """Return the tokens of a sequence by the log or its format; None if unknown."""
    declared = log.expected.declared
    stated = log.facts.whole("option.sequence_length") or log.facts.whole("sequence_length")
    return stated or (None if declared is None else declared.sequence_length)


def lacks_length(log: LogFacts) -> bool:
    """True if a built-in family counts tokens, and nothing tells those of a sequence."""
    is_known = sequence_length(log) is not None or log.expected.declared is not None
    return unit(log).startswith("tokens") and not is_known
