"""Facts that the head of a log states under a known label: GPUs, batch, precision, GPU model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from k8sbench.model.notation import compile_expression
from k8sbench.reader.declared import MAX_LINE, PRECISIONS

_SIGN = r"[\"']?(?: size)?(?: ?\([^()\n]{0,80}\))?[\s.]{0,80}[:=|]?[\s.]{0,20}[\"']?"
"""Between a label and its value: ``: ``, `` .... ``, `` | `` or a remark in brackets and ``= ``."""
_PER = r"(?:gpu|device|card|npu)"
_SIZE = r"batch(?:[_ ]size)?"
_LABELS = {
    "gpus": r"world[_ ]?size|(?:num(?:ber)?|n|total)[_ ](?:of[_ ])?(?:gpus?|devices|ranks)|gpus",
    "gpus_per_node": (
        rf"(?:nproc|gpus|devices|{_PER}s)[_ ]per[_ ]node|(?:(?<=\()|(?<=, ))devices(?==)"
    ),
    "replicas": r"n?nodes|(?:num|number)[_ ](?:of[_ ])?(?:nodes|machines)",
    "batch_size": (
        rf"(?:train[_ ])?(?:micro|local)[_ ]{_SIZE}(?:[_ ]per[_ ]{_PER})?"
        rf"|(?:instantaneous )?(?:train[_ ])?{_SIZE}[_ ]per[_ ]{_PER}"
        rf"|per[_ ]{_PER}[_ ](?:train[_ ])?{_SIZE}|(?:samples|imgs|images)[_ ]per[_ ]{_PER}"
    ),
    "sequence_length": r"(?:max[_ ])?seq(?:uence)?[_ ]?len(?:gth)?|block[_ ]size|context[_ ]length",
    "global_batch": rf"(?:global|total|effective)[_ ](?:train[_ ])?{_SIZE}|train_batch_size",
    "tokens_per_step": r"tokens[_ ]per[_ ](?:step|iter(?:ation)?|update|batch)",
    "precision": (
        r"(?:mixed[_ ]|torch[_ ])?(?:dtype|precision)|(?:use[_ ])?(?:amp|fp16|bf16)(?:[_ ]run)?"
    ),
}
_OWN_BATCH = r"(?:train[_ ])?batch[_ -]?size"
"""Label of a batch that may be of one GPU or of the job."""
_ACCUMULATION = re.compile(
    rf"(?:gradient|grad)[_ ]accum(?:ulation)?(?:[_ ]steps)?{_SIGN}(?:[2-9]|\d\d)", re.IGNORECASE
)
_TEXTS = {"precision": r"\w+"}
_GPU = (
    r"(?:NVIDIA|Tesla)(?: GeForce| RTX| Tesla| Quadro)* [A-Z]{0,3}\d+[\w-]*"
    r"(?: \d+GB)?(?: HBM\d\w?)?"
)
_HEAD = 5000
"""Lines in which facts are looked for."""
_MOST = 2_000_000
"""Characters of them."""
_BATCH = re.compile(
    r"(?:batch(?!es|_?norm)|accum)[a-z_ -]{0,20}[\"']?(?:\s{0,3}[.:=|]{1,60}\s{0,3}|\s{1,3})"
    r"(?!0\b)\d{1,9}\b(?!\.\d| ?/ ?\d)",
    re.IGNORECASE,
)
"""A batch and its number: ``--batch-size 16``; not the number of a batch, ``Batch: 1/312``."""


def find_facts(lines: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """Return the facts that a log states with one value, as fact → expression, and its precision.

    The batch of one GPU is left out where the log also states the job's, or accumulates batches:
    it may be a part of the step's. A ``batch_size`` counts where the job has one GPU.
    """
    head = [line[:MAX_LINE].encode(errors="replace").decode() for line in lines[:_HEAD]]
    text = "\n".join(head)[:_MOST]
    found = {name: _find_fact(text, head, name, label) for name, label in _LABELS.items()}
    facts = {name: pair for name, pair in found.items() if pair is not None}
    if _has_one_gpu(facts) and "batch_size" not in facts:
        own = _find_fact(text, head, "batch_size", _OWN_BATCH)
        facts |= {"batch_size": own} if own is not None else {}
    if {"global_batch", "tokens_per_step"} & facts.keys() or _ACCUMULATION.search(text):
        facts.pop("batch_size", None)
    expressions = {name: expression for name, (expression, _) in facts.items()}
    if re.search(rf"\b{_GPU}", text):
        expressions["gpu_model"] = rf"\b(?P<gpu_model>{_GPU})"
    precision = facts.get("precision")
    return expressions, PRECISIONS[precision[1].lower()][0] if precision else None


def _has_one_gpu(facts: dict[str, tuple[str, str]]) -> bool:
    values = {name: value for name, (_, value) in facts.items()}
    if "gpus" in values:
        return values["gpus"] == "1"
    return values.get("gpus_per_node") == values.get("replicas") == "1"


def stated_batches(head: Sequence[str]) -> list[str]:
    """Return the texts before the training that give the number of a batch."""
    matches = ((line, _BATCH.search(line)) for line in head[:_HEAD])
    return list(
        dict.fromkeys(
            line[: match.start()].rpartition(" ")[2][-20:] + match[0]
            for line, match in matches
            if match is not None
        )
    )


def _find_fact(text: str, lines: Sequence[str], name: str, labels: str) -> tuple[str, str] | None:
    """Return the expression of a fact, and the one value that it reads in the lines."""
    form = _TEXTS.get(name, r"[1-9]\d{0,11}")
    pattern = (
        rf"(?<![A-Za-z_])(?P<label>{labels})(?P<sign>{_SIGN})"
        rf"(?:torch\.)?(?P<value>{form})(?![\w.,]*\d)"
    )
    every = [m for m in re.finditer(pattern, text, re.IGNORECASE) if m["sign"]]
    if name == "precision":
        every = [match for match in every if match["value"].lower() in PRECISIONS]
    if len({match["value"] for match in every}) != 1:
        return None
    for expression in dict.fromkeys(_write_expression(match, name) for match in every):
        compiled = compile_expression(expression)
        matches = (compiled.search(line) for line in lines)
        read = {match.groupdict()[name] for match in matches if match is not None}
        if read == {every[0]["value"]}:
            return expression, every[0]["value"]
    return None


def _write_expression(match: re.Match[str], name: str) -> str:
    """Write the expression of a statement."""
    label = re.sub(r"(?:\\\s)+", r"\\s+", re.escape(match["label"]))
    torch = r"(?:torch\.)?" if name == "precision" else ""
    remark = r"(?:\s*\([^()]*\))?" if "(" in match["sign"] else ""
    signs = "".join(sign for sign in ("|", "\"'") if set(sign) & set(match["sign"]))
    size = r"(?:\s+size)?" if match["sign"].startswith(" size") else ""
    value = _TEXTS.get(name, r"\d+")
    return rf"\b{label}{size}{remark}[\s.:={signs}]*{torch}(?P<{name}>{value})"
