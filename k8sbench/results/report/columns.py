"""Columns of results: heading, cell, and tables.

Every cell is a figure, or ``–`` with the reason as a note; never 0 for "not measured". The verdict
notes why a row lacks GPU metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from k8sbench.model import times
from k8sbench.model.gpu_metrics import ROW_FIGURES
from k8sbench.model.group import (
    IMPORTED,
    SCRATCH,
    Changed,
    Deviation,
    Figure,
    Group,
    Result,
    Spread,
)
from k8sbench.model.plain_text import ABSENT, counted, share, significant
from k8sbench.results.report import formats, group_words
from k8sbench.results.report.group_words import (
    accuracy,
    footnotes,
    interval,
    marks,
    percent,
    precision,
    state,
)
from k8sbench.results.report.tables import Cell, Column, absent
from k8sbench.results.report.words import say

Form = Literal["table", "wide", "document", "report", "page"]
"""Form of a table.

``table``: the default, for 80 columns. ``document``: Markdown. ``report``: a published report.
``page``: the HTML page, at most eight columns.
"""
_ALL: tuple[Form, ...] = ("table", "wide", "document", "report", "page")
FULL: tuple[Form, ...] = ("wide", "document", "report")
_TABLES: tuple[Form, ...] = ("wide", "document")
_SPREAD: tuple[Form, ...] = ("wide", "report")
_OF_PROGRAM: tuple[Form, ...] = ("table", "wide", "document", "page")
"""A report names programs in its rows' names."""
_WIDE: tuple[Form, ...] = ("wide",)
_NAMED: tuple[Form, ...] = (*FULL, "page")
Shown = Callable[[Sequence[Result], Form], bool]


def _always(_: Sequence[Result], __: Form) -> bool:
    return True


class ResultColumn(Column, frozen=True, kw_only=True):
    """One column of the tables of results; its cells can have notes."""

    cell: Callable[[Any], Cell]
    forms: tuple[Form, ...]
    """Forms with the column."""
    when: Shown = _always
    """True if rows have the column in a form; an empty column is dropped."""


def text(title: str, cell: Callable[[Any], Cell], *forms: Form, **more: Any) -> ResultColumn:
    """Build a text column; its cells may be cut unless ``whole``."""
    more.setdefault("cut", not more.get("whole"))
    return ResultColumn(title, cell=cell, forms=forms or _ALL, **more)


def number(title: str, cell: Callable[[Any], Cell], *forms: Form, **more: Any) -> ResultColumn:
    """Make a column of figures."""
    return text(title, cell, *forms, right=True, whole=True, **more)


# Cells


def _key(name: str) -> Callable[[Result], Cell]:
    def cell(result: Result) -> Cell:
        value = str(getattr(result.group.key, name))
        return Cell(value if value not in ("unknown", "-") else ABSENT)

    return cell


def _is_pinned(result: Result) -> bool:
    planned = result.group.planned
    return planned is not None and planned.node is not None


def _fact(name: str) -> Callable[[Result], Cell]:
    def cell(result: Result) -> Cell:
        return Cell(formats.or_absent(getattr(result.group.facts, name)))

    return cell


def _short_precision(result: Result) -> Cell:
    """Write ``amp fp16``: two columns of a terminal decide whether the spread has room."""
    return Cell(precision(result.group).replace(" (", " ").replace(")", ""))


def _figure(name: str, write: Callable[[float], str]) -> Callable[[Result], Cell]:
    """Write a figure of the result, or its reason."""

    def cell(result: Result) -> Cell:
        figure: Figure = getattr(result, name)
        if figure.value is None:
            return absent(figure.reason, *figure.notes)
        return Cell(write(figure.value), figure.notes)

    return cell


_speedup = _figure("speedup", formats.ratio)


def _optional(name: str, write: Callable[[Any], str]) -> Callable[[Result], Cell]:
    """Write a field of the group, or its reason from ``missing``."""

    def cell(result: Result) -> Cell:
        value = getattr(result.group, name)
        if value is None:
            return absent(result.group.missing.get(name, "no valid figure"))
        return Cell(write(value))

    return cell


