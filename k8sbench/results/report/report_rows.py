"""Rows of a report, and what its chapters ask of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from k8sbench.catalog.spec import Variant
from k8sbench.model.facts import Facts
from k8sbench.model.group import Group
from k8sbench.results.report import group_words, noted_tables, publication, words
from k8sbench.results.report.account import Account
from k8sbench.results.report.noted_tables import Table
from k8sbench.results.report.publication import Publication

Fact = TypeVar("Fact", str, tuple[str, ...])


class ReportRows:
    """Rows of one report, and their facts in its language."""

    def __init__(self, made: Publication) -> None:
        self.made = made
        self.say = functools.partial(words.say, made.lang)
        self.of_catalog = functools.partial(words.of_catalog, made.lang)
        self.word = functools.partial(words.word, made.lang)
        self.chained = functools.partial(words.chained, made.lang)
        self.named = functools.partial(words.named, made.lang)
        self.join = functools.partial(words.join, made.lang)
        self.groups = [result.group for result in made.results]
        self.names = publication.names(self.groups)
        self.account = Account(self.groups, self.names, made.runs, made.given)

    def with_rows(
        self, values: Mapping[str, Sequence[str]], among: Collection[str] | None = None
    ) -> str:
        """Write values with their rows; one value that all rows have alone.

        ``among``: names of the rows that could state one; None: all.
        """
        every = self.names.values() if among is None else among
        if len(values) == 1 and {*every} == {*next(iter(values.values()))}:
            return next(iter(values))
        parts = (f"{of} ({self.list_rows(r, every)})" for of, r in values.items())
        return self.chained("and-then", parts)

    def list_rows(self, rows: Sequence[str], among: Collection[str] | None = None) -> str:
        """List rows; all rows of the report, or of one program, by these words."""
        if among is None and len(self.names) > 2 and {*rows} == {*self.names.values()}:
            return self.say("every_row")
        programs: dict[str, set[str]] = {}
        for name in self.names.values() if among is None else among:
            programs.setdefault(name.rpartition("/")[0], set()).add(name)
        found: dict[str, None] = {}
        for row in rows:
            program = row.rpartition("/")[0]
            is_whole = program and len(programs.get(program, ())) > 1
            is_whole = is_whole and programs[program] <= {*rows}
            found[self.say("all_of", program=program) if is_whole else row] = None
        return ", ".join(found)

    def logged_data(self, group: Group) -> str | None:
        """Write which data the log states by MD5, number or name; None if it states none."""
        variant = self.variant(group.facts)
        known = variant and variant.data_set
        if group.data_md5 is not None:
            name = self.of_catalog(known.name) if known and known.md5 == group.data_md5 else None
            word = "data_by_md5" if name else "data_of_md5"
            return self.say(word, name=name, md5=group.data_md5)
        numbers = self.account.logged(group, "data_samples")
        if len(numbers) != 1:
            return self._named_data(group)
        (number,) = numbers
        name = self.of_catalog(known.name) if known and known.samples == number else None
        return self.say("data_by_number" if name else "data_of_number", name=name, number=number)

    def _named_data(self, group: Group) -> str | None:
        """Write which data the log names; None if it names none, or its runs several."""
        names = self.account.logged(group, "dataset")
        if len(names) != 1:
            return None
        name = str(names[0])
        variant = self.variant(group.facts)
        known = variant and variant.data_set
        if known is None or known.name.split()[0].lower() not in name.lower():
            return self.say("data_of_name", logged=name)
        return self.say("data_by_name", name=self.of_catalog(known.name), logged=name)

    def reads_published_data(self, group: Group) -> bool:
        """True if log or user name the data set of the published figures."""
        variant = self.variant(group.facts)
        known = variant and variant.data_set
        if known is None or group.facts.data not in {"real", "unknown"}:
            return False
        given = self.account.given(group).get("data", "").lower()
        is_logged = self.of_catalog(known.name) in (self.logged_data(group) or "")
        return is_logged or known.name.split()[0].lower() in given

    def unlike(self, name: str) -> str:
        """Write in words what forbids a ratio; ``name`` is its id."""
        return self.say(f"unlike_{name}")

    def variant(self, facts: Facts) -> Variant | None:
        """Return the catalog's variant of a case; None if it has none."""
        spec = self.made.specs.get(facts.benchmark)
        return spec.variant(facts.framework, facts.variant) if spec else None

    def dates(self, groups: Sequence[Group]) -> str:
        """Write the days of runs; logs without dates have none."""
        return group_words.dates(groups, self.say("no_date"))

    def rows_by(self, fact: Callable[[Group], Fact | None]) -> dict[Fact, list[str]]:
        """Map a fact → names of its rows; None leaves a row out."""
        found: dict[Fact, list[str]] = {}
        for group in self.groups:
            if (value := fact(group)) is not None:
                found.setdefault(value, []).append(self.names[group.key.id])
        return found

    def distinct(self, line: Callable[[Group], tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return distinct lines with the names of their rows."""
        return [(*cells, self.list_rows(rows)) for cells, rows in self.rows_by(line).items()]

    def markdown(self, some: Sequence[Table]) -> str:
        """Write tables as Markdown, in the report's language."""
        return noted_tables.markdown(some, self.made.lang).strip("\n")
