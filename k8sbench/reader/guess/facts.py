"""Facts that a log states of its run: GPUs, batch, length of a sequence, precision, GPU model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from k8sbench.model.notation import compile_expression
from k8sbench.reader.declared import MAX_LINE, PRECISIONS

_SIGN = r"[\"']?(?: size)?(?: ?\([^()\n]{0,80}\))?[\s.]*[:=|]?[\s.]*[\"']?"
"""Between a label and its value: ``: ``, `` .... ``, `` | `` or a remark in brackets and ``= ``."""
_PER = r"(?:gpu|device|card|npu)"
_SIZE = r"batch(?:[_ ]size)?"
_LABELS = {
    "gpus": r"world[_ ]?size|(?:num(?:ber)?|n|total)[_ ](?:of[_ ])?(?:gpus?|devices|ranks)|gpus",
    "gpus_per_node": rf"(?:nproc|gpus|devices|{_PER}s)[_ ]per[_ ]node",
    "replicas": r"n?nodes|(?:num|number)[_ ](?:of[_ ])?nodes",
    "batch_size": (
        rf"(?:train[_ ])?(?:micro|local)[_ ]{_SIZE}(?:[_ ]per[_ ]{_PER})?"
        rf"|(?:instantaneous )?(?:train[_ ])?{_SIZE}[_ ]per[_ ]{_PER}"
        rf"|per[_ ]{_PER}[_ ](?:train[_ ])?{_SIZE}|(?:samples|imgs|images)[_ ]per[_ ]{_PER}"
    ),
    "sequence_length": r"(?:max[_ ])?seq(?:uence)?[_ ]?len(?:gth)?|block[_ ]size|context[_ ]length",
    "global_batch": rf"(?:global|total|effective)[_ ](?:train[_ ])?{_SIZE}|train_batch_size",
    "tokens_per_step": r"tokens[_ ]per[_ ](?:step|iter(?:ation)?|update|batch)",
    "accumulation": r"(?:gradient|grad)[_ ]accum(?:ulation)?(?:[_ ]steps)?",
    "plain_batch": r"batch[_ -]?size|batch",
    "precision": r"(?:mixed[_ ]|torch[_ ])?(?:dtype|precision)|(?:use[_ ])?amp",
}
_TEXTS = {"precision": r"\w+"}
_GPU = (
    r"(?:NVIDIA|Tesla)(?: GeForce| RTX| Tesla| Quadro)* [A-Z]{0,3}\d+[\w-]*"
    r"(?: \d+GB)?(?: HBM\d\w?)?"
)
_WRITTEN = (
    "gpus",
    "gpus_per_node",
    "replicas",
    "batch_size",
    "global_batch",
    "tokens_per_step",
    "sequence_length",
    "precision",
)
"""Facts that a file can declare."""
_HEAD = 5000
"""Lines in which facts are looked for."""
_MOST = 2_000_000
"""Characters of them."""


class GuessedFacts(NamedTuple):
    """Statements of a log on its run, and of the user."""

    expressions: dict[str, str]
    """Fact → expression that reads it."""
    numbers: dict[str, int]
    """Fact → number that its expression reads in every line that it matches."""
    precision: str | None
    gpus: int | None
    """GPUs of the job; those of the user go before the log's."""
    batch: int | None
    """Samples per GPU and step, of the user or the log; None if unknown."""
    by_user: bool
    """True if the batch is the user's."""
    is_sure: bool
    """True if the batch is one GPU's by the user's option or its label."""

    @property
    def job_batch(self) -> int | None:
        """Samples of a step of the whole job; None if unknown."""
        stated = self.numbers.get("global_batch")
        if stated is not None:
            return stated
        return None if self.batch is None or self.gpus is None else self.batch * self.gpus

    @property
    def length(self) -> int | None:
        """Tokens of a sequence; None if unknown."""
        return self.numbers.get("sequence_length")

    def without(self, *names: str) -> GuessedFacts:
        """The same without some facts."""
        return self._replace(
            expressions={n: text for n, text in self.expressions.items() if n not in names},
            numbers={n: number for n, number in self.numbers.items() if n not in names},
        )


