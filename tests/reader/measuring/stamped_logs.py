"""Logs with time stamps, of several families."""

import datetime
import re
from collections.abc import Sequence
from typing import Any

EVALUATION = "2026-03-02 10:01:50 [INFO]\tStart evaluating (total_samples: 500)..."
moment = datetime.datetime.fromisoformat
BEGIN = moment("2026-03-02 10:00:00")


def dle(rates: Sequence[float], *, batch: int = 256, own: float = 1.0) -> list[str]:
    """Lines of one iteration each; ``own``: printed time ÷ time by the stamps."""
    lines, at = [], 0.0
    for step, rate in enumerate(rates, 1):
        at += batch / rate / own
        stamp = (BEGIN + datetime.timedelta(seconds=at)).isoformat(" ", "microseconds")
        lines.append(
            f"DLL {stamp} - Epoch: 0 Iteration: {step}  train.loss : 7.00000  "
            f"train.total_ips : {rate:.2f} img/s"
        )
    return lines


def paddleseg(iteration: int, at: float, *, cost: float = 0.5, total: int = 400) -> str:
    stamp = (BEGIN + datetime.timedelta(seconds=int(at))).isoformat(" ")
    return (
        f"{stamp} [INFO]\t[TRAIN] epoch: 1, iter: {iteration}/{total}, loss: 1.0, lr: 0.01, "
        f"batch_cost: {cost:.4f}, reader_cost: 0.00100, ips: {4 / cost:.4f} samples/sec | ETA"
    )


SEG: dict[str, Any] = {"format": "paddleseg"}
SEG_LINES = [paddleseg(i * 10, 5 * i) for i in range(1, 41)]
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d([.,]\d+)?")


def set_clock(lines: Sequence[str], index: int, seconds: float) -> list[str]:
    """The same log, if somebody set its clock before the line at ``index``."""

    def shifted(match: re.Match[str]) -> str:
        at = moment(match[0].replace(",", "."))
        text = (at + datetime.timedelta(seconds=seconds)).isoformat(" ", "microseconds")
        if match[1] is None:
            return text[:19]
        return text[: 19 + len(match[1])].replace(".", match[1][0])

    return [*lines[:index], *(_STAMP.sub(shifted, line) for line in lines[index:])]
