"""README of a published report, as Markdown.

Its chapters follow the published reports: environment, programs, data, parameters, commands,
method, tables, comparison, analysis, charts and logs. The user's notes are chapters too.
``readme.md.j2`` has their layout; this module decides what they say.
"""

from __future__ import annotations

import functools
import importlib.resources
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import jinja2
import msgspec

from k8sbench import messages
from k8sbench.catalog.training import describe_training
from k8sbench.messages import Lang
from k8sbench.model import titles
from k8sbench.model.group import Group, Member, Parity
from k8sbench.model.measurement import ESTIMATORS, MeasuredWindow, Measurement
from k8sbench.model.plain_text import ABSENT
from k8sbench.results.report import (
    analysis,
    formats,
    group_words,
    layout,
    noted_tables,
    own_notes,
    publication,
    repeating,
    report_tables,
    words,
)
from k8sbench.results.report.columns import trains
from k8sbench.results.report.noted_tables import Cell
from k8sbench.results.report.provenance import Provenance
from k8sbench.results.report.publication import Publication
from k8sbench.results.report.published_rows import PublishedRows
from k8sbench.results.report.report_rows import ReportRows
from k8sbench.results.report.tables import Column

CHAPTERS = (
    *("environment", "setup", "programs", "data", "parameters", "commands", "repeat", "method"),
    *("results", "published", "analysis", "charts", "logs", "files"),
)
"""Ids of the chapters and of their headings; ``setup`` has the user's notes alone."""
BEFORE_METHOD = "repeat"
"""Chapter behind which a user's own chapters stand that follow none of ours in the notes."""
_REPEAT = operator.attrgetter("repeat", "run_id")


def text(made: Publication) -> str:
    """Write the README."""
    rows = _Rows(made)
    origin = Provenance(made)
    published = PublishedRows(made)
    groups = rows.groups
    measured = [group for group in groups if group.spread is not None]
    members = [member for group in measured for member in group.members]
    estimators = list(dict.fromkeys(group.estimator for group in groups))
    by_estimator = {name for group in measured for name in group.by_estimator}
    measured_estimators = [name for name in ESTIMATORS if name in by_estimator]
    others = [name for name in measured_estimators if name not in estimators]
    benchmarks = list(dict.fromkeys(group.key.benchmark for group in groups))
    lead, notes, own_chapters = own_notes.by_chapter(made.notes or "", CHAPTERS, BEFORE_METHOD)
    programs, without_program = repeating.published_programs(
        made.results,
        made.specs,
        rows.names,
        {rows.names[group.key.id]: origin.program(group)[-1] for group in groups},
        made.lang,
    )
    runs = sum(len(group.members) for group in groups)
    written = _template(made.lang).render(
        made=made,
        lang=made.lang,
        title=made.title or rows.say("title", benchmarks=", ".join(benchmarks)),
        subjects=origin.subjects(benchmarks),
        is_smoke=all(group.smoke for group in groups),
        runs=runs,
        sets=words.join(made.lang, (f"`{name}`" for name in made.sets)),
        dates=rows.dates(groups),
        benchmarks=benchmarks,
        lead=lead,
        notes=notes,
        own_chapters=own_chapters,
        environment=origin.environment(),
        programs=rows.distinct(origin.program),
        data=rows.distinct(origin.data),
        commands=publication.commands(made.results).partition("set -e")[2].strip(),
        published_programs=programs,
        without_program=without_program,
        parameters=origin.parameters(),
        with_rows=rows.with_rows,
        list_rows=rows.list_rows,
        windows=rows.windows(),
        valid_runs=rows.valid_runs(measured),
        estimators=rows.explain(estimators),
        units=words.join(made.lang, dict.fromkeys(group.unit for group in groups)),
        speedup_example=rows.speedup_example(),
        has_time_to_train=any(group.time_to_train_s is not None for group in groups),
        targets=rows.targets(),
        left_out=runs - sum(group.counted for group in groups),
        report_tables=noted_tables.markdown(
            report_tables.tables(made.results, made.lang), made.lang
        ).strip("\n"),
        without_table=rows.rows_by(report_tables.why_left_out),
        parities=rows.parities(),
        gains=rows.gains(),
        gains_without_ratio=rows.gains_without_ratio(),
        all_rows=rows.all_rows(),
        drawn_rows=sum("over-time" in path for path, _ in made.charts),
        has_repeats=any(len(group.members) > 1 for group in measured),
        has_interval=any(group.spread.low is not None for group in groups if group.spread),
        has_unverified=any(member.unverified is not None for member in members),
        every_run=rows.every_run(),
        measured_estimators=measured_estimators,
        by_estimator=rows.by_estimator(measured, measured_estimators),
        apart=formats.percent(max([0.0001, *map(_apart, measured)])),
        other_estimators=rows.explain(others),
        published=published.published(),
        tables_rule=published.tables_rule(),
        analysis=analysis.analysis(made.results, rows.names, made.lang),
        logs=rows.logs(),
    )
    return written.rstrip("\n") + "\n"