def _write_spread(
    write: Callable[[Spread], str | None], why: str | None = "no valid figure"
) -> Callable[[Result], Cell]:
    """Write a figure of the valid runs.

    ``why`` is the note without valid runs; None if another cell has it.
    """

    def cell(result: Result) -> Cell:
        spread = result.group.spread
        if spread is None:
            return absent(why) if why else Cell(ABSENT)
        written = write(spread)
        return absent(spread.interval_reason) if written is None else Cell(written)

    return cell


def _min_max(spread: Spread) -> str | None:
    """Write the slowest and the fastest valid run; None for one run."""
    if spread.cv is None:
        return None
    return f"{formats.rate(spread.minimum)}–{formats.rate(spread.maximum)}"


def _cv(spread: Spread) -> str | None:
    return None if spread.cv is None else formats.percent(spread.cv)


def _gpus(result: Result) -> Cell:
    gpus = result.group.hardware.gpus
    return absent(group_words.NO_GPU) if gpus is None else Cell(str(gpus))


def _runs(result: Result) -> Cell:
    """Count the valid runs, with the reasons of the others as notes."""
    group = result.group
    rejected = footnotes(group, "reject") if group.spread is not None else ()
    return Cell(f"{group.counted}/{len(group.members)}", rejected)


def _throughput(result: Result) -> Cell:
    group = result.group
    if group.spread is None:
        return Cell(ABSENT, footnotes(group, "reject") or ("no reason known",))
    return Cell(formats.rate(group.spread.median))


def _tokens_per_gpu(result: Result) -> Cell:
    group = result.group
    if group.spread is None:
        return Cell(ABSENT)
    if group.tokens_per_sample is None:
        return absent(group.missing.get("tokens_per_sample", "no valid figure"))
    gpus = group.hardware.gpus
    if gpus is None:
        return absent(group_words.NO_GPU)
    return Cell(formats.rate(group.spread.median * group.tokens_per_sample / gpus))


def _verdict(result: Result) -> Cell:
    """Write the state and its marks, each explained in a note.

    Dropped iterations are counted in a column of their own, with the reasons.
    """
    group = result.group
    notes = list[str]()
    parts = [state(group)]
    for mark in marks(group):
        words, _, meaning = mark.partition(": ")
        if words in ("left out", "warn"):
            continue  # these are notes of their own
        # What was overruled stands in the table by name.
        parts += [] if words.startswith("smoke") else [mark if words == "accepted" else words]
        if meaning and words != "accepted":
            notes.append(mark)
    of_sets = _describe_sets(result)
    parts += of_sets
    notes += (*footnotes(group, "warn"), *footnotes(group, "accepted"))
    notes += (*of_sets.values(), *group.judgements)
    return Cell("; ".join(parts).replace("; ◀", " ◀"), tuple(notes))


def _describe_sets(result: Result) -> dict[str, str]:
    """Write the change over the case's sets, its age, or newer runs without a figure."""
    words = {}
    name = result.group.key.set_name
    if (gone := result.missing_in) is not None:
        newer = counted(gone.sets, "newer set", ("lacks", "lack"))
        words[f"missing in {gone.set_name}"] = (
            f"the row is of set {name}, {_age(gone.behind_s)} older; {newer} it"
        )
    elif result.behind_s is not None:
        age = _age(result.behind_s)
        words[f"{age} older"] = f"the row is of set {name}, {age} older than the newest set"
    if (later := result.newer) is not None:
        note = f"newer: set {later.set_name}, {later.state}, has no figure"
        words[f"newer {later.state}"] = note
    if (changed := result.changed) is not None:
        mark, note = _describe_change(changed)
        words[mark] = f"{note}; see k8sbench history {result.group.key.benchmark}"
    if (levels := result.alternating) is not None:
        note = group_words.alternation(levels, result.group.unit)
        words["alternating"] = f"{note}; see k8sbench history {result.group.key.benchmark}"
    return words


