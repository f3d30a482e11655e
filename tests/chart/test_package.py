"""The chart is packaged, pushed to an OCI registry and installed from there, as the page says."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from tests.chart import examples
from tests.harness.cluster import tools
from tests.harness.helm import CHART, RELEASE, Helm
from tests.tiers import ROOT


class _Registry(BaseHTTPRequestHandler):
    """What of the distribution specification a push and a pull need: blobs and manifests."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, tuple[str, bytes]]

    def do_POST(self) -> None:
        self._answer(202, Location=f"{self.path}1")

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        place, name = urlsplit(self.path), f"sha256:{hashlib.sha256(data).hexdigest()}"
        folder = re.sub("/(blobs|manifests)/.*", "", place.path)
        given = parse_qs(place.query).get("digest", [place.path.rpartition("/")[2]])[0]
        kind = "manifests" if "/manifests/" in place.path else "blobs"
        for each in (name, given):
            self.kept[f"{folder}/{kind}/{each}"] = self.headers["Content-Type"], data
        self._answer(201, Location=f"{folder}/{kind}/{name}", Docker_Content_Digest=name)

    def do_GET(self) -> None:
        kind, data = self.kept.get(self.path, ("", b""))
        if self.path.endswith("/tags/list"):
            manifests = self.path.replace("/tags/list", "/manifests/")
            tags = [each.removeprefix(manifests) for each in self.kept if manifests in each]
            kind, data = "application/json", json.dumps({"name": "", "tags": tags}).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        about = {"Content_Type": kind, "Docker_Content_Digest": digest} if kind else {}
        self._answer(200 if kind else 404, data, **about)

    do_HEAD = do_GET  # noqa: N815 - the name that the base class looks for

    def _answer(self, status: int, data: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content_Length": str(len(data))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Be silent."""


@pytest.fixture
def registry() -> Iterator[str]:
    """Serve a registry; gives its address."""
    handler = type("Registry", (_Registry,), {"kept": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_chart_from_a_registry_is_the_one_that_was_pushed(
    helm: Helm, registry: str, tmp_path: Path
) -> None:
    page = " ".join((ROOT / "docs" / "operations.md").read_text().split())
    push, place = re.findall(r"`helm (?:push|install dlperf) ([^`]+)`", page)
    helm.run("package", CHART, f"--destination={tmp_path}")
    file, target = push.replace("registry.example", registry).split()
    helm.run("push", tmp_path / file, target, "--plain-http")
    words = (place.replace("registry.example", registry), "--plain-http", "--namespace=team-a")
    version = f"--kube-version={tools.KUBERNETES}"
    given = helm.given(examples.ALL)
    pulled = helm.run("template", RELEASE, *words, version, *given)
    objects = [each for each in yaml.safe_load_all(pulled.out) if each is not None]
    assert objects == helm.template(examples.ALL)
