"""The etcd behind a test's own API server, asked through its JSON gateway."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.own import OwnCluster


def compact(cluster: OwnCluster) -> None:
    """Have etcd forget all but the present state."""
    now = _ask(cluster, "/v3/kv/range", key="AA==")["header"]["revision"]
    _ask(cluster, "/v3/kv/compaction", revision=now)


def sizes(cluster: OwnCluster, part: str) -> dict[str, int]:
    """Return the bytes of key and value of all that is stored now under keys with a part."""
    # From the least key on, without an end: everything.
    answer = _ask(cluster, "/v3/kv/range", key="AA==", range_end="AA==")
    pairs = ((base64.b64decode(kv["key"]), base64.b64decode(kv["value"])) for kv in answer["kvs"])
    return {key.decode(): len(key + value) for key, value in pairs if part in key.decode()}


def _ask(cluster: OwnCluster, path: str, **body: str) -> Any:
    url = cluster.layout.url("etcd", path, "http")
    text = json.dumps(body).encode()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(urllib.request.Request(url, text), timeout=SECONDS) as answer:
        return json.load(answer)
