"""The operator of a namespace by its Lease, or an error."""

from __future__ import annotations

import json
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import operator_proxy
from k8sbench.adapters.kubernetes.operator_proxy import find_operator
from k8sbench.model import times
from k8sbench.model.kube import ServingOperator
from tests.unit.kubernetes.servers import Act, answer, reached, saying, serving

NOW = 1_800_000_000.0
PLACE = {"k8sbench.io/operator": "dlperf/it-operator", "k8sbench.io/operator-version": "0.4.0"}


def lease(annotations: dict[str, str], renewed_at: float) -> Act:
    """Answer with a Lease; the server's clock is not this machine's."""
    body: dict[str, Any] = {
        "kind": "Lease",
        "metadata": {"name": operator_proxy.LEASE, "annotations": annotations},
        "spec": {"holderIdentity": "", "renewTime": times.utc(renewed_at)},
    }
    return saying(answer(body=json.dumps(body).encode(), Date=formatdate(NOW, usegmt=True)))


def status(code: int, **headers: str) -> Act:
    body = {"kind": "Status", "code": code, "reason": "", "message": "no"}
    return saying(answer(code, json.dumps(body).encode(), **headers))


def look(folder: Path, *acts: Act) -> ServingOperator | None:
    with serving(*acts) as server, reached(folder, f"http://{server}") as api:
        return find_operator(api)


@pytest.mark.parametrize(("age", "is_alive"), [(5, True), (29, True), (31, False), (7200, False)])
def test_its_age_is_the_server_clocks_also_of_a_released_lease(
    tmp_path: Path, age: int, is_alive: bool
) -> None:
    found = look(tmp_path, lease(PLACE, NOW - age))
    assert found is not None
    assert (found.namespace, found.name, found.version) == ("dlperf", "it-operator", "0.4.0")
    assert found.age_s == pytest.approx(age, abs=1.0)
    assert found.is_alive is is_alive


@pytest.mark.parametrize("act", [status(404), lease({}, NOW)], ids=["no Lease", "nobody's"])
def test_without_a_lease_or_a_place_in_it_no_operator_serves(tmp_path: Path, act: Act) -> None:
    assert look(tmp_path, act) is None
