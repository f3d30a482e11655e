"""The Benchmark of a process that submits one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from k8sbench.model.benchmark_object import Benchmark, StatusEvent


class OwnObject:
    """The port ``Objects`` for one Benchmark in memory."""

    problem = ""

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark: Benchmark | None = benchmark

    def current(self) -> Mapping[str, Benchmark | None]:
        """Return the object by its uid."""
        one = self._benchmark
        return {} if one is None else {one.uid: one}

    def write(
        self,
        known: Benchmark,
        status: Mapping[str, Any],
        events: Iterable[StatusEvent] = (),  # noqa: ARG002
    ) -> None:
        """Take a status."""
        self._benchmark = msgspec.structs.replace(known, status={**known.status, **status})

    def delete(self, known: Benchmark) -> None:  # noqa: ARG002
        """Forget the object."""
        self._benchmark = None
