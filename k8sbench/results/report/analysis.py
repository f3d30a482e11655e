"""Analysis of a published report: what stands out, and what explains each row.

It has sentences on each program, from its rows and their reasons, and the pairs for the table of
AMP against FP32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from k8sbench import messages
from k8sbench.messages import Lang
from k8sbench.model.group import Group, Result
from k8sbench.results.groups.speedup import unlike_but_in_precision
from k8sbench.results.report import formats, standing_out
from k8sbench.results.report.columns import as_published, is_of_case, nearest
from k8sbench.results.report.noted_tables import Footnote, of_runs
from k8sbench.results.report.words import chained, join, named, say

APART = 0.02
"""Relative difference between two estimators from which both are named."""
THROTTLED = 0.01
"""Share of throttled time from which it is named."""
_CASE = ("benchmark", "framework", "variant", "impl", "case")
"""Fields that the FP32 row beside an AMP row shares."""


class Gain(NamedTuple):
    """AMP against FP32 on one case."""

    amp: Group
    fp32: Group
    estimator: str
    """The AMP row's own, else one that both have."""
    ratio: float | None
    """None where the rows differ in more than their precision."""
    unlike: tuple[str, ...]
    """Ids of what forbids the ratio."""


def gains(groups: Sequence[Group]) -> list[Gain]:
    """Pair each AMP row with the FP32 row of its program and case.

    Of several with the one that differs in the fewest respects, then of its set.
    """
    made = []
    for amp in (group for group in groups if group.facts.precision == "amp" and not group.smoke):

        def nearness(one: Group, amp: Group = amp) -> tuple[int, bool]:
            is_own = amp.key.set_name == one.key.set_name
            return -len(unlike_but_in_precision(amp, one)), is_own

        alike = [
            one
            for one in groups
            if (one.facts.precision, one.smoke) == ("fp32", False)
            and all(getattr(one.key, name) == getattr(amp.key, name) for name in _CASE)
        ]
        fp32 = max(alike, key=nearness, default=None)
        names = (amp.estimator, *amp.by_estimator)
        both = amp.by_estimator.keys() & (fp32.by_estimator.keys() if fp32 else ())
        if fp32 is not None and both:
            name = next(name for name in names if name in both)
            unlike = unlike_but_in_precision(amp, fp32)
            ratio = None if unlike else amp.by_estimator[name] / fp32.by_estimator[name]
            made.append(Gain(amp, fp32, name, ratio, unlike))
    return made


def analysis(
    results: Sequence[Result], names: Mapping[str, str], lang: Lang
) -> Iterator[tuple[str, list[str]]]:
    """Yield each program with sentences, unless nothing can be said of it."""
    programs: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        key = result.group.key
        programs.setdefault((key.benchmark, key.framework), []).append(result)
    for program, some in programs.items():
        rows = ((names[result.group.key.id], list(_explain_row(result, lang))) for result in some)
        on_rows = [
            named(lang, row, chained(lang, "and-then", parts)) for row, parts in rows if parts
        ]
        first = standing_out.sentences(some, names, lang)
        if sentences := [*first, *_explain_program(some, names, lang), *on_rows]:
            yield " ".join(program), sentences


def _explain_program(
    results: Sequence[Result], names: Mapping[str, str], lang: Lang
) -> Iterator[str]:
    """Yield how a program scales and what AMP gains."""
    scaled = [
        say(lang, "scaled", row=names[r.group.key.id], speedup=formats.ratio(r.speedup.value))
        + (f" ({formats.percent(r.efficiency.value)})" if r.efficiency.value is not None else "")
        for r in results
        if r.speedup.value is not None and r.baseline != r.group.key.id
    ]
    if scaled:
        yield say(lang, "scaling", rows=join(lang, scaled))
    found = (gain.ratio for gain in gains([r.group for r in results]))
    if ratios := sorted(ratio for ratio in found if ratio is not None):
        ends = dict.fromkeys(map(formats.ratio, (ratios[0], ratios[-1])))
        yield say(lang, "gained", ratio="–".join(ends))


def _explain_row(result: Result, lang: Lang) -> Iterator[str]:
    """Yield what explains a row's figure."""
    group = result.group
    if left := len(group.members) - group.counted:
        ids = ", ".join(f"`{name}`" for name in group.ids("reject")) or group.state
        yield say(lang, "do_not_count", number=left, runs=len(group.members), ids=ids)
    # Of another way to compute the first sentences tell, with the published figure.
    is_told = any(standing_out.other_estimator(result, "", lang))
    own = None if is_told else group.by_estimator.get(group.estimator)
    for name in ("median", "time_weighted", "timestamps"):
        other = group.by_estimator.get(name)
        if own and other and name != group.estimator and abs(other / own - 1) >= APART:
            ratio = formats.signed_percent(other / own - 1)
            yield say(lang, f"by_{name}", rate=formats.rate(other), ratio=ratio)
    if (throttled := group.gpu.get("throttled", 0.0)) >= THROTTLED:
        yield say(lang, "was_throttled", share=formats.percent(throttled))
    for judgement in group.judgements:
        yield messages.text(lang, judgement)
    for reason in group.reasons:
        yield messages.text(lang, of_runs(Footnote(said=reason.said), reason.id))
    one = nearest(result, "throughput")
    ratios = [] if one is None else [one.ratio, *(one.ratios or ())]
    is_far = any(ratio is not None and abs(ratio) >= APART for ratio in ratios)
    if is_told or one is None or not is_far or not is_of_case(one, result):
        return
    if text := formats.deviation(one):
        figure = as_published(one, lang)
        word = "against_any" if one.ratio is None else "against"
        yield say(lang, word, deviation=text, figure=figure, source=one.source)
