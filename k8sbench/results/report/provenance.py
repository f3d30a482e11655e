"""Origin of the rows of a report: machines, programs and data, and facts that nobody states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.facts import Facts as CaseFacts
from k8sbench.model.group import Group
from k8sbench.model.measurement import Measurement
from k8sbench.model.plain_text import ABSENT, split_words
from k8sbench.results.report import environment, formats, parameters
from k8sbench.results.report.account import By
from k8sbench.results.report.published_rows import place_of
from k8sbench.results.report.report_rows import ReportRows


class Environment(NamedTuple):
    """Environment of the rows: its facts, and what people must know of them."""

    titles: tuple[str, ...]
    """Titles of the tables, with a third column if a file states facts too."""
    tables: dict[str, list[tuple[str, ...]]]
    """Heading → lines of its table: machines, container, and facts of the file's own names."""
    differing: list[str]
    """Facts in which the runs differ."""
    at_odds: list[str]
    """Facts that logs and file state differently."""
    lacking: list[str]
    """Usual facts that nobody states, in words."""


class Provenance(ReportRows):
    """Origin of the rows of one report."""

    def environment(self) -> Environment:
        """Collect the facts of the environment, and where their sources differ."""
        own = (name for name in self.account.file if name not in environment.KNOWN)
        return Environment(
            titles=("item", "value", "stated_by")[: 3 if self.account.file else 2],
            tables={
                "host": self._lines(environment.HOST),
                "container_or_libraries": self._lines(environment.CONTAINER),
                "further": self._lines([*own]),
            },
            differing=self.account.differing(),
            at_odds=self.account.at_odds(),
            lacking=[*self._lacking()],
        )

    def _lines(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """Return a line for each fact and who states it."""
        lines = list[tuple[str, ...]]()
        for name, values, by in self.account.statements(names):
            # Only rows whose logs are read can state a fact by them.
            among = self.account.read_rows if by is By.LOGS else None
            line = (self._name(name), self.with_rows(values, among), self.say(by))
            lines.append(line if self.account.file else line[:2])
        return lines

    def _name(self, fact: str) -> str:
        """Write the name of a fact; one of the user's own stays, as ``logs`` would."""
        return self.word(fact) if fact in environment.KNOWN else fact

    def _lacking(self) -> Iterator[str]:
        """Yield the facts that nobody states, with their rows where others have them."""
        for name, asked in self.account.lacking().items():
            rows = [row for row, is_lacking in asked.items() if is_lacking]
            some = f" ({self.list_rows(rows)})" if len(rows) < len(asked) else ""
            if rows:
                yield self.word("node_names" if name == "nodes" else name) + some

    def subjects(self, benchmarks: Iterable[str]) -> list[str]:
        """Return what each benchmark of the catalog is, and whose figures it reproduces."""
        found = []
        for name in benchmarks:
            spec = self.made.specs.get(name)
            if spec is None or not spec.sources:
                continue
            used = {
                one.source: None
                for result in self.made.results
                if result.group.key.benchmark == name
                for one in sorted(result.deviations or (), key=lambda one: not one.same_version)
            }
            places = (place_of(spec.sources[key]) for key in used if key in spec.sources)
            cited = [*filter(None, places)]
            text = self.say("subject", name=name, title=spec.title, task=self.of_catalog(spec.task))
            of = self.say("reproduces", sources=self.join(cited)) if cited else ""
            found.append(text + of)
        return found

    def parameters(self) -> parameters.Parameters:
        """Return the parameters of the rows."""
        measured = {
            group.key.id: one
            for group in self.groups
            for member in group.members
            if (one := self.made.runs[member.run_id].measurement) is not None
        }
        nccl = self.with_rows(self.account.values_of("nccl"))
        return parameters.of(
            self.groups, measured, self.names, self.made.lang, nccl=nccl, account=self.account
        )

    def program(self, group: Group) -> tuple[str, ...]:
        """Return benchmark, image and program of a row."""
        facts = group.facts
        benchmark = " ".join(filter(None, (facts.benchmark, facts.framework, facts.variant)))
        return benchmark, self._image(group), self._program(group)

    def _image(self, group: Group) -> str:
        if group.key.image != "-":
            return group.key.image
        if group.facts.backend == "local":
            return ABSENT
        return self.account.given(group).get("container", self.say("unknown"))

    def _program(self, group: Group) -> str:
        """Write which program ran: of imported logs only what they or the user state."""
        plan = group.planned
        if plan is None:
            stated = {_stated_program(one) for _, _, one in self.account.counted([group])}
            given = self.account.given(group).get("program", "")
            # The log's name of a program that the file names adds nothing but its version.
            parts = {_without_name(one, given) for one in stated}
            return ", ".join(filter(None, (given, *sorted(parts)))) or self.say("foreign")
        if plan.impl == "k8sbench" and plan.trainers_digest:
            return self.say("trainer", digest=plan.trainers_digest[:12])
        variant = self.variant(group.facts)
        if plan.impl == "upstream" and variant and variant.upstream:
            program = variant.upstream
            return self.say("upstream", repository=program.repository, commit=program.commit[:12])
        return self.say("own_command", digest=(plan.program_digest or ABSENT)[:12])

    def data(self, group: Group) -> tuple[str, ...]:
        """Return program, used data and published data of a row."""
        program = " ".join(filter(None, (group.facts.benchmark, group.facts.framework)))
        return program, self._used_data(group), self._published_data(group.facts)

    def _used_data(self, group: Group) -> str:
        for member in group.members:
            measured = self.made.runs[member.run_id].measurement
            if measured is not None and (read := measured.data_set) is not None:
                facts = msgspec.structs.asdict(read)
                return self.say("real_data", **{n: formats.or_absent(v) for n, v in facts.items()})
        if group.facts.data == "unknown":
            parts = (self.account.given(group).get("data"), self.logged_data(group))
            return self.chained("and-then", filter(None, parts)) or self.say("unknown")
        used = self.word("image_data" if group.facts.data == "image" else group.facts.data)
        logged = self.logged_data(group) if group.facts.data == "real" else None
        return self.chained("and-then", filter(None, (used, logged)))

    def _published_data(self, facts: CaseFacts) -> str:
        variant = self.variant(facts)
        if variant is None or variant.data_set is None:
            return ABSENT
        data = variant.data_set
        md5 = f"MD5 {data.md5}" if data.md5 else None
        samples = self.say("samples", samples=data.samples) if data.samples else None
        return ", ".join(filter(None, (self.of_catalog(data.name), data.file, md5, samples)))


def _without_name(stated: str, given: str) -> str:
    """Leave out of a stated program the name and the commit that the given one has, too."""
    name, _, version = stated.partition(" ")
    words = split_words(given.lower(), "_./+-")
    named = {word.rpartition("/")[2].removesuffix(".git") for word in words}
    if name.lower() not in named:
        return stated
    number, _, commit = version.partition("+")
    return number if commit and commit in given else version


def _stated_program(measured: Measurement) -> str:
    """Write the program and version that a log states; empty if it states none."""
    stated = (measured.environment.get(name) for name in ("program", "program_version"))
    return " ".join(str(word) for word in stated if word)
