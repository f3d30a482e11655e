"""Summaries that programs print of their run."""

from __future__ import annotations

import math
from collections.abc import Iterable

from k8sbench.model.sample import Mark

OTHER_RANK = 0.05
"""Maximum relative difference of the rates and times of a job's ranks."""
OTHER_NODE = 0.01
"""The same of nodes, whose summaries no number of a rank tells apart …"""
PRINTED = 1e-6
"""… and of their other numbers, which are equal: a program may print them with fewer digits."""


class Summaries:
    """The summaries of a run's logs, each with its file."""

    def __init__(self) -> None:
        self.last: tuple[Mark, str] | None = None
        """The last summary of neither the whole run nor the job's rate."""
        self.job_rates: list[tuple[Mark, str]] = []
        """Rates of the whole job that the log states beside those of its lines."""
        self._whole_runs: dict[tuple[int, str, int], dict[str, tuple[Mark, str]]] = {}
        """File's number, rank and header → text of a whole run's summary → summary, file."""

    def add(self, mark: Mark, file: str, *, number: int, header: int) -> None:
        """Add a summary of a file, which is the log's ``number``-th, behind a header of it."""
        if "job_rate" in mark.values:
            self.job_rates.append((mark, file))
        elif "whole_run_rate" in mark.values:
            self._whole_runs.setdefault((number, mark.source, header), {})[mark.text] = (mark, file)
        else:
            self.last = (mark, file)

    @property
    def whole_runs(self) -> list[tuple[Mark, str]]:
        """Summaries of different runs, with their files.

        Ranks and nodes of a job print the same one, if no further header lies between.
        """
        ranks = sorted(self._whole_runs, key=lambda rank: (rank[0], len(rank[1]), rank[1:]))
        runs: list[tuple[Mark, str]] = []
        for number, rank, header in ranks:
            is_first = (number, rank) == ranks[0][:2]
            before = [] if is_first and header != ranks[0][2] else list(runs[:1])
            for summary in self._whole_runs[number, rank, header].values():
                may_be_of_one_run = _may_be_of_nodes if is_first else _may_be_of_ranks
                if not any(may_be_of_one_run(summary[0], each[0]) for each in before):
                    runs.append(summary)
                    before.append(summary)
        return runs

    @property
    def whole_run(self) -> tuple[Mark, str] | None:
        """The first summary of a whole run; None without any."""
        return next(iter(self.whole_runs), None)


def _may_be_of_ranks(one: Mark, other: Mark) -> bool:
    """Return True if two summaries may be of two ranks of a job."""
    return _are_near(one, other, ("whole_run_rate", "whole_run_seconds"), OTHER_RANK)


def _may_be_of_nodes(one: Mark, other: Mark) -> bool:
    """Return True if two summaries are of the same work, and of about the same time.

    The steps by time and rate are as exact as the digits of that rate.
    """
    steps = [mark.number("by_rate") or 0.0 for mark in (one, other)]
    return (
        _are_near(one, other, ("whole_run_rate", "whole_run_seconds", "seconds"), OTHER_NODE)
        and _are_near(one, other, ("final_loss", "epochs"), PRINTED)
        and abs(steps[0] - steps[1]) <= (one.number("slack") or 0.0)
    )


def _are_near(one: Mark, other: Mark, names: Iterable[str], apart: float) -> bool:
    """Return True if the numbers of two summaries are equal but for a relative difference."""
    pairs = [(one.number(name) or 0.0, other.number(name) or 0.0) for name in names]
    return all(math.isclose(*pair, rel_tol=apart) for pair in pairs)
