"""Lines of the table-driven families, torn and glued to another."""

from collections import defaultdict

import pytest

from k8sbench.model.sample import Record
from tests.reader.measuring.support import lines_of
from tests.reader.support import records

LOGS = {
    "megatron_2026.log": ("megatron", "elapsed time"),
    "megatron_2021.log": ("megatron", "elapsed time"),
    "megatron_deepspeed_2022.log": ("megatron", "elapsed time"),
    "gpt_neox.log": ("megatron", "elapsed time"),
    "nemo_2.log": ("nemo", "train_step_timing"),
    "torchtitan_2024.log": ("torchtitan", "mfu: "),
    "nanochat.log": ("nanochat", "tok/sec: "),
    "llm_c.log": ("llm.c", "tok/s"),
    "llm_c_readme.log": ("llm.c", "tok/s"),
    "modded_nanogpt.log": ("modded-nanogpt", "train_loss:"),
    "torchtune.log": ("torchtune", "tokens_per_second"),
    "maxtext.log": ("maxtext", "Tokens/s"),
    "maxtext_2023.log": ("maxtext", "TFLOP/s"),
    "deepspeed.log": ("deepspeed", "RunningAvg"),
    "deepspeed_pipeline.log": ("deepspeed", "samples/sec"),
    "llama_factory.jsonl": ("llama-factory", '"loss"'),
    "torchvision.log": ("torchvision", "img/s"),
    "detectron2.log": ("detectron2", " iter: "),
    "lerobot.log": ("lerobot", "updt_s"),
    "hugectr.log": ("hugectr", "Time("),
    "litgpt_2023.log": ("litgpt", "iter time"),
    "litgpt_pretrain.log": ("litgpt", "iter time"),
    "open_clip_2022.log": ("open-clip", "Train Epoch"),
    "open_clip_2023.log": ("open-clip", "Train Epoch"),
    "fairseq.log": ("fairseq", "train_inner"),
    "fairseq_json.log": ("fairseq", "train_inner"),
    "fairseq_2019.log": ("fairseq", "wpb="),
}
"""Log → its family, and a text of its training lines."""


def numbers(record: Record) -> tuple[float | None, ...]:
    return record.rate, record.seconds, record.mean_seconds


def slowness(family: str, *log: str) -> float:
    last = records(family, *log)[-1]
    return last.mean_seconds or last.seconds or 1 / (last.rate or 1)


@pytest.mark.parametrize("name", LOGS)
def test_a_torn_line_is_read_right_or_not_at_all_and_takes_no_number(name: str) -> None:
    """The slowest line, torn anywhere, alone and followed by another's whole record."""
    family, text = LOGS[name]
    lines = [line for line in lines_of(name) if text in line]
    before, whole = lines[11], lines[-1]
    torn = max(lines[12:-1], key=lambda line: slowness(family, before, line))
    truth: defaultdict[int, set[tuple[float | None, ...]]] = defaultdict(set)
    for log in ([before, torn], [before, whole], [before, torn, whole]):
        for each in records(family, *log):
            truth[each.iteration].add(numbers(each))
    for end in range(len(torn)):
        for log in ([before, torn[:end]], [before, torn[:end] + whole]):
            for each in records(family, *log):
                assert numbers(each) in truth[each.iteration], log
