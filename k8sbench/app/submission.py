"""A submit that is checked: its options, cases and place, and who runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.app.targets import RunTarget
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.model.kube import ServingOperator
from k8sbench.model.request import SubmitRequest


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a submit needs, checked; what is left is to run it."""

    request: SubmitRequest
    """The options; without an operator with the name of the set."""
    planned: Sequence[PlannedCase]
    target: RunTarget
    operator: ServingOperator | None
    """The operator that serves the namespace and runs the cases; None: this process does."""
    name: str | None = None
    """Name of its Benchmark, if it is that of its set; None: it is drawn."""
    nodes: Sequence[str] = ()
    """Nodes that the cases are pinned to."""
    asked: Mapping[str, Any] | None = None
    """Benchmark of the user's file; None: the options say what is asked for."""
