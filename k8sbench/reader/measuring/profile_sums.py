"""Time, samples and loss of one rank, at the points of the profile's grid.

The number of points grows with the logarithm of the log's length. Times are in the unit of the
shape's deciding number, as in :mod:`.rank_sums`.
"""

from __future__ import annotations

from typing import NamedTuple

from k8sbench.model.profile import next_point

MOST_POINTS = 2
"""Most points that one line covers; a line of more gives its end in place of them."""


class ProfilePoint(NamedTuple):
    """Sums up to a point of the grid."""

    point: int
    """Iterations since the run's own first one."""
    iterations: float
    """Iterations that the lines cover, at most ``point``."""
    time: float
    samples: float
    """Samples as the lines state them; see :attr:`ProfileSums.states_samples`."""
    loss: float | None
    """Loss of the last line up to the point; None if no line has printed one."""


class ProfileSums:
    """Adds up lines that advance the iteration; keeps the sums at the points of the grid."""

    def __init__(self) -> None:
        self.points: list[ProfilePoint] = []
        self.states_samples = True
        """True if every line states the samples of its steps."""
        # Sums up to the latest line; plain fields, because a long log has many lines.
        self._position = 0
        self._iterations = 0
        self._time = 0.0
        self._samples = 0.0
        self._loss: float | None = None
        self._next_point = next_point(0)

    def add(
        self,
        position: int,
        covered: int,
        time: float,
        step_samples: float | None = None,
        loss: float | None = None,
    ) -> None:
        """Add a line at a position, counted from the run's own first iteration.

        ``time`` is that of all ``covered`` iterations. Iterations of earlier lines among them,
        which ran twice, count once.
        """
        distance = position - self._position
        if distance <= 0 or covered <= 0:
            return
        if covered > distance:
            time *= distance / covered
            covered = distance
        before = self._sums() if position >= self._next_point else None
        self._position = position
        self._iterations += covered
        self._time += time
        if step_samples is None:
            self.states_samples = False
        else:
            self._samples += covered * step_samples
        if loss is not None:
            self._loss = loss
        if before is not None:
            self._add_points(before, self._sums())

    @property
    def to_the_end(self) -> list[ProfilePoint]:
        """The points, and the end of the latest line."""
        end = self._sums()
        is_point = not end.point or (self.points and self.points[-1].point == end.point)
        return self.points if is_point else [*self.points, end]

    def _sums(self) -> ProfilePoint:
        return ProfilePoint(self._position, self._iterations, self._time, self._samples, self._loss)

    def _add_points(self, before: ProfilePoint, end: ProfilePoint) -> None:
        """Add the points between two lines, on a straight line; of a long line its end."""
        point = self._next_point
        found: list[int] = []
        while point <= end.point and len(found) <= MOST_POINTS:
            found.append(point)
            point = next_point(point)
        self._next_point = next_point(end.point)
        if len(found) <= MOST_POINTS:
            self.points += (_between(before, end, point) for point in found)
        else:
            self.points.append(end)


def _between(before: ProfilePoint, end: ProfilePoint, point: int) -> ProfilePoint:
    """Return the sums at a point after ``before``, up to ``end``."""
    if point == end.point:
        return end
    share = (point - before.point) / (end.point - before.point)
    return ProfilePoint(
        point=point,
        iterations=before.iterations + share * (end.iterations - before.iterations),
        time=before.time + share * (end.time - before.time),
        samples=before.samples + share * (end.samples - before.samples),
        loss=before.loss,
    )
