"""Lines that state the rate of the job, and that of one of the ranks that share its batch."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from k8sbench.messages import note
from k8sbench.model.plain_text import significant
from k8sbench.model.sample import Item, Record
from k8sbench.reader.family import BATCH_DOUBT, Family, LineReader, LineRule, RecordRule, positive
from k8sbench.reader.lines import CleanLine

ROUNDED = 0.01
"""Share of a quotient by which the last digits of its numbers may move it from a whole number."""


class SharesReader(LineReader):
    """Compares the two rates of a line, the groups ``job_rate`` and ``share_rate``.

    Their quotient is the number of ranks, ``fact``. If it is no whole number, one rate is wrong.
    """

    def __init__(self, family: Family, *, fact: str) -> None:
        self._fact = fact
        self._ranks: dict[str, int] = {}
        """The number by the latest line, by source: a fact of each line would be slow."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        """Return the readers by line kind."""
        records = self._family.records
        others = super().rules()[len(records) :]
        own = [LineRule(rule.needle, functools.partial(self._read, rule)) for rule in records]
        return [*own, *others]

    def _read(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        for match in rule.matches(line.text):
            texts = rule.groups(match)
            record = rule.build(line, match[0], texts)
            if record is not None:
                yield from self.compare(line, texts)
                yield from self.items(line, record)

    def items(self, line: CleanLine, record: Record) -> Iterator[Item]:  # noqa: ARG002
        """Yield what a record of a line is read as."""
        yield record

    def compare(self, line: CleanLine, texts: dict[str, Any]) -> Iterator[Item]:
        """Yield what the numbers of a line tell of each other."""
        job, share = positive(texts.get("job_rate")), positive(texts.get("share_rate"))
        if job is None or share is None:
            return
        ranks = round(job / share)
        if ranks < 1 or abs(job / share - ranks) > ROUNDED * ranks:
            rates = {"job": significant(job, 6), "share": significant(share, 6)}
            yield line.doubt(BATCH_DOUBT, note("batch-mismatch-shares", **rates))
        elif self._ranks.get(line.source) != ranks:
            self._ranks[line.source] = ranks
            yield line.fact(self._fact, str(ranks))
