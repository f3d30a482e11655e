"""A page with every kind of row and one run's course."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.messages import quoted
from k8sbench.model.group import Group
from k8sbench.model.measurement import MeasuredWindow
from k8sbench.model.profile import Curve
from k8sbench.model.run import Run
from k8sbench.results.groups import selection
from k8sbench.results.groups.group_figures import spread
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.report.page_content import Page
from k8sbench.results.report.plot import History
from tests.results.groups import nights
from tests.results.groups.grouped import Grouped, report
from tests.results.report import example
from tests.results.report.factory import START, reject, repeats, run


def timeline() -> History:
    """The course of one run of the example's largest row."""
    drawn = next(one for one in example.runs() if one.plan.case == "1x8")
    iterations = tuple(range(10, 5000, 10))
    draw = random.Random(3)
    rates = tuple(2800 + 50 * math.sin(at / 40) + draw.gauss(0, 20) for at in iterations)
    curve = Curve(iterations=iterations, rates=rates)
    assert drawn.measurement is not None
    measured = msgspec.structs.replace(
        drawn.measurement, window=drawn.measurement.window or window()
    )
    return History(run_id=drawn.run_id, unit="samples/s", measured=measured, curve=curve)


def window() -> MeasuredWindow:
    return MeasuredWindow(first_iteration=1, last_iteration=5000, seconds=90.0)


def page(**changes: Any) -> Page:
    """The page, fields replaced by ``changes``."""
    made = report(example.runs(), Wanted(), find=example.find, published=True, over_sets=True)
    fields: dict[str, Any] = {
        "results": made.results,
        "parities": made.parities,
        "series": made.series,
        "compared": made.compared,
        "histories": [timeline()],
        "at": START,
        "version": "1.2.3",
        **changes,
    }
    return Page(**fields)


HOSTILE = "<script>alert('owned')</script><img src=x onerror=alert(1)>&\"'" + "x" * 200


def hostile() -> Page:
    """Names, reasons and messages as somebody would write them who means harm."""
    found = page()
    results = []
    for result in found.results:
        group = result.group
        key = msgspec.structs.replace(group.key, set_name=HOSTILE, benchmark=HOSTILE, image=HOSTILE)
        planned = group.planned and msgspec.structs.replace(group.planned, spec_source=HOSTILE)
        reasons = tuple(
            msgspec.structs.replace(one, sentence=HOSTILE)
            for member in group.members
            for one in member.reasons
        )
        group = msgspec.structs.replace(
            group, key=key, planned=planned, reasons=reasons, judgements=(quoted(HOSTILE),)
        )
        results.append(msgspec.structs.replace(result, group=group))
    return msgspec.structs.replace(found, results=results, title=HOSTILE)


def many(benchmarks: int, cases: int, sets: int, *, every: bool = False) -> Page:
    """A page of a store with many rows, with or without the older sets."""
    draw = random.Random(3)
    runs = [
        one
        for benchmark in range(benchmarks)
        for case in range(cases)
        for number in range(sets)
        for one in repeats(
            [100 * (case + 1) * draw.uniform(0.99, 1.01) for _ in range(3)],
            benchmark=f"bench{benchmark}",
            case=f"{2 ** (case % 4)}x8",
            batch_size=32 * (1 + case // 4),
            set_name=f"night-{number}",
            at=START + number * 86400,
        )
    ]
    return _of(report(runs, Wanted(every=every), over_sets=True))


def _of(made: Report) -> Page:
    return page(
        results=made.results,
        parities=[],
        histories=[],
        series=made.series,
        compared=made.compared,
        begins=made.begins,
    )


class RunsOf(Mapping[str, Run]):
    """The runs of made groups, as far as causes of changes need them."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._groups = {member.run_id: group for group in groups for member in group.members}

    def __getitem__(self, run_id: str) -> Run:
        group = self._groups[run_id]
        reported = {"environment": {"driver": group.driver, "kernel": "5.15"}}
        return run(1.0, run_id=run_id, image=group.key.image, measured=reported)

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


Change = Callable[[int, Group], Group | None]
"""Night and group of a case → the group as it is to be; None: the night lacks it."""


def nightly(count: int, *cases: int, change: Change = lambda _, group: group) -> Page:
    """A page of some nights; ``cases`` are the numbers of cases of each benchmark."""
    draw = random.Random(5)
    made: list[Group] = []
    for number, of_one in enumerate(cases):
        for group in nights.nights(draw, count, cases=of_one, noise=0.001, days=0.001):
            key = msgspec.structs.replace(group.key, benchmark=f"bench{number}")
            night = round((group.began[0] - START) / nights.DAY)
            members = tuple(
                msgspec.structs.replace(one, run_id=f"{key.benchmark}-{key.case}-{night}-{repeat}")
                for repeat, one in enumerate(group.members, 1)
            )
            named = msgspec.structs.replace(group, key=key, members=members)
            changed = change(night, named)
            made += [] if changed is None else [changed]
    known = Grouped(made)
    known.runs = RunsOf(made)
    return _of(selection.report(known, Wanted(), over_sets=True))


def troubled(night: int, group: Group) -> Group | None:
    """Change the cases of a benchmark as 30 nights may: a step, a set that differs, and so on."""
    case = group.key.case
    assert group.spread is not None
    factor = {
        "1x8": 0.932 if night >= 20 else 1.0,
        "2x8": 0.95 if night == 29 else 1.0,
        "3x8": 1.06 if night == 29 else 1.0,
        "6x8": 0.985 if night == 28 else 1.0,
    }.get(case, 1.0)
    if case == "4x8" and night >= 26:
        return None
    image = f"registry.example/pytorch:{1 + (night >= 20) + (night >= 27)}"
    driver = "550.54" if case == "1x8" and night >= 20 else group.driver
    key = msgspec.structs.replace(group.key, image=image)
    group = msgspec.structs.replace(group, key=key, driver=driver)
    if case == "5x8" and night >= 28:
        (member, *_) = group.members
        lost = msgspec.structs.replace(
            member, rate=None, verdict="rejected", reasons=(reject("gpu-shared"),)
        )
        return msgspec.structs.replace(group, spread=None, members=(lost,))
    return scaled(group, factor)


def stopped(night: int, group: Group) -> Group | None:
    """Measure a case that has become slower no more, and another one once a week."""
    case = group.key.case
    if (case == "1x8" and night >= 20) or (case == "2x8" and night % 7):
        return None
    return scaled(group, 0.95 if case == "1x8" and night >= 10 else 1.0)


def scaled(group: Group, factor: float) -> Group:
    """Multiply the rates of a group."""
    rates = [factor * (member.rate or 0.0) for member in group.members]
    members = tuple(
        msgspec.structs.replace(member, rate=rate)
        for member, rate in zip(group.members, rates, strict=True)
    )
    return msgspec.structs.replace(group, spread=spread(rates), members=members)