def _age(seconds: float) -> str:
    return times.duration(60 * round(seconds / 60))


def _describe_change(changed: Changed) -> tuple[str, str]:
    """Write a change, and what it is."""
    if changed.kind == "back":
        return group_words.BACK, group_words.change(changed)
    mark = f"◀ {formats.signed_percent(changed.ratio)}"
    note = group_words.change(changed)
    if changed.of_set is not None:
        of_set = formats.signed_percent(changed.of_set)
        mark += f", this set {of_set}"
        note += f"; the set itself {of_set}"
    return mark, note


def _full_verdict(result: Result) -> Cell:
    """Write the verdict with ids of findings and missing GPU metrics."""
    cell = _verdict(result)
    group = result.group
    text = cell.text
    if ids := group.ids("reject"):
        text += f"{': ' if group.spread is None else '; left out: '}{', '.join(ids)}"
    lacking: dict[str, list[str]] = {}
    for title, name in GPU.items():
        if name not in group.gpu:
            is_imported = group.facts.backend == "imported"
            why = IMPORTED if is_imported else group.missing.get(name, "no valid figure")
            lacking.setdefault(why, []).append(title)
    notes = (
        f"no {'GPU metrics' if len(titles) == len(GPU) else ', '.join(titles)}: {why}"
        for why, titles in lacking.items()
    )
    return Cell(text, (*cell.notes, *notes))


def _time(result: Result) -> Cell:
    group, training = result.group, result.group.training
    if group.time_to_train_s is None:
        return absent(group.missing.get("time_to_train_s", "no valid figure"))
    aim = "" if training is None or training.target is None else f" of {training.target:g} %"
    reached = share(group.runs_at_target or 0, group.counted, "run")
    notes = [f"{reached} reached the target{aim}"]
    if group.ended_by == "target":
        notes.append("stopped at the target")
    return Cell(formats.seconds(group.time_to_train_s), tuple(notes))


def _accuracy(result: Result) -> Cell:
    """Write the accuracy at the target, else the best, and how it was reached."""
    group, training, reached = result.group, result.group.training, result.group.accuracy
    if reached is None:
        return absent(group.missing.get("accuracy", "no valid figure"))
    unit = "" if reached.unit in ("%", "fraction") else f" {reached.unit}"
    figure, _, mark = (accuracy(group) or "").rstrip(")").partition(" (")
    text = f"{figure}{unit} ({', '.join(filter(None, (reached.metric, mark)))})"
    notes = [SCRATCH] if training is not None and training.weights == SCRATCH else []
    if group.time_to_train_s is not None and reached.at_target not in (None, reached.best):
        notes.append(f"accuracy at the end of the time to train; best: {percent(reached)}")
    return Cell(text, tuple(notes))


def _restarts(result: Result) -> Cell:
    training = result.group.training
    if training is not None:
        return Cell(str(training.restarts))
    return absent(group_words.without_training(result.group))


def nearest(result: Result, quantity: str | None = None) -> Deviation | None:
    """Return the published figure for a row: the first comparable, else the first.

    Of several the one with the same version of the program.

    For a row of trainings the time to train, if one of its case was published, unless another
    ``quantity`` is given.
    """
    every = result.deviations or ()
    if quantity is None:
        times = [
            one for one in every if one.quantity == "time_to_train" and is_of_case(one, result)
        ]
        quantity = "time_to_train" if times else "throughput"
    found = [one for one in every if one.quantity == quantity]

    def rank(one: Deviation) -> tuple[int, bool, bool]:
        return len(one.not_comparable), not one.same_version, one.ratio is None

    return min(found, key=rank, default=None)


def is_of_case(one: Deviation, result: Result) -> bool:
    """True if a published figure has the row's case and precision."""
    facts = result.group.facts
    return (one.case, one.precision) == (result.group.key.case, facts.precision)


def as_published(one: Deviation, lang: str = "en") -> str:
    """Write a figure as it was published, and what its own logs give in place of a wrong one."""
    figure = formats.quantity(one, one.published)
    if one.corrected is None:
        return figure
    by_logs = say(lang, "corrected", figure=formats.quantity(one, one.corrected))
    return f"{figure}, {by_logs}"


