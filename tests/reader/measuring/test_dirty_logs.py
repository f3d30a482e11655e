"""Logs as they are found: several ranks, interleaved, coloured, torn, glued."""

from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.measurement import Measurement
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.log_facts import OpenedLog
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.support import Block, Lines, ids, measured, mmseg, run
from tests.unit.presence import present

STEADY = run([0.5] * 12)


def mpirun(rank: int, text: str) -> str:
    return f"Mon Mar  2 10:00:00 2026[1,{rank}]<stdout>:{text}"


DRESSED: dict[str, list[str]] = {
    "mpirun": [mpirun(0, line) for line in STEADY],
    "progress bars": [f"  1%|#  |\r 99%|###|\r{line}" for line in STEADY],
    "an evaluation's bar": [f"[>>>] 500/500, 5.6 task/s, ETA: 0s{line}" for line in STEADY],
    "AI-Rank prefix": [f"AI-Rank-log {line}" for line in STEADY],
    "NULs": ["\x00" * 50, *STEADY],
    "noise": [text for line in STEADY for text in ("warnings.warn(", line, "", "  0%|")],
    "glued with ranks": ["".join(mpirun(0, line) for line in STEADY)],
}


@pytest.mark.parametrize("lines", DRESSED.values(), ids=DRESSED)
def test_however_it_is_dressed_it_measures_the_same(lines: list[str]) -> None:
    """The digest, which detects duplicate logs, covers only the records."""
    plain, found = measured(STEADY, warmup=20), measured(lines, warmup=20)
    assert (found.throughput, found.log_digest) == (plain.throughput, plain.log_digest)
    assert (found.records, found.verdict, ids(found)) == (plain.records, "valid", [])


def test_of_several_ranks_the_one_with_the_most_records_speaks_for_the_job() -> None:
    slow = [line.replace("time: 0.500", "time: 0.502") for line in STEADY]
    lines = []
    for index, line in enumerate(STEADY):
        lines.append(f"[1,3]<stdout>:{slow[index]}")
        if index != 5:
            lines.append(f"[1,0]<stdout>:{line}")
    found = measured(lines, gpus=4, warmup=20)
    assert present(found.throughput).time_weighted == pytest.approx(16 / 0.502)
    assert (found.records, found.verdict) == (10, "valid")


# Several runs in one file, and one run in several.

RESUMED = "2026-03-02 11:00:00,000 - mmseg - INFO - resumed from epoch: 0, iter 120"
LATER = run([0.5] * 6, first=120, at=500, total=120)
ANOTHER = run([0.25] * 12, at=500)
SHORT, SHORT_LATER, SHORT_EARLIER = (run([0.05] * 8, interval=1, at=at) for at in (0.0, 0.6, 0.3))


def head(*, batch: int = 4, model: str = "ASPPHead") -> list[str]:
    return [
        "2026-03-02 09:59:00,000 - mmseg - INFO - Environment info:",
        "Python: 3.8.10",
        "PyTorch: 1.10.1",
        f"        type='{model}',",
        f"    samples_per_gpu={batch},",
    ]


