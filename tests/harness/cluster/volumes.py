"""Folders of this machine as claims of a namespace.

A pod may not mount a folder of its node itself where the restricted standard is enforced; a claim
it may.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.harness.cluster import manifests
from tests.harness.cluster.namespace import Namespace


@contextlib.contextmanager
def claimed(
    namespace: Namespace, name: str, folder: Path | str, mode: str = "ReadWriteMany"
) -> Iterator[None]:
    """Bind a claim in a namespace; its volume ends with the block."""
    volume = f"{name}-{namespace.name}"
    common: dict[str, Any] = {"accessModes": [mode], "storageClassName": ""}
    namespace.create(manifests.claim(name, mode))
    # A volume that knows the claim's uid is bound when it appears; otherwise the controller may
    # come to it only with its next round, up to 15 s later.
    made = namespace.get("persistentvolumeclaim", name)["metadata"]
    namespace.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {
                **common,
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {key: made[key] for key in ("namespace", "name", "uid")},
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
    )
    try:
        namespace.wait("jsonpath={.status.phase}=Bound", f"persistentvolumeclaim/{name}")
        yield
    finally:
        namespace.cluster.kubectl("delete", "persistentvolume", volume, "--wait=false")


@contextlib.contextmanager
def claimed_all(namespace: Namespace, *names: str) -> Iterator[None]:
    """Have several, of a folder that is nowhere: fake pods mount nothing."""
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(claimed(namespace, name, "/nowhere"))
        yield


def shared(folder: Path) -> Path:
    """Create a folder writable by pod users; ``folder`` is the test's own."""
    folder.mkdir()
    folder.chmod(0o777)
    for above in folder.parents[:4]:
        above.chmod(above.stat().st_mode | 0o755)
    return folder
