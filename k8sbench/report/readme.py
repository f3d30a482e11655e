"""README of a published report, as Markdown.

Its chapters follow the published reports: environment, programs, data, commands, method, tables,
comparison, analysis, charts and logs. The user's notes are chapters too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from k8sbench.model.group import Group, Member, Result
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.plain_text import ABSENT
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.spec import Variant
from k8sbench.model.training import in_words
from k8sbench.report import (
    chapters,
    environment,
    formats,
    group_words,
    layout,
    publication,
    report_tables,
    tables,
    words,
)
from k8sbench.report.columns import is_of_case, trains
from k8sbench.report.publication import Publication
from k8sbench.report.tables import Cell, Column, Table

_HEADING = re.compile(r"#{1,2} +(.+?)[ #]*")
Value = TypeVar("Value", str, tuple[str, ...])
_READ = ("name", "digest", "train", "val")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def text(made: Publication) -> str:
    """Write the README."""
    return _Readme(made).text()


def chapters_of(notes: str) -> dict[str, str]:
    """Split Markdown at its headings of the first two levels: heading → text.

    What precedes the first heading has the heading ``""``.
    """
    found, heading, fence = {"": list[str]()}, "", ""
    for line in notes.splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        if not fence and (match := _HEADING.fullmatch(line)):
            heading = match[1]
            found.setdefault(heading, [])
        else:
            found[heading].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


class _Readme:
    """Writes one report."""

    def __init__(self, made: Publication) -> None:
        self._made = made
        self._say = functools.partial(words.say, made.lang)
        self._groups = [result.group for result in made.results]
        self._names = publication.names(self._groups)

    def text(self) -> str:
        benchmarks = ", ".join(dict.fromkeys(group.key.benchmark for group in self._groups))
        title = self._made.title or self._say("title", benchmarks=benchmarks)
        notes = chapters_of(self._made.notes or "")
        blocks = [f"# {tables.escaped(title)}", *self._overview(), notes.pop("", "")]
        own = {heading: said for heading, said in notes.items() if not self._id(heading)}
        for name, chapter in CHAPTERS.items():
            if name == "charts":  # further chapters of the notes stand before the figures
                blocks += [part for h, said in own.items() for part in (f"## {h}", said)]
            added = [said for heading, said in notes.items() if self._id(heading) == name]
            if parts := [part for part in (*chapter(self), *added) if part]:
                blocks += [f"## {self._say(name)}", *parts]
        return "\n\n".join(block.strip("\n") for block in blocks if block) + "\n"

    def _id(self, heading: str) -> str | None:
        """Return the id of a chapter by its heading in any language."""
        return _headings().get(heading.lower())

    # -- chapters ---------------------------------------------------------------------------------

    def _overview(self) -> Iterator[str]:
        if all(group.smoke for group in self._groups):
            yield f"> **{self._say('smoke_only')}**"
        yield self._say(
            "overview",
            valid=self._made.valid,
            runs=sum(len(group.members) for group in self._groups),
            sets=self._listed(f"`{name}`" for name in self._made.sets),
            dates=self._dates(self._groups),
        )
        yield self._say("made_by", version=self._made.version)

    def environment(self) -> Iterator[str]:
        logs = environment.by_logs(self._counted(), self._names)
        file = environment.by_file(self._made.given, self._groups, self._names)
        if differing := [name for name in environment.MACHINE if len(logs.get(name, ())) > 1]:
            yield self._say("differs", names=self._listed(map(self._say, differing)))
        at_odds = [name for name in file if name in logs and file[name].keys() != logs[name].keys()]
        if at_odds:
            yield self._say("at_odds", names=self._listed(map(self._word, at_odds)))
        every = dict.fromkeys((*environment.FACTS, *file))
        lines = [
            (self._word(name), self._of_rows(found[name]), self._say(by))
            for name in every
            for by, found in (("by_logs", logs), ("by_file", file))
            if name in found
        ]
        heads = ("item", "value", "stated_by")[: 3 if file else 2]
        yield self._table(heads, [line[: len(heads)] for line in lines])
        if lacking := environment.lacking(self._groups, logs, file):
            yield self._say("not_stated", names=self._listed(map(self._word, lacking)))

    def programs(self) -> Iterator[str]:
        def line(group: Group) -> tuple[str, ...]:
            plan, image = group.plan, group.key.image
            program = f"{plan.benchmark} {plan.framework} {plan.variant}"
            given = self._given(group).get("container", self._say("unknown"))
            is_known = image != "-" or plan.backend == "local"
            image = given if not is_known else ABSENT if image == "-" else image
            return program, image, self._program(group)

        yield self._table_by(("benchmark", "image", "program", "row"), line)

    def data(self) -> Iterator[str]:
        def line(group: Group) -> tuple[str, ...]:
            plan = group.plan
            program = f"{plan.benchmark} {plan.framework}"
            return program, self._used(group), self._published_data(plan)

        yield self._table_by(("benchmark", "data_used", "data_published", "row"), line)

    def commands(self) -> Iterator[str]:
        if lines := publication.commands(self._made.results):
            yield self._say("commands_lead", version=self._made.version)
            yield f"```sh\n{lines.partition('set -e')[2].strip()}\n```"

    def repeat(self) -> Iterable[str]:
        made = self._made
        return chapters.repeating(made.results, made.specs, self._names, made.lang)

    def method(self) -> Iterator[str]:
        lines = [
            line.format(names=self._listed(rows)) for line, rows in self._by(self._window).items()
        ]
        lines.append(self._say("headline"))
        lines += [
            self._say("estimator", name=name, what=self._say(name))
            for name in dict.fromkeys(group.estimator for group in self._groups)
        ]
        lines += [self._say("cv"), self._say("speedup_rule")]
        if any(group.time_to_train_s is not None for group in self._groups):
            lines.append(self._say("time_rule"))
        runs = sum(len(group.members) for group in self._groups)
        if left := runs - sum(group.counted for group in self._groups):
            lines.append(self._say("left_out", number=left, runs=runs))
        yield "\n".join(f"- {line}" for line in lines)

    def _window(self, group: Group) -> str | None:
        """Write what was measured; the plan only of runs that k8sbench planned."""
        window, training = group.plan.window, group.plan.training
        facts: dict[str, object] = {"names": "{names}", "warmup": window.warmup}
        measured = [one for _, _, one in self._counted([group]) if one.window is not None]
        parts = []
        if measured:
            of = {
                "first": [one.window.first_iteration for one in measured if one.window],
                "last": [one.window.last_iteration for one in measured if one.window],
                "iterations": [one.iterations for one in measured],
                "records": [one.records for one in measured],
                "warmup": [one.warmup_iterations for one in measured],
                "interval": [round(one.iterations / max(one.records, 1)) for one in measured],
            }
            parts.append(self._say("measured", **facts | {n: _range(v) for n, v in of.items()}))
            if evaluated := [one.accuracy.evaluations for one in measured if one.accuracy]:
                parts[-1] += self._say("evaluated", number=_range(evaluated))
        elif training is None and group.plan.backend != "imported":
            parts.append(self._say("window", iterations=window.iterations, **facts))
        if training is not None:
            parts.append(self._say("training", length=in_words(training), **facts))
        return " ".join(parts) or None

    def results(self) -> Iterator[str]:
        made = self._made
        yield tables.markdown(report_tables.tables(made.results, made.lang))
        for why, rows in self._by(report_tables.why_left_out).items():
            yield self._say("not_in_tables", names=self._listed(rows), why=self._say(why))
        yield self._markdown(layout.tables((), made.parities, "report"))
        if gains := chapters.gains(self._groups):
            yield f"### {self._say('amp_gain')}"
            lines = []
            for gain in gains:
                rates = [
                    f"{formats.rate(one.by_estimator[gain.estimator])} ({self._names[one.key.id]})"
                    for one in (gain.fp32, gain.amp)
                ]
                ratio = formats.ratio(gain.ratio)
                lines.append((gain.amp.key.case, *rates, ratio, gain.estimator))
            yield self._table(("case", "FP32", "AMP", "AMP ÷ FP32", "estimator_name"), lines)
        yield f"### {self._say('all_rows')}"
        yield from self._all_rows()
        yield self._say("gaps")
        yield from self._every_run()

    def _all_rows(self) -> Iterator[str]:
        """Write the rows with all notes, trainings in a second table."""
        for is_trained in (False, True):
            some = [result for result in self._made.results if trains(result) is is_trained]
            for table in layout.tables(some, (), "report"):
                column = Column("row", whole=True, stays=True)
                days = Column("dates", whole=True, stays=True)
                rows = tuple(
                    (Cell(self._names[r.group.key.id]), Cell(self._dates([r.group])), *row)
                    for r, row in zip(some, table.rows, strict=True)
                )
                columns = (column, days, *table.columns)
                yield self._markdown(
                    [msgspec.structs.replace(table, columns=columns, rows=rows, captioned=True)]
                )

    def _every_run(self) -> Iterator[str]:
        """Write each run's figure, and each row's by every estimator."""
        measured = [group for group in self._groups if group.spread is not None]
        if any(len(group.members) > 1 for group in measured):
            yield f"### {self._say('every_run')}"
            lines = [
                (
                    self._names[group.key.id],
                    " ".join(_figure(one) for one in sorted(group.members, key=_repeat)),
                    formats.rate(group.spread.median),
                    formats.rate(group.spread.mean),
                    group.unit,
                )
                for group in measured
                if group.spread is not None
            ]
            yield self._table(("row", "figures", "median_of_runs", "mean_of_runs", "unit"), lines)
            if any(one.unverified is not None for group in measured for one in group.members):
                yield self._say("in_brackets")
        names = [name for name in ESTIMATORS if any(name in g.by_estimator for g in measured)]
        if len(names) > 1:
            yield f"### {self._say('estimators')}"
            shown = [
                (
                    self._names[group.key.id],
                    *(_or_absent(group.by_estimator.get(name), formats.rate) for name in names),
                )
                for group in measured
            ]
            yield self._table(("row", *map(Column, names)), shown)
            yield "\n".join(
                f"- {self._say('estimator', name=name, what=self._say(name))}"
                for name in names
                if name not in {group.estimator for group in self._groups}
            )

    def published(self) -> Iterator[str]:
        """Set rows beside figures of their own case; the others in a sentence."""
        if not self._made.has_published:
            return
        lines, others, cited = [], list[str](), dict[str, str]()
        remarks = dict[str, str]()
        for result in self._made.results:
            row, unlike = self._names[result.group.key.id], list[str]()
            for one in result.deviations or ():
                deviation = formats.deviation(one)
                if deviation is None or not is_of_case(one, result):
                    figure = formats.plain(one.corrected or one.published, 7)
                    why = ", ".join(
                        self._phrase(formats.unlike([name])) for name in one.not_comparable
                    )
                    unlike.append(f"{one.case} {one.precision} {figure} ({one.source}: {why})")
                    continue
                cited[one.source] = one.title
                kind = self._listed(self._phrase(part) for part in (one.quantity, one.estimator))
                figure = f"{formats.plain(one.published, 7)} ({kind})"
                if one.corrected is not None:
                    by_logs = formats.plain(one.corrected, 7)
                    figure += f", {self._say('corrected', figure=by_logs)}"
                if one.remark:
                    remarks[f"{row}, {one.source}"] = one.remark
                lines.append((row, one.source, figure, self._ours(result, one), deviation))
            if unlike:
                listed = ", ".join(dict.fromkeys(unlike))
                others.append(self._say("other_cases", row=row, cases=listed))
        if not lines:
            yield self._say("none_published")
        else:
            heads = ("row", "source", "published_figure", "ours", "deviation")
            yield self._table(heads, lines)
            yield "\n".join(f"- `{key}`: {self._cited(key, cited[key])}" for key in cited)
        if self._made.lang == "zh" and remarks:
            for name in dict.fromkeys(group.key.benchmark for group in self._groups):
                yield self._say("notes_of", benchmark=name)
        elif remarks:
            yield "\n".join(f"- {of}: {tables.escaped(said)}" for of, said in remarks.items())
        yield "\n".join(f"- {line}" for line in others)

    def _ours(self, result: Result, one: Any) -> str:
        """Write our side, with its estimator where that is not the row's."""
        if one.ours is None:
            spread = result.group.spread if one.quantity == "throughput" else None
            return formats.rate(spread.median) if spread else ABSENT
        is_other = one.quantity == "throughput" and one.estimator in result.group.by_estimator
        is_other = is_other and one.estimator != result.group.estimator
        return formats.rate(one.ours) + (f" ({one.estimator})" if is_other else "")

    def _cited(self, key: str, title: str) -> str:
        """Cite a source; Chinese pages name its place in place of its English title."""
        sources = (spec.sources.get(key) for spec in self._made.specs.values())
        of = next(filter(None, sources), None)
        if self._made.lang == "en" or of is None or of.repository is None:
            return tables.escaped(title)
        return " ".join(f"`{part}`" for part in (of.repository, of.commit, of.path) if part)

    def analysis(self) -> Iterable[str]:
        return chapters.analysis(self._made.results, self._names, self._made.lang)

    def charts(self) -> Iterator[str]:
        for path, panel in self._made.charts:
            yield f"![{tables.escaped(panel.title)}]({path})"

    def logs(self) -> Iterator[str]:
        yield self._say("logs_lead")
        lines = (self._log(group, member) for group in self._groups for member in group.members)
        yield self._table(("row", "run", "verdict", "reasons", "logs"), lines)

    def _log(self, group: Group, member: Member) -> tuple[str | Cell, ...]:
        paths = self._made.logs.get(member.run_id, ())
        links = ", ".join(f"[{path.rpartition('/')[2]}]({path})" for path in paths)
        return (
            self._names[group.key.id],
            member.run_id,
            self._word(member.verdict or str(member.phase).lower()),
            ", ".join(reason.id for reason in member.reasons) or ABSENT,
            Cell(links or self._say("no_logs"), is_markdown=True),
        )

    def files(self) -> Iterator[str]:
        yield self._say("files_lead")

    # -- parts of chapters -------------------------------------------------------------------------

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
                chapters.stated_program(one.environment) for _, _, one in self._counted([group])
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
                facts = {name: _or_absent(getattr(read, name)) for name in _READ}
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
        return group_words.dates(groups, self._say("no_date"))

    def _word(self, word: str) -> str:
        """Translate a word; another text stays."""
        return self._say(word) if word in words.texts()["readme"] else word

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


