"""Summaries that programs print of their run."""

from __future__ import annotations

import math

from k8sbench.model.sample import Mark

OTHER_RANK = 0.05
"""Maximum relative difference of the summaries of a job's ranks."""


class Summaries:
    """The summaries of a run's logs, each with its file."""

    def __init__(self) -> None:
        self.last: tuple[Mark, str] | None = None
        """The last summary of neither the whole run nor the job's rate."""
        self.job_rates: list[tuple[Mark, str]] = []
        """Rates of the whole job that the log states beside those of its lines."""
        self._whole_runs: dict[tuple[int, str], dict[str, tuple[Mark, str]]] = {}
        """File's number and rank → text of a whole run's summary → summary, file."""

    def add(self, mark: Mark, file: str, *, number: int) -> None:
        """Add a summary of a file, which is the log's ``number``-th."""
        if "job_rate" in mark.values:
            self.job_rates.append((mark, file))
        elif "whole_run_rate" in mark.values:
            self._whole_runs.setdefault((number, mark.source), {})[mark.text] = (mark, file)
        else:
            self.last = (mark, file)

    @property
    def whole_runs(self) -> list[tuple[Mark, str]]:
        """Different summaries of whole runs, with their files.

        Of the lowest rank, and those of others that are of no rank of its job.
        """
        ranks = sorted(self._whole_runs, key=lambda rank: (rank[0], len(rank[1]), rank[1]))
        found = [summary for rank in ranks[:1] for summary in self._whole_runs[rank].values()]
        others = [summary for rank in ranks[1:] for summary in self._whole_runs[rank].values()]
        return found + [each for each in others if not _alike(each[0], found[0][0])]

    @property
    def whole_run(self) -> tuple[Mark, str] | None:
        """The first summary of a whole run; None without any."""
        return next(iter(self.whole_runs), None)


def _alike(one: Mark, other: Mark) -> bool:
    """Return True if two summaries may be of two ranks of a job."""
    names = ("whole_run_rate", "whole_run_seconds")
    pairs = [(one.number(name) or 0.0, other.number(name) or 0.0) for name in names]
    return all(math.isclose(*pair, rel_tol=OTHER_RANK) for pair in pairs)
