"""Rows of a report beside the published figures of their cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from k8sbench import messages
from k8sbench.catalog.published import Citation
from k8sbench.messages import Note
from k8sbench.model.group import Deviation, Result
from k8sbench.model.plain_text import ABSENT
from k8sbench.results.groups import ratios
from k8sbench.results.report import formats, noted_tables, report_tables, words
from k8sbench.results.report.columns import as_published, from_corrected, is_of_case, nearest
from k8sbench.results.report.report_rows import ReportRows


class Comparison(NamedTuple):
    """Rows beside published figures."""

    lines: list[tuple[str, ...]]
    """Lines of the table."""
    range_rule: str
    """Meaning of a deviation with two ends; empty without any, or where the tables have told it."""
    speedups: list[tuple[str, ...]]
    """Lines of the table of speedups: as published, by the published throughputs, and ours."""
    sources: list[str]
    """Sources of the figures in the table."""
    remarks: list[str]
    """Remarks of the catalog on the benchmarks and these figures, in English."""
    others: list[str]
    """Published figures that are not compared, a sentence for each row."""


class PublishedRows(ReportRows):
    """Rows of one report that have published figures."""

    def published(self) -> Comparison:
        """Compare rows with published figures of their case, those of the same version first."""
        lines: list[tuple[str, ...]] = []
        compared: list[Deviation] = []
        speedups: list[tuple[str, ...]] = []
        sources: dict[str, str] = {}
        remarks: dict[tuple[str, str], dict[str, None]] = {}
        noted: dict[str, dict[str, None]] = {}
        others: dict[str, list[str]] = {}
        for result in self.made.results:
            row = self.names[result.group.key.id]
            of_case = [one for one in result.deviations or () if is_of_case(one, result)]
            for one in sorted(of_case, key=lambda one: not one.same_version):
                deviation = formats.deviation(one)
                if "no-figure" in one.not_comparable and result.group.spread is None:
                    continue  # the row's own reasons say why
                if one.remark:
                    remark = words.original(self.made.lang, noted_tables.escaped(one.remark))
                    remarks.setdefault((one.source, remark), {})[row] = None
                if deviation is None:
                    others.setdefault(row, []).append(self._not_compared(one))
                    continue
                compared.append(one)
                source = one.source + self._version(result, one)
                figure = self._published_figure(one)
                # The catalog's remark on an odd figure says why it is odd.
                for note in (n for n in one.notes if n != ratios.ODD or not one.remark):
                    noted.setdefault(self._note(result, note), {})[row] = None
                window = self._window(result) if one.quantity == "throughput" else ABSENT
                deviation += from_corrected(one, self.made.lang)
                lines.append((row, source, figure, _our_figure(result, one), window, deviation))
                if one.quantity == "throughput":
                    speedups += self._speedups(row, result, one)
                sources[one.source] = self._cited(one)
        return Comparison(
            lines=lines,
            range_rule=self._range_rule(compared, self._in_tables()),
            speedups=speedups,
            sources=[self.named(f"`{key}`", cited) for key, cited in sources.items()],
            remarks=[
                *(self._catalog_notes() if lines else ()),
                *(self.named(self.list_rows([*rows]), note) for note, rows in noted.items()),
                *(
                    self.named(f"{self.list_rows([*rows])}, {key}", text)
                    for (key, text), rows in remarks.items()
                ),
            ],
            others=[
                self.say(
                    "not_compared",
                    row=row,
                    figures=self.chained("and-then", dict.fromkeys(figures)),
                )
                for row, figures in others.items()
            ],
        )

    def _catalog_notes(self) -> Iterator[str]:
        """Yield the catalog's notes on each benchmark, which also tell how others measured it."""
        for name in dict.fromkeys(group.key.benchmark for group in self.groups):
            spec = self.made.specs.get(name)
            for note in () if spec is None else spec.notes:
                text = words.original(self.made.lang, noted_tables.escaped(note))
                yield self.say("catalog_note", benchmark=name, note=text)

    def tables_rule(self) -> str:
        """Write what the brackets of the reports' tables hold; empty without any."""
        shown = self._in_tables()
        return self.say("brackets_rule") + self._range_rule(shown) if shown else ""

    def _in_tables(self) -> list[Deviation]:
        """Return the deviations that the reports' tables show."""
        near = (
            (result, nearest(result, "throughput"))
            for result in self.made.results
            if report_tables.why_left_out(result.group) is None
        )
        shown = (one for result, one in near if one and is_of_case(one, result))
        return [one for one in shown if formats.deviation(one) is not None]

    def _range_rule(self, shown: Sequence[Deviation], told: Sequence[Deviation] = ()) -> str:
        """Write what a deviation with two ends is, by the first; empty where it has been told."""
        if any(map(formats.is_range, told)):
            return ""
        example = next(filter(formats.is_range, shown), None)
        return self.say("range_rule", example=formats.deviation(example)) if example else ""

    def _window(self, result: Result) -> str:
        """Write the measured iterations of a row's runs."""
        counted = [one.window for _, _, one in self.account.counted([result.group])]
        windows = [window for window in counted if window is not None]
        if not windows:
            return ABSENT
        first = min(window.first_iteration for window in windows)
        last = max(window.last_iteration for window in windows)
        return self.say("window_iterations", first=first, last=last)

    def _note(self, result: Result, note: Note) -> str:
        """Write a note; where no log names the data, what the user states of it."""
        given = self.account.given(result.group).get("data")
        if note == ratios.DATA_UNSTATED and given is not None:
            return self.say("given_data", data=given)
        return messages.text(self.made.lang, note)

    def _not_compared(self, one: Deviation) -> str:
        """Write a published figure of the row's case, and why it cannot be compared."""
        figure = as_published(one, self.made.lang)
        own = {"batch": self.say("its_batch", batch=one.batch_size)}
        own |= {"estimator": self.say("unknown_rule")} if one.estimator == "unknown" else {}
        why = self.join(own.get(name) or self.unlike(name) for name in one.not_comparable)
        quantity = words.name_of_fact(self.made.lang, one.quantity.replace("_", " "))
        return f"{quantity} {figure} ({self.named(one.source, why)})"

    def _published_figure(self, one: Deviation) -> str:
        quantity = words.name_of_fact(self.made.lang, one.quantity.replace("_", " "))
        rule = self.say("unknown_rule") if one.estimator == "unknown" else one.estimator
        named = [quantity]
        named += [] if one.quantity == "time_to_train" else [rule]
        return f"{as_published(one, self.made.lang)} ({self.join(named)})"

    def _version(self, result: Result, one: Deviation) -> str:
        """Write whether the source's own logs are of the row's version of the program."""
        if one.same_version:
            return f" ({self.say('same_version')})"
        source = self._source(one)
        theirs = source.versions.get(result.group.key.framework) if source else None
        if not theirs or result.group.program_version is None:
            return ""
        return f" ({self.say('of_version', versions=self.join(theirs))})"

    def _speedups(self, row: str, result: Result, one: Deviation) -> list[tuple[str, ...]]:
        """Return the line of a row's speedup and its source's; none without both."""
        gpus = result.group.facts.world_size
        theirs = gpus and result.published_speedups.get(one.source, {}).get(gpus)
        ours = result.speedup.value
        if gpus == 1 or theirs is None or ours is None:
            return []
        stated = formats.or_absent(self._stated_speedup(result, one), _as_stated)
        return [(row, one.source, stated, formats.ratio(theirs), formats.ratio(ours))]

    def _stated_speedup(self, result: Result, one: Deviation) -> float | None:
        """Return the speedup that a source prints; None if it prints none."""
        variant = self.variant(result.group.facts)
        mine = (one.source, one.case, one.precision, one.batch_size)
        figures = variant.published if variant else ()
        stated = (
            figure.speedup
            for figure in figures
            if (figure.source, figure.case, figure.precision, figure.batch_size) == mine
        )
        return next(filter(None, stated), None)

    def _source(self, one: Deviation) -> Citation | None:
        """Return the source of a published figure."""
        sources = (spec.sources.get(one.source) for spec in self.made.specs.values())
        return next(filter(None, sources), None)

    def _cited(self, one: Deviation) -> str:
        """Cite a source with its title, its place and remarks."""
        source = self._source(one)
        title = noted_tables.escaped(self.of_catalog(one.title))
        if source is None or source.repository is None:
            return title
        cited = self.named(title, place_of(source))
        note = words.original(self.made.lang, noted_tables.escaped(source.note or ""))
        return self.say("source_note", source=cited, note=note) if note else cited


def place_of(source: Citation) -> str:
    """Write where a source stands, as a link if it is on GitHub."""
    repository, commit, path = source.repository, source.commit, source.path
    if not repository or not commit or not path or "://" in repository:
        return " ".join(f"`{part}`" for part in (repository, commit, path) if part)
    address = f"https://github.com/{repository}/blob/{commit}/{path}"
    return f"[{repository} {commit[:8]}]({address})"


def _our_figure(result: Result, one: Deviation) -> str:
    """Write our figure, with its estimator where that is not the row's."""
    group = result.group
    if one.ours is None:
        spread = group.spread if one.quantity == "throughput" else None
        return formats.rate(spread.median) if spread else ABSENT
    is_other = one.estimator in group.by_estimator and one.estimator != group.estimator
    is_named = is_other and one.quantity == "throughput"
    if one.quantity != "throughput":
        return formats.quantity(one, one.ours)
    return f"{formats.rate(one.ours)} ({one.estimator})" if is_named else formats.rate(one.ours)


def _as_stated(speedup: float) -> str:
    """Write a speedup with the digits that its source has."""
    return f"{speedup:g}"
