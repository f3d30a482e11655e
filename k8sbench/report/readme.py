"""README of a published report, as Markdown.

Its chapters follow the published reports: environment, programs, data, parameters, commands,
method, tables, comparison, analysis, charts and logs. The user's notes are chapters too.
``readme.md.j2`` has their layout; this module decides what they say.
"""

from __future__ import annotations

import functools
import importlib.resources
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jinja2
import msgspec

from k8sbench.model.group import Deviation, Group, Member, Parity, Result
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.plain_text import ABSENT
from k8sbench.model.plan import RunPlan
from k8sbench.model.published import Citation
from k8sbench.model.run import Run
from k8sbench.model.spec import Variant
from k8sbench.model.training import in_words
from k8sbench.report import (
    analysis,
    environment,
    formats,
    group_words,
    layout,
    parameters,
    publication,
    repeating,
    report_tables,
    tables,
    words,
)
from k8sbench.report.columns import is_of_case, trains
from k8sbench.report.publication import Publication
from k8sbench.report.tables import Cell, Column, Table
from k8sbench.report.words import Lang

CHAPTERS = (
    *("environment", "setup", "programs", "data", "parameters", "commands", "repeat", "method"),
    *("results", "published", "analysis", "charts", "logs", "files"),
)
"""Ids of the chapters and of their headings; ``setup`` has the user's notes alone."""
BEFORE_METHOD = "repeat"
"""Chapter behind which a user's own chapters stand that follow none of ours in the notes."""
_HEADING = re.compile(r"#{1,2} +(.+?)[ #]*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_REPEAT = operator.attrgetter("repeat", "run_id")
Fact = TypeVar("Fact", str, tuple[str, ...])


def text(made: Publication) -> str:
    """Write the README."""
    rows = _Rows(made)
    groups = rows.groups
    measured = [group for group in groups if group.spread is not None]
    members = [member for group in measured for member in group.members]
    estimators = list(dict.fromkeys(group.estimator for group in groups))
    by_estimator = {name for group in measured for name in group.by_estimator}
    measured_estimators = [name for name in ESTIMATORS if name in by_estimator]
    others = [name for name in measured_estimators if name not in estimators]
    benchmarks = list(dict.fromkeys(group.key.benchmark for group in groups))
    lead, notes, own_chapters = _sorted_notes(made.notes or "")
    programs, without_program = repeating.published_programs(
        made.results, made.specs, rows.names, made.lang
    )
    runs = sum(len(group.members) for group in groups)
    written = _template(made.lang).render(
        made=made,
        lang=made.lang,
        title=made.title or rows.say("title", benchmarks=", ".join(benchmarks)),
        subjects=rows.subjects(benchmarks),
        is_smoke=all(group.smoke for group in groups),
        runs=runs,
        sets=_join(made.lang, (f"`{name}`" for name in made.sets)),
        dates=rows.dates(groups),
        benchmarks=benchmarks,
        lead=lead,
        notes=notes,
        own_chapters=own_chapters,
        environment=rows.environment(),
        programs=rows.distinct(rows.program),
        data=rows.distinct(rows.data),
        commands=publication.commands(made.results).partition("set -e")[2].strip(),
        published_programs=programs,
        without_program=without_program,
        parameters=rows.parameters(),
        with_rows=rows.with_rows,
        list_rows=rows.list_rows,
        windows=rows.windows(),
        estimators=rows.explain(estimators),
        units=_join(made.lang, dict.fromkeys(group.unit for group in groups)),
        speedup_example=rows.speedup_example(),
        has_time_to_train=any(group.time_to_train_s is not None for group in groups),
        left_out=runs - sum(group.counted for group in groups),
        report_tables=tables.markdown(report_tables.tables(made.results, made.lang)).strip("\n"),
        without_table=rows.rows_by(report_tables.why_left_out),
        parities=rows.parities(),
        gains=rows.gains(),
        all_rows=rows.all_rows(),
        has_repeats=any(len(group.members) > 1 for group in measured),
        has_unverified=any(member.unverified is not None for member in members),
        every_run=rows.every_run(),
        measured_estimators=measured_estimators,
        by_estimator=rows.by_estimator(measured, measured_estimators),
        apart=formats.percent(max((_apart(group) for group in measured), default=0.0)),
        other_estimators=rows.explain(others),
        published=rows.published(),
        analysis=analysis.analysis(made.results, rows.names, made.lang),
        logs=rows.logs(),
    )
    return written.rstrip("\n") + "\n"


def split_notes(notes: str) -> dict[str, str]:
    """Split Markdown at its headings of the first two levels: heading → text.

    What precedes the first heading has the heading ``""``.
    """
    heading = fence = ""
    found = {heading: list[str]()}
    for line in notes.splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        if not fence and (match := _HEADING.fullmatch(line)):
            heading = match[1]
            found.setdefault(heading, [])
        else:
            found[heading].append(line)
    return {name: "\n".join(lines).strip("\n") for name, lines in found.items()}


def _sorted_notes(
    notes: str,
) -> tuple[str, dict[str, list[str]], dict[str, list[tuple[str, str]]]]:
    """Return the notes before all chapters, those of each chapter, and chapters of their own.

    These follow the chapter of ours that precedes them in the notes.
    """
    texts = words.texts()["readme"]
    headings = {word.lower(): name for name in CHAPTERS for word in texts[name]}
    parts = split_notes(notes)
    lead = parts.pop("")
    added: dict[str, list[str]] = {name: [] for name in CHAPTERS}
    own: dict[str, list[tuple[str, str]]] = {name: [] for name in CHAPTERS}
    place = BEFORE_METHOD
    for heading, said in parts.items():
        if (chapter := headings.get(heading.lower())) is None:
            own[place].append((heading, said))
        else:
            added[chapter].append(said)
            place = chapter
    return lead, added, own


class _Environment(NamedTuple):
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
    """Usual facts that nobody states."""


class _Comparison(NamedTuple):
    """Rows beside published figures."""

    lines: list[tuple[str, ...]]
    """Lines of the table."""
    sources: list[str]
    """Sources of the figures in the table."""
    remarks: list[str]
    """Remarks of the catalog on these figures, in English."""
    others: list[str]
    """Published figures of other cases, a sentence for each row."""


class _Rows:
    """Rows of one report, and their facts in its language."""

    def __init__(self, made: Publication) -> None:
        self._made = made
        self.say = functools.partial(words.say, made.lang)
        self._phrase = functools.partial(words.phrase, made.lang)
        self._word = functools.partial(_word, made.lang)
        self._join = functools.partial(_join, made.lang)
        self.groups = [result.group for result in made.results]
        self.names = publication.names(self.groups)

    # -- environment, programs and data ------------------------------------------------------------

    def environment(self) -> _Environment:
        """Collect the facts of the environment, and where their sources differ."""
        logs = environment.by_logs(self._counted(self.groups), self.names)
        file = environment.by_file(self._made.given, self.groups, self.names)
        titles = ("item", "value", "stated_by")[: 3 if file else 2]

        def lines(names: Iterable[str]) -> list[tuple[str, ...]]:
            return [
                (self._word(name), self.with_rows(found[name], among), self.say(by))[: len(titles)]
                for name in dict.fromkeys(names)
                for by, found, among in (("by_logs", logs, counted), ("by_file", file, None))
                if name in found
            ]

        counted = {self.names[group.key.id] for group, _, _ in self._counted(self.groups)}

        known = (*environment.FACTS, *environment.ELSEWHERE)
        return _Environment(
            titles=titles,
            tables={
                "host": lines(environment.HOST),
                "container_or_libraries": lines(environment.CONTAINER),
                "further": lines(name for name in file if name not in known),
            },
            differing=[name for name in environment.MACHINE if len(logs.get(name, ())) > 1],
            at_odds=[n for n in file if n in logs and file[n].keys() != logs[n].keys()],
            lacking=[*environment.lacking(self.groups, logs, file), *self._unstated()],
        )

    def _unstated(self) -> list[str]:
        """Return what no log and no file says of program and data."""
        own = [group for group in self.groups if group.plan.is_of_others]
        lacks = {
            "data_used": any(not self._states_data(group) for group in own),
            "program_version": any(not self._states_version(group) for group in own),
        }
        return [name for name, is_lacking in lacks.items() if is_lacking]

    def _states_data(self, group: Group) -> bool:
        is_known = group.plan.data != "unknown" or "data" in self._given(group)
        return is_known or self._archive(group) is not None

    def _states_version(self, group: Group) -> bool:
        return "program" in self._given(group) or any(
            one.environment.get("program_version") for _, _, one in self._counted([group])
        )

    def with_rows(
        self, values: Mapping[str, Sequence[str]], among: Collection[str] | None = None
    ) -> str:
        """Write values with their rows; one value that all rows have alone.

        ``among``: names of the rows that could state one; None: all.
        """
        every = self.names.values() if among is None else among
        if len(values) == 1 and {*every} == {*next(iter(values.values()))}:
            return self._phrase(next(iter(values)))
        parts = (f"{self._phrase(of)} ({self.list_rows(r, every)})" for of, r in values.items())
        return "; ".join(parts)

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

    def subjects(self, benchmarks: Iterable[str]) -> list[str]:
        """Return what each benchmark of the catalog is, and whose figures it reproduces."""
        found = []
        for name in benchmarks:
            spec = self._made.specs.get(name)
            if spec is None or not spec.sources:
                continue
            used = {
                one.source: None
                for result in self._made.results
                if result.group.key.benchmark == name
                for one in sorted(result.deviations or (), key=lambda one: not one.same_version)
            }
            places = (self._place_of(spec.sources[key]) for key in used if key in spec.sources)
            cited = [*filter(None, places)]
            text = self.say("subject", name=name, title=spec.title, task=self._phrase(spec.task))
            of = self.say("reproduces", sources=self._join(cited)) if cited else ""
            found.append(text + of)
        return found

    def parameters(self) -> parameters.Parameters:
        """Return the parameters of the rows."""
        measured = {
            group.key.id: one
            for group in self.groups
            for member in group.members
            if (one := self._made.runs[member.run_id].measurement) is not None
        }
        return parameters.of(self.groups, measured, self.names, self._made.lang)

    def program(self, group: Group) -> tuple[str, ...]:
        """Return benchmark, image and program of a row."""
        plan = group.plan
        benchmark = f"{plan.benchmark} {plan.framework} {plan.variant}"
        return benchmark, self._image(group), self._program(group)

    def _image(self, group: Group) -> str:
        if group.key.image != "-":
            return group.key.image
        if group.plan.backend == "local":
            return ABSENT
        return self._given(group).get("container", self.say("unknown"))

    def _program(self, group: Group) -> str:
        """Write which program ran: of imported logs only what they or the user state."""
        plan = group.plan
        if plan.is_of_others:
            stated = {_stated_program(one) for _, _, one in self._counted([group])}
            given = self._given(group).get("program", "")
            # The log's name of a program that the file names adds nothing but its version.
            parts = {_without_name(one, given) for one in stated}
            return ", ".join(filter(None, (given, *sorted(parts)))) or self.say("foreign")
        if plan.impl == "k8sbench" and plan.trainers_digest:
            return self.say("trainer", digest=plan.trainers_digest[:12])
        variant = self._variant(plan)
        if plan.impl == "upstream" and variant and variant.upstream:
            program = variant.upstream
            return self.say("upstream", repository=program.repository, commit=program.commit[:12])
        return self.say("own_command", digest=(plan.program_digest or ABSENT)[:12])

    def data(self, group: Group) -> tuple[str, ...]:
        """Return program, used data and published data of a row."""
        program = f"{group.plan.benchmark} {group.plan.framework}"
        return program, self._used_data(group), self._published_data(group.plan)

    def _used_data(self, group: Group) -> str:
        for member in group.members:
            measured = self._made.runs[member.run_id].measurement
            if measured is not None and (read := measured.data_set) is not None:
                facts = msgspec.structs.asdict(read)
                return self.say("real_data", **{n: _or_absent(v) for n, v in facts.items()})
        if group.plan.data == "unknown":
            parts = (self._given(group).get("data"), self._archive(group))
            return "; ".join(filter(None, parts)) or self.say("unknown")
        return self._word("image_data" if group.plan.data == "image" else group.plan.data)

    def _archive(self, group: Group) -> str | None:
        """Write which data the log states by MD5 or number; None if it states none."""
        variant = self._variant(group.plan)
        known = variant and variant.data_set
        stated = [one.environment for _, _, one in self._counted([group])]
        if group.data_md5 is not None:
            name = self._phrase(known.name) if known and known.md5 == group.data_md5 else None
            word = "data_by_md5" if name else "data_of_md5"
            return self.say(word, name=name, md5=group.data_md5)
        numbers = {one.get("data_samples") for one in stated} - {None}
        if len(numbers) != 1:
            return None
        number = numbers.pop()
        name = self._phrase(known.name) if known and known.samples == number else None
        return self.say("data_by_number" if name else "data_of_number", name=name, number=number)

    def _published_data(self, plan: RunPlan) -> str:
        variant = self._variant(plan)
        if variant is None or variant.data_set is None:
            return ABSENT
        data = variant.data_set
        md5 = f"MD5 {data.md5}" if data.md5 else None
        samples = self.say("samples", samples=data.samples) if data.samples else None
        return ", ".join(filter(None, (self._phrase(data.name), data.file, md5, samples)))

    # -- method and results ------------------------------------------------------------------------

    def windows(self) -> list[str]:
        """Return what was measured, with the rows."""
        found = self.rows_by(self._window).items()
        return [sentence.format(names=self.list_rows(rows)) for sentence, rows in found]

    def _window(self, group: Group) -> str | None:
        """Write what was measured; the plan only of runs that k8sbench planned."""
        window = group.plan.window
        training = group.plan.training
        say = functools.partial(self.say, names="{names}")
        measured = [one for _, _, one in self._counted([group]) if one.window is not None]
        windows = [one.window for one in measured if one.window is not None]
        parts = []
        if measured:
            ranges = {
                "first": [one.first_iteration for one in windows],
                "last": [one.last_iteration for one in windows],
                "iterations": [one.iterations for one in measured],
                "records": [one.records for one in measured],
                "warmup": [one.warmup_iterations for one in measured],
                "interval": [round(one.iterations / max(one.records, 1)) for one in measured],
            }
            parts.append(say("measured", **{name: _range(some) for name, some in ranges.items()}))
            if evaluated := [one.accuracy.evaluations for one in measured if one.accuracy]:
                parts[-1] += self.say("evaluated", number=_range(evaluated))
            every = {one.environment.get("evaluated_every") for one in measured if one.accuracy}
            if len(every) == 1 and (distance := every.pop()) is not None:
                parts[-1] += self.say("evaluated_every", iterations=distance)
            parts[-1] += self._in_epochs(group, windows[-1].last_iteration)
        elif training is None and not group.plan.is_of_others:
            parts.append(say("window", iterations=window.iterations, warmup=window.warmup))
        if training is not None:
            parts.append(say("training", length=in_words(training), warmup=window.warmup))
        return " ".join(parts) or None

    def _in_epochs(self, group: Group, iterations: int) -> str:
        """Write how many epochs iterations are, where the log states the data; else nothing."""
        variant = self._variant(group.plan)
        known = variant and variant.data_set
        if not known or not known.samples or self._archive(group) is None:
            return ""
        epochs = iterations * group.plan.batch_size * group.plan.world_size / known.samples
        size = {"iterations": iterations, "samples": known.samples}
        return self.say("in_epochs", epochs=f"{epochs:.1f}", **size) if epochs >= 1 else ""

    def parities(self) -> str:
        """Write Paddle beside PyTorch; reasons against all ratios once, in place of a column."""
        pairs = self._made.parities
        if not pairs or any(pair.ratio is not None for pair in pairs):
            return self.markdown(layout.tables((), pairs, "report"))
        found: dict[str, list[str]] = {}
        for pair in pairs:
            why = self._join(self._unlike_pair(pair, name) for name in pair.not_comparable)
            of = f"{pair.paddle.key.case} {pair.paddle.key.precision}"
            found.setdefault(why, []).append(of)
        (table,) = layout.tables((), pairs, "report")
        kept = slice(0, len(table.columns) - 1)
        rows = tuple(row[kept] for row in table.rows)
        shown = msgspec.structs.replace(table, columns=table.columns[kept], rows=rows)
        reasons = [
            self.say("no_ratio", cases=self._join(cases), why=why) for why, cases in found.items()
        ]
        return "\n\n".join([self.markdown([shown]), *reasons])

    def _unlike_pair(self, pair: Parity, name: str) -> str:
        """Write what forbids the ratio of a pair."""
        sides = (pair.paddle.parameters, pair.pytorch.parameters)
        if name == "model" and sides[0] is not None and sides[1] is not None:
            paddle, pytorch = map(formats.millions, (sides[0], sides[1]))
            return self.say("models_differ", paddle=paddle, pytorch=pytorch)
        if name == "arithmetic":
            return self.say("types_unknown")
        return self._phrase("no valid figure" if name == "no-figure" else formats.unlike([name]))

    def explain(self, estimators: Iterable[str]) -> list[str]:
        """Return a sentence on each estimator."""
        return [self.say("estimator", name=name, what=self.say(name)) for name in estimators]

    def speedup_example(self) -> str:
        """Write how the largest speedup follows from medians; empty without any."""
        of = {result.group.key.id: result.group for result in self._made.results}
        scaled = [
            (result.speedup.value, result.group, base)
            for result in self._made.results
            if result.speedup.value is not None
            and (base := of.get(result.baseline or "")) is not None
            and base is not result.group
        ]
        if not scaled:
            return ""
        ratio, group, base = max(scaled, key=lambda one: one[0])
        rates = [one.spread.median for one in (group, base) if one.spread is not None]
        if len(rates) < 2:
            return ""
        row = self.names[group.key.id]
        many, one_gpu = map(formats.rate, rates)
        ratio_text = formats.ratio(ratio)
        return self.say("speedup_example", row=row, many=many, one=one_gpu, ratio=ratio_text)

    def gains(self) -> list[tuple[str, ...]]:
        """Return lines on AMP against FP32."""
        return [
            (
                gain.amp.key.case,
                *(
                    f"{formats.rate(one.by_estimator[gain.estimator])} ({self.names[one.key.id]})"
                    for one in (gain.fp32, gain.amp)
                ),
                formats.ratio(gain.ratio),
                gain.estimator,
            )
            for gain in analysis.gains(self.groups)
        ]

    def all_rows(self) -> Iterator[str]:
        """Yield tables of all rows with all notes; trainings have their own."""
        for is_trained in (False, True):
            some = [result for result in self._made.results if trains(result) is is_trained]
            for table in layout.tables(some, (), "report"):
                row = Column("row", whole=True, stays=True)
                days = Column("dates", whole=True, stays=True)
                rows = tuple(
                    (Cell(self.names[r.group.key.id]), Cell(self.dates([r.group])), *cells)
                    for r, cells in zip(some, table.rows, strict=True)
                )
                columns = (row, days, *table.columns)
                yield self.markdown(
                    [msgspec.structs.replace(table, columns=columns, rows=rows, captioned=True)]
                )

    def every_run(self) -> list[tuple[str, ...]]:
        """Return each row's figures by run, median, mean and unit."""
        return [
            (
                self.names[group.key.id],
                " ".join(_figure(one) for one in sorted(group.members, key=_REPEAT)),
                formats.rate(group.spread.median),
                formats.rate(group.spread.mean),
                group.unit,
            )
            for group in self.groups
            if group.spread is not None
        ]

    def by_estimator(
        self, groups: Iterable[Group], estimators: Sequence[str]
    ) -> list[tuple[str, ...]]:
        """Return each row's figure by every estimator."""
        return [
            (
                self.names[group.key.id],
                *(_or_absent(group.by_estimator.get(name), formats.rate) for name in estimators),
            )
            for group in groups
        ]

    # -- comparison, analysis and logs -------------------------------------------------------------

    def published(self) -> _Comparison:
        """Compare rows with published figures of their case, those of the same version first."""
        lines: list[tuple[str, ...]] = []
        sources: dict[str, str] = {}
        remarks: dict[tuple[str, str], dict[str, None]] = {}
        noted: dict[str, dict[str, None]] = {}
        others: dict[str, list[str]] = {}
        for result in self._made.results:
            row = self.names[result.group.key.id]
            of_case = [one for one in result.deviations or () if is_of_case(one, result)]
            for one in sorted(of_case, key=lambda one: not one.same_version):
                deviation = formats.deviation(one)
                if "no-figure" in one.not_comparable and result.group.spread is None:
                    continue  # the row's own reasons say why
                if deviation is None and {"batch", "precision"}.isdisjoint(one.not_comparable):
                    others.setdefault(row, []).append(self._unlike(one))
                if deviation is None:
                    continue
                source = one.source + (f" ({self.say('same_version')})" if one.same_version else "")
                figure = self._published_figure(one)
                for note in one.notes:
                    noted.setdefault(self._phrase(note), {})[row] = None
                lines.append((row, source, figure, _our_figure(result, one), deviation))
                sources[one.source] = self._cited(one)
                if one.remark:
                    remark = _original(self._made.lang, tables.escaped(one.remark))
                    remarks.setdefault((one.source, remark), {})[row] = None
        return _Comparison(
            lines=lines,
            sources=[f"`{key}`: {cited}" for key, cited in sources.items()],
            remarks=[
                *(f"{self.list_rows([*rows])}: {note}" for note, rows in noted.items()),
                *(
                    f"{self.list_rows([*rows])}, {key}: {text}"
                    for (key, text), rows in remarks.items()
                ),
            ],
            others=[
                self.say("other_cases", row=row, cases=", ".join(dict.fromkeys(cases)))
                for row, cases in others.items()
            ],
        )

    def _unlike(self, one: Deviation) -> str:
        """Write a published figure of the row's case that cannot be compared."""
        figure = _exact(one, one.corrected or one.published)
        why = ", ".join(self._phrase(formats.unlike([name])) for name in one.not_comparable)
        quantity = self._phrase(one.quantity.replace("_", " "))
        return f"{quantity} {figure} ({one.source}: {why})"

    def _published_figure(self, one: Deviation) -> str:
        quantity = one.quantity.replace("_", " ")
        rule = self.say("unknown_rule") if one.estimator == "unknown" else one.estimator
        named = [quantity] if one.quantity == "time_to_train" else [quantity, rule]
        figure = f"{_exact(one, one.published)} ({self._join(map(self._phrase, named))})"
        if one.corrected is None:
            return figure
        return f"{figure}, {self.say('corrected', figure=_exact(one, one.corrected))}"

    def _cited(self, one: Deviation) -> str:
        """Cite a source with its place; Chinese pages name its place alone."""
        sources = (spec.sources.get(one.source) for spec in self._made.specs.values())
        source = next(filter(None, sources), None)
        if source is None or source.repository is None:
            return tables.escaped(one.title)
        place = self._place_of(source)
        return place if self._made.lang == "zh" else f"{tables.escaped(one.title)}: {place}"

    def _place_of(self, source: Citation) -> str:
        """Write where a source stands, as a link if it is on GitHub."""
        repository, commit, path = source.repository, source.commit, source.path
        if not repository or not commit or not path or "://" in repository:
            return " ".join(f"`{part}`" for part in (repository, commit, path) if part)
        address = f"https://github.com/{repository}/blob/{commit}/{path}"
        return f"[{repository} {commit[:8]}]({address})"

    def logs(self) -> Iterator[tuple[tuple[str, ...], Sequence[str]]]:
        """Yield cells on each run, and the paths of its logs."""
        for group in self.groups:
            for member in group.members:
                verdict = self._word(member.verdict or str(member.phase).lower())
                reasons = ", ".join(reason.id for reason in member.reasons) or ABSENT
                cells = (self.names[group.key.id], member.run_id, verdict, reasons)
                yield cells, self._made.logs.get(member.run_id, ())

    # -- parts of chapters -------------------------------------------------------------------------

    def _counted(self, groups: Sequence[Group]) -> Iterator[tuple[Group, Run, Measurement]]:
        """Yield the runs that count, or all measured runs if none counts."""
        some = any(group.counted for group in groups)
        for group in groups:
            for member in group.members:
                run = self._made.runs[member.run_id]
                if run.measurement is not None and (member.rate is not None or not some):
                    yield group, run, run.measurement

    def _given(self, group: Group) -> dict[str, str]:
        return self._made.given.facts_for(group.key.set_name, self.names[group.key.id])

    def _variant(self, plan: RunPlan) -> Variant | None:
        spec = self._made.specs.get(plan.benchmark)
        return spec.variant(plan.framework, plan.variant) if spec else None

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
        shown = words.translated(some) if self._made.lang == "zh" else some
        return tables.markdown(shown).strip("\n")


@functools.cache
def _template(lang: Lang) -> jinja2.Template:
    """Read the template, with filters for the language."""
    text = importlib.resources.files(__package__).joinpath("readme.md.j2").read_text("utf-8")
    made = jinja2.Environment(  # noqa: S701 - not HTML; the template escapes for Markdown
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals["say"] = functools.partial(words.say, lang)
    made.filters["word"] = functools.partial(_word, lang)
    made.filters["escaped"] = tables.escaped
    made.filters["original"] = functools.partial(_original, lang)
    made.filters["join_texts"] = functools.partial(_join, lang)
    return made.from_string(text)


def _word(lang: Lang, word: str) -> str:
    """Translate a word; another text stays."""
    return words.say(lang, word) if word in words.texts()["readme"] else word


def _original(lang: Lang, text: str) -> str:
    """Mark a note of the catalog, which is English, where the page is not; nothing if empty."""
    return words.say(lang, "original", text=text) if text else ""


def _join(lang: Lang, items: Iterable[str]) -> str:
    return ("、" if lang == "zh" else ", ").join(items)


def _apart(group: Group) -> float:
    """Return how far the figures of a row by its estimators are apart, of the smallest."""
    figures = group.by_estimator.values()
    return max(figures) / min(figures) - 1 if figures and min(figures) > 0 else 0.0


def _without_name(stated: str, given: str) -> str:
    """Leave out the name of a stated program that the given one begins with."""
    name, _, version = stated.partition(" ")
    return version if name and given.lower().startswith(name.lower()) else stated


def _stated_program(measured: Measurement) -> str:
    """Write the program and version that a log states; empty if it states none."""
    stated = (measured.environment.get(name) for name in ("program", "program_version"))
    return " ".join(str(word) for word in stated if word)


def _our_figure(result: Result, one: Deviation) -> str:
    """Write our figure, with its estimator where that is not the row's."""
    group = result.group
    if one.ours is None:
        spread = group.spread if one.quantity == "throughput" else None
        return formats.rate(spread.median) if spread else ABSENT
    is_other = one.estimator in group.by_estimator and one.estimator != group.estimator
    is_named = is_other and one.quantity == "throughput"
    if one.quantity != "throughput":
        return _exact(one, one.ours)
    return f"{formats.rate(one.ours)} ({one.estimator})" if is_named else formats.rate(one.ours)


def _exact(one: Deviation, figure: float) -> str:
    """Write a published figure, or ours beside it, with the digits of its kind."""
    is_time = one.quantity == "time_to_train"
    return formats.seconds(figure) if is_time else formats.plain(figure, 7)


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
