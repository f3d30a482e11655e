"""Right values of modded-nanogpt's logs, which quote the source of their program.

Until November 2025 all steps have one batch; later the batch grows by a schedule.
"""

import fractions
import itertools
import math
import re

from tests.corpus.public.rates import TOKENS, Rate


def _product(text: str) -> int:
    """Return the value of ``8 * 2048 * 8``."""
    return math.prod(map(int, text.split("*")))


def _group(pattern: str, text: str) -> str:
    """Return the first group of the first match."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found[1]


def _assigned(name: str, text: str) -> str | None:
    """Return the product that the quoted source assigns to a name, if any."""
    found = re.search(
        rf"^\s*(?:{name})\s*(?::\s*int\s*)?=\s*(\d[\d *]*)(?:#.*)?$", text, re.MULTILINE
    )
    return found and found[1].strip()


def scheduled_batches(text: str) -> list[tuple[int, int]]:
    """Return steps and tokens of a step of each stage that the quoted source schedules.

    ``train_bs_schedule`` divides the scheduled steps into equal stages; ``TrainingStage`` states
    the share of each. The last stage lasts until the end. No stages if the batch is constant.
    """
    scheduled = _product(_assigned("num_scheduled_iterations", text) or "0")
    extension = _product(_assigned("num_extension_iterations", text) or "0")
    if equal := re.search(r"train_bs_schedule: tuple = \(([\d *,]+)\)", text):
        batches = [_product(each) for each in equal[1].split(",")]
        starts = [math.ceil(scheduled * each / len(batches)) for each in range(len(batches))]
        batches.append(_product(_assigned("train_bs_extension", text) or "0"))
    else:
        stages = re.findall(r"^ *TrainingStage\(.*", text, re.MULTILINE)
        batches = [_product(_group(r"batch_size=(\d[\d *]*)", each)) for each in stages]
        shares = [fractions.Fraction(_group(r"duration=([\d/.]+)", each)) for each in stages[:-1]]
        starts = [round(sum(shares[:each]) * scheduled) for each in range(len(shares))]
    bounds = itertools.pairwise([*starts, scheduled, scheduled + extension])
    return [(end - begin, batch) for (begin, end), batch in zip(bounds, batches, strict=False)]


def modded_nanogpt(text: str) -> list[Rate]:
    """Tokens that the quoted source consumes in the timed steps ÷ ``train_time`` of the last line.

    The timed steps are ``train_time`` ÷ ``step_avg`` of that line: until May 2025 the first ten
    are not timed.
    """
    last = re.findall(r"train_time:(\d+)ms step_avg:([\d.]+)ms", text)[-1]
    time = int(last[0]) / 1000
    steps = round(1000 * time / float(last[1]))
    if stages := scheduled_batches(text):
        assert abs(sum(count for count, _ in stages) - steps) <= 1
        return [Rate(sum(count * batch for count, batch in stages) / time, TOKENS)]
    return [Rate(steps * _tokens_of_step(text) / time, TOKENS)]


def _tokens_of_step(text: str) -> int:
    """Return the tokens of a step of the whole job by the quoted source."""
    if tokens := _assigned("train_batch_size", text):
        return _product(tokens)
    batch = _assigned("batch_size", text)
    if batch and (length := _assigned("sequence_length", text)):
        return _product(batch) * _product(length)
    if batch and "batch size in tokens" in text:
        return _product(batch)
    if length := _assigned("train_seq_len|seq_len", text):
        # Each GPU takes a sequence; one GPU for eight takes eight of them in turn.
        in_turn = re.search(r"grad_accum_steps = (\d+) // world_size", text)
        gpus = len(re.findall(r"^\|\s+\d+\s+NVIDIA ", text, re.MULTILINE))
        return _product(length) * (int(in_turn[1]) if in_turn else gpus)
    raise ValueError("no tokens of a step")
