"""AI-Rank's event lines, which may stand in a log of any family.

``- AI-Rank-log 1618109465.704 test_begin`` and its kin, with or without the dash. The same prefix
in front of a logger's own line is no event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.model.sample import Mark
from k8sbench.parse.family import CleanLine
from k8sbench.parse.records import number_in

NEEDLE = "AI-Rank-log"
_EVENT = re.compile(
    r"AI-Rank-log (?P<at>\d{6,}(?:\.\d+)?) "
    r"(?P<event>load_data|test_begin|eval_accuracy|test_finish|target_quality_time|total_use_time"
    r"|avg_ips)"
    # Where the checksum is the number of samples and no hash.
    r"(?:, checksum: ?(?P<samples>\d{1,9})(?!\w))?"
    r"(?:: ?(?P<value>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?) ?(?:[A-Za-z]*/?s(?:ec)?\b)?)?"
)


def read(line: CleanLine) -> Iterator[Mark]:
    """Yield the AI-Rank events of a line."""
    for match in _EVENT.finditer(line.text):
        values = {
            "event": match["event"],
            "value": number_in(match["value"] or match["samples"]),
        }
        yield line.mark("airank", match[0], values, number_in(match["at"]))
