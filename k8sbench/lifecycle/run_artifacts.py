"""Artifacts of a run beside its record and logs: manifest, benchmark file, gaps and nodes."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from k8sbench.json_decoders import decoder
from k8sbench.model.errors import BenchError
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import KnownPods
from k8sbench.store.interface import Store

T = TypeVar("T")
MANIFEST = "manifest.yaml"
"""Artifact of a run: the objects of its latest attempt, as they were created."""
BENCHMARK = "benchmark.yaml"
"""Artifact of a run: the user's benchmark file at submit."""
GAPS = "log-gaps.json"
"""Artifact of a run: the gaps in its archived logs."""
PODS = "log-pods.json"
"""Artifact of an observed run: the pods of its replicas, whose numbers its logs bear."""
NODES = "nodes.json"
"""Artifact of a run: facts about its nodes, if they could be read."""


def read_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read the gaps in a run's archived logs."""
    return read_value(store, run_id, GAPS, list[LogGap]) or []


def read_pods(store: Store, run_id: str) -> KnownPods:
    """Read the pods of an observed run; none without a file."""
    return read_value(store, run_id, PODS, dict[str, dict[str, bool]]) or {}


def read_nodes(store: Store, run_id: str) -> dict[str, dict[str, str]]:
    """Read the recorded facts of a run's nodes, by node; none without a file."""
    return read_value(store, run_id, NODES, dict[str, dict[str, str]]) or {}


def keep_value(store: Store, run_id: str, name: str, value: object) -> None:
    """Keep a value as JSON with a run."""
    store.write_artifact(run_id, name, msgspec.json.encode(value).decode() + "\n")


def read_value(store: Store, run_id: str, name: str, kind: type[T]) -> T | None:
    """Read a value that was kept as JSON; None without a file."""
    content = store.read_artifact(run_id, name)
    try:
        return None if content is None else decoder(kind).decode(content)
    except msgspec.MsgspecError as error:
        path = store.folder(run_id) / name
        raise BenchError(f"{path} cannot be read: {error}.") from error