HEAD, LARGER, OTHER = head(), head(batch=8), head(model="FCNHead")
WORKERS = [line for _ in range(4) for line in [*HEAD, *STEADY]]
AHEAD = [line for pair in zip(STEADY[1:], STEADY, strict=False) for line in pair]
EPOCH = mmseg(10, 0.5).replace("Iter [10/1000]", "Epoch [1][10/100]")
GLUED = [f"[1,0]<stdout>:{line}" for line in (*STEADY, *LATER)]
GLUED = [*GLUED[:12], *HEAD, GLUED[12] + GLUED[13], *GLUED[14:]]
TWO_RUNS, COPIES, AGAIN = ([name] for name in ("two-runs", "repeated-lines", "restarted"))
Logs = Sequence[Sequence[str]]
CASES: dict[str, tuple[Logs, list[str], int]] = {
    # Copies count once.
    "workers' outputs, one after the other": ([STEADY * 4], COPIES, 12),
    "workers' outputs with their headers": ([WORKERS], COPIES, 12),
    "workers that run ahead of each other": ([[STEADY[0], *AHEAD]], COPIES, 12),
    "the files of several ranks": ([STEADY] * 3, COPIES, 12),
    "another rank's file has no header": ([[*HEAD, *STEADY], STEADY], COPIES, 12),
    "a copy that was written meanwhile": ([[*SHORT_EARLIER, *SHORT]], [*COPIES, "loader-stall"], 8),
    # A run that goes on.
    "a resumed run to a later end": (
        [[*STEADY, RESUMED, *run([0.5] * 6, first=120, at=500, total=180)]],
        AGAIN,
        18,
    ),
    "its header is read anew": ([[*STEADY, *LARGER, RESUMED, *LATER]], AGAIN, 18),
    "a program that prints nothing of it": ([[*STEADY, *LARGER, *LATER]], AGAIN, 18),
    "lines are glued behind the header": ([GLUED], AGAIN, 18),
    "the pieces of a resumed run": ([STEADY, run([0.5] * 6, first=120, at=500)], [], 18),
    "a piece that begins at a checkpoint": ([STEADY, run([0.5] * 6, first=100, at=500)], AGAIN, 16),
    "pieces between which iterations are lost": (
        [STEADY, run([0.5] * 6, first=500, at=500)],
        ["iterations-missing"],
        18,
    ),
    # Another run.
    "a second header": ([[*HEAD, *STEADY, *HEAD, *ANOTHER]], TWO_RUNS, 12),
    "a second header with another batch": ([[*HEAD, *STEADY, *LARGER, *ANOTHER]], TWO_RUNS, 12),
    "another batch": ([[*HEAD, *STEADY, *LARGER, *LATER]], ["batch-mismatch", *AGAIN], 18),
    "another model": (
        [[*HEAD, *STEADY, *OTHER, RESUMED, *LATER]],
        ["other-benchmark", *AGAIN],
        18,
    ),
    "another total": (
        [[*STEADY, *run([0.5] * 6, first=120, at=60, total=500)]],
        [*TWO_RUNS, "ends-early"],
        18,
    ),
    "files of another batch": (
        [[*HEAD, *STEADY], [*LARGER, *run([0.5] * 12, at=500)]],
        [*TWO_RUNS, *AGAIN],
        12,
    ),
    "files of another total": ([STEADY, run([0.5] * 6, at=500)], [*TWO_RUNS, *AGAIN], 12),
    "a record of another shape": ([[*STEADY, EPOCH]], TWO_RUNS, 12),
    "an earlier run behind a later one": ([[*run([0.5] * 12, at=500), *STEADY]], TWO_RUNS, 12),
    "a run that was over as another began": (
        [[*SHORT_LATER, *SHORT]],
        [*TWO_RUNS, "loader-stall"],
        8,
    ),
}


def of_files(logs: Logs, *, blocks: bool = False) -> Measurement:
    """Measure several logs as one run; ``blocks``: pass whole logs."""
    known: dict[str, Any] = {"format": "mmseg", "gpus": 4, "batch_size": None, "warmup": 0}
    sources: list[OpenedLog] = [
        Block(lines) if blocks else Lines(lines, f"{index}.log")
        for index, lines in enumerate(logs, 1)
    ]
    return measure(sources, Expectation(**known))


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_logs_are_of_one_run_or_of_several(case: str, blocks: bool) -> None:
    logs, expected, records = CASES[case]
    found = of_files(logs, blocks=blocks)
    reasons = [name for name in ids(found) if name != "batch-unverified"]
    assert (reasons, found.records) == (expected, records)
    rejects = {*TWO_RUNS, "iterations-missing"}
    assert not rejects & {*ids(found, "warn")}
