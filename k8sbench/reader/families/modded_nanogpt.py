"""Logs of modded-nanogpt.

``train_time`` is the time of all steps since the timer began, which excludes evaluations;
``step_avg`` is that time by the steps. The timer begins anew after a few steps of warm-up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.family import BATCH_DOUBT, Family, MarkRule, RecordRule, in_units, padded, rule
from k8sbench.reader.totals import TotalsReader

_SHAPE = Shape(name="modded-nanogpt", number="seconds", begins_late=True)
_RECORD = padded(
    r"(?<!warmup_)\bstep:(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) (?:\[\w+\] )?"
    r"(?:(?:train_)?loss:(?P<loss>[\d.]+|nan) )?(?:lr:\S+ )?"
    r"(?:train_time|t):(?P<elapsed>[\d.]+)(?P<time_unit>m?s)\b"
)


def _convert(texts: dict[str, Any]) -> None:
    in_units(1e-3 if texts["time_unit"] == "ms" else 1.0, "elapsed")(texts)


_VARIES = "The program changes its batch while it trains, and its lines do not state it."
_PRODUCT = r"\d+(?: ?\* ?\d+)*"


def _products(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Work out sizes that the source states as products: ``8*64``."""
    facts = {
        "_batch": "global_batch",
        "_length": "sequence_length",
        "_tokens": "tokens_per_step",
    }
    for name, fact in facts.items():
        if name in stated and BATCH_DOUBT not in stated:
            factors = map(int, re.findall(r"\d+", stated[name].value))
            yield stated[name].like(fact, str(math.prod(factors)))


FAMILY = Family(
    name="modded-nanogpt",
    title="modded-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("train_batch_tokens:", r"\btrain_batch_tokens:(?P<tokens_per_step>\d+)"),
        rule("train_seq_len:", r"\btrain_seq_len:(?P<sequence_length>\d+)"),
        rule("world_size:", r"^world_size:(?P<gpus>\d+)"),
        # The log begins with the program's source.
        rule(
            "batch size, in sequences, across all devices",
            rf"\bbatch_size : int = (?P<_batch>{_PRODUCT}) *# batch size, in sequences, across all",
        ),
        rule(
            "sequence length, in tokens",
            rf"\bsequence_length : int = (?P<_length>{_PRODUCT}) *# sequence length, in tokens",
        ),
        rule("seq_len = ", rf"^ *(?:train_)?seq_len = (?P<_length>{_PRODUCT}) *# FlexAttention"),
        # A sequence for each GPU, and no accumulation.
        rule("world_size * args.", r"world_size \* args\.(?:train_)?seq_len\b", batch_size="1"),
        rule("batch_size = ", rf"\bbatch_size = (?P<_tokens>{_PRODUCT}) *# batch size in tokens"),
        rule("train_batch_size: int", rf"train_batch_size: int = (?P<_tokens>{_PRODUCT})"),
        rule("train_bs_schedule", **{BATCH_DOUBT: _VARIES}),
        rule("class TrainingStage", **{BATCH_DOUBT: _VARIES}),
    ),
    derive=_products,
    records=(RecordRule("step:", _RECORD, _SHAPE, convert=_convert),),
    marks=(MarkRule("val_loss:", "evaluation"),),
    make_reader=TotalsReader,
)
