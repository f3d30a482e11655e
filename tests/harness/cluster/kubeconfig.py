"""Kubeconfig files: self-contained, so that one may be copied anywhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.harness.cluster.pki import Pki


def write(path: Path, server: str, pki: Pki, identity: str) -> Path:
    """Write the file with which an identity reaches the API server."""

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": server, "certificate-authority-data": data(pki.certificate("ca"))}
    user = {
        "client-certificate-data": data(pki.certificate(identity)),
        "client-key-data": data(pki.key(identity)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    name = "k8sbench-test"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": name, "cluster": cluster}],
                "users": [{"name": identity, "user": user}],
                "contexts": [{"name": name, "context": {"cluster": name, "user": identity}}],
                "current-context": name,
            },
            indent=1,
        )
    )
    return path
