"""Methods that compute the right value of a log, by program.

A method reads a total, stamps or another number than the training lines that a reader of the
program would take. All rates are those of the whole job.
"""

import datetime
import itertools
import json
import re
import statistics
from collections.abc import Callable

from tests.corpus.public.modded_nanogpt import modded_nanogpt
from tests.corpus.public.rates import SAMPLES, TOKENS, Rate, number, numbers

WARMUP = 20
"""Iterations that ``measure`` leaves out by default."""
Method = Callable[[str], list[Rate]]


def seconds_between(first: str, last: str) -> float:
    """Return the seconds between two stamps of the ISO form."""
    begin, end = (datetime.datetime.fromisoformat(each.replace(",", ".")) for each in (first, last))
    return (end - begin).total_seconds()


def harmonic(rates: list[float]) -> float:
    """Return the mean rate over stretches of equal work."""
    return statistics.harmonic_mean(rates)


def duration(text: str) -> float:
    """Return the seconds of ``1:02:03`` or ``02:03``."""
    total = 0.0
    for part in text.split(":"):
        total = 60 * total + float(part)
    return total


# GluonCV


def gluoncv_epochs(text: str) -> list[Rate]:
    """``[Epoch 3] speed: 2586 samples/sec`` of each epoch but the first."""
    return [Rate(harmonic(numbers(r"\[Epoch \d+\] speed: (\d+) samples/sec", text)[1:]), SAMPLES)]


def gluoncv_pose(text: str) -> list[Rate]:
    """``Speed: 636 samples/sec over 234 secs`` of each epoch but the first."""
    return [Rate(harmonic(numbers(r"Speed: (\d+) samples/sec over", text)[1:]), SAMPLES)]


def gluoncv_detection(text: str) -> list[Rate]:
    """Batches of an epoch by its last printed number ÷ ``Training cost`` of each but the first.

    The number of batches is known up to one log interval, half of which is added.
    """
    interval = number(r"log_interval=(\d+)", text)
    batches = max(numbers(r"\]\[Batch (\d+)\], Speed", text)) + 1 + (interval - 1) / 2
    cost = statistics.mean(numbers(r"Training cost: ([\d.]+)", text)[1:])
    return [Rate(batches * number(r"batch_size=(\d+)", text) / cost, SAMPLES)]


def gluoncv_segmentation(text: str) -> list[Rate]:
    """Batches of an epoch ÷ the elapsed time of its full progress bar."""
    bars = re.findall(r"training loss [\d.]+: 100%\|[^|]*\| (\d+)/\1 \[([\d:]+)<", text)
    batches = sum(int(count) for count, _ in bars)
    time = sum(duration(elapsed) for _, elapsed in bars)
    return [Rate(batches * number(r"[( ]batch_size=(\d+)", text) / time, SAMPLES)]


# GluonNLP


def gluonnlp_classifier(text: str) -> list[Rate]:
    """Batches of an epoch ÷ ``Time cost`` of each epoch, which includes its evaluation."""
    batches = number(r"\[Epoch 1 Batch \d+/(\d+)\]", text)
    costs = numbers(r"Time cost=([\d.]+)s\n", text)
    return [Rate(batches * number(r"\bbatch_size=(\d+)", text) / statistics.mean(costs), SAMPLES)]


def gluonnlp_sentiment(text: str) -> list[Rate]:
    """Batches of all epochs ÷ ``Total time cost``, which includes evaluations."""
    batches = number(r"\[Epoch 0 Batch \d+/(\d+)\]", text) * number(r"\bepochs=(\d+)", text)
    total = number(r"Total time cost ([\d.]+)s", text)
    return [Rate(batches * number(r"\bbatch_size=(\d+)", text) / total, SAMPLES)]


def gluonnlp_stamps(text: str) -> list[Rate]:
    """Samples between the first and the last stamp of each epoch but the first."""
    epochs: dict[str, list[tuple[str, int]]] = {}
    for stamp, epoch, batch in re.findall(r"(\S+ \S+) - .*\[Epoch (\d+) Batch (\d+)/", text):
        epochs.setdefault(epoch, []).append((stamp, int(batch)))
    whole = list(epochs.values())[1:]
    batches = sum(lines[-1][1] - lines[0][1] for lines in whole)
    time = sum(seconds_between(lines[0][0], lines[-1][0]) for lines in whole)
    return [Rate(batches * number(r"\bbatch_size=(\d+)", text) / time, SAMPLES)]