@functools.cache
def _headings() -> dict[str, str]:
    """Map the headings of chapters, in both languages, to their ids."""
    return {word.lower(): name for name in CHAPTERS for word in words.texts()["readme"][name]}


CHAPTERS: dict[str, Callable[[_Readme], Iterable[str]]] = {
    "environment": _Readme.environment,
    "setup": lambda _: (),  # by the user's notes alone
    "programs": _Readme.programs,
    "data": _Readme.data,
    "commands": _Readme.commands,
    "repeat": _Readme.repeat,
    "method": _Readme.method,
    "results": _Readme.results,
    "published": _Readme.published,
    "analysis": _Readme.analysis,
    "charts": _Readme.charts,
    "logs": _Readme.logs,
    "files": _Readme.files,
}
"""Id of a chapter and of its heading → the chapter's blocks."""


def _repeat(member: Member) -> tuple[int, str]:
    return member.repeat, member.run_id


def _figure(member: Member) -> str:
    """Write a run's figure; in brackets if it does not count."""
    if member.rate is not None:
        return formats.rate(member.rate)
    return ABSENT if member.unverified is None else f"({formats.rate(member.unverified)})"


def _range(values: Sequence[int]) -> str:
    return "–".join(map(str, dict.fromkeys((min(values), max(values)))))


def _or_absent(value: Any, write: Callable[[Any], str] = str) -> str:
    """Write a value, or the sign for a missing one."""
    return ABSENT if value is None else write(value)
