"""Logs in which nothing could be measured: their errors, and their runs' measurements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from k8sbench.messages import note, or_list
from k8sbench.model import rules, verdict
from k8sbench.model.errors import InputError
from k8sbench.model.log_format import LogFormat
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import Fact, Mark
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.log_facts import LogFacts
from k8sbench.reader.measuring.rank_sums import FEWEST_RECORDS
from k8sbench.reader.reading import EVENTS, TEST, UntrainedLog

DECLARE = (
    "Another format is declared in a benchmark's YAML file; k8sbench measure LOG --declare writes"
    " its template."
)


def measurement(files: Sequence[str], expected: Expectation, error: InputError) -> Measurement:
    """The measurement of a run that succeeded and whose logs hold nothing to measure."""
    declared = expected.declared
    rejected = Measurement(
        files=tuple(files),
        format=str(expected.format) if declared is None else declared.name,
        impl=expected.impl or "unknown",
        framework=expected.framework,
        gpus=expected.gpus,
        precision=expected.precision,
        amp_dtype=expected.amp_dtype,
        batch_size_per_gpu=expected.batch_size,
        warmup_iterations=expected.warmup or 0,
        data=expected.data,
        device=expected.device,
        iterations=0,
        records=0,
        environment={},
        missing_notes={"throughput": error.note},
        verdict="rejected",
        reasons=(),
    )
    # No --accept applies: there is no figure to accept.
    return verdict.with_reasons(rejected, [rules.NOTHING_MEASURED.finding(error.note)], ())


def check_declared(log: LogFacts, declared: LogFormat) -> None:
    """Raise an error if a declared format matches no record."""
    for name, unread in log.unread.items():
        raise InputError(
            note("nothing-measured-unread", name=name, text=unread.text, why=unread.why),
            f"Correct the patterns of {declared.name} or its `unit`, or print plain numbers.",
            file=unread.place.file,
            line=unread.place.line,
        )


def no_training_line(log: LogFacts) -> InputError:
    """The error for logs without a training line of the families that were tried."""
    file = log.files[0] if log.files else "-"
    if log.empty:
        return InputError(
            note("nothing-measured-empty"), "Give the log of a training run.", file=file
        )
    if declared_in := log.candidates[0].declared_in:
        return InputError(
            note("nothing-measured-declared", format=declared_in),
            f"See what its expressions match with: k8sbench explain {shlex.quote(declared_in)} LOG",
            file=file,
        )
    if log.untrained:
        return _untrained(log.untrained, file)
    if log.unread_program is not None:
        return InputError(
            note(
                "nothing-measured-program",
                program=log.unread_program.title,
                why=log.unread_program.reason,
            ),
            "If one line states a step with its rate or time, declare its format:"
            " k8sbench measure LOG --declare writes a template.",
            file=file,
        )
    tried = tuple(dict.fromkeys(family.name for family in log.families))
    every = ", ".join(FAMILIES)
    others = f"; --format auto tries {every}"
    said = note("nothing-measured-families", families=or_list(tried))
    if len(tried) == len(FAMILIES):
        said = note("nothing-measured-any-family", families=tuple(FAMILIES))
        others = ""
    return InputError(
        said,
        f"Check that it is the complete log of a training{others}. {DECLARE}",
        file=file,
    )


def _untrained(logs: Sequence[UntrainedLog], file: str) -> InputError:
    """The error for logs of evaluations or checkpoints alone."""
    items = [item for log in logs for item in log.items]
    interval = next(
        (each.value for each in items if isinstance(each, Fact) and each.name == "log_interval"), ""
    )
    events = [each for each in items if isinstance(each, Mark) and each.kind in EVENTS]
    unended = next((log.family for log in logs if log.family.bar_seconds is not None), None)
    if unended is not None and unended.bar_seconds is not None:
        return InputError(
            note(
                "nothing-measured-unended",
                program=unended.title,
                seconds=str(FEWEST_RECORDS * unended.bar_seconds),
            ),
            "Measure the log once the training has ended, or keep the progress bar in it.",
            file=file,
        )
    said = note("nothing-measured-untrained")
    if all(TEST in event.text for event in events):
        said = note("nothing-measured-test")
        action = "Measure the log of a training."
    elif interval:
        said = note("nothing-measured-short-epochs", interval=interval)
        action = "The log is complete. Train again with a log interval of a few iterations."
    else:
        action = (
            "If it is complete, it is of a test, or its epochs are shorter than its log interval:"
            f" train again with one of a few iterations. {DECLARE}"
        )
    return InputError(said, action, file=file)