def gluonnlp_words(text: str) -> list[Rate]:
    """Word counts (``wc``) of each epoch's lines after its first ÷ the time by their stamps."""
    epochs: dict[str, list[tuple[str, float]]] = {}
    for stamp, epoch, words in re.findall(
        r"(\S+ \S+) - .*\[Epoch (\d+) Batch .*wc=([\d.]+)K", text
    ):
        epochs.setdefault(epoch, []).append((stamp, 1000 * float(words)))
    counted = sum(words for lines in epochs.values() for _, words in lines[1:])
    time = sum(seconds_between(lines[0][0], lines[-1][0]) for lines in epochs.values())
    return [Rate(counted / time, TOKENS)]


# NVIDIA DeepLearningExamples


def gnmt(text: str) -> list[Rate]:
    """The throughput of the job's summary."""
    return [Rate(number(r"\|\s+\d+\|\s+\d+\|\s+[\d.]+\|\s+([\d.]+)\|", text), TOKENS)]


def ncf(text: str) -> list[Rate]:
    """Samples of the first epoch ÷ the stamps around the second."""
    starts = numbers(r" ncf ([\d.]+) .*train_epoch_start", text)
    stops = numbers(r" ncf ([\d.]+) .*train_epoch_stop", text)
    samples = number(r"train_throughput: ([\d.]+)", text) * number(r"train_time = ([\d.]+)", text)
    return [Rate(samples / (stops[1] - starts[1]), SAMPLES)]


def tacotron2(text: str) -> list[Rate]:
    """Batches of the last epoch × batch × GPUs ÷ ``train_epoch_time``."""
    batches = number(r"iters_per_epoch : \d+/(\d+)", text)
    batch = number(r"PARAMETER batch_size : (\d+)", text)
    gpus = number(r"PARAMETER world_size : (\d+)", text)
    time = numbers(r"train_epoch_time : ([\d.]+)", text)[-1]
    return [Rate(batches * batch * gpus / time, SAMPLES)]


def waveglow_of_2020(text: str) -> list[Rate]:
    """Batches of an epoch × batch ÷ the stamps around the last epoch."""
    start, stop = (
        numbers(rf"([\d.]+) \(\S+\) train_epoch_{name}", text)[-1] for name in ("start", "stop")
    )
    batches = number(r"Batch: \d+/(\d+) epoch", text)
    return [Rate(batches * number(r'"batch_size": (\d+)', text) / (stop - start), SAMPLES)]


def transformer_xl(text: str) -> list[Rate]:
    """Steps × batch × length ÷ ``Training time``, which includes the first, slow steps."""
    samples = number(r"max_step : (\d+)", text) * number(r" batch_size : (\d+)", text)
    rate = samples / (60 * number(r"Training time: ([\d.]+) minutes", text))
    return [Rate(rate, SAMPLES), Rate(rate * number(r" tgt_len : (\d+)", text), TOKENS)]


def squad_epochs(text: str) -> list[Rate]:
    """Batches of an epoch × batch ÷ the seconds of the bar of epochs."""
    time = number(r"Epoch: 100%\S* 2/2 \[[\d:]+<[\d:]+, ([\d.]+)s/it\]", text)
    batches = number(r"Iteration: 100%\S* (\d+)/\d+ ", text)
    batch = number(r"\n\d+\n\d+\n(\d+)\n[\d.]+\nDONE!", text)
    return [Rate(batches * batch / time, SAMPLES)]


def squad_end_to_end(text: str) -> list[Rate]:
    """Batches of all epochs × batch × GPUs ÷ ``e2e_train_time``."""
    batches = number(r"Iteration: 100%\S* (\d+)/\d+ ", text)
    epochs = number(r"--num_train_epochs=([\d.]+)", text)
    batch = number(r"--train_batch_size=(\d+)", text) * number(r"--nproc_per_node=(\d+)", text)
    time = number(r"e2e_train_time : ([\d.]+)", text)
    return [Rate(epochs * batches * batch / time, SAMPLES)]


# Others


def fairseq_epochs(text: str) -> list[Rate]:
    """Updates since the first epoch × their mean batch ÷ the time between the ends of epochs.

    The time is the growth of ``train_wall``, and the sum of ``train_train_wall``, which leaves out
    validations and checkpoints.
    """
    first, *others = map(json.loads, re.findall(r"\[train\]\[INFO\] - (\{.*\})", text))
    last = others[-1]
    updates = int(last["train_num_updates"]) - int(first["train_num_updates"])
    times = (
        float(last["train_wall"]) - float(first["train_wall"]),
        sum(float(epoch["train_train_wall"]) for epoch in others),
    )
    return [
        Rate(updates * float(last[name]) / time, unit)
        for name, unit in (("train_bsz", SAMPLES), ("train_wpb", TOKENS))
        for time in times
    ]


