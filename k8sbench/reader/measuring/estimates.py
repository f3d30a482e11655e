"""Throughput of a log, by each estimator of :class:`~k8sbench.model.measurement.Throughput`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model.measurement import ESTIMATORS, Throughput
from k8sbench.model.missing import Missing, figure_of, reasons_of
from k8sbench.model.sample import COARSEST, Mark, Shape
from k8sbench.model.spec_values import Estimator
from k8sbench.reader.measuring import log_units
from k8sbench.reader.measuring.log_facts import LogFacts
from k8sbench.reader.measuring.log_units import NO_LENGTH
from k8sbench.reader.measuring.rank_records import RankRecords
from k8sbench.reader.measuring.rank_sums import Span, Tally

VARYING = Missing(note("no-estimate-batch-changes"))
UNWEIGHTED = Missing(note("no-estimate-unequal-steps"))
UNEQUAL = 0.05
"""Relative difference of the means by equal times and by equal tokens of such rates."""
NO_BATCH = Missing(note("no-throughput-batch"))
OF_WHOLE_RUN = Missing(note("no-estimate-whole-run"))


class Estimates(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of all estimators, each or why there is none."""

    unit: str
    """Unit of the figures, per second of the whole job."""
    by_name: dict[str, float | Missing]

    @property
    def throughput(self) -> Throughput:
        """The figures, without the reasons."""
        figures = {name: figure_of(estimate) for name, estimate in self.by_name.items()}
        return Throughput(**figures, unit=self.unit)

    @property
    def reasons(self) -> dict[str, Note]:
        """Path of each missing figure in a measurement → why it is missing."""
        reasons = reasons_of(self.by_name)
        return {f"throughput.{name}": reason for name, reason in reasons.items()}

    def without(self, lost: Mapping[str, Missing]) -> Estimates:
        """Return the estimates without the figures at some paths of a measurement."""
        by_name = {
            name: lost.get(f"throughput.{name}", each) for name, each in self.by_name.items()
        }
        return msgspec.structs.replace(self, by_name=by_name)


def scale(
    log: LogFacts, shape: Shape, gpus: int, job_batch: float | None
) -> tuple[float | None, float | None]:
    """Return samples/s per rate unit and seconds per time unit; None if unknown."""
    if not shape.is_rate:
        return job_batch, 1.0
    conversion = log_units.conversion(log)
    if conversion is None:
        return None, None
    samples = conversion * (gpus if shape.is_per_card else 1)
    return samples, None if job_batch is None else job_batch / samples


def estimate(
    log: LogFacts, rank: RankRecords | None, samples: float | None, job_batch: float | None
) -> Estimates | Missing:
    """Return the throughput by the records of a rank; by a summary of the whole run without one.

    ``samples`` is the figure of one rate unit of the rank (:func:`scale`), ``job_batch`` what a
    step of the job adds; None if unknown.
    """
    if log.summaries.whole_run is not None and rank is None:
        summary, _ = log.summaries.whole_run
        return _of_whole_run(log, summary, job_batch)
    span = rank.tally.span if rank else None
    if rank is None or span is None or not rank.tally.records or span.time <= 0:
        return Missing(note("no-throughput-window"))
    if samples is None:
        return NO_BATCH if log_units.conversion(log) else NO_LENGTH
    tally = rank.tally
    by_name: dict[str, float | Missing] = {
        "printed_steps": _of_printed_steps(rank, samples),
        "time_weighted_steady": _of_steady_records(tally, span, samples),
        "timestamps": _of_stamps(rank, job_batch),
        "time_weighted": samples * span.iterations / span.time,
        "median": samples * statistics.median(tally.lines.rates),
        "arithmetic": samples * math.fsum(tally.lines.rates) / tally.records,
    }
    if has_unequal_steps(log, rank, job_batch):
        by_name |= dict.fromkeys(("time_weighted", "time_weighted_steady"), UNWEIGHTED)
    if tally.steps.vary:
        # The samples of all steps are known, and not whose time is whose.
        by_name = {name: each for name, each in by_name.items() if isinstance(each, Missing)}
        names = ("time_weighted_steady", "median", "arithmetic", "timestamps", "printed_steps")
        by_name |= dict.fromkeys(names, VARYING)
        by_name["time_weighted"] = samples * span.iterations / span.time
    return Estimates(unit=log_units.unit(log), by_name=by_name)


