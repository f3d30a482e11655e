"""Faults that a proxy places before the API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from tests.harness.cluster import fault_proxy
from tests.harness.cluster.namespace import Namespace


def test_faults_meet_exactly_the_requests_they_are_for(namespace: Namespace, user: Path) -> None:
    with fault_proxy.before(user) as (proxy, path):
        api = connection.connect(kubeconfig=str(path), namespace=namespace.name)
        pods = f"/api/v1/namespaces/{namespace.name}/pods"
        assert api.list(pods)[0] == []
        with proxy.answer(503, "/pods", method="GET", skip=1, times=1) as busy:
            api.list(pods)
            assert busy.hits == 0
            api.list(pods)
            assert busy.hits == 1
        with proxy.drop("/pods$|/pods\\?", times=2) as dropped:
            api.list(pods)
            assert dropped.hits == 2
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "once", "labels": {"app.kubernetes.io/managed-by": "k8sbench"}},
        }
        maps = f"/api/v1/namespaces/{namespace.name}/configmaps"
        with proxy.lose_answer("/configmaps", method="POST") as lost:
            with pytest.raises(ApiFault) as raised:
                api.create(maps, body)
            assert raised.value.status is None
            assert lost.hits == 1
        assert json.loads(namespace.kubectl("get", "configmap", "once", "--output=json"))
        with proxy.alter("/configmaps/once", lambda line: line.replace(b"once", b"else")):
            assert api.get(f"{maps}/once")["metadata"]["name"] == "else"
        assert api.get(f"{maps}/once")["metadata"]["name"] == "once"
