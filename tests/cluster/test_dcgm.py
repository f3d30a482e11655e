"""DCGM exporters are found and read through a real API server's pod proxy while a run is followed.

The exporters listen in the test, at the address that the API server reaches us at, which is made
that of a pod on a fake node.
"""

from __future__ import annotations

import contextlib
import json
import math
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.metrics.dcgm import DcgmSource
from k8sbench.cli.main import main
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery
from k8sbench.model.kube import RUN_LABEL
from k8sbench.model.run import Run
from tests.harness.cluster import following, manifests, page_roles
from tests.harness.cluster.namespace import Namespace
from tests.harness.prometheus import Exporter, wait
from tests.tiers import ROOT

EXPOSITIONS = ROOT / "tests" / "fixtures" / "dcgm"
OPERATOR, CHART = {"app": "nvidia-dcgm-exporter"}, {"app.kubernetes.io/name": "dcgm-exporter"}
QUICK = 0.2
POD = "r50-master-0"
PAGE = "<html><title>Sign in</title></html>"


class Site:
    """A namespace with fake nodes, exporters on them, and a run's pods."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.began = time.time() - 1
        self.exporters: list[Exporter] = []

    def exposition(self, name: str = "current", node: str = "gpu-0") -> str:
        """What an exporter exposes, of a run of this namespace."""
        text = (EXPOSITIONS / f"{name}.prom").read_text()
        text = text.replace('"team"', f'"{self.namespace.name}"').replace('"gpu-0"', f'"{node}"')
        return text.replace("GPU-", f"GPU-{node}-")

    def exporter(
        self, text: str | None = None, node: str = "gpu-0", name: str = "", **labels: str
    ) -> Exporter:
        """Start one, as a pod on a node."""
        one = Exporter(self.exposition(node=node) if text is None else text, host="0.0.0.0")
        self.exporters.append(one)
        self.pod(name or f"dcgm-{one.port}", node, labels or OPERATOR, one.port)
        return one

    def pod(self, name: str, node: str, labels: dict[str, str], port: int | None = None) -> None:
        """Make a pod on a node; with a port its address is ours."""
        container: dict[str, Any] = {"name": "main", "image": "example.invalid/one:1"}
        if port is not None:
            container["ports"] = [{"name": "metrics", "containerPort": port}]
        self.namespace.create(manifests.pod(name, container, labels=labels, nodeName=node))
        self.namespace.wait("condition=Ready", f"pod/{name}")
        if port is not None:
            address = {"podIP": self._address(), "podIPs": [{"ip": self._address()}]}
            change = json.dumps({"status": address})
            self.namespace.kubectl(
                *("patch", "pod", name, "--subresource=status", "--type=merge", f"--patch={change}")
            )

    def run(self, **pods: str) -> Run:
        """A run with pods on nodes; without any it has its usual one."""
        places = {pod.replace("_", "-"): node for pod, node in pods.items()} or {POD: "gpu-0"}
        found = following.run_of(following.plan(f"{len(places)}x1"))
        for pod, node in places.items():
            self.pod(pod, node, {RUN_LABEL: found.run_id})
        return found

    def wanted(self, run: Run, *uuids: str, **pods: str) -> SeriesQuery:
        return SeriesQuery(
            run_id=run.run_id,
            namespace=self.namespace.name,
            nodes={pod.replace("_", "-"): node for pod, node in pods.items()} or {POD: "gpu-0"},
            uuids=uuids,
            start=self.began,
            end=time.time() + 60,
        )

    def _address(self) -> str:
        """The one of ours that the API server sends to."""
        server = urlsplit(self.namespace.cluster.entry["cluster"]["server"])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
            ours.connect((server.hostname, server.port))
            return str(ours.getsockname()[0])


@pytest.fixture
def site(namespace: Namespace) -> Iterator[Site]:
    found = Site(namespace)
    yield found
    # Those of the next test are looked for in all namespaces.
    found.namespace.kubectl("delete", "pods", "--all", "--grace-period=0", "--force")
    for one in found.exporters:
        one.stop()


@pytest.fixture
def opened(site: Site) -> Iterator[Callable[..., DcgmSource]]:
    """Open the source for a user of the namespace, or for an administrator."""
    with contextlib.ExitStack() as stack:

        def opened(kubeconfig: Path | None = None, **more: Any) -> DcgmSource:
            path = kubeconfig or site.namespace.cluster.kubeconfig
            api = connection.connect(kubeconfig=str(path), namespace=site.namespace.name)
            stack.callback(api.close)
            source = DcgmSource(api, interval=QUICK, **more)
            stack.callback(source.close)
            return source

        yield opened


Open = Callable[..., DcgmSource]


def api_of(source: DcgmSource) -> Api:
    return source._api


def has(source: DcgmSource, wanted: SeriesQuery, samples: int = 3) -> Fetched:
    """Wait until there are so many samples of each series."""

    def enough() -> bool:
        found = source.fetch(wanted).series
        return bool(found) and min(len(one.at) for one in found) >= samples

    wait(enough, f"{samples} samples of each series")
    return source.fetch(wanted)


def why(source: DcgmSource, wanted: SeriesQuery) -> str:
    found = source.fetch(wanted)
    assert found.series == ()
    return found.missing["*"]


@pytest.mark.parametrize("style", ["current", "hostname", "old-labels", "without-pods", "mig"])
def test_the_gpus_of_the_runs_pods_are_read_whatever_the_labels(
    site: Site, opened: Open, style: str
) -> None:
    exporter = site.exporter(site.exposition(style))
    run, source = site.run(), opened()
    source.follow(run, ["gpu-0"])
    uuids = ("GPU-gpu-0-00000000",) if style == "without-pods" else ()
    found = has(source, site.wanted(run, *uuids))
    assert {(one.gpu.uuid, one.gpu.pod, one.gpu.node) for one in found.series} == {
        ("GPU-gpu-0-00000000", POD, "gpu-0")
    }
    assert {one.gpu.mig for one in found.series} == {"7 (1g.5gb)" if style == "mig" else None}
    values = {one.metric: one.values[-1] for one in found.series}
    assert values["gpu_utilization"] == pytest.approx(0.97)
    assert values["tensor_active"] == pytest.approx(0.41)
    assert values.get("energy") == (None if style == "mig" else pytest.approx(9000.0))
    assert "DCGM_FI_PROF_SM_ACTIVE" in found.missing["sm_active"]
    assert (found.shared, found.warnings) == ((), ())
    assert source.settles_in(site.wanted(run)) == 0
    assert exporter.scrapes >= 3


def test_only_exporters_beside_the_runs_pods_are_read_once_for_all_runs(
    site: Site, opened: Open
) -> None:
    first, second = site.exporter(), site.exporter(node="gpu-1", **CHART)
    elsewhere = site.exporter(node="gpu-2")
    one, other = site.run(r50_master_0="gpu-0", r50_worker_0="gpu-1"), site.run(x_master_0="gpu-0")
    source = opened()
    source.follow(one, ["gpu-0"])
    source.follow(one, ["gpu-0", "gpu-1"])
    source.follow(other, ["gpu-0"])
    where = {"r50_master_0": "gpu-0", "r50_worker_0": "gpu-1"}
    found = has(source, site.wanted(one, "GPU-gpu-1-00000001", **where))
    assert {one.gpu.node for one in found.series} == {"gpu-0", "gpu-1"}
    # A GPU that the run's log names, and that the exporter gives to another pod.
    assert [(one.gpu.uuid, one.other) for one in found.shared] == [
        ("GPU-gpu-1-00000001", "elsewhere/other-0")
    ]
    assert elsewhere.scrapes == 0
    asked = api_of(source).sender.requests["get pods/proxy/metrics"]
    began = time.monotonic()
    wait(lambda: first.scrapes >= 10, "ten scrapes")
    most = (time.monotonic() - began) / QUICK + 2
    assert api_of(source).sender.requests["get pods/proxy/metrics"] - asked <= 2 * most

    source.release(one.run_id)
    wait(lambda: is_still(second, QUICK * 5), "nothing is read where no run is followed any more")
    assert not is_still(first, QUICK * 5)
    source.release(other.run_id)
    wait(lambda: is_still(first, QUICK * 5), "nothing is read any more")
    wanted = site.wanted(one)
    at = source.fetch(wanted).series[0].at
    within = msgspec.structs.replace(wanted, start=at[1], end=at[-2])
    assert source.fetch(within).series[0].at == at[1:-1]


def is_still(exporter: Exporter, seconds: float) -> bool:
    before, until = exporter.scrapes, time.monotonic() + seconds
    while exporter.scrapes == before and time.monotonic() < until:
        time.sleep(0.01)
    return exporter.scrapes == before


def test_one_that_hangs_or_answers_with_a_page_costs_samples_and_no_time(
    site: Site, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k8sbench.adapters.metrics.dcgm.ANSWER_SECONDS", 2.0)
    good, hangs = site.exporter(), site.exporter(node="gpu-1")
    page = site.exporter(PAGE, node="gpu-2")
    hangs.hold()
    where = {"r50_master_0": "gpu-0", "r50_worker_0": "gpu-1", "r50_worker_1": "gpu-2"}
    where["r50_worker_2"] = "gpu-3"
    run, source = site.run(**where), opened()
    source.follow(run, where.values())
    wanted = site.wanted(run, **where)
    wait(lambda: len(source.fetch(wanted).warnings) >= 3, "the faults are there")
    began = time.monotonic()
    found = source.fetch(wanted)
    assert time.monotonic() - began < 1.0
    assert {one.gpu.node for one in found.series} == {"gpu-0"}
    said = "\n".join(found.warnings)
    assert f"/dcgm-{hangs.port} could not be read" in said
    assert f"/dcgm-{page.port} could not be read" in said
    assert "it answers with a page of HTML" in said
    assert "There is no DCGM exporter on gpu-3." in said
    # Nor are they taken for faults of the API server.
    assert api_of(source).sender._away_at < 0
    assert good.scrapes > 1


def test_one_that_is_replaced_is_found_again(site: Site, opened: Open) -> None:
    first = site.exporter(name="dcgm-one")
    run, source = site.run(), opened()
    source.follow(run, ["gpu-0"])
    has(source, site.wanted(run), 1)
    site.namespace.kubectl("delete", "pod", "dcgm-one", "--grace-period=0", "--force")
    first.stop()
    site.exporters.remove(first)
    second = site.exporter(name="dcgm-two")
    wait(lambda: second.scrapes > 0, "the other is read")
    has(source, site.wanted(run))


def test_one_that_starts_after_the_run_is_found(site: Site, opened: Open) -> None:
    site.exporter(node="gpu-1")
    run, source = site.run(), opened()
    source.follow(run, ["gpu-0"])
    wait(lambda: "no DCGM exporter on gpu-0" in why(source, site.wanted(run)), "none is there yet")
    late = site.exporter()
    wait(lambda: late.scrapes > 0, "it is read")
    assert {one.gpu.node for one in has(source, site.wanted(run), 1).series} == {"gpu-0"}


def test_without_an_exporter_it_is_asked_more_and_more_rarely(site: Site, opened: Open) -> None:
    began = time.monotonic()
    run, source = site.run(), opened()
    source.follow(run, ["gpu-0"])
    wanted = site.wanted(run)
    wait(lambda: "no DCGM exporter" in why(source, wanted), "the reason is known")
    assert why(source, wanted) == "There is no DCGM exporter on gpu-0."
    source.follow(site.run(other_master_0="gpu-0"), ["gpu-0", "gpu-1"])
    source.release(run.run_id)
    wait(lambda: "no DCGM" in why(source, wanted), "it says so for some time")
    looks = math.log2((time.monotonic() - began) / QUICK) + 4  # of two nodes, and one at first
    assert api_of(source).sender.requests.keys() == {"list pods"}
    assert 2 <= api_of(source).sender.requests["list pods"] <= 2 * 2 * looks


def test_the_role_of_the_page_is_enough(site: Site, opened: Open, user: Path) -> None:
    site.exporter()
    run, source = site.run(), opened(user)
    source.follow(run, ["gpu-0"])
    wanted = site.wanted(run)
    # The user may list the pods of this namespace, and not read them.
    wait(lambda: "pods/proxy" in why(source, wanted), "the refusal is known")
    source.close()
    page_roles.grant(page_roles.EXPORTERS, site.namespace)
    source = opened(user)
    source.follow(run, ["gpu-0"])
    has(source, site.wanted(run), 1)


def test_doctor_names_the_role_that_is_missing_and_then_reads_an_exporter(
    site: Site, user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.exporter()
    began = time.monotonic()
    assert "have the Role of docs/gpu-metrics.md granted" in _doctor(user, capsys)
    assert time.monotonic() - began < 20
    page_roles.grant(page_roles.EXPORTERS, site.namespace)
    wait(lambda: "(of 1) has every field" in _doctor(user, capsys), "the role is enough")


def _doctor(user: Path, capsys: pytest.CaptureFixture[str]) -> str:
    main(["doctor", "--kubeconfig", str(user), "-o", "json"])
    return capsys.readouterr().out