def from_corrected(one: Deviation, lang: str) -> str:
    """Write from which figure a deviation is, where it is not the published one."""
    if one.corrected is None:
        return ""
    return say(lang, "from_corrected", figure=formats.quantity(one, one.corrected))


def asks_published(result: Result) -> bool:
    """True if published figures were asked for."""
    return result.deviations is not None or result.deviations_reason is not None


def _published(result: Result) -> Cell:
    """Write the published figure of the row's own case, else nothing."""
    one = nearest(result)
    if one is None:
        return absent(result.deviations_reason or "the catalog has no figure of this case")
    if not is_of_case(one, result):
        return absent("the catalog has no figure of this case and precision")
    is_time = one.quantity == "time_to_train"
    figure = (formats.seconds if is_time else formats.rate)(one.published)
    # Beside a time to train a throughput needs its unit.
    unit = f" {result.group.unit}" if trains(result) and not is_time else ""
    return Cell(figure + unit, (f"{one.source}: {one.title}",))


def _deviation(result: Result) -> Cell:
    """Write the deviation, or the differences that forbid one."""
    one = nearest(result)
    if one is None or not is_of_case(one, result) or "no-figure" in one.not_comparable:
        return Cell(ABSENT)  # the published figure, or ours, has the reason
    if (text := formats.deviation(one)) is None:
        return Cell(f"≠ {formats.unlike(one.not_comparable)}")
    others = result.group.by_estimator.keys() - {result.group.estimator}
    by = [f"deviation by {one.estimator}"] * (one.estimator in others)
    if one.ratios is not None:
        by = ["averaging rule of the published figure unknown: least and most over all rules"]
    return Cell(text, (*one.notes, *by))


def _beside(result: Result) -> Cell:
    """Write the published figure and the deviation for the default table.

    A line below the table tells why there is no deviation.
    """
    published = _published(result)
    deviation = _deviation(result)
    if deviation.text == ABSENT:
        return published
    sign, _, why = deviation.text.partition("≠ ")
    if not why:
        return Cell(f"{published.text} {sign or '≠'}", deviation.notes)
    other = why if why.startswith("different") else f"other {why}"
    return Cell(f"{published.text} {sign or '≠'}", (f"≠: {other}",))


# Which rows have a column


def trains(result: Result) -> bool:
    """True if a row trains to an accuracy, or shows a log's accuracy."""
    return result.group.facts.mode == "train" or result.group.runs_at_target is not None


def _any(of: Callable[[Result], object]) -> Shown:
    return lambda results, _: any(map(of, results))


def _if_any_scales(results: Sequence[Result], form: Form) -> bool:
    """True if any row has a speedup; without one the cells give the reason."""
    scaled = (r for r in results if r.speedup.value is not None)
    return form != "table" or any(r.baseline != r.group.key.id for r in scaled)


_any_figure = _any(lambda r: r.group.spread)
_any_length = _any(lambda r: r.group.key.training != "-")
_any_tokens = _any(lambda r: r.group.tokens_per_sample)
_any_queued = _any(lambda r: r.group.queued_s is not None)
_any_published = _any(asks_published)


def gmac(value: float) -> str:
    """Write 10⁹ multiply-accumulates."""
    return significant(value, 4)


def _source(result: Result) -> Cell:
    return Cell(", ".join(sorted({member.source for member in result.group.members})))


def _apart(title: str, *forms: Form, when: Shown = _always) -> ResultColumn:
    """Build a column that is always shown where rows differ in it."""

    def cell(result: Result) -> Cell:
        return Cell(group_words.value(result.group, title) or ABSENT)

    return text(title, cell, *(forms or _WIDE), when=when, tells_apart=True, cut=False)


GPU = {metric.column: name for name, metric in ROW_FIGURES.items() if metric.column}
"""Heading of a column → id of its GPU metric."""