class _Rows(ReportRows):
    """Method and results of the rows of one report."""

    def windows(self) -> list[str]:
        """Return what was measured, with the rows."""
        found = self.rows_by(self._window).items()
        return [sentence.format(names=self.list_rows(rows)) for sentence, rows in found]

    def _window(self, group: Group) -> str | None:
        """Write what was measured; the plan only of runs that k8sbench planned."""
        planned = group.planned
        training = None if planned is None else planned.training
        say = functools.partial(self.say, names="{names}")
        measured = [one for _, _, one in self.account.counted([group]) if one.window is not None]
        windows = [one.window for one in measured if one.window is not None]
        lines = [*map(_lines, measured, windows)]
        parts = []
        if measured:
            ranges = {
                "first": [one.first_iteration for one in windows],
                "last": [one.last_iteration for one in windows],
                "iterations": [one.iterations for one in measured],
                "records": [one.records for one in measured],
                "interval": [one.interval for one in lines],
            }
            shown = {name: _range(some) for name, some in ranges.items()}
            alone = [one.each for one in lines if one.interval > one.each]
            each = self.say("each_of", iterations=_range(alone)) if alone else ""
            warmup = self._warmup(measured, windows)
            parts.append(say("measured", **shown, warmup=warmup, each=each))
            if any(one.unread for one in lines):
                parts[-1] += self.say("in_no_line", number=_range([one.unread for one in lines]))
            if evaluated := [one.accuracy.evaluations for one in measured if one.accuracy]:
                parts[-1] += self.say("evaluated", number=_range(evaluated))
            every = {one.environment.get("evaluated_every") for one in measured if one.accuracy}
            if len(every) == 1 and (distance := every.pop()) is not None:
                parts[-1] += self.say("evaluated_every", iterations=distance)
            parts[-1] += self._in_epochs(group, windows[-1].last_iteration)
        elif training is None and planned is not None:
            window = planned.window
            parts.append(say("window", iterations=window.iterations, warmup=window.warmup))
        if training is not None:
            length = describe_training(training)
            parts.append(say("training", length=length, warmup=group.facts.warmup))
        return " ".join(parts) or None

    def _warmup(self, measured: list[Measurement], windows: list[MeasuredWindow]) -> str:
        """Write where the warm-up ends; nothing without any."""
        ends = [window.first_iteration - 1 for window in windows]
        if not any(ends):
            return ""
        warmup = _range([one.warmup_iterations for one in measured])
        return self.say("after_warmup", warmup=warmup, last=_range(ends))

    def _in_epochs(self, group: Group, iterations: int) -> str:
        """Write how many epochs iterations are, where the log states the data; else nothing."""
        variant = self.variant(group.facts)
        known = variant and variant.data_set
        if not known or not known.samples or not self.reads_published_data(group):
            return ""
        step = group.facts.global_batch
        if step is None:
            return ""
        epochs = iterations * step / known.samples
        size = {"iterations": iterations, "samples": known.samples}
        if epochs < 1:
            return self.say("in_first_epoch", samples=known.samples)
        return self.say("in_epochs", epochs=f"{epochs:.1f}", **size)

    def parities(self) -> str:
        """Write Paddle beside PyTorch; reasons against all ratios once, in place of a column."""
        pairs = self.made.parities
        if not pairs or any(pair.ratio is not None for pair in pairs):
            text = self.markdown(layout.tables((), pairs, "report"))
            return "\n\n".join([text, *self._parameters_of_catalog()])
        found: dict[str, list[str]] = {}
        for pair in pairs:
            parts = (self._unlike_pair(pair, name) for name in pair.not_comparable)
            why = self.chained("and-then", parts)
            of = f"{pair.paddle.key.case} {pair.paddle.key.precision}"
            found.setdefault(why, []).append(of)
        (table,) = layout.tables((), pairs, "report")
        kept = slice(0, len(table.columns) - 1)
        rows = tuple(row[kept] for row in table.rows)
        shown = msgspec.structs.replace(table, columns=table.columns[kept], rows=rows)
        reasons = [
            self.say("no_ratio", cases=self.join(cases), why=why) for why, cases in found.items()
        ]
        return "\n\n".join([self.markdown([shown]), *self._parameters_of_catalog(), *reasons])

    def _parameters_of_catalog(self) -> list[str]:
        """Tell of which rows beside each other the catalog states the parameters, not the logs."""
        sides = [side for pair in self.made.parities for side in (pair.paddle, pair.pytorch)]
        rows = [
            self.names[group.key.id]
            for group in {group.key.id: group for group in sides}.values()
            if group.parameters is not None
            and all(one.parameters is None for _, _, one in self.account.counted([group]))
        ]
        return [self.say("parameters_of_catalog", names=self.list_rows(rows))] if rows else []

    def _unlike_pair(self, pair: Parity, name: str) -> str:
        """Write what forbids the ratio of a pair."""
        sides = (pair.paddle.parameters, pair.pytorch.parameters)
        if name == "model" and sides[0] is not None and sides[1] is not None:
            paddle, pytorch = map(formats.millions, (sides[0], sides[1]))
            return self.say("models_differ", paddle=paddle, pytorch=pytorch)
        types = {"Paddle": pair.paddle.arithmetic, "PyTorch": pair.pytorch.arithmetic}
        silent = [side for side, stated in types.items() if stated is None]
        if name == "arithmetic" and silent:
            return self.say("types_unknown", sides=self.join(silent))
        return self.unlike(name)

    def explain(self, estimators: Iterable[str]) -> list[str]:
        """Return a sentence on each estimator."""
        return [self.say("estimator", name=name, what=self.say(name)) for name in estimators]

    def speedup_example(self) -> str:
        """Write how the largest speedup follows from medians; empty without any."""
        of = {result.group.key.id: result.group for result in self.made.results}
        scaled = [
            (result.speedup.value, result.group, base)
            for result in self.made.results
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

    def valid_runs(self, measured: Sequence[Group]) -> str:
        """Write how many runs a row's figure is of; nothing without figures."""
        runs = [group.counted for group in measured]
        return self.say("valid_runs", runs=_range(runs)) if runs else ""

    def targets(self) -> list[str]:
        """Write the targets of imported trainings, with their sources."""
        trained = [group for group in self.groups if group.accuracy and group.planned is None]
        found = []
        for name in dict.fromkeys(group.key.benchmark for group in trained):
            spec = self.made.specs.get(name)
            if spec is None or (aim := spec.target_accuracy) is None:
                continue
            said = {"benchmark": name, "metric": aim.metric, "value": f"{aim.percent:g}"}
            note = words.original(self.made.lang, noted_tables.escaped(aim.note or ""))
            found.append(self.say("catalog_target", **said, note=note).rstrip())
        return found

    def gains(self) -> list[tuple[str, ...]]:
        """Return lines on AMP against FP32."""
        return [
            (
                gain.amp.key.case,
                *(
                    f"{formats.rate(one.by_estimator[gain.estimator])} ({self.names[one.key.id]})"
                    for one in (gain.fp32, gain.amp)
                ),
                formats.or_absent(gain.ratio, formats.ratio),
                gain.estimator,
            )
            for gain in analysis.gains(self.groups)
        ]

    def gains_without_ratio(self) -> list[str]:
        """Write of which cases AMP ÷ FP32 is not computed, and why."""
        found: dict[str, list[str]] = {}
        for gain in analysis.gains(self.groups):
            if gain.unlike:
                why = self.join(self.unlike(name) for name in gain.unlike)
                rows = [self.names[one.key.id] for one in (gain.amp, gain.fp32)]
                found.setdefault(why, []).append(" : ".join(rows))
        return [self.say("no_gain", rows=self.join(rows), why=why) for why, rows in found.items()]

    def all_rows(self) -> Iterator[str]:
        """Yield tables of all rows with all notes; trainings have their own."""
        for is_trained in (False, True):
            some = [result for result in self.made.results if trains(result) is is_trained]
            for table in layout.tables(some, (), "report"):
                row = Column("row", heading=titles.title("row"), whole=True, stays=True)
                days = Column("dates", heading=titles.title("dates"), whole=True, stays=True)
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
                *(
                    formats.or_absent(group.by_estimator.get(name), formats.rate)
                    for name in estimators
                ),
            )
            for group in groups
        ]

    def logs(self) -> Iterator[tuple[tuple[str, ...], Sequence[str]]]:
        """Yield cells on each run, and the paths of its logs."""
        for group in self.groups:
            for member in group.members:
                state = group_words.state_of(member.verdict or member.phase.lower())
                verdict = messages.text(self.made.lang, state)
                reasons = ", ".join(reason.id for reason in member.reasons) or ABSENT
                cells = (self.names[group.key.id], member.run_id, verdict, reasons)
                yield cells, self.made.logs.get(member.run_id, ())


