"""Columns of results: heading, cell, and tables.

Every cell is a figure, or ``–`` with the reason as a note; never 0 for "not measured". The verdict
notes why a row lacks GPU metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from k8sbench.messages import Arg, Lang, Note, note, of_catalog
from k8sbench.model import times, titles
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
from k8sbench.model.plain_text import ABSENT, significant
from k8sbench.results.report import formats, group_words
from k8sbench.results.report.group_words import (
    Mark,
    accuracy,
    footnotes,
    interval,
    marks,
    percent,
    precision,
    state,
)
from k8sbench.results.report.noted_tables import Cell, Footnote, absent
from k8sbench.results.report.tables import Column
from k8sbench.results.report.words import say

NO_VALID_FIGURE = note("no-valid-figure")
DIFFERENT = {"model", "gpu-model", "device", "precision"}
"""Ids of differences whose words say that something differs."""
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
    return ResultColumn(title, heading=titles.title(title), cell=cell, forms=forms or _ALL, **more)


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
            return absent(result.group.missing.get(name, NO_VALID_FIGURE))
        return Cell(write(value))

    return cell


def _write_spread(
    write: Callable[[Spread], str | None], why: Note | None = NO_VALID_FIGURE
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
    rejected = footnotes(group, "reject") if group.spread is not None else []
    return Cell(f"{group.counted}/{len(group.members)}", tuple(rejected))


def _throughput(result: Result) -> Cell:
    group = result.group
    if group.spread is None:
        return Cell(ABSENT, (*footnotes(group, "reject"),) or (note("no-reason-known"),))
    return Cell(formats.rate(group.spread.median))


def _tokens_per_gpu(result: Result) -> Cell:
    group = result.group
    if group.spread is None:
        return Cell(ABSENT)
    if group.tokens_per_sample is None:
        return absent(group.missing.get("tokens_per_sample", NO_VALID_FIGURE))
    gpus = group.hardware.gpus
    if gpus is None:
        return absent(group_words.NO_GPU)
    return Cell(formats.rate(group.spread.median * group.tokens_per_sample / gpus))


def _verdict(result: Result) -> Cell:
    """Write the state and its marks, each explained in a note.

    Dropped iterations are counted in a column of their own, with the reasons.
    """
    return _with_marks(result, state(result.group))


def _marks_alone(result: Result) -> Cell:
    """Write the verdict without that a row is valid, which the page says once of all."""
    is_valid = result.group.state == "valid" and not result.group.smoke
    return _with_marks(result, None if is_valid else state(result.group))


def _with_marks(result: Result, said: Note | None) -> Cell:
    """Write the marks behind a state, each explained in a note."""
    group = result.group
    notes = list[Note | Footnote]()
    for mark in marks(group):
        if mark.kind in ("left-out", "warn"):
            continue  # these are notes of their own
        # What was overruled stands in the table by name; the state says of a smoke run that it is.
        if mark.kind != "smoke":
            said = _joined("and-then", said, mark.said)
        if mark.meaning is not None:
            notes.append(Footnote(said=mark.meaning, head=mark.said))
    of_sets = [*_describe_age(result)]
    for mark in of_sets:
        said = _joined("and-then", said, mark.said)
    if result.changed is not None:
        is_back = result.changed.kind == "back"
        mark_of = group_words.BACK if is_back else _mark_change(result.changed)
        said = _joined("and-then" if is_back else "and-beside", said, mark_of)
    if result.alternating is not None:
        said = _joined("and-then", said, note("mark-alternating"))
    notes += (*footnotes(group, "warn"), *footnotes(group, "accepted"))
    notes += (mark.meaning for mark in of_sets if mark.meaning is not None)
    if result.changed is not None:
        notes.append(_see_history(group_words.change_of_set(result.changed), result))
    if result.alternating is not None:
        said_of = group_words.alternation(result.alternating, group.unit)
        notes.append(_see_history(said_of, result))
    head = titles.title("GPU metrics")
    judgements = (Footnote(said=judgement, head=head) for judgement in group.judgements)
    return Cell(said or "", (*notes, *judgements))


def _joined(how: str, first: Note | None, then: Note) -> Note:
    return then if first is None else note(how, first=first, then=then)


def _describe_age(result: Result) -> Iterator[Mark]:
    """Yield the age of a row, and newer sets that lack it or have no figure."""
    name = result.group.key.set_name
    if (gone := result.missing_in) is not None:
        age = _age(gone.behind_s)
        yield Mark(
            said=note("set-missing-in", set=gone.set_name),
            meaning=note("set-missing-in-meaning", own=name, age=age, sets=gone.sets),
        )
    elif result.behind_s is not None:
        age = _age(result.behind_s)
        yield Mark(
            said=note("set-older", age=age),
            meaning=note("set-older-meaning", own=name, age=age),
        )
    if (later := result.newer) is not None:
        newer = group_words.state_of(later.state)
        yield Mark(
            said=note("set-newer", state=newer),
            meaning=note("set-newer-meaning", set=later.set_name, state=newer),
        )


def _age(seconds: float) -> str:
    return times.duration(60 * round(seconds / 60))


def _mark_change(changed: Changed) -> Note:
    """Write the size of a change as a mark."""
    change = formats.signed_percent(changed.ratio)
    if changed.of_set is None:
        return note("mark-change", change=change)
    own = formats.signed_percent(changed.of_set)
    return note("mark-change-of-set", change=change, own=own)


def _see_history(said: Note, result: Result) -> Note:
    """Name the command that shows more of a change."""
    return note("see-history", what=said, benchmark=result.group.key.benchmark)


def _full_verdict(result: Result) -> Cell:
    """Write the verdict with ids of findings and missing GPU metrics."""
    cell = _verdict(result)
    group = result.group
    said = cell.text
    if ids := group.ids("reject"):
        left_out = note("mark-left-out", ids=ids)
        with_ids = note("state-why", state=said, why=ids)
        said = with_ids if group.spread is None else note("and-then", first=said, then=left_out)
    lacking: dict[Note, list[str]] = {}
    for title, name in GPU.items():
        if name not in group.gpu:
            is_imported = group.facts.backend == "imported"
            why = IMPORTED if is_imported else group.missing.get(name, NO_VALID_FIGURE)
            lacking.setdefault(why, []).append(title)
    notes = (
        note("no-gpu-metrics", why=why)
        if len(names) == len(GPU)
        else note("no-metric", metrics=tuple(map(titles.title, names)), why=why)
        for why, names in lacking.items()
    )
    return Cell(said, (*cell.notes, *notes))


def _time(result: Result) -> Cell:
    group, training = result.group, result.group.training
    if group.time_to_train_s is None:
        return absent(group.missing.get("time_to_train_s", NO_VALID_FIGURE))
    counts: dict[str, Arg] = {"reached": group.runs_at_target or 0, "runs": group.counted}
    if training is None or training.target is None:
        notes = [note("reached-target", **counts)]
    else:
        notes = [note("reached-target-of", target=f"{training.target:g}", **counts)]
    if group.ended_by == "target":
        notes.append(note("stopped-at-target"))
    return Cell(formats.seconds(group.time_to_train_s), tuple(notes))


def _accuracy(result: Result) -> Cell:
    """Write the accuracy at the target, else the best, and how it was reached."""
    group, training, reached = result.group, result.group.training, result.group.accuracy
    if reached is None:
        return absent(group.missing.get("accuracy", NO_VALID_FIGURE))
    unit = "" if reached.unit in ("%", "fraction") else f" {reached.unit}"
    figure, is_part = accuracy(group) or ("", False)
    unfinished = (note("unfinished"),) if is_part else ()
    shown = note("in-brackets", what=f"{figure}{unit}", more=(reached.metric, *unfinished))
    notes = [note("from-scratch")] if training and training.weights == SCRATCH else []
    if group.time_to_train_s is not None and reached.at_target not in (None, reached.best):
        notes.append(note("accuracy-at-end", best=percent(reached)))
    return Cell(shown, tuple(notes))


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


def as_published(one: Deviation, lang: Lang = "en") -> str:
    """Write a figure as it was published, and what its own logs give in place of a wrong one."""
    figure = formats.quantity(one, one.published)
    if one.corrected is None:
        return figure
    by_logs = say(lang, "corrected", figure=formats.quantity(one, one.corrected))
    return f"{figure}, {by_logs}"


def from_corrected(one: Deviation, lang: Lang) -> str:
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
        return absent(result.deviations_reason or note("no-published-of-case"))
    if not is_of_case(one, result):
        return absent(note("no-published-of-precision"))
    is_time = one.quantity == "time_to_train"
    figure = (formats.seconds if is_time else formats.rate)(one.published)
    # Beside a time to train a throughput needs its unit.
    unit = f" {result.group.unit}" if trains(result) and not is_time else ""
    return Cell(figure + unit, (Footnote(said=of_catalog(one.title), head=one.source),))


def _deviation(result: Result) -> Cell:
    """Write the deviation, or the differences that forbid one."""
    one = nearest(result)
    if one is None or not is_of_case(one, result) or "no-figure" in one.not_comparable:
        return Cell(ABSENT)  # the published figure, or ours, has the reason
    if (written := formats.deviation(one)) is None:
        return Cell(note("and-beside", first="≠", then=formats.unlike(one.not_comparable)))
    others = result.group.by_estimator.keys() - {result.group.estimator}
    by = [note("deviation-by", estimator=one.estimator)] * (one.estimator in others)
    if one.ratios is not None:
        by = [note("deviation-of-unknown-rule")]
    return Cell(written, (*one.notes, *by))


def _beside(result: Result) -> Cell:
    """Write the published figure and the deviation for the default table.

    A line below the table tells why there is no deviation.
    """
    published = _published(result)
    deviation = _deviation(result)
    if deviation.is_empty:
        return published
    if isinstance(deviation.text, str):
        return Cell(f"{published.text} {deviation.text}", deviation.notes)
    one = nearest(result)
    assert one is not None  # else the deviation is empty
    is_noun = one.not_comparable[0] not in DIFFERENT
    word = "unlike-other" if is_noun else "unlike-as"
    said = note(word, why=formats.unlike(one.not_comparable))
    return Cell(f"{published.text} ≠", (Footnote(said=said, head="≠"),))


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
    return Cell(tuple(note(f"source-{one}") for one in _sources(result)))


def _sources(result: Result) -> list[str]:
    return sorted({member.source for member in result.group.members})


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
    text("source", _source, when=_any(lambda r: _sources(r) != ["here"]), optional=2),
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
    text("verdict", _verdict, "table", stays=True, states=True),
    text("verdict", _marks_alone, "page", stays=True, states=True),
    text("verdict", _full_verdict, *FULL, stays=True, states=True),
)
"""In the order of the tables."""
