"""Right values of published training logs, computed without the reader.

Each row of ``truths.tsv`` names a log and a method of this module. A method reads a total, stamps
or another number than the training lines that a reader of the program would take. Every row is
written down before a family reads its program.

``python -m tests.corpus.public.truths values FOLDER`` computes the values of the logs in a folder;
``... measure FOLDER`` measures them as ``k8sbench measure`` does, and prints a table.
"""

import collections
import csv
import datetime
import hashlib
import json
import pathlib
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from click.testing import CliRunner

from k8sbench.cli.commands.measure import command

TABLE = pathlib.Path(__file__).with_name("truths.tsv")
SAMPLES = "samples/s"
TOKENS = "tokens/s"
REFUSE = "refuse"
"""The right value of a log that states no figure: only a refusal or a rejection is right."""


class Rate(NamedTuple):
    """A right value and its unit."""

    value: float
    unit: str

    def __str__(self) -> str:
        """Text of a table."""
        return f"{self.value:.6g} {self.unit}"


class Truth(NamedTuple):
    """A row of a table."""

    name: str
    """Path of the log within the folder of logs."""
    repository: str
    commit: str
    path: str
    sha256: str
    program: str
    options: str
    """Options of ``measure`` that a user has to give."""
    right: str
    """Rates with ``|`` between them, each of which is right, or :data:`REFUSE`."""
    within: str
    """Percent by which a figure may differ, or ``-``."""
    method: str
    """Name of a method, or ``-`` where the reader has to refuse the log."""
    statement: str
    """Source of the value, or the reason that there is none."""

    @property
    def rates(self) -> list[Rate]:
        """Right values; none where the log has to be refused."""
        if self.right == REFUSE:
            return []
        return [Rate(float(value), unit) for value, unit in map(str.split, self.right.split(" | "))]

    def accepts(self, rate: Rate) -> bool:
        """True if a figure is one of the right values."""
        return any(
            rate.unit == right.unit
            and abs(rate.value - right.value) <= float(self.within) / 100 * right.value
            for right in self.rates
        )


Method = Callable[[str], list[Rate]]


def truths(table: pathlib.Path = TABLE) -> list[Truth]:
    """Return the rows of a table."""
    with table.open(newline="") as lines:
        return [
            Truth(**row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def read(log: pathlib.Path) -> str:
    """Return a log's text with a progress bar's lines apart."""
    return log.read_bytes().decode(errors="replace").replace("\r", "\n")


def numbers(pattern: str, text: str) -> list[float]:
    """Return the first group of each match as a number."""
    return [float(match[1]) for match in re.finditer(pattern, text)]


def number(pattern: str, text: str) -> float:
    """Return the first group of the first match as a number."""
    return numbers(pattern, text)[0]


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
    """``perf/total_num_tokens`` ÷ ``timing_s/step`` of all steps."""
    tokens = sum(numbers(r"perf/total_num_tokens:([\d.]+)", text))
    return [Rate(tokens / sum(numbers(r"timing_s/step:([\d.]+)", text)), TOKENS)]


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
    )
}
"""Name of a method in the table → the method."""


def computed(folder: pathlib.Path, table: pathlib.Path = TABLE) -> Iterator[tuple[Truth, str]]:
    """Yield each row whose log is in a folder, with the right value by its method."""
    for truth in truths(table):
        log = folder / truth.name
        if not log.is_file():
            continue
        if hashlib.sha256(log.read_bytes()).hexdigest() != truth.sha256:
            yield truth, "another log"
        elif truth.method in METHODS:
            yield truth, " | ".join(map(str, METHODS[truth.method](read(log))))
        else:
            yield truth, REFUSE


def outcome(truth: Truth, output: str, errors: str) -> tuple[str, str]:
    """Return the class of what ``measure -o json`` printed for a log, and its figure or reason."""
    documents: list[dict[str, Any]] = json.loads(output or "[]")
    rightly = "rightly " * (truth.right == REFUSE)
    if not documents:
        return f"{rightly}refused", errors.strip().splitlines()[0]
    (measured,) = documents
    figures: dict[str, Any] = measured["throughput"] or measured["unverified"] or {}
    value = figures.get("time_weighted") or figures.get("printed_steps")
    rates = [Rate(value, figures["unit"])] if value else []
    if tokens := figures.get("tokens_per_second"):
        rates.append(Rate(tokens, TOKENS))
    near = any(map(truth.accepts, rates))
    shown = " = ".join(map(str, rates)) or "no figure"
    if measured["verdict"] == "valid":
        return ("right" if near else "wrong and valid"), shown
    reasons = " ".join(each["id"] for each in measured["reasons"] if each["severity"] == "reject")
    return ("rejected though right" if near else f"{rightly}rejected"), f"{shown} ({reasons})"


def measured(folder: pathlib.Path, table: pathlib.Path = TABLE) -> Iterator[tuple[Truth, str, str]]:
    """Yield each row whose log is in a folder, with class and figure of its measurement."""
    for truth in truths(table):
        log = folder / truth.name
        if log.is_file():
            options = [] if truth.options == "-" else truth.options.split()
            done = CliRunner().invoke(command, [str(log), *options, "-o", "json"])
            errors = str(done.exception) if done.exception else done.stderr
            yield truth, *outcome(truth, done.stdout, errors)


def main(words: list[str]) -> int:
    """Print the right values of a folder's logs, or how they are measured; 1 if any is wrong."""
    action, folder, *rest = words
    table = pathlib.Path(rest[0]) if rest else TABLE
    if action == "values":
        wrong = 0
        for truth, value in computed(pathlib.Path(folder), table):
            wrong += value != truth.right
            print(
                f"{truth.name:34}  {value}" + f"  (table: {truth.right})" * (value != truth.right)
            )
        return int(wrong > 0)
    counts: collections.Counter[str] = collections.Counter()
    for truth, kind, shown in measured(pathlib.Path(folder), table):
        counts[kind] += 1
        print(f"{truth.name:34}  {kind:22}  {shown}  (right: {truth.right}, ±{truth.within} %)")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return int(counts["wrong and valid"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
