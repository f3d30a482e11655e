"""Counts docstrings that are hard to read: part of ``make lint``.

A summary (the first paragraph of a docstring) names its subject: it is a sentence or a noun phrase
that stands alone. It does not begin with "Whether" or with another clause in the place of a noun
("What the log states"). The limits are what was reached, rounded up, and only fall.
"""

import ast
import pathlib
import re
import sys
from collections.abc import Iterator

from tests.size import ROOT

LIMITS = {"whether": 0, "clause": 0}
"""Kind of summary → how many there may be."""
EXAMPLES = 5
"""Offenders shown for a count above its limit."""
_CLAUSE = re.compile(r"(?:What|How|That|Who|Whose|Where|Which|Of|When|Why)\b")


def kinds(summary: str) -> set[str]:
    """Return the keys of :data:`LIMITS` that a summary counts for."""
    found = set()
    if summary.startswith("Whether"):
        found.add("whether")
    if _CLAUSE.match(summary):
        found.add("clause")
    return found


def summaries(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and summary of each docstring, those of fields included."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(lineno=line, value=ast.Constant(value=str() as text)):
                yield line, text.strip().split("\n\n")[0]


def main(root: pathlib.Path = ROOT) -> int:
    """Print each count with its limit; return 1 if one fails."""
    offenders: dict[str, list[str]] = {kind: [] for kind in LIMITS}
    for folder in ("k8sbench", "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            for line, summary in summaries(path.read_text()):
                for kind in kinds(summary):
                    first = " ".join(summary.split())[:80]
                    offenders[kind].append(f"{path.relative_to(root)}:{line}: {first}")
    failed = False
    for kind, limit in LIMITS.items():
        count = len(offenders[kind])
        print(f"{kind:8} {count:6,}  of {limit:6,}{'  ABOVE' if count > limit else ''}")
        if count > limit:
            failed = True
            print("\n".join(offenders[kind][-EXAMPLES:]))
    return failed


if __name__ == "__main__":
    sys.exit(main())
