"""Sentences on what stands out in a program's rows, for the beginning of their analysis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from k8sbench import messages
from k8sbench.messages import Lang
from k8sbench.model import rules
from k8sbench.model.group import Deviation, Result
from k8sbench.results.report import formats
from k8sbench.results.report.columns import as_published, is_of_case
from k8sbench.results.report.noted_tables import Footnote, of_runs
from k8sbench.results.report.words import chained, say

RISES = 0.05
"""Rise of the efficiency with more GPUs from which it is named."""
POOR = 0.75
"""Efficiency below which it is named."""
FAR = 0.05
"""Distance of our figure from a published one from which another estimator is looked at."""
NEAR = 0.015
"""Distance of that estimator's figure from the published one."""
WAITED = 0.05
"""Share of the time waiting for data from which it is named."""


def sentences(results: Sequence[Result], names: Mapping[str, str], lang: Lang) -> Iterator[str]:
    """Yield what stands out in the rows of one program."""
    causes = {}
    for result in results:
        row = names[result.group.key.id]
        if (share := result.group.data_fraction) is not None and share >= WAITED:
            waited = say(lang, "waited", row=row, share=formats.percent(share))
            causes[result.group.key.id] = waited
    yield from _odd_scaling(results, causes, lang)
    yield from causes.values()
    for result in results:
        row = names[result.group.key.id]
        yield from _slow_lines(result, row, lang)
        yield from other_estimator(result, row, lang)


def _odd_scaling(results: Sequence[Result], causes: dict[str, str], lang: Lang) -> Iterator[str]:
    """Yield where more GPUs are more efficient than fewer, and poor efficiency.

    ``causes`` has a sentence by group id. What is told with the efficiency of its row is taken out.
    """
    by_program: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        if result.efficiency.value is not None and _gpus(result) > 1:
            key = result.group.key
            program = (key.variant, key.precision, key.batch_size, key.set_name, key.gpu_model)
            by_program.setdefault(program, []).append(result)
    for some in by_program.values():
        some.sort(key=_gpus)
        told: set[str] = set()
        for few, many in itertools.pairwise(some):
            rises = (many.efficiency.value or 0) - (few.efficiency.value or 0) > RISES
            if rises and _gpus(few) < _gpus(many):
                told.add(few.group.key.id)
                risen = say(lang, "rises", **_pair(few, many))
                cause = causes.pop(few.group.key.id, "")
                yield chained(lang, "next-sentence", (risen, _published(few, many, lang), cause))
        for result in some:
            if result.group.key.id not in told and (value := result.efficiency.value or 0) < POOR:
                gpus = _gpus(result)
                precision = str(result.group.facts.precision).upper()
                share = formats.percent(value)
                poor = say(lang, "poor", gpus=gpus, precision=precision, share=share)
                cause = causes.pop(result.group.key.id, "")
                yield chained(lang, "next-sentence", (poor, cause))


def _gpus(result: Result) -> int:
    """Return the world size of a row; 0 where nothing states it."""
    return result.group.facts.world_size or 0


def _pair(few: Result, many: Result) -> dict[str, object]:
    return {
        "precision": str(few.group.facts.precision).upper(),
        "few": _gpus(few),
        "many": _gpus(many),
        "low": formats.percent(few.efficiency.value or 0),
        "high": formats.percent(many.efficiency.value or 0),
    }


def _published(few: Result, many: Result, lang: Lang) -> str:
    """Tell which published figures have the same."""
    gpus = (_gpus(few), _gpus(many))
    for source, speedups in many.published_speedups.items():
        if all(count in speedups for count in gpus):
            low, high = (speedups[count] / count for count in gpus)
            if high - low > RISES:
                shares = {"low": formats.percent(low), "high": formats.percent(high)}
                return say(lang, "rises_there", source=source, **shares)
    return ""


def _slow_lines(result: Result, row: str, lang: Lang) -> Iterator[str]:
    """Yield what the first counted run with unsteady lines says of them."""
    counted = [member for member in result.group.members if member.rate is not None]
    found = [
        reason for member in counted for reason in member.reasons if reason.id == rules.UNSTEADY.id
    ]
    if found:
        runs = say(lang, "of_runs", number=len(found), runs=len(counted))
        place = f"{row} ({runs})" if len(counted) > 1 else row
        yield messages.text(lang, of_runs(Footnote(said=found[0].said), place))


def other_estimator(result: Result, row: str, lang: Lang) -> Iterator[str]:
    """Yield a published figure that is near another estimator of ours than the row's."""
    group = result.group
    own = group.by_estimator.get(group.estimator)
    for one in result.deviations or ():
        if one.ratios is None or not own or not is_of_case(one, result):
            continue
        theirs = one.theirs
        name, near = min(group.by_estimator.items(), key=lambda each: abs(each[1] / theirs - 1))
        if abs(own / theirs - 1) < FAR or abs(near / theirs - 1) > NEAR:
            continue
        yield _nearer(one, row, (name, near), (group.estimator, own), lang)
        return


def _nearer(
    one: Deviation,
    row: str,
    near: tuple[str, float],
    own: tuple[str, float],
    lang: Lang,
) -> str:
    return say(
        lang,
        "nearer",
        row=row,
        figure=as_published(one, lang),
        source=one.source,
        near=f"`{near[0]}` {formats.rate(near[1])}",
        own=f"`{own[0]}` {formats.rate(own[1])}",
        ratio=formats.signed_percent(own[1] / one.theirs - 1),
    )