def guess_facts(lines: Sequence[str], *, batch: int | None, gpus: int | None) -> GuessedFacts:
    """Find the facts that a log states with one value; ``batch`` and ``gpus`` are the user's."""
    head = [line[:MAX_LINE].encode(errors="replace").decode() for line in lines[:_HEAD]]
    text = "\n".join(head)[:_MOST]
    found = {name: pair for name in _LABELS if (pair := _fact(text, head, name)) is not None}
    numbers = {name: int(value) for name, (_, value) in found.items() if name != "precision"}
    expressions = {name: found[name][0] for name in _WRITTEN if name in found}
    if re.search(rf"\b{_GPU}", text):
        expressions["gpu_model"] = rf"\b(?P<gpu_model>{_GPU})"
    half = found.get("precision")
    if gpus is None and {"gpus_per_node", "replicas"} <= numbers.keys():
        gpus = numbers["gpus_per_node"] * numbers["replicas"]
    facts = GuessedFacts(
        expressions=expressions,
        numbers=numbers,
        precision=PRECISIONS[half[1].lower()][0] if half else None,
        gpus=gpus or numbers.get("gpus"),
        batch=batch,
        by_user=batch is not None,
        is_sure=batch is not None,
    )
    return _with_batch(facts)


def _with_batch(facts: GuessedFacts) -> GuessedFacts:
    """Settle the batch of one GPU, and drop a statement that a stronger one contradicts."""
    numbers = facts.numbers
    total = facts.numbers.get("global_batch")
    gpus = facts.gpus
    each = numbers.get("batch_size")
    steps = numbers.get("accumulation", 1)
    if steps > 1:
        # A step of the optimizer has several such batches.
        facts = facts.without("batch_size")
        each = each and each * steps
    if total and each and each * (gpus or 1) != total:
        # Of the job and of a part of it: the first also tells what several GPUs share.
        stays = gpus is None and steps == 1 and total % each == 0
        facts = facts if stays else facts.without("batch_size")
        each = each if stays else None
    if facts.batch is not None:
        return facts
    if each is None and total and gpus and total % gpus == 0:
        each = total // gpus
    if each is not None:
        return facts._replace(batch=each, is_sure=True)
    return facts if total else facts._replace(batch=numbers.get("plain_batch"))


def _fact(text: str, lines: Sequence[str], name: str) -> tuple[str, str] | None:
    """Return the expression of a fact, and the one value that it reads in the lines."""
    form = _TEXTS.get(name, r"[1-9]\d{0,11}")
    pattern = (
        rf"(?<![A-Za-z_])(?P<label>{_LABELS[name]})(?P<sign>{_SIGN})"
        rf"(?:torch\.)?(?P<value>{form})(?![\w.,]*\d)"
    )
    every = [m for m in re.finditer(pattern, text, re.IGNORECASE) if m["sign"]]
    if name == "precision":
        every = [match for match in every if match["value"].lower() in PRECISIONS]
    if len({match["value"] for match in every}) != 1:
        return None
    for expression in dict.fromkeys(_expression(match, name) for match in every):
        found = compile_expression(expression)
        matched = (found.search(line) for line in lines)
        read = {match.groupdict()[name] for match in matched if match is not None}
        if read == {every[0]["value"]}:
            return expression, every[0]["value"]
    return None


def _expression(match: re.Match[str], name: str) -> str:
    """Write the expression of a statement."""
    label = re.sub(r"(?:\\\s)+", r"\\s+", re.escape(match["label"]))
    torch = r"(?:torch\.)?" if name == "precision" else ""
    remark = r"(?:\s*\([^()]*\))?" if "(" in match["sign"] else ""
    signs = "".join(sign for sign in ("|", "\"'") if set(sign) & set(match["sign"]))
    size = r"(?:\s+size)?" if match["sign"].startswith(" size") else ""
    value = _TEXTS.get(name, r"\d+")
    return rf"\b{label}{size}{remark}[\s.:={signs}]*{torch}(?P<{name}>{value})"
