"""Content of a published report (``report``): README, charts, data.

The README's chapters follow the published reports: environment, programs, data, commands, method,
tables, comparison, charts and logs. The same runs give the same text.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from k8sbench.model.counts import ABSENT
from k8sbench.model.group import Group, Member, Parity, Result
from k8sbench.model.kinds import kind_of
from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.spec import BenchmarkSpec, Variant
from k8sbench.model.training import in_words
from k8sbench.report import document, formats, group_words, plot, report_tables, tables
from k8sbench.report.plot import Panel
from k8sbench.report.tables import Cell, Column, Table
from k8sbench.report.words import Lang, say, texts

README, RESULTS = "README.md", "results.json"
"""Files that every report has."""
Value = TypeVar("Value", str, tuple[str, ...])


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
    charts: Sequence[tuple[str, Panel]] | None = None
    """Charts with their paths; None if charts cannot be drawn."""
    has_published: bool = False
    """True if the rows are compared with published figures."""
    sets: Sequence[str]
    """Names of the requested sets."""
    version: str
    """Version of k8sbench."""
    title: str | None = None
    """None: the benchmarks' names."""
    lang: Lang = "en"


def names(groups: Sequence[Group]) -> dict[str, str]:
    """Return names of rows like the reports' logs, ``gpu8_amp_bs4``, by group id.

    Several programs have a folder each. Rows with equal names also get their group's id.
    """
    programs = {(group.key.benchmark, group.key.framework) for group in groups}

    def name(group: Group) -> str:
        plan = group.plan
        kind = "cpu" if group.on_cpu else "gpu"
        own = f"{kind}{plan.world_size}_{plan.precision}_bs{plan.batch_size}"
        return own if len(programs) == 1 else f"{plan.benchmark}_{plan.framework}/{own}"

    several = Counter(map(name, groups))
    return {
        group.key.id: name(group) if several[name(group)] == 1 else f"{name(group)}_{group.key.id}"
        for group in groups
    }


def log_names(group: Group, name: str, member: Member, number: int) -> list[str]:
    """Return paths of a run's logs, by each replica's first rank."""
    folder = name if len(group.members) == 1 else f"{name}/run{member.repeat}"
    step = 1 if group.plan.backend == "imported" else group.plan.processes_per_replica
    return [f"logs/{folder}/rank{place * step}.log" for place in range(number)]


def charts(results: Sequence[Result]) -> list[tuple[str, Panel]] | None:
    """Make the charts of the rows, with their paths.

    None if they cannot be drawn.
    """
    if not plot.is_there():
        return None
    kinds = (("throughput", plot.bars(results)), ("scaling", plot.scaling(results)))
    return [
        (f"figures/{kind}-{number}.svg", panel)
        for kind, panels in kinds
        for number, panel in enumerate(panels, 1)
    ]


def files(made: Publication) -> dict[str, str | bytes]:
    """Write what a report says of its rows, by path."""
    rows = {
        README: readme(made),
        RESULTS: formats.json_text(document.document(made.results, made.parities)),
        "commands.sh": commands(made.results),
    }
    drawn = {path: plot.picture("svg", [panel]) for path, panel in made.charts or ()}
    return {path: text for path, text in rows.items() if text} | drawn


def commands(results: Sequence[Result]) -> str:
    """Write ``commands.sh``, which repeats each row; empty for imported rows."""
    row_names = names([result.group for result in results])
    lines = [
        f"# {row_names[result.group.key.id]}\n{command}\n"
        for result in results
        if (command := group_words.command(result.group.plan, len(result.group.members)))
    ]
    return "\n".join(["#!/bin/sh\nset -e\n", *lines]) if lines else ""


def readme(made: Publication) -> str:
    """Write the report as Markdown."""
    return _Readme(made).text()


NODE = ("node_os", "node_kernel", "node_architecture", "kubelet", "container_runtime")
STATED = (
    *("cpu", "cpus", "ram_gib", "os", "kernel", *NODE, "driver", "cuda", "cudnn", "nccl"),
    *("transport", "infiniband", "python", "framework_version"),
)
"""Facts from a log about machine and libraries, or from the cluster about nodes."""
FACTS = ("gpu", "gpus_per_node", "nodes", *STATED, "backend", "operator")
MACHINE = ("gpu", "driver", "kernel", "cpu", "cpus", "ram_gib", "infiniband")
"""Facts that all runs in one environment share, whatever the program."""


def _facts(run: Run, measured: Measurement) -> dict[str, object]:
    """Return the facts of a run's environment; None or empty if unknown."""
    plan, stated = run.plan, measured.environment
    hosts = {stated.get("node"), *(rank.host for rank in measured.ranks)}
    facts: dict[str, object] = {name: stated.get(name) for name in STATED}
    facts["gpu"] = measured.gpu_model
    facts["nodes"] = ", ".join(sorted(str(host) for host in hosts if host))
    facts["ram_gib"] = stated.get("ram_gib") and f"{stated['ram_gib']} GiB"
    facts["framework_version"] = f"{plan.framework} {stated.get('framework_version', '')}".rstrip()
    facts["backend"] = plan.backend
    if plan.backend == "kubernetes":
        kind = kind_of(plan)
        facts["gpus_per_node"] = plan.pool.gpus_per_node
        facts["operator"] = f"{kind.operator.name} ({kind.name}, {kind.api_version})"
    return facts


