"""Templates of declared formats that a person has filled in and confirmed."""

import re
import string
from collections.abc import Mapping, Sequence

from k8sbench.adapters import templates
from k8sbench.reader import format_template

QUESTION = re.compile(r"(?m)^( *)([\w-]+): (?:\{\w+: )?\?.*\n")
"""An open question of a template."""


def template_of(lines: Sequence[str]) -> str:
    """Write the template for lines, whether or not a family reads them."""
    values = format_template.fill(lines)
    assert values is not None
    text = (templates.PACKAGE / "first-benchmark.yaml").read_text()
    return string.Template(text).substitute(values, log="train.log")


def questions(text: str) -> list[str]:
    """Return the keys of the open questions; that of the benchmark's unit is ``sample``."""
    return ["sample" if not indent else key for indent, key in QUESTION.findall(text)]


def answered(text: str, answers: Mapping[str, str]) -> str:
    """Answer the questions of a template and confirm it, as a person does.

    A number of the line is named by its label: ``speed: ips``. The batch may be a number alone. An
    empty answer deletes the line of its question, and an answer to what is no question changes
    that value.
    """
    for key, answer in {"confirmed": "true", **answers}.items():
        name = "unit" if key == "sample" else key
        indent = "" if key == "sample" else " +"
        written = f"{name}: {_number(text, key, answer)}"
        if key == "speed":
            written = _offered(text, answer)
        elif key == "batch_size" and answer.isdigit():
            written = f"batch_size: {{fp32: {answer}}}"
        lines = list(re.finditer(rf"(?m)^({indent}){name}: .*\n", text))
        assert len(lines) == 1, (key, text)
        (line,) = lines
        replaced = f"{line[1]}{written}\n" if answer else ""
        text = text[: line.start()] + replaced + text[line.end() :]
    return text


def _offered(text: str, label: str) -> str:
    """Return the line that the template offers for a number with a label."""
    offered = re.findall(rf"(?m)^ +#   (\w+: \S+)  # {re.escape(label)}(?!\w).*$", text)
    assert len(offered) == 1, (label, text)
    return str(offered[0])


def _number(text: str, key: str, answer: str) -> str:
    """Return the number of a value that a question offers by its label; else the answer."""
    question = re.search(rf"(?m)^ +{key}: \?  # (.*)$", text)
    numbers = re.findall(r"(\S+) \(([^()]*)\)", question[1]) if question else []
    return next((number for number, label in numbers if label.startswith(answer)), answer)
