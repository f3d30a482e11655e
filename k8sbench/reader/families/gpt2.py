"""Logs of programs that reproduce GPT-2: nanoGPT, nanochat, llm.c and modded-nanogpt.

Their steps are timed by the program; most print every one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from k8sbench.model.sample import Fact, Shape
from k8sbench.reader.families.language_models import LOSS, NUMBER, amp
from k8sbench.reader.family import (
    BATCH_DOUBT,
    DATED,
    EvaluationRule,
    Family,
    MarkRule,
    RecordRule,
    in_units,
    padded,
    rule,
)
from k8sbench.reader.totals import TotalsReader

_A_STEP = re.compile(r"step +\d")

# nanoGPT.
#
# The time is of that one iteration of the job, an evaluation before it included. Iterations count
# from 0. The model's words on its FLOPs are of an A100, whatever the GPU is.

_NANOGPT_SHAPE = Shape(
    name="nanogpt", number="seconds", averaged="step", holds_events=True, complete=False
)
_NANOGPT_RECORD = padded(
    rf"\biter (?P<iteration>\d{{1,12}}): loss {LOSS}(?: [A-Za-z]\w{{0,15}})?, "
    rf"time (?P<step_seconds>{NUMBER})ms"
    r"(?:, mfu (?P<mfu>-?[\d.]+)%)?"
)
_NANOGPT_LOSS = padded(r"step \d+: train loss [\d.]+, val loss (?P<value>[\d.]+)")

NANOGPT = Family(
    name="nanogpt",
    title="nanoGPT",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("tokens per iteration will be: ", r"will be: (?P<tokens_per_step>[\d,]+)"),
        rule("block_size = ", r"\bblock_size = (?P<sequence_length>\d+)"),
        rule("dtype = ", r"\bdtype = '?bfloat16", **amp("bf16")),
    ),
    records=(
        RecordRule(
            "iter ",
            _NANOGPT_RECORD,
            _NANOGPT_SHAPE,
            first_iteration=0,
            convert=in_units(1e-3, "step_seconds"),
        ),
    ),
    marks=(
        MarkRule(", val loss ", "evaluation", re.compile(r"\bstep \d+: train loss ")),
        MarkRule("saving checkpoint to ", "checkpoint"),
        MarkRule("Resuming training from", "restart"),
    ),
)

# build-nanogpt and nanochat.
#
# Every step, with its time and the tokens by it. Some versions leave out the accumulation there;
# in build-nanogpt an evaluation lies in the time of the step behind it.

_NANOCHAT_SHAPE = Shape(
    name="nanochat", number="seconds", averaged="step", holds_events=True, complete=False
)
_NANOCHAT_RECORD = padded(
    r"\bstep +(?P<iteration>\d{1,12})(?:/(?P<total>\d{1,12}))?(?: \([\d.]+%\))? ?[|,] ?"
    rf"(?:train )?loss: {LOSS}\b.*?\bdt: (?P<step_seconds>{NUMBER})ms ?[|,] "
    rf"tok/sec: (?P<rate>{NUMBER})(?: \| (?:bf16_)?mfu: (?P<mfu>[\d.]+))?"
)


def _nanochat(texts: dict[str, Any]) -> None:
    in_units(1e-3, "step_seconds", "rate")(texts)
    rate = texts.pop("rate")
    seconds = texts["step_seconds"]
    texts["step_samples"] = rate and seconds and 1e3 * rate * seconds


NANOCHAT = Family(
    name="nanochat",
    title="nanochat, build-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule(
            "total desired batch size: ", r"total desired batch size: (?P<tokens_per_step>[\d,]+)"
        ),
        rule("Total batch size ", r"Total batch size (?P<tokens_per_step>[\d,]+)"),
        rule(
            "Tokens / micro-batch / rank: ",
            r"micro-batch / rank: (?P<micro_batch>\d+) x (?P<sequence_length>\d+) = [\d,]+",
        ),
        rule("world size", r"\b[Ww]orld size[:=] ?(?P<gpus>\d+)"),
        rule("world size", rf"^{DATED}\b.*\bworld size\b"),
    ),
    records=(
        RecordRule(
            "tok/sec: ",
            _NANOCHAT_RECORD,
            _NANOCHAT_SHAPE,
            first_iteration=0,
            convert=_nanochat,
            begins=_A_STEP,
        ),
    ),
    marks=(
        MarkRule("validation loss: ", "evaluation"),
        MarkRule("Validation bpb: ", "evaluation"),
    ),
)

# llm.c.
#
# The milliseconds are of that step of the job, exactly; ``tok/s`` is smoothed over steps, and so is
# the share of the peak. Evaluations and checkpoints lie between the steps.

_LLMC_SHAPE = Shape(name="llm.c", number="seconds", averaged="step", complete=False)
_LLMC_RECORD = padded(
    rf"\bstep +(?P<iteration>\d{{1,12}})/(?P<total>\d{{1,12}}) \| (?:train )?loss +{LOSS}\b[^|]*"
    rf"\|.*?\| ?\(?(?P<step_seconds>{NUMBER}) ms \|(?: (?P<mfu>-?[\d.]+)% \w+ MFU \|)?"
    r" (?P<smoothed>\d+) tok/s"
)

LLM_C = Family(
    name="llm.c",
    title="llm.c",
    framework="cuda",
    unit="tokens/s",
    facts=(
        rule("total_batch_size ", r"\| total_batch_size +\| (?P<tokens_per_step>\d+)"),
        rule("total batch size ", r"\btotal batch size +\| (?P<tokens_per_step>\d+)"),
        rule("sequence length T ", r"\| sequence length T +\| (?P<sequence_length>\d+)"),
        rule("num_processes ", r"\| num_processes +\| (?P<gpus>\d+)"),
        rule("| device ", r"\| device +\| (?P<gpu_model>\S.*?) +\|"),
        rule("| precision ", r"\| precision +\| BF16", **amp("bf16")),
        rule("| precision ", r"\| precision +\| FP16", **amp("fp16")),
        rule("| precision ", r"\| precision +\| FP32", precision="fp32"),
    ),
    records=(
        RecordRule(
            " tok/s",
            _LLMC_RECORD,
            _LLMC_SHAPE,
            convert=in_units(1e-3, "step_seconds"),
            begins=_A_STEP,
        ),
    ),
    evaluations=(
        EvaluationRule(
            "HellaSwag: ",
            re.compile(r"HellaSwag: \d+/\d+ = (?P<value>[\d.]+)"),
            "HellaSwag",
            "fraction",
        ),
    ),
    marks=(
        MarkRule("val loss ", "evaluation"),
        MarkRule("Writing model to ", "checkpoint"),
    ),
)

# modded-nanogpt.
#
# ``train_time`` is the time of all steps since the timer began, which excludes evaluations;
# ``step_avg`` is that time by the steps. The timer begins anew after a few steps of warm-up.

_MODDED_SHAPE = Shape(name="modded-nanogpt", number="seconds", begins_late=True)
_MODDED_RECORD = padded(
    r"(?<!warmup_)\bstep:(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) (?:\[\w+\] )?"
    r"(?:(?:train_)?loss:(?P<loss>[\d.]+|nan) )?(?:lr:\S+ )?"
    r"(?:train_time|t):(?P<elapsed>[\d.]+)(?P<time_unit>m?s)\b"
)


def _modded(texts: dict[str, Any]) -> None:
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


MODDED_NANOGPT = Family(
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
    records=(RecordRule("step:", _MODDED_RECORD, _MODDED_SHAPE, convert=_modded),),
    marks=(MarkRule("val_loss:", "evaluation"),),
    make_reader=TotalsReader,
)
