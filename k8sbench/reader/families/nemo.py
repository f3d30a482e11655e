"""Logs of NeMo.

``train_step_timing`` is the time of the step just done, of the job. NeMo 2 prints a line a step.
NeMo 1 draws a bar, each step twice, with the mean of the last five steps; its numbers are floats,
rounded to five characters.
"""

from __future__ import annotations

import re

from k8sbench.model.sample import Shape
from k8sbench.reader.families.megatron import field
from k8sbench.reader.family import DATED, Family, MarkRule, RecordRule, padded, rule
from k8sbench.reader.totals import TotalsReader

_SHAPE = Shape(name="nemo", number="seconds", averaged="step", complete=False)
_BAR_SHAPE = Shape(
    name="nemo 1", number="seconds", averaged="last", last=5, numbering="run", complete=False
)
_RECORD = padded(
    r"Training epoch (?P<epoch>\d{1,6}), iteration \d+/(?P<total>\d{1,12}) \|"
    r"(?=.*?\bglobal_step: (?P<iteration>\d{1,12})(?: |$))"
    r"(?=.*?\btrain_step_timing in s: (?P<step_seconds>[\d.]+)(?: |$))"
    + field(r"\bglobal_batch_size", "step_samples", r"\d+")
    + field(r"\bconsumed_samples", "all_samples", r"\d+")
    + field(r"\breduced_train_loss", "loss", r"(?:[-+.\deE]+|nan|inf)")
    + field(r"\bTFLOPS_per_GPU", "tflops", r"[\d.eE+]+")
    + r".*"
)
_BAR = padded(
    r"Epoch \d{1,6}:.*?\| *\d+/(?P<total>\d{1,12}) "
    r"\[(?=.*?\bglobal_step=(?P<iteration>\d+(?:\.\d+)?(?:e\+\d+)?))"
    r"(?=.*?\btrain_step_timing in s=(?P<step_seconds>[\d.]+))"
    r"(?:(?=.*?\bconsumed_samples=(?P<all_samples>\d+(?:\.0)?)[,\]])|)"
    r"(?:(?=.*?\breduced_train_loss=(?P<loss>[-+.\de]+))|).*"
)

FAMILY = Family(
    name="nemo",
    title="NeMo",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule("[NeMo I ", rf"\[NeMo I {DATED}"),
        rule("total ranks: ", r"world_size: (?P<gpus>\d+)"),
        rule("world_size: ", r"\bworld_size: (?P<gpus>\d+)"),
        rule(
            "starting with ",
            r"All distributed processes registered. Starting with (?P<gpus>\d+) processes",
        ),
        rule("Starting with ", r"Starting with (?P<gpus>\d+) processes"),
        rule("seq_length", r"\bseq_length['\"]?[:=] ?(?P<sequence_length>\d+)"),
        rule(
            "bf16",
            r"\bprecision['\"]?[:=] ?['\"]?(?:bf16|bf16-mixed)\b",
            precision="amp",
            amp_dtype="bf16",
        ),
    ),
    records=(
        RecordRule(
            "train_step_timing in s: ",
            _RECORD,
            _SHAPE,
            first_iteration=0,
            begins=re.compile(r"Training epoch "),
        ),
        RecordRule("train_step_timing in s=", _BAR, _BAR_SHAPE, first_iteration=0),
    ),
    marks=(
        MarkRule("Validation epoch", "evaluation"),
        MarkRule("Validation DataLoader", "evaluation"),
        MarkRule("`Trainer.fit` stopped", "finished"),
    ),
    shares_samples=True,
    make_reader=TotalsReader,
)
