"""The marks of single sets and of steps are those of an independent implementation.

``reference_marks.json`` holds what an implementation in numpy and scipy, which is not part of this
repository, says on each night of 200 made histories. It was written by the authors of the rule from
its description in docs/compare.md, with the correlation of nights around each level's line. Its
script calls :func:`history` for each number, plays the logarithms, and writes for each night and
case: ``odd`` (the newest set is unconfirmed), ``once`` (the set before differed once), ``change``
with the night at which the level is cut. The sum of a history's logarithms shows that both judge
the same figures.
"""

import json
import math
import pathlib
import random
from typing import NamedTuple

import pytest

from k8sbench.results.groups import cuts, levels, series
from tests.results.groups.played import Store
from tests.results.groups.worlds import DAYS, UNLIKE, Level, Nights, Noise, made, same, step

MARKS = pathlib.Path(__file__).parent / "reference_marks.json"
HISTORIES = 200


class History(NamedTuple):
    """A made history: cases × nights of one figure."""

    world: Nights
    name: str


def history(number: int) -> History:
    """Make a history of one to nine cases and 12 to 60 nights."""
    draw = random.Random(number)
    cases = draw.choice((1, 1, 1, 3, 3, 6, 9))
    nights = draw.choice((12, 16, 20, 30, 40, 60))
    noise = Noise(
        days=draw.choice((DAYS, UNLIKE)),
        correlation=draw.choice((0.0, 0.0, 0.5)),
        heavy=draw.random() < 0.4,
        odd=draw.choice((0.0, 0.0, 0.03)),
        runs=1,
    )
    name, level = _change(draw, cases, nights)
    return History(made(draw, cases, nights, noise, level), f"{noise}, {name}")


def _change(draw: random.Random, cases: int, nights: int) -> tuple[str, Level]:
    """Return what changes in a history, and its level."""
    at = draw.randrange(4, nights - 3)
    size = draw.choice((-0.05, -0.03, -0.02, -0.01, 0.02))
    kind = draw.choice(("nothing", "one", "all", "some nights", "twice"))
    if kind == "nothing":
        return kind, same
    if kind == "all":
        return kind, step(size, at, cases=cases)
    if kind == "some nights":
        return kind, step(size, at, until=at + draw.randrange(1, 5))
    first, second = step(size, at), step(draw.choice((1, -1)) * size, at + draw.randrange(2, 8))
    if kind == "twice":
        return kind, lambda case, night: first(case, night) + second(case, night)
    return kind, first


def logarithms(number: int) -> list[list[float]]:
    """Return the logarithms of a history by case and night."""
    return [[run for (run,) in nights] for nights in history(number).world]


class OfSetsAndCuts(series.Judge):
    """The rule without drifts and alternation, which the reference does not have."""

    def _find_drift(self, *_: object) -> bool:
        return False

    def _find_shared_drift(self, *_: object) -> None:
        pass

    def _alternate(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def of_sentences_one_to_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the form of a change, which may move its begin, and the limit of an odd set."""
    none = levels.Form("step", 0, 0.0, 0.0, 1.0)
    monkeypatch.setattr(levels, "form_of", lambda *_: none)
    monkeypatch.setattr(series, "MOST_ODD", math.inf)
    monkeypatch.setattr(cuts, "FEW_BEFORE", 0)


def marks(world: Nights) -> list[str]:
    """Return what each night says: night, case, what, and where a level is cut."""
    lines = []
    for said in Store(OfSetsAndCuts).play(world).said:
        if said.kind == "unconfirmed":
            lines.append((said.night, said.case, "odd"))
        elif said.kind == "once" and said.at == said.night - 1:
            lines.append((said.night, said.case, "once"))
        elif said.is_change:
            lines.append((said.night, said.case, f"change {said.since}"))
    return [f"{night} {case} {what}" for night, case, what in sorted(lines)]


REFERENCE = json.loads(MARKS.read_text())


@pytest.mark.parametrize("part", range(8))
def test_sets_and_steps_have_the_marks_of_the_reference(part: int) -> None:
    for number in range(part, HISTORIES, 8):
        reference = REFERENCE[number]
        total = math.fsum(map(math.fsum, logarithms(number)))
        assert total == pytest.approx(reference["sum"], abs=1e-9)
        world, name = history(number)
        assert marks(world) == reference["marks"], (number, name)
