"""The port for the groups of a store's runs, as they were last judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from k8sbench.model.group import Group, GroupRow
from k8sbench.model.run import Run
from k8sbench.model.series import AcceptedLevel, Judged, Mark, SeriesState, Snapshot
from k8sbench.store.port import RunFilter, Store


class GroupIndex(Protocol):
    """The groups of a store, made of its runs once and kept beside them."""

    @property
    def is_read_only(self) -> bool:
        """True if nothing can be kept."""

    def changed_sets(self) -> dict[str, int]:
        """Return the sets whose groups are to be made anew, with the versions of the changes."""

    def open_sets(self) -> set[str]:
        """Return the sets with a run that goes on."""

    def put(self, made: Mapping[str, Sequence[Group]], versions: Mapping[str, int]) -> list[str]:
        """Keep the groups of some sets, less those that have changed since their versions.

        Returns the names of the sets whose groups are kept. Raises
        :class:`~k8sbench.model.errors.StoreError` where the store can only be read.
        """

    def made_by_this_version(self) -> None:
        """Record that all groups are made by this version of k8sbench."""

    def rows(self) -> list[GroupRow]:
        """Return the rows of all groups, oldest first."""

    def judged(self, ids: Collection[str]) -> dict[str, Judged]:
        """Return what the series of their cases say of groups, by id; absent if nothing."""

    def series_state(self) -> SeriesState:
        """Return how far the series of the cases are judged."""

    def snapshot(self) -> Snapshot:
        """Return the series of the cases before the newest night that was judged."""

    def put_judged(
        self,
        version: int,
        snapshot: Snapshot,
        judged: Mapping[str, Judged],
        revised: Mapping[str, Mark | None],
    ) -> bool:
        """Keep what the series say of groups, by id, and the changed marks of other ones.

        ``version`` is that of the groups that were judged. Returns False, and keeps nothing, if
        groups have changed since. Raises :class:`~k8sbench.model.errors.StoreError` where the store
        can only be read.
        """

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id."""

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""

    def runs_with_logs(self, digests: Collection[str]) -> dict[str, str]:
        """Return the runs with logs of some digests: run id → digest."""

    def logs(self) -> dict[str, dict[str, str | None]]:
        """Return the digests of the logs of all runs: set → run id → digest."""

    def complete_runs(self) -> set[str]:
        """Return the ids of the runs that are over and measured."""


class ServedGroups(Protocol):
    """The groups of an operator's store.

    All but the attributes is asked for when it is needed, and raises
    :class:`~k8sbench.model.errors.OperatorLost` where the operator does not answer.
    """

    @property
    def rows(self) -> Sequence[GroupRow]:
        """The rows of all groups."""

    @property
    def logs(self) -> Mapping[str, Mapping[str, str | None]]:
        """The digests of the logs of all runs: set → run id → digest."""

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id, less those that are gone."""

    def runs_of(self, set_name: str) -> Sequence[Run]:
        """Return the runs of a set, oldest first."""

    def newest_runs(self, wanted: RunFilter) -> Sequence[Run]:
        """Return the newest runs that match, oldest first."""


class GroupedStore(Store, Protocol):
    """A store that keeps the groups of its runs."""

    @property
    def group_index(self) -> GroupIndex:
        """The groups of the store."""

    def accepted(self) -> Sequence[AcceptedLevel]:
        """Return the accepted levels, one for each case."""

    def readable(self, run_id: str) -> Run | None:
        """Read a run; None if it was just removed, or is damaged."""