def has_unequal_steps(log: LogFacts, rank: RankRecords, job_batch: float | None) -> bool:
    """Return True if lines state tokens/s of single steps, and nothing tells the steps' tokens.

    Sequences of any length make such steps, whose rates have no weight.
    """
    tally = rank.tally
    is_told = job_batch is not None or rank.sums.batch is not None
    is_unknown = rank.shape.is_rate and rank.shape.averaged == "step" and not is_told
    if not (is_unknown and log_units.unit(log).startswith("tokens") and tally.records):
        return False
    by_tokens = tally.iterations / tally.time
    return math.fsum(tally.lines.rates) / tally.records > (1 + UNEQUAL) * by_tokens


def headline(rank: RankRecords | None) -> Estimator:
    """Return the estimator of the headline: of all steps, or of printed ones."""
    if rank is None or not (rank.samples_steps and rank.tally.printed_alone):
        return "time_weighted"
    return "printed_steps"


def _of_printed_steps(rank: RankRecords, samples: float) -> float | Missing:
    if not rank.samples_steps:
        return Missing(note("no-estimate-all-steps-printed"))
    return samples * rank.tally.printed_iterations / rank.tally.printed_time


def _of_steady_records(tally: Tally, span: Span, samples: float) -> float | Missing:
    if tally.all_steps:
        # Totals of epochs hold neither evaluations nor checkpoints.
        return samples * span.iterations / span.time
    if tally.steady_time > 0:
        return samples * tally.steady_iterations / tally.steady_time
    return Missing(note("no-estimate-no-steady-record"))


def _of_stamps(rank: RankRecords, job_batch: float | None) -> float | Missing:
    if rank.tally.stamped is None:
        return Missing(note("no-estimate-stamps"))
    first, last = rank.tally.stamped
    seconds = first.seconds_to(last)
    if seconds <= 0:
        return Missing(note("no-estimate-equal-stamps"))
    if rank.shape.has_coarse_stamps(seconds):
        return Missing(
            note(
                "no-estimate-coarse-stamps",
                resolution=f"{rank.shape.resolution:g} s",
                share=f"{COARSEST:.0%}",
                seconds=f"{seconds:g} s",
            )
        )
    if job_batch is None:
        return NO_BATCH
    return job_batch * (last.position - first.position) / seconds


def _of_whole_run(log: LogFacts, summary: Mark, job_batch: float | None) -> Estimates | Missing:
    """Return the figure of a summary of the whole run."""
    rate = summary.number("whole_run_rate")
    seconds = summary.number("whole_run_seconds")
    conversion = log_units.conversion(log)
    if rate is not None and conversion is None:
        return NO_LENGTH
    if rate is not None:
        rate *= (conversion or 1) * _share_that_ran(summary)
        declared = log.expected.declared
        per_card = declared is not None and declared.per == "card"
        per_card |= summary.values.get("per") == "card"
        figure = rate * ((log.expected.gpus or log.facts.whole("gpus") or 1) if per_card else 1)
    elif seconds is not None and job_batch is not None:
        figure = job_batch / seconds
    else:
        return NO_BATCH
    by_name: dict[str, float | Missing] = dict.fromkeys(ESTIMATORS, OF_WHOLE_RUN)
    return Estimates(unit=log_units.unit(log), by_name=by_name | {"time_weighted": figure})


def _share_that_ran(summary: Mark) -> float:
    """Return the steps that ran ÷ those that a summary's rate is of."""
    ran = summary.number("ran")
    planned = summary.number("planned")
    return ran / planned if ran and planned else 1.0
