"""How the bench gets into a trainer without changing it: at its batches, or before its loop."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from tests.bench.sides.gate import Gate

Start = Callable[[Sequence[str]], object]


def main_of(trainer: str, noop: Start) -> Start:
    """The trainer's own `main`, or what stands in for the one whose model does nothing."""
    if trainer == "no-op":
        return noop
    main: Start = importlib.import_module(f"k8sbench.trainers.{trainer}").main
    return main


def gated(
    gate: Gate, data: Any, connect: Callable[[Any], None], start: Callable[[], object]
) -> None:
    """Run a trainer as it is, whose batches (of the module `data`) come through the gate.

    `connect` is called with the trainer's session, once there is one.
    """
    source = data.source

    def tapped(samples: Any, session: Any, normalise: Any) -> Any:
        connect(session)
        return gate.stream(source(samples, session, normalise))

    with mock.patch.object(data, "source", tapped):
        start()


def described(loop: Any, start: Callable[[], object]) -> Any:
    """What a trainer would hand to `train` of the module `loop`: its work and its settings."""
    caught: list[Any] = []
    with mock.patch.object(loop, "train", lambda *given: caught.append(given)):
        start()
    return caught[0]
