"""mmsegmentation 0.x (mmcv's text logger), and other programs of its kind.

``time`` is seconds per iteration of rank 0, which is the job's, as a mean over the log interval.
At the iteration of an evaluation mmcv prints the evaluation instead of the training line, so the
gap to the next record is two intervals while its mean still covers one, evaluation included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse import stamps
from k8sbench.parse.family import Family, Reader, facts, number, positive, rule, share

BY_ITERATION = Shape(name="mmseg", number="seconds", holds_events=True, resolution=0.001)
BY_EPOCH = Shape(
    name="mmseg by epoch",
    number="seconds",
    numbering="epoch",
    first_epoch=1,
    holds_events=True,
    resolution=0.001,
)

# No bracket may stand between the count and the time: a torn record glued to a whole one must not
# lend it its count.
_RECORD = re.compile(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - \w+ - INFO - )?"
    r"(?:Iter|Epoch \[(?P<epoch>\d{1,6})\]) ?\[(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\]\s"
    r"[^\[\]]*?\btime: (?P<time>\d+\.\d+), data_time: (?P<data>\d+\.\d+)(?=,)"
    r"(?:[^\[\]]*?\bmemory: (?P<memory>\d+)(?=,))?"
    # Four digits, always: what follows may be another line, glued on.
    r"(?:[^\[\]]*?, loss: (?P<loss>-?\d+\.\d{4}|[-+]?(?:nan|inf|NaN|Inf|NAN|INF)))?"
)
_EVALUATION = re.compile(
    r"(?:(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - \w+ - INFO - )?"
    r"(?:Iter|Epoch)\(val\) (?:\[\d+\])?\[\d+\]\s[^\[\]]*?\b(?P<metric>mIoU|mDice|mFscore|aAcc): "
    r"(?P<value>\d+\.\d+|nan)"
)
_CHECKPOINT = re.compile(r"Saving checkpoint at \d+ (?:iterations|epochs)")
_RESUME = re.compile(r"resumed (?:from )?epoch:? ?\d+, iter \d+")

_FACTS = (
    rule("sys.platform", r"^sys\.platform: (?P<platform>.+)"),
    rule("Python: ", r"^Python: (?P<python>\d[\d.]*)"),
    rule("GPU ", r"^GPU (?P<visible_gpus>\d+(?:,\d+)*): (?P<gpu_model>\S.*)"),
    rule("PyTorch: ", r"^PyTorch: (?P<framework_version>\S+)"),
    rule("CUDA Runtime", r"- CUDA Runtime (?P<cuda>[\d.]+)"),
    rule("CuDNN", r"- CuDNN (?P<cudnn>[\d.]+)"),
    rule("MMCV: ", r"^MMCV: (?P<mmcv>\S+)"),
    rule(
        "MMSegmentation: ", r"^MMSegmentation: (?P<program_version>\S+)", program="mmsegmentation"
    ),
    rule("Distributed training: ", r"Distributed training: (?P<distributed>True|False)"),
    rule("samples_per_gpu=", r"\bsamples_per_gpu=(?P<batch_size>\d{1,12})"),
    rule("Fp16OptimizerHook", precision="amp", amp_dtype="fp16"),
    rule("fp16 = ", r"^fp16 = dict\(", precision="amp", amp_dtype="fp16"),
    rule("Head'", r"type='(?P<model>\w+Head)'"),
    rule("iters", r"\bmax: (?P<planned_iterations>\d{1,12}) iters"),
    rule(" - Config:", r" - INFO - Config:", config="True"),
    rule("gpu_ids = range(", r"^gpu_ids = range\(0, (?P<gpu_ids>\d{1,12})\)"),
)


class _Reader(Reader):
    def __init__(self) -> None:
        self._said: dict[str, Fact] = {}

    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        for fact in facts(_FACTS, line, text, source):
            self._said.setdefault(fact.name, fact)
            yield fact

    def settle(self) -> Iterator[Fact]:
        said = self._said
        config = said.get("config")
        if config and "precision" not in said:
            # The whole configuration is printed, so what it lacks was not set.
            yield Fact(line=config.line, text=config.text, name="precision_assumed", value="fp32")
        ids = said.get("gpu_ids")
        alone = "distributed" in said and said["distributed"].value == "False"
        # In a distributed job the list is that of the process; only several of them tell.
        if ids and (alone or int(ids.value) > 1):
            yield Fact(line=ids.line, text=ids.text, name="gpus", value=ids.value)

    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        for match in _RECORD.finditer(text):
            stamp, epoch, iteration, total, time, data, memory, loss = match.groups()
            seconds = positive(time)
            if seconds is None:
                continue
            yield Record(
                line=line,
                text=match[0],
                source=source,
                shape=BY_ITERATION if epoch is None else BY_EPOCH,
                epoch=None if epoch is None else int(epoch),
                iteration=int(iteration),
                total=int(total),
                seconds=seconds,
                loss=number(loss),
                waiting=share(number(data), seconds),
                stamp=None if stamp is None else stamps.seconds(stamp),
                memory_mib=number(memory),
            )
        if "(val)" in text:
            for match in _EVALUATION.finditer(text):
                _, metric, value = match.groups()
                yield Mark(line=line, text=match[0], kind="evaluation", source=source)
                yield Reader.evaluation(line, source, match[0], metric, value, stamp=match["stamp"])
        if "Saving checkpoint" in text and (saved := _CHECKPOINT.search(text)):
            yield Mark(line=line, text=saved[0], kind="checkpoint", source=source)
        if "resumed " in text and (resumed := _RESUME.search(text)):
            yield Mark(line=line, text=resumed[0], kind="restart", source=source)


FAMILY = Family(
    name="mmseg",
    title="mmsegmentation",
    framework="pytorch",
    unit="samples/s",
    needles=("Iter [", "Epoch [", "(val) [", "Saving checkpoint at", "resumed "),
    reader=_Reader,
)