@functools.cache
def _template(lang: Lang) -> jinja2.Template:
    """Read the template, with filters for the language."""
    text = importlib.resources.files(__package__).joinpath("readme.md.j2").read_text("utf-8")
    made = jinja2.Environment(  # noqa: S701 - not HTML; the template escapes for Markdown
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals["say"] = functools.partial(words.say, lang)
    made.filters["word"] = functools.partial(words.word, lang)
    made.filters["escaped"] = noted_tables.escaped
    made.filters["original"] = functools.partial(words.original, lang)
    made.filters["join_texts"] = functools.partial(words.join, lang)
    return made.from_string(text)


def _apart(group: Group) -> float:
    """Return how far the figures of a row by its estimators are apart, of the smallest."""
    figures = group.by_estimator.values()
    return max(figures) / min(figures) - 1 if figures and min(figures) > 0 else 0.0


def _figure(member: Member) -> str:
    """Write a run's figure; in brackets if it does not count."""
    if member.rate is not None:
        return formats.rate(member.rate)
    return ABSENT if member.unverified is None else f"({formats.rate(member.unverified)})"


class _Lines(NamedTuple):
    """The lines of a window."""

    each: int
    """Iterations of a line."""
    interval: int
    """Iterations from a line to the next, more than ``each`` where a program prints some alone."""
    unread: int
    """Iterations that are in no line, less those between such lines."""


def _lines(measured: Measurement, window: MeasuredWindow) -> _Lines:
    each = round(measured.iterations / max(measured.records, 1))
    span = window.last_iteration - window.first_iteration + 1
    unread = span - measured.iterations
    steps = measured.records - 1
    if measured.estimator != "printed_steps" or steps < 1:
        return _Lines(each, each, unread)
    interval = round((span - each) / steps)
    return _Lines(each, interval, max(unread - steps * (interval - each), 0))


def _range(values: Sequence[int]) -> int | str:
    """Return the value of all, or write the least and the greatest."""
    least, most = min(values), max(values)
    return least if least == most else f"{least}–{most}"
