"""Notes when a job's states are on the wire: a watcher that does nothing else.

    python -m tests.bench.sides.wire_clock KUBECONFIG NAMESPACE NOTES

Says ``ready`` when it watches. When its stdin ends it writes NOTES, JSON by run id: when the last
of its pods ran first, when all of its pods had ended and the operator had said so, and when the
operator had. Times of pods count from their first such event.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.kube import RUN_LABEL

WATCH_SECONDS = 3000


class _Metadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] = {}


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Object


Times = dict[str, dict[str, float]]
"""Run id → pod → when."""


def main() -> None:
    """Watch until stdin ends."""
    kubeconfig, namespace, notes = sys.argv[1:]
    api = connect(kubeconfig=kubeconfig, namespace=namespace)
    running: Times = {}
    ended: Times = {}
    told: dict[str, float] = {}

    def take_pod(found: _Object, at: float) -> None:
        run_id = found.metadata.labels.get(RUN_LABEL, "")
        if found.status.phase == "Running":
            running.setdefault(run_id, {}).setdefault(found.metadata.name, at)
        elif found.status.phase in {"Succeeded", "Failed"}:
            ended.setdefault(run_id, {}).setdefault(found.metadata.name, at)

    def take_job(found: _Object, at: float) -> None:
        if any(one.type == "Succeeded" and one.status == "True" for one in found.status.conditions):
            told.setdefault(found.metadata.name, at)  # ours bear their runs' ids

    for kind, take in (("Pod", take_pod), ("PyTorchJob", take_job)):
        threading.Thread(target=_watch, args=(api, namespace, kind, take), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    said = {
        run_id: {
            "pods": len(ended.get(run_id, {})),
            "running": max(running.get(run_id, {"": 0.0}).values()),
            "ended": max(at, *ended.get(run_id, {"": 0.0}).values()),
            "told": at,
        }
        for run_id, at in told.items()
    }
    Path(notes).write_text(json.dumps(said))


def _watch(api: Api, namespace: str, kind: str, take: Callable[[_Object, float], None]) -> None:
    path, decoder = kinds.path(kind, namespace), msgspec.json.Decoder(_Event)
    query = {"watch": "true", "timeoutSeconds": str(WATCH_SECONDS)}
    try:
        for line in api.stream(path, silence_s=None, **query):
            at = time.time()
            event = decoder.decode(line)
            if event.type in {"ADDED", "MODIFIED"}:
                take(event.object, at)
    except ApiFault as fault:
        print(f"{kind}: {fault}", file=sys.stderr)


if __name__ == "__main__":
    main()