def gpu_figures(group: Group) -> dict[str, str]:
    """Return a group's GPU metrics as text, by column headings."""

    def text(name: str, value: float) -> str:
        metric = ROW_FIGURES[name]
        if metric.unit == "ratio":
            return formats.percent(value)
        # A figure per 1,000 samples may be small.
        own = name == metric.id
        return metric.text(value) if own else f"{significant(value)} {metric.unit}"

    return {t: text(name, group.gpu[name]) for t, name in GPU.items() if name in group.gpu}


def _gpu(title: str) -> ResultColumn:
    def cell(result: Result) -> Cell:
        return Cell(gpu_figures(result.group).get(title, ABSENT))

    is_shown = _any(lambda r: title in gpu_figures(r.group))
    return number(title, cell, *FULL, when=is_shown)


COLUMNS: tuple[ResultColumn, ...] = (
    text("benchmark", _key("benchmark"), *_OF_PROGRAM, cut=False),
    text("framework", _fact("framework"), *_OF_PROGRAM, whole=True),
    text("case", _fact("case"), stays=True, whole=True),
    text("precision", _short_precision, "table", whole=True),
    text("precision", lambda r: Cell(precision(r.group)), *_NAMED, whole=True),
    text("node", _key("node"), when=_any(_is_pinned), stays=True, whole=True),
    number("GPUs", _gpus, *_TABLES),
    *(_apart(title, *_NAMED) for title in ("variant", "impl", "batch")),
    *map(_apart, ("set", "preset", "mode", "data", "window", "options", "backend", "pool")),
    _apart("namespace", when=_any(lambda r: r.group.key.namespace != "-")),
    _apart("measured by", when=_any(lambda r: r.group.key.measured_by != "-")),
    _apart("training", when=_any_length),
    *map(_apart, ("GPU model", "image", "program")),
    text("source", _source, when=_any(lambda r: _source(r).text != "here"), optional=2),
    number("runs", _runs, optional=3),
    number("time to train (s)", _time, when=_any(trains), stays=True),
    number("accuracy (%)", _accuracy, when=_any(trains), stays=True),
    number("throughput", _throughput, stays=True),
    number("±", _write_spread(_cv, None), "table", when=_any_figure, stays=True, optional=5),
    number("published", _beside, "table", "page", when=_any_published, stays=True),
    number("published", _published, *_TABLES, when=_any_published, stays=True),
    number("deviation", _deviation, *_TABLES, when=_any_published, stays=True),
    number("speedup", _speedup, when=_if_any_scales, stays=True, optional=4),
    number("min–max", _write_spread(_min_max), *_SPREAD),
    text("estimator", lambda r: Cell(r.group.estimator), *FULL),
    number("interval", _write_spread(interval), *_TABLES, "page"),
    number("efficiency", _figure("efficiency", formats.percent), *FULL),
    number("mean", _write_spread(lambda spread: formats.rate(spread.mean)), *_WIDE),
    number("CV", _write_spread(_cv), *_SPREAD),
    number("tokens/s per GPU", _tokens_per_gpu, *_WIDE, when=_any_tokens),
    number("TFLOP/s per GPU", _figure("tflops_per_gpu", significant), *_WIDE),
    number("of peak", _figure("peak_share", formats.percent), *_WIDE),
    number("GPU-hours", _optional("gpu_hours", significant), *_WIDE),
    number("queued (s)", _optional("queued_s", formats.seconds), "wide", when=_any_queued),
    number("data wait", _optional("data_fraction", formats.percent), *_WIDE),
    number("parameters", _optional("parameters", formats.millions), *_WIDE),
    number("GMAC", _optional("gmac", gmac), *_WIDE),
    number("restarts", _restarts, when=_any(lambda r: r.group.training), optional=5),
    *map(_gpu, GPU),
    text("group", _key("id"), "wide", whole=True),
    text("verdict", _verdict, "table", "page", stays=True, states=True),
    text("verdict", _full_verdict, *FULL, stays=True, states=True),
)
"""In the order of the tables."""
