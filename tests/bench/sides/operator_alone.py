"""What the cluster alone needs for many jobs: they are created, and nobody reads them."""

from __future__ import annotations

import contextlib
import copy
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.kube import KubeObject, conditions
from k8sbench.runs.creations import REQUESTS
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

SECONDS = 3000


def seconds(own: OwnCluster, namespace: Namespace, job: dict[str, Any], count: int) -> float:
    """Create so many jobs like this one, as many at a time as k8sbench does, and wait for the last.

    Each is deleted when it has succeeded, as k8sbench does it, too, and at the end the namespace.
    Returns how long the jobs took.
    """
    api = connect(kubeconfig=str(own.kubeconfig), namespace=namespace.name)
    path = kinds.path("PyTorchJob", namespace.name)
    begun = time.monotonic()
    with ThreadPoolExecutor(REQUESTS) as threads:
        list(threads.map(lambda number: _create(api, path, job, number), range(count)))
    left = {f"alone-{number}" for number in range(count)}
    with ThreadPoolExecutor(REQUESTS) as threads:

        def take(job: KubeObject) -> None:
            name = _succeeded(job)
            if name is not None and name in left:
                left.remove(name)
                threads.submit(api.delete, f"{path}/{name}")

        while left:  # a server ends the watch of a client that is slow
            found, version = api.list(path)
            for one in found:
                take(one)
            with contextlib.suppress(ApiFault):
                for event in api.watch(path, resource_version=version, timeout_s=SECONDS):
                    take(event["object"])
                    if not left:
                        break
    took = time.monotonic() - begun
    api.close()
    # As one: kubectl would delete job after job, and wait for pod after pod, five in a second.
    # All jobs have ended: the operator creates no more of their pods while the namespace goes.
    name = f"namespace/{namespace.name}"
    own.kubectl("delete", name, f"--timeout={SECONDS}s", seconds=SECONDS)
    return took


def _succeeded(job: KubeObject) -> str | None:
    """Name a job that has succeeded."""
    ended = conditions(job).get("Succeeded", {}).get("status") == "True"
    return str(job["metadata"]["name"]) if ended else None


def _create(api: Api, path: str, job: dict[str, Any], number: int) -> None:
    named = copy.deepcopy(job)
    named["metadata"]["name"] = f"alone-{number}"
    api.create(path, named)