def swift(text: str) -> list[Rate]:
    """Size of the data set ÷ ``train_runtime``, with and without the time of evaluations."""
    *lines, summary = text.splitlines()
    epochs = number(r'"epoch": ([\d.]+), "step": \d+\}\]', summary)
    samples = epochs * number(r'"train_dataset": "[^"]*size=(\d+)', summary)
    total = number(r'"train_runtime": ([\d.]+)', lines[-1])
    evaluations = sum(numbers(r'"eval_runtime": ([\d.]+)', "\n".join(lines)))
    return [Rate(samples / total, SAMPLES), Rate(samples / (total - evaluations), SAMPLES)]


def verl(text: str) -> list[Rate]:
    """``perf/total_num_tokens`` ÷ ``timing_s/step`` of all steps, and of those after the first 20.

    Steps become faster or slower as answers become shorter or longer.
    """
    tokens = numbers(r"perf/total_num_tokens:([\d.]+)", text)
    times = numbers(r"timing_s/step:([\d.]+)", text)
    steps = [int(step) for step in re.findall(r"step:(\d+) - .*timing_s/step:", text)]
    warm = sum(step <= WARMUP for step in steps)
    starts = [0, warm] if steps and warm < len(steps) else [0]
    return [Rate(sum(tokens[start:]) / sum(times[start:]), TOKENS) for start in starts]


def verl_of_lengths(text: str) -> list[Rate]:
    """Answers × mean length of prompt and answer ÷ ``timing_s/step`` of all steps.

    The number of answers of a step follows from the time of a generated token.
    """
    tokens = time = 0.0
    for line in re.findall(r"step:\d+ - .*timing_s/step.*", text):
        answer = number(r"response_length/mean:([\d.]+)", line)
        generated = number(r"timing_s/gen:([\d.]+)", line) / number(
            r"timing_per_token_ms/gen:([\d.]+)", line
        )
        answers = round(1000 * generated / answer)
        tokens += answers * (answer + number(r"prompt_length/mean:([\d.]+)", line))
        time += number(r"timing_s/step:([\d.]+)", line)
    return [Rate(tokens / time, TOKENS)]


def flair(text: str) -> list[Rate]:
    """Batches of 32 between the first line of each epoch but the first and its end."""
    begins = re.findall(r"(\S+ \S+) epoch \d+ - iter 0/(\d+) ", text)[1:]
    ends = re.findall(r"(\S+ \S+) EPOCH \d+ done", text)[1:]
    pairs = list(zip(begins, ends, strict=False))
    time = sum(seconds_between(begin, end) for (begin, _), end in pairs)
    return [Rate(32 * sum(int(count) - 1 for (_, count), _ in pairs) / time, SAMPLES)]


def fairseq_stamps(text: str) -> list[Rate]:
    """Updates between the first and the last stamp of a training line × their mean batch."""
    lines = re.findall(r"(\S+ \S+) \| INFO \| train_inner \| (.*)", text)
    first, last = lines[0], lines[-1]
    updates = number(r"num_updates=(\d+)", last[1]) - number(r"num_updates=(\d+)", first[1])
    time = seconds_between(first[0], last[0])
    return [
        Rate(updates * statistics.mean(number(pattern, line) for _, line in lines) / time, unit)
        for pattern, unit in ((r"bsz=([\d.]+)", SAMPLES), (r"wpb=([\d.]+)", TOKENS))
    ]


def litgpt(text: str) -> list[Rate]:
    """Micro batches of all iterations ÷ ``Training time``, which covers optimizer steps, too."""
    iterations = number(r"'max_iters': (\d+)", text)
    return _litgpt(text, number(r"Training time: ([\d.]+)s", text) / iterations)


def litgpt_printed(text: str) -> list[Rate]:
    """Micro batch ÷ the mean time of the printed iterations but the first."""
    return _litgpt(text, statistics.mean(numbers(r"iter time: ([\d.]+)ms", text)[1:]) / 1000)


def _litgpt(text: str, seconds: float) -> list[Rate]:
    """Return the rates of one GPU by the seconds of a micro batch."""
    samples = number(r"'micro_batch_size': (\d+)", text) / seconds
    return [
        Rate(samples, SAMPLES),
        Rate(samples * number(r"'block_size': (\d+)", text), TOKENS),
    ]


