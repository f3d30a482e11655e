"""Logs of verl's trainers of reinforcement learning, by their console logger.

By ``verl/trainer/ppo/metric_utils.py`` at b178a3cd (January 2026) and 6133ae92 (March 2025):
``perf/throughput`` is ``perf/total_num_tokens`` by ``perf/time_per_step`` and by the GPUs of all
pools, so the three tell the GPUs. The tokens are those of prompts and responses of the whole job,
each once, although it is generated, scored and trained on. The time is that of generation, rewards
and updates of the step, but not of the wait between two steps. Until 2025 it also held a validation
and a checkpoint, later it does not: a line says by keys of their own that they ran.

The lines of ``verl/trainer/sft_trainer.py`` state no throughput, and are not read.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from k8sbench.model.sample import Shape
from k8sbench.reader.family import Family, MarkRule, RecordRule, positive, rule
from k8sbench.reader.shares import SharesReader

_SHAPE = Shape(name="verl", number="seconds", averaged="step", holds_events=True, complete=False)
_KEYS = {
    "step_samples": "perf/total_num_tokens",
    "step_seconds": "perf/time_per_step",
    "share_rate": "perf/throughput",
}
_OTHER_WORK = {"evaluation": "timing_s/testing", "checkpoint": "timing_s/save_checkpoint"}
_NUMBER = r"(?:np\.float\d\d\()?(?P<{}>[\d.]+(?:e[-+]?\d+)?)"
_RECORD = re.compile(
    r"\bstep:(?P<iteration>\d{1,12}) - "
    + "".join(rf"(?=.*? {key}:{_NUMBER.format(name)})" for name, key in _KEYS.items())
    + "".join(rf"(?:(?=.*? (?P<{name}>{key}):)|)" for name, key in _OTHER_WORK.items())
    + r"(?:(?=.*? actor/pg_loss:(?P<loss>-?[\d.]+(?:e[-+]?\d+)?))|).*"
)


def _convert(texts: dict[str, Any]) -> None:
    tokens, seconds = positive(texts["step_samples"]), positive(texts["step_seconds"])
    texts["job_rate"] = tokens / seconds if tokens and seconds else None
    texts["holds"] = tuple(name for name in _OTHER_WORK if texts[name])


FAMILY = Family(
    name="verl",
    title="verl",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule(
            "Total training steps: ",
            r"\bTotal training steps: (?P<planned_iterations>\d{1,12})$",
        ),
    ),
    records=(
        RecordRule(
            "perf/throughput:",
            _RECORD,
            _SHAPE,
            convert=_convert,
            begins=re.compile(r"\bstep:\d+ - "),
        ),
    ),
    marks=(
        MarkRule(
            "Resuming from ", "restart", re.compile(r"\bResuming from \S{1,1000}global_step_\d")
        ),
    ),
    shares_samples=True,
    make_reader=functools.partial(SharesReader, fact="gpus"),
)
