"""Kubeconfig files: self-contained, so that one may be copied anywhere."""

import base64
import json
from pathlib import Path
from typing import Any

from tests.harness.cluster.pki import Pki


def of_identity(path: Path, server: str, pki: Pki, identity: str) -> Path:
    """Write the file with which an identity reaches the API server."""

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data(pki.certificate("ca"))}
    user = {
        "client-certificate-data": data(pki.certificate(identity)),
        "client-key-data": data(pki.key(identity)),
    }
    return write(path, cluster, user)


def write(path: Path, cluster: dict[str, Any], user: dict[str, Any], namespace: str = "") -> Path:
    """Write a file with one context, ``test``."""
    context = {"cluster": "test", "user": "user"} | ({"namespace": namespace} if namespace else {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "test", "context": context}],
        "current-context": "test",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path
