"""The etcd behind a test's own API server, asked through its JSON gateway."""

import json
import urllib.request
from typing import Any

from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.own import OwnCluster


def compact(cluster: OwnCluster) -> None:
    """Have etcd forget all but the present state."""
    now = _ask(cluster, "/v3/kv/range", key="AA==")["header"]["revision"]
    _ask(cluster, "/v3/kv/compaction", revision=now)


def _ask(cluster: OwnCluster, path: str, **body: str) -> Any:
    url = cluster.layout.url("etcd", path, "http")
    text = json.dumps(body).encode()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(urllib.request.Request(url, text), timeout=SECONDS) as answer:
        return json.load(answer)
