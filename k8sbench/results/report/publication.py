"""Files of a published report (``report``): README, charts, data, commands.

The same runs give the same files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.messages import Lang
from k8sbench.model.group import Group, Member, Parity, Result
from k8sbench.model.plain_text import split_words
from k8sbench.model.run import Run
from k8sbench.results.report import (
    document,
    environment,
    formats,
    group_words,
    plot,
    scaling_chart,
    svg,
)
from k8sbench.results.report.chart import Chart
from k8sbench.results.report.environment import Given
from k8sbench.results.report.plot import History
from k8sbench.results.report.words import say

README, RESULTS = "README.md", "results.json"
"""Files that every report has."""
LONGEST = 40
"""Characters of a word in a row's name."""
NOTES = "notes.md"
"""The user's Markdown, in the report's folder."""


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a report."""

    results: Sequence[Result]
    """Its rows."""
    runs: Mapping[str, Run]
    """The runs of the rows by id."""
    specs: Mapping[str, BenchmarkSpec]
    """Catalog entries by benchmark; unknown ones are missing."""
    logs: Mapping[str, Sequence[str]] = {}
    """Run id → paths of its logs in the report's folder."""
    parities: Sequence[Parity] = ()
    charts: Sequence[tuple[str, Chart]] = ()
    """Charts with their paths."""
    has_published: bool = False
    """True if the rows are compared with published figures."""
    sets: Sequence[str]
    """Names of the requested sets."""
    version: str
    """Version of k8sbench."""
    title: str | None = None
    """None: the benchmarks' names."""
    lang: Lang = "en"
    given: Given = Given()
    """Facts from the environment file."""
    given_text: str | None = None
    """Text of the environment file; None without one."""
    notes: str | None = None
    """The user's chapters as Markdown; None without them."""

    @property
    def valid(self) -> str:
        """Count rows, valid rows and functional tests, in words."""
        groups = [result.group for result in self.results]
        valid = sum(group.state == "valid" and not group.smoke for group in groups)
        text = say(self.lang, "rows-valid", valid=valid, rows=len(groups))
        small = sum(group.smoke for group in groups)
        return text + (say(self.lang, "rows_smoke", number=small) if small else "")


def names(groups: Sequence[Group]) -> dict[str, str]:
    """Return names of rows like the reports' logs, ``gpu8_amp_bs4``, by group id.

    Several programs have a folder each.
    """
    programs = {(group.key.benchmark, group.key.framework) for group in groups}

    def name(group: Group) -> str:
        facts = group.facts
        kind = "cpu" if group.on_cpu else "gpu"
        batch = None if facts.batch_size is None else f"bs{facts.batch_size}"
        own = "_".join(filter(None, (f"{kind}{facts.world_size or ''}", facts.precision, batch)))
        program = "_".join(filter(None, (facts.benchmark, facts.framework)))
        return own if len(programs) == 1 else f"{program}/{own}"

    found = group_words.names(groups, name, _in_path)
    return {group: text.replace(" ", "_") for group, text in found.items()}


def _in_path(word: str) -> str:
    """Write a word as part of a path; leave a long one out."""
    return "_".join(split_words(word, "_.+-")) if len(word) <= LONGEST else ""


def log_names(group: Group, name: str, member: Member, number: int) -> list[str]:
    """Return paths of a run's logs, by each replica's first rank."""
    folder = name if len(group.members) == 1 else f"{name}/run{member.repeat}"
    step = 1 if group.planned is None else group.planned.processes_per_replica
    return [f"logs/{folder}/rank{place * step}.log" for place in range(number)]


def charts(
    results: Sequence[Result], timelines: Sequence[History] = (), lang: Lang = "en"
) -> list[tuple[str, Chart]]:
    """Make the charts of rows and of runs over time, with paths."""
    rows = names([result.group for result in results])
    of_run = {
        run.run_id: say(lang, "of_run", row=rows[r.group.key.id], repeat=run.repeat)
        for r in results
        for run in r.group.members
    }
    over_time = [one for run in timelines for one in plot.over_time(run, of_run[run.run_id], lang)]
    kinds: tuple[tuple[str, Sequence[Chart]], ...] = (
        ("throughput", plot.bars(results, lang)),
        ("scaling", scaling_chart.charts(results, lang)),
        ("over-time", over_time),
    )
    return [
        (f"figures/{kind}-{number}.svg", one)
        for kind, some in kinds
        for number, one in enumerate(some, 1)
    ]


def files(made: Publication, readme: str) -> dict[str, str | bytes]:
    """Write what a report says of its rows, by path; ``readme`` is its text."""
    rows = {
        README: readme,
        RESULTS: formats.json_text(document.document(made.results, made.parities)),
        "commands.sh": commands(made.results),
        environment.FILE: made.given_text,
        NOTES: made.notes,
    }
    drawn = {path: svg.document([one]) for path, one in made.charts}
    return {path: text for path, text in rows.items() if text} | drawn


def commands(results: Sequence[Result]) -> str:
    """Write ``commands.sh``, which repeats each row; empty for imported rows."""
    row_names = names([result.group for result in results])
    lines = [
        f"# {row_names[result.group.key.id]}\n{command}\n"
        for result in results
        if (command := group_words.command(result.group.planned, len(result.group.members)))
    ]
    return "\n".join(["#!/bin/sh\nset -e\n", *lines]) if lines else ""
