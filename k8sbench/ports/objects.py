"""The port for Benchmarks as objects: on the API server, or in a store's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from k8sbench.model.benchmark_object import Benchmark, StatusEvent


class Objects(Protocol):
    """The Benchmark objects of a namespace; any thread may call."""

    @property
    def problem(self) -> str:
        """Reason why objects are not known or not all served; empty without one."""

    def current(self) -> Mapping[str, Benchmark | None] | None:
        """Return all objects by uid; None while they are not known.

        An object that cannot be read is None: nothing is to be concluded from it.
        """

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:  # noqa: ARG002
        """Return the objects of other processes that are not over, by ``is_live`` of their names.

        Empty where one process has all objects.
        """
        return ()

    def write(
        self, known: Benchmark, status: Mapping[str, Any], events: Iterable[StatusEvent] = ()
    ) -> None:
        """Merge a patch into the status of an object, unless it is gone.

        Then tell the ``events``; lost ones are no error. Raises
        :class:`~k8sbench.model.errors.BenchError`.
        """

    def delete(self, known: Benchmark) -> None:
        """Delete an object; raises :class:`~k8sbench.model.errors.BenchError`."""
