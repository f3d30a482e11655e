"""Worlds played night by night, with the marks of each night."""

import copy
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

from k8sbench.model.group import GroupRow
from k8sbench.model.series import DAY, Kind, Mark, Open
from k8sbench.results.groups import series
from tests.results.groups.worlds import Nights

REMEMBERED = 45
"""Newest sets of a case whose marks may still change."""


def row(case: int, night: int, runs: Sequence[float], *, own_sets: bool = False) -> GroupRow:
    """Return the row of a case in a night of the logarithms of its runs."""
    begin = DAY * (night + 20000) + case
    return GroupRow(
        set_name=f"n{night}-{case}" if own_sets else f"n{night}",
        group_id=f"{case}-{night}",
        series=str(case),
        benchmark="seg",
        framework="pytorch",
        precision="fp32",
        case="1x8",
        gpus=8,
        gpu_model="V100",
        estimator="time_weighted",
        began=begin,
        ended=begin,
        latest=begin,
        counted=len(runs),
        median=math.exp(statistics.median(runs)),
        deviation=statistics.stdev(runs) if len(runs) > 1 else None,
        state="valid",
        in_progress=0,
        measures="speed",
    )


def night_of(set_name: str) -> int:
    return int(set_name.removeprefix("n").partition("-")[0])


class Said(NamedTuple):
    """A mark that a night sets, or changes."""

    night: int
    """The night that says it."""
    case: int
    at: int
    """Night of the set that has the mark."""
    kind: Kind
    since: int
    """Night with which the change begins."""
    together: int

    @property
    def is_change(self) -> bool:
        return self.kind in ("step", "drift")


class Store:
    """A store whose nights are judged one after the other."""

    def __init__(self, judge: Callable[[], series.Judge] = series.Judge) -> None:
        self.judge = judge()
        self.nights = 0
        self.said: list[Said] = []
        self.open: list[dict[int, Open]] = []
        """Confirmed open changes after each night, by case."""
        self.alternating: list[set[int]] = []
        """Cases that alternate between two levels, after each night."""
        self._marks: dict[str, Mark | None] = {}
        self._names: dict[int, list[tuple[str, int]]] = {}
        """Group ids and nights of the newest sets, by case."""

    def copy(self) -> Self:
        return copy.deepcopy(self)

    def play(self, world: Nights, *, own_sets: bool = False) -> Self:
        """Judge the nights of a world after those that were played before."""
        first = self.nights
        for night in range(len(world[0])):
            rows = [
                row(case, first + night, nights[night], own_sets=own_sets)
                for case, nights in enumerate(world)
                if nights[night]
            ]
            self._night(rows)
        return self

    def _night(self, rows: Sequence[GroupRow]) -> None:
        night = self.nights
        self.nights += 1
        self.judge.night(rows)
        for judged in rows:
            case = int(judged.series)
            names = [*self._names.get(case, [])[1 - REMEMBERED :], (judged.group_id, night)]
            self._names[case] = names
        self.said += self._new_marks()
        newest = {case: self.judge.judged[names[-1][0]] for case, names in self._names.items()}
        self.open.append(
            {
                case: judged.open
                for case, judged in newest.items()
                if judged.open and judged.open.kind != "unconfirmed"
            }
        )
        self.alternating.append({case for case, judged in newest.items() if judged.alternating})

    def _new_marks(self) -> Iterator[Said]:
        for case, names in self._names.items():
            for group_id, at in names:
                judged = self.judge.judged[group_id]
                mark = judged.mark
                before = self._marks.get(group_id)
                self._marks[group_id] = mark
                if mark is None or (
                    before and (mark.kind, mark.since) == (before.kind, before.since)
                ):
                    continue
                yield Said(
                    self.nights - 1, case, at, mark.kind, night_of(mark.since), mark.together
                )
