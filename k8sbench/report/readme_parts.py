"""Parts of a report's README: tables, lists, and what is known of a row."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from k8sbench.model.group import Group
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import ABSENT
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.spec import Variant
from k8sbench.report import formats, publication, published_program, tables, words
from k8sbench.report.publication import Publication
from k8sbench.report.tables import Cell, Column, Table
from k8sbench.report.words import say, texts

Value = TypeVar("Value", str, tuple[str, ...])
_READ = ("name", "digest", "train", "val")


class Parts:
    """Writes parts of one report."""

    def __init__(self, made: Publication) -> None:
        self._made = made
        self._say = functools.partial(say, made.lang)
        self._groups = [result.group for result in made.results]
        self._names = publication.names(self._groups)

    def _of_rows(self, values: dict[str, list[str]]) -> str:
        """Write values with their rows, unless all rows have one value."""
        if len(values) == 1 and len(*values.values()) == len(self._groups):
            return self._phrase(next(iter(values)))
        return "; ".join(f"{self._phrase(of)} ({', '.join(rows)})" for of, rows in values.items())

    def _counted(
        self, groups: Sequence[Group] | None = None
    ) -> Iterator[tuple[Group, Run, Measurement]]:
        """Yield the runs that count, or all measured runs if none counts."""
        groups = self._groups if groups is None else groups
        some = any(group.counted for group in groups)
        for group in groups:
            for member in group.members:
                run = self._made.runs[member.run_id]
                if run.measurement is not None and (member.rate is not None or not some):
                    yield group, run, run.measurement

    def _given(self, group: Group) -> dict[str, str]:
        return self._made.given.of(group.key.set_name, self._names[group.key.id])

    def _variant(self, plan: RunPlan) -> Variant | None:
        spec = self._made.specs.get(plan.benchmark)
        return spec.variant(plan.framework, plan.variant) if spec else None

    def _program(self, group: Group) -> str:
        """Write which program ran: of imported logs only what they or the user state."""
        plan = group.plan
        if plan.backend == "imported":
            stated = {
                published_program.stated_program(one.environment)
                for _, _, one in self._counted([group])
            } - {None}
            given = self._given(group).get("program")
            return ", ".join(filter(None, (given, *map(str, sorted(stated, key=str))))) or (
                self._say("foreign")
            )
        if plan.impl == "k8sbench" and plan.trainers_digest:
            return self._say("trainer", digest=plan.trainers_digest[:12])
        variant = self._variant(plan)
        if plan.impl == "upstream" and variant and variant.upstream:
            of = variant.upstream
            return self._say("upstream", repository=of.repository, commit=of.commit[:12])
        return self._say("own_command", digest=(plan.program_digest or ABSENT)[:12])

    def _used(self, group: Group) -> str:
        for member in group.members:
            measured = self._made.runs[member.run_id].measurement
            if measured is not None and (read := measured.data_set) is not None:
                facts = {name: or_absent(getattr(read, name)) for name in _READ}
                return self._say("real_data", **facts)
        if group.plan.data == "unknown":
            return self._given(group).get("data", self._say("unknown"))
        return self._word("image_data" if group.plan.data == "image" else group.plan.data)

    def _published_data(self, plan: RunPlan) -> str:
        variant = self._variant(plan)
        if variant is None or variant.data_set is None:
            return ABSENT
        of = variant.data_set
        md5 = f"MD5 {of.md5}" if of.md5 else None
        samples = self._say("samples", samples=of.samples) if of.samples else None
        return ", ".join(filter(None, (self._phrase(of.name), of.file, md5, samples)))

    def _dates(self, groups: Sequence[Group]) -> str:
        """Write the days of runs; logs without dates have none."""
        days = formats.days(at for group in groups for at in group.dates or ())
        is_known = all(group.dates for group in groups)
        return days if is_known else ", ".join(filter(None, (days, self._say("no_date"))))

    def _word(self, word: str) -> str:
        """Translate a word; another text stays."""
        return self._say(word) if word in texts()["readme"] else word

    def _phrase(self, text: str) -> str:
        """Translate a value; an unknown one stays."""
        return words.phrase(self._made.lang, text)

    def _by(self, fact: Callable[[Group], Value | None]) -> dict[Value, list[str]]:
        """Map a fact → names of its rows; None leaves a row out."""
        found: dict[Value, list[str]] = {}
        for group in self._groups:
            if (value := fact(group)) is not None:
                found.setdefault(value, []).append(self._names[group.key.id])
        return found

    def _table_by(self, heads: Sequence[str], line: Callable[[Group], tuple[str, ...]]) -> str:
        """Write distinct lines with the names of their rows."""
        found = self._by(line).items()
        return self._table(heads, [(*cells, ", ".join(rows)) for cells, rows in found])

    def _listed(self, items: Iterable[str]) -> str:
        return ("、" if self._made.lang == "zh" else ", ").join(items)

    def _table(self, heads: Sequence[str | Column], lines: Iterable[Sequence[str | Cell]]) -> str:
        """Write a table; texts of ``heads`` are translated."""
        columns = tuple(
            one if isinstance(one, Column) else Column(self._word(one)) for one in heads
        )
        rows = tuple(
            tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in line) for line in lines
        )
        return tables.markdown([Table(title=None, columns=columns, rows=rows)])

    def _markdown(self, some: Sequence[Table]) -> str:
        return tables.markdown(words.translated(some) if self._made.lang == "zh" else some)


def or_absent(value: Any, write: Callable[[Any], str] = str) -> str:
    """Write a value, or the sign for a missing one."""
    return ABSENT if value is None else write(value)