def fairseq_of_2018(text: str) -> list[Rate]:
    """Updates × mean batch ÷ the growth of ``train_wall``, and ÷ that of ``wall`` over all runs.

    ``wall`` begins anew after a restart, ``train_wall`` does not and leaves out validations.
    """
    updates = numbers(r" num_updates (\d+)", text)
    training = numbers(r" train_wall (\d+)", text)
    walls = numbers(r" wall (\d+)", text)
    everything = sum(
        after - before if after > before else after for before, after in itertools.pairwise(walls)
    )
    return [
        Rate((updates[-1] - updates[0]) * statistics.mean(numbers(pattern, text)) / time, unit)
        for pattern, unit in ((r" bsz (\d+)", SAMPLES), (r" wpb (\d+)", TOKENS))
        for time in (training[-1] - training[0], everything)
    ]


def joeynmt(text: str) -> list[Rate]:
    """Steps × batch ÷ stamps, without the intervals that hold a validation, and with them."""
    lines = re.findall(r"(\S+ \S+) - INFO .*Step: +(\d+),|([Vv]alidation result)", text)
    alone = steps = 0.0
    for before, after in itertools.pairwise(lines):
        if before[0] and after[0]:
            alone += seconds_between(before[0], after[0])
            steps += int(after[1]) - int(before[1])
    batch = number(r"cfg.training.batch_size +: (\d+)", text)
    counted = [line for line in lines if line[0]]
    time = seconds_between(counted[0][0], counted[-1][0])
    every = int(counted[-1][1]) - int(counted[0][1])
    return [Rate(batch * steps / alone, SAMPLES), Rate(batch * every / time, SAMPLES)]


def sockeye(text: str) -> list[Rate]:
    """Samples of all checkpoints after the first ÷ their ``Time-cost``."""
    samples = numbers(r"Checkpoint \[\d+\].*Samples=(\d+)", text)
    costs = numbers(r"Checkpoint \[\d+\].*Time-cost=([\d.]+)", text)
    return [Rate((samples[-1] - samples[0]) / sum(costs[1:]), SAMPLES)]


def ultralytics(text: str) -> list[Rate]:
    """Images of all epochs ÷ the hours at the end; of each epoch ÷ its bar, without validation."""
    images = number(r"train: Scanning \S* (\d+) images, .*: 100%", _plain(text))
    bars = re.findall(r" \d+/\d+ +[\d.]+G .*: 100% \S+ (\d+)/\1 \S+ ([\d:]+)", _plain(text))
    training = Rate(images * len(bars) / sum(duration(elapsed) for _, elapsed in bars), SAMPLES)
    ended = re.search(r"(\d+) epochs completed in ([\d.]+) hours", text)
    if ended is None:
        return [training]
    return [Rate(images * int(ended[1]) / (3600 * float(ended[2])), SAMPLES), training]


def yolox(text: str) -> list[Rate]:
    """Iterations between the first and the last stamp of each epoch × batch of the last run."""
    lines = re.findall(r"(\S+ \S+) \| INFO .*epoch: (\d+)/\d+, iter: (\d+)/", text)
    iterations = time = 0.0
    for _, epoch in itertools.groupby(lines, key=lambda line: line[1]):
        first, *_, last = epoch
        iterations += int(last[2]) - int(first[2])
        time += seconds_between(first[0], last[0])
    batch = numbers(r"args: Namespace\(batch_size=(\d+)", text)[-1]
    return [Rate(iterations * batch / time, SAMPLES)]


def _plain(text: str) -> str:
    """Remove colours and the codes that clear a line."""
    return re.sub(r"\x1b\[[\d;]*[mK]", "", text)


METHODS: dict[str, Method] = {
    method.__name__: method
    for method in (
        gluoncv_epochs,
        gluoncv_pose,
        gluoncv_detection,
        gluoncv_segmentation,
        gluonnlp_classifier,
        gluonnlp_sentiment,
        gluonnlp_stamps,
        gluonnlp_words,
        gnmt,
        ncf,
        tacotron2,
        waveglow_of_2020,
        transformer_xl,
        squad_epochs,
        squad_end_to_end,
        fairseq_epochs,
        swift,
        verl,
        verl_of_lengths,
        flair,
        fairseq_stamps,
        fairseq_of_2018,
        joeynmt,
        litgpt,
        litgpt_printed,
        sockeye,
        ultralytics,
        yolox,
        modded_nanogpt,
    )
}
"""Name of a method in the table → the method."""
