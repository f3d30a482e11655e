"""Interfaces of the groups of a store's runs, as they were last judged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Run
from k8sbench.model.series import AcceptedLevel, Judged, Mark, NightState, SeriesRange
from k8sbench.store.interface import Store


class GroupIndex(Protocol):
    """The groups of a store's runs, kept in its index."""

    @property
    def is_read_only(self) -> bool:
        """True if nothing can be kept."""

    def changed_sets(self) -> dict[str, int]:
        """Return the sets whose groups are outdated, with the versions of their changes."""

    def open_sets(self) -> set[str]:
        """Return the sets with an open run."""

    def put(
        self, groups_by_set: Mapping[str, Sequence[Group]], versions: Mapping[str, int]
    ) -> list[str]:
        """Keep the groups of some sets, without sets that have changed since ``versions``.

        Returns the names of the sets whose groups are kept. Raises
        :class:`~k8sbench.model.errors.StoreError` where the store can only be read.
        """

    def note_version(self) -> None:
        """Record that this version of k8sbench computed all groups."""

    def rows(self) -> list[GroupRow]:
        """Return the rows of all groups, oldest first."""

    def read_judged(self, ids: Collection[str]) -> dict[str, Judged]:
        """Return the judgements of groups by their series, by id; absent without one."""

    def notable(self) -> set[str]:
        """Return the ids of the groups whose judgement is notable (:attr:`.Judged.is_notable`)."""

    def nights(self) -> list[NightState]:
        """Return the nights that were judged, without their states, oldest first."""

    def night_state(self, night: int) -> bytes | None:
        """Return the series after a night; None if it is not kept."""

    def put_nights(
        self,
        after: int,
        nights: Sequence[NightState],
        judged: Mapping[str, tuple[int, Judged]],
        revised: Mapping[str, Mark | None],
    ) -> None:
        """Keep judgements, and the nights in place of those after one.

        ``judged`` are the night and the judgement of groups by id, ``revised`` the changed marks of
        other groups. All is a cache: the digest of a night says whether it still holds. Raises
        :class:`~k8sbench.model.errors.StoreError` where the store can only be read.
        """

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id."""

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""

    def runs_with_logs(self, digests: Collection[str]) -> dict[str, str]:
        """Return the runs with logs of some digests: run id → digest."""

    def created(self) -> dict[str, dict[str, float]]:
        """Return the creation of all runs, Unix seconds: set → run id → time."""


class GroupedStore(Store, Protocol):
    """A store that keeps the groups of its runs."""

    @property
    def group_index(self) -> GroupIndex:
        """The groups of the store."""

    def accepted_levels(self) -> Sequence[AcceptedLevel]:
        """Return the accepted levels, one for each case."""

    def series_ranges(self) -> Sequence[SeriesRange]:
        """Return the ranges of series, one for each case that has one."""

    def fix_ranges(self, ranges: Iterable[SeriesRange], *, replaces: bool = False) -> None:
        """Keep ranges of cases; a case that has one keeps it unless the new one replaces it.

        Raises :class:`~k8sbench.model.errors.StoreError` where the store can only be read.
        """

    def read_run(self, run_id: str) -> Run | None:
        """Read a run; None if it was just removed, or is damaged."""