class _Readme:
    """Writes one report."""

    def __init__(self, made: Publication) -> None:
        self._made = made
        self._say = functools.partial(say, made.lang)
        self._groups = [result.group for result in made.results]
        self._names = names(self._groups)

    def text(self) -> str:
        chapters = (
            ("environment", self._environment()),
            ("programs", self._programs()),
            ("data", self._data()),
            ("commands", self._commands()),
            ("method", self._method()),
            ("results", self._results()),
            ("published", self._published() if self._made.has_published else ()),
            ("charts", self._charts()),
            ("logs", self._logs()),
            ("files", [self._say("files_lead")]),
        )
        benchmarks = ", ".join(dict.fromkeys(group.key.benchmark for group in self._groups))
        title = self._made.title or self._say("title", benchmarks=benchmarks)
        blocks = [f"# {tables.escaped(title)}", *self._overview()]
        for heading, chapter in chapters:
            texts = [text for text in chapter if text]
            blocks += [f"## {self._say(heading)}", *texts] if texts else []
        return "\n\n".join(block.strip("\n") for block in blocks) + "\n"

    # -- chapters ---------------------------------------------------------------------------------

    def _overview(self) -> Iterator[str]:
        if all(group.smoke for group in self._groups):
            yield f"> **{self._say('smoke_only')}**"
        yield self._say(
            "overview",
            valid=sum(group.state == "valid" and not group.smoke for group in self._groups),
            rows=len(self._groups),
            runs=sum(len(group.members) for group in self._groups),
            sets=self._listed(f"`{name}`" for name in self._made.sets),
            dates=formats.days(at for group in self._groups for at in group.began),
        )
        yield self._say("made_by", version=self._made.version)

    def _environment(self) -> Iterator[str]:
        values: dict[str, dict[str, list[str]]] = {name: {} for name in FACTS}
        for group, run, measured in self._counted():
            for name, value in _facts(run, measured).items():
                if value not in (None, ""):
                    rows = values[name].setdefault(str(value), [])
                    rows += [row] if (row := self._names[group.key.id]) not in rows else []
        if differing := [name for name in MACHINE if len(values[name]) > 1]:
            yield self._say("differs", names=self._listed(map(self._say, differing)))
        lines = []
        for name in filter(values.get, FACTS):
            found = values[name].items()
            parts = [of if len(found) == 1 else f"{of} ({', '.join(rows)})" for of, rows in found]
            lines.append((self._say(name), "; ".join(parts)))
        yield self._table(("item", "value"), lines)

    def _programs(self) -> Iterator[str]:
        def line(group: Group) -> tuple[str, ...]:
            plan, image = group.plan, group.key.image
            program = f"{plan.benchmark} {plan.framework} {plan.variant}"
            return program, ABSENT if image == "-" else image, self._program(plan)

        yield self._table_by(("benchmark", "image", "program", "row"), line)

    def _data(self) -> Iterator[str]:
        def line(group: Group) -> tuple[str, ...]:
            plan = group.plan
            program = f"{plan.benchmark} {plan.framework}"
            return program, self._used(group), self._published_data(plan)

        yield self._table_by(("benchmark", "data_used", "data_published", "row"), line)

    def _commands(self) -> Iterator[str]:
        if text := commands(self._made.results):
            yield self._say("commands_lead", version=self._made.version)
            yield f"```sh\n{text.partition('set -e')[2].strip()}\n```"
        imported = [self._names[g.key.id] for g in self._groups if g.plan.backend == "imported"]
        if imported:
            yield self._say("no_command", names=self._listed(imported))

    def _method(self) -> Iterator[str]:
        windows = self._by(self._planned).items()
        lines = [text.format(names=self._listed(rows)) for text, rows in windows]
        lines.append(self._say("headline"))
        lines += [
            self._say("estimator", name=name, what=self._say(name))
            for name in dict.fromkeys(group.estimator for group in self._groups)
        ]
        lines += [self._say("cv"), self._say("speedup_rule")]
        runs = sum(len(group.members) for group in self._groups)
        if left := runs - sum(group.counted for group in self._groups):
            lines.append(self._say("left_out", number=left, runs=runs))
        yield "\n".join(f"- {line}" for line in lines)

    def _planned(self, group: Group) -> str:
        window, training = group.plan.window, group.plan.training
        facts = {"names": "{names}", "warmup": window.warmup}
        if training is not None:
            return self._say("training", length=in_words(training), **facts)
        return self._say("window", iterations=window.iterations, **facts)

    def _results(self) -> Iterator[str]:
        yield tables.markdown(report_tables.tables(self._made.results, self._made.lang))
        for why, rows in self._by(report_tables.why_left_out).items():
            yield self._say("not_in_tables", names=self._listed(rows), why=self._say(why))
        yield f"### {self._say('all_rows')}"
        heads = (
            *("row", "case", "batch", "runs", "throughput", "min_max", "variation"),
            *("speedup", "efficiency", "estimator_name", "date", "state"),
        )
        yield self._table(heads, map(self._line, self._made.results))
        yield self._say("gaps")

    def _line(self, result: Result) -> tuple[str, ...]:
        group, spread = result.group, result.group.spread
        ends = (spread.minimum, spread.maximum) if spread and group.counted > 1 else ()
        return (
            self._names[group.key.id],
            group.plan.case,
            str(group.plan.batch_size),
            f"{group.counted}/{len(group.members)}",
            f"{formats.rate(spread.median)} {group.unit}" if spread else ABSENT,
            "–".join(map(formats.rate, ends)) or ABSENT,
            _shown(spread.cv if spread else None, formats.percent),
            _shown(result.speedup.value, formats.ratio),
            _shown(result.efficiency.value, formats.percent),
            group.estimator,
            formats.days(group.began[1:]),
            self._say("smoke" if group.smoke else group.state),
        )

    def _published(self) -> Iterator[str]:
        lines, cited = [], dict[str, str]()
        for result in self._made.results:
            for one in result.deviations or ():
                cited[one.source] = one.title
                unlike = self._say("not_comparable", ids=", ".join(one.not_comparable))
                deviation = formats.deviation(one) or unlike
                ours = _shown(one.ours, formats.rate)
                row = self._names[result.group.key.id]
                figure = f"{formats.plain(one.published, 7)} ({one.quantity}, {one.estimator})"
                if one.corrected is not None:
                    by_logs = formats.plain(one.corrected, 7)
                    figure += f", {self._say('corrected', figure=by_logs)}"
                lines.append((row, one.source, figure, ours, deviation))
        if not lines:
            yield self._say("none_published")
            return
        heads = ("row", "source", "published_figure", "ours", "deviation")
        yield self._table(heads, lines)
        yield self._say("ids")
        yield "\n".join(f"- `{key}`: {tables.escaped(title)}" for key, title in cited.items())

    def _charts(self) -> Iterator[str]:
        if self._made.charts is None:
            yield self._say("no_charts")
        for path, panel in self._made.charts or ():
            yield f"![{tables.escaped(panel.title)}]({path})"

    def _logs(self) -> Iterator[str]:
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

    # -- parts ------------------------------------------------------------------------------------

    def _counted(self) -> Iterator[tuple[Group, Run, Measurement]]:
        """Yield the runs that count, or all measured runs if none counts."""
        some = any(group.counted for group in self._groups)
        for group in self._groups:
            for member in group.members:
                run = self._made.runs[member.run_id]
                if run.measurement is not None and (member.rate is not None or not some):
                    yield group, run, run.measurement

    def _variant(self, plan: RunPlan) -> Variant | None:
        spec = self._made.specs.get(plan.benchmark)
        return spec.variant(plan.framework, plan.variant) if spec else None

    def _program(self, plan: RunPlan) -> str:
        if plan.impl == "k8sbench" and plan.trainers_digest:
            return self._say("trainer", digest=plan.trainers_digest[:12])
        variant = self._variant(plan)
        if plan.impl == "upstream" and variant and variant.upstream:
            of = variant.upstream
            return self._say("upstream", repository=of.repository, commit=of.commit[:12])
        if plan.backend == "imported":
            return self._say("foreign")
        return self._say("own_command", digest=(plan.program_digest or ABSENT)[:12])

    def _used(self, group: Group) -> str:
        for member in group.members:
            measured = self._made.runs[member.run_id].measurement
            if measured is not None and (read := measured.data_set) is not None:
                facts = {name: _shown(getattr(read, name)) for name in _READ}
                return self._say("real_data", **facts)
        return self._word("image_data" if group.plan.data == "image" else group.plan.data)

    def _published_data(self, plan: RunPlan) -> str:
        variant = self._variant(plan)
        if variant is None or variant.data_set is None:
            return ABSENT
        of = variant.data_set
        md5 = f"MD5 {of.md5}" if of.md5 else None
        samples = self._say("samples", samples=of.samples) if of.samples else None
        return ", ".join(filter(None, (of.name, of.file, md5, samples)))

    def _word(self, text: str) -> str:
        """Translate a word; another text stays."""
        return self._say(text) if text in texts()["readme"] else text

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

    def _table(self, heads: Sequence[str], lines: Iterable[Sequence[str | Cell]]) -> str:
        columns = tuple(Column(self._word(head), whole=True, stays=True) for head in heads)
        rows = tuple(
            tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in line) for line in lines
        )
        return tables.markdown([Table(title=None, columns=columns, rows=rows)])


_READ = ("name", "digest", "train", "val")


def _shown(value: float | str | None, write: Callable[[Any], str] = str) -> str:
    return ABSENT if value is None else write(value)
