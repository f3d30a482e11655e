"""The table of causes of ``docs/diagnosis.md``, from the table in the code."""

from __future__ import annotations

import re

from k8sbench.diagnose.job.causes import CAUSES
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "diagnosis.md"
BEGIN, END = "<!-- causes -->", "<!-- causes: end -->"
WORDS = {
    "head": "The pod of REPLICA is not created",
    "what": "No node for REPLICAS, no image or no volume",
    "where": " on node NODE",
    "place": ", number PLACE there",
    "end": "How the replica ended, with the line of its log that says why.",
    "operator": "the operator",
    "quicker": "settings of more requests a second",
    **dict.fromkeys(("code", "most"), ""),
}
"""What parts of sentences stand for that are not names."""


def page() -> str:
    """The page as it should be: its hand-written parts, and the table."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{head}{BEGIN}\n{table()}{END}{rest.partition(END)[2]}"


def table() -> str:
    rows = ["| id | unrecoverable | what it says | what to do |\n|---|---|---|---|\n"]
    for cause_id, cause in CAUSES.items():
        ids = f"`{cause_id}`"
        if cause.formerly:
            ids += f" (formerly `{'`, `'.join(cause.formerly)}`)"
        told = f"{_shown(cause.sentence)} | {_shown(cause.action)}"
        rows.append(f"| {ids} | {cause.unrecoverable} | {told} |\n")
    return "".join(rows)


def _shown(text: str) -> str:
    names = re.findall(r"(?<!\{)\{(\w+)\}", text)
    return text.format_map({name: WORDS.get(name, name.upper()) for name in names}).rstrip()
