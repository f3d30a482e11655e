"""When a job is reported to run: not because its operator says so, but because its replicas do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.kubernetes.watching import reflector
from k8sbench.model.phase import Phase
from tests.harness.cluster import following
from tests.harness.cluster.namespace import Namespace

QUICK: dict[str, Any] = {"watch_s": 1.0, "longest_pause": 1.0}


def test_a_job_that_is_resumed_does_not_seem_to_begin_anew(
    namespace: Namespace, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods may be listed before it is."""
    monkeypatch.setattr(reflector, "NOTE_SECONDS", 0.0)
    with following.opened(user) as port:
        plan = port.submit(following.plan("2x1"), None)
        running = port.until_phase(plan, Phase.RUNNING)
    allow = following.deny(namespace, "pytorchjobs")
    with following.opened(user, **QUICK) as port:
        run = following.run_of(plan)
        port.cluster.resume(msgspec.structs.replace(run, history=(*run.history, running)), {})
        # Pods are watched once they were listed.
        port.until(lambda port: port.cluster.api.sender.requests["watch pods"] and port.notes())
        allow()
        namespace.finish(plan.run_id)
        port.end_of(plan)
    assert Phase.CREATED not in port.phases(plan)
