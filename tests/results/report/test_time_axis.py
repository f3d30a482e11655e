"""The axis of a benchmark's sets: ticks, places, and what changed between sets."""

import random
import re
from datetime import UTC, datetime

import msgspec
import pytest

from k8sbench.model.compared import CaseHistory, Point
from k8sbench.results.report.chart import Event
from k8sbench.results.report.time_axis import MOST_EVENTS, MOST_TICKS, TimeAxis, events, time_axis
from tests.results.groups import nights
from tests.results.groups.grouped import histories
from tests.results.report.factory import START

DAY = nights.DAY


def known(count: int, cases: int = 1) -> list[CaseHistory]:
    return histories(nights.nights(random.Random(3), count, cases=cases))


def with_key(one: CaseHistory, place: int, **changes: str) -> CaseHistory:
    """Replace values of the key of a set."""

    def changed(number: int, point: Point) -> Point:
        if number < place:
            return point
        key = msgspec.structs.replace(point.group.key, **changes)
        return msgspec.structs.replace(point, group=msgspec.structs.replace(point.group, key=key))

    points = tuple(changed(number, point) for number, point in enumerate(one.points))
    return msgspec.structs.replace(one, points=points)


@pytest.mark.parametrize(
    ("span", "form"),
    [
        (600.0, "%H:%M"),
        (0.5 * DAY, "%H:%M"),
        (7 * DAY, "%m-%d"),
        (60 * DAY, "%m-%d"),
        (400 * DAY, "%Y-%m"),
        (2000 * DAY, "%Y-%m"),
        (20_000 * DAY, "%Y-%m"),
    ],
)
def test_ticks_are_round_times_that_fit_a_phone(span: float, form: str) -> None:
    axis = TimeAxis(START, START + span, None)
    assert 1 < len(axis.ticks) <= MOST_TICKS + 1
    for tick in axis.ticks:
        assert START <= tick.at <= START + span
        assert datetime.fromtimestamp(tick.at, UTC).strftime(form) == tick.label


def test_a_case_that_is_missing_ends_before_the_axis_does() -> None:
    one, other = known(8, cases=2)
    ended = msgspec.structs.replace(one, points=one.points[:5])
    axis = time_axis([ended, other])
    assert axis.place(ended.points[-1]) < axis.ends[1] == axis.place(other.points[-1])


def test_sets_without_dates_stand_in_their_order() -> None:
    (one,) = known(3)
    undated = msgspec.structs.replace(
        one,
        points=tuple(
            msgspec.structs.replace(point, group=msgspec.structs.replace(point.group, dates=None))
            for point in one.points
        ),
    )
    axis = time_axis([undated])
    assert [axis.place(point) for point in undated.points] == [0, 1, 2]
    assert (axis.ends, axis.ticks) == ((0, 2), ())


def test_another_image_or_program_is_an_event_of_its_set() -> None:
    one, other = known(6, cases=2)
    image = {"image": "registry/a@sha256:" + "1" * 64}
    changed = [with_key(with_key(one, 2, **image), 4, program="other"), with_key(other, 2, **image)]
    axis = time_axis(changed)
    found = events(changed, axis)
    assert [event.at for event in found] == [axis.place(one.points[2]), axis.place(one.points[4])]
    first, second = (event.text for event in found)
    assert first.endswith("→ registry/a@sha256:" + "1" * 12)
    assert second.startswith("night-004 (2026-11-22 ")
    assert " UTC): program " in second
    assert events([one, other], axis) == ()


def with_facts(one: CaseHistory, name: str, *values: object) -> CaseHistory:
    """Replace a fact of the group of each set."""
    points = tuple(
        msgspec.structs.replace(point, group=msgspec.structs.replace(point.group, **{name: value}))
        for point, value in zip(one.points, values, strict=True)
    )
    return msgspec.structs.replace(one, points=points)


def without_date(event: Event) -> str:
    return re.sub(r" \([^)]* UTC\)", "", event.text)


def test_another_driver_is_an_event_and_an_unknown_one_is_not() -> None:
    (one,) = known(3)
    changed = with_facts(one, "driver", "535", "535", "550")
    (event,) = events([changed], time_axis([changed]))
    assert without_date(event) == "night-002: driver 535 → 550"
    unknown = with_facts(one, "driver", "535", None, "535")
    assert events([unknown], time_axis([unknown])) == ()


def test_other_nodes_are_events_unless_they_come_and_go() -> None:
    (one,) = known(6)
    stays = with_facts(one, "nodes", *[("n1",)] * 4, *[("n2", "n3")] * 2)
    (event,) = events([stays], time_axis([stays]))
    assert without_date(event) == "night-004: node n1 → n2, n3"
    goes = with_facts(one, "nodes", *[("n1",), ("n2",)] * 3)
    goes = with_facts(goes, "driver", *["535"] * 5, "550")
    (event,) = events([goes], time_axis([goes]))
    assert without_date(event) == "night-005: driver 535 → 550"


def test_only_the_newest_events_are_drawn() -> None:
    (one,) = known(20)
    for place in range(1, 20):
        one = with_key(one, place, image=f"image:{place}")
    found = events([one], time_axis([one]))
    assert len(found) == MOST_EVENTS
    assert found[-1].text.startswith("night-019")
