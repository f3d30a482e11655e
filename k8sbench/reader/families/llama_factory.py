"""LLaMA-Factory's trainer_log.jsonl.

``throughput`` is all tokens so far by all seconds so far, of the job, evaluations included. Lines
of evaluations, of the end and of a prediction have no loss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from k8sbench.model.sample import Item, Shape
from k8sbench.reader.family import Family, MarkRule, RecordRule, clock_seconds, number_in
from k8sbench.reader.json_fields import JsonFields
from k8sbench.reader.lines import CleanLine
from k8sbench.reader.totals import Total, TotalsReader

_SHAPE = Shape(name="llama-factory", number="seconds", holds_events=True, begins_late=True)
_RECORD = JsonFields(
    {
        "iteration": "current_steps",
        "total": "total_steps",
        "loss": "loss",
        "elapsed": "elapsed_time",
        "mean_rate": "throughput",
        "all_samples": "total_tokens",
    },
    r'"loss": (?!null).*"elapsed_time": ',
)


def _convert(texts: dict[str, Any]) -> None:
    rate = number_in(texts["mean_rate"])
    tokens = number_in(texts["all_samples"])
    # To a hundredth of a token per second, where the clock has whole seconds.
    texts["elapsed"] = tokens / rate if rate and tokens else clock_seconds(texts["elapsed"])


class _FactoryReader(TotalsReader):
    """The timer begins with the process: where it began anew, the run may have been resumed."""

    def __init__(self, family: Family) -> None:
        self._distance: dict[str, float] = {}
        """Steps from the line before to the latest one, by rank."""
        super().__init__(family)

    def seconds_between(self, before: float, now: float) -> float:
        return now - before if now >= before else now

    def totals(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        before = self.before.get(line.source)
        items = list(super().totals(rule, line))
        if before is not None and items and self._is_resumed(line.source, before):
            yield line.mark("restart")
        yield from items

    def _is_resumed(self, source: str, before: Total) -> bool:
        """True if the timer began anew since the line before, and the count of steps did not."""
        now = self.before[source]
        if now.elapsed is None or before.elapsed is None:
            return False
        if now.elapsed < before.elapsed:
            return now.iteration > 2 * self._distance.get(source, math.inf)
        if now.elapsed > before.elapsed and now.iteration > before.iteration:
            self._distance[source] = now.iteration - before.iteration
        return False


FAMILY = Family(
    name="llama-factory",
    title="LLaMA-Factory's trainer_log.jsonl",
    framework="pytorch",
    unit="tokens/s",
    records=(RecordRule('"current_steps": ', _RECORD, _SHAPE, convert=_convert),),
    marks=(
        MarkRule('"eval_loss": ', "evaluation", re.compile(r'"eval_loss": (?!null)')),
        MarkRule('"percentage": 100', "finished"),
    ),
    make_reader=_FactoryReader,
)
