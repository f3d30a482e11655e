"""Authentication and wrong endpoints: each has a prompt reason without secrets."""

import pathlib
import socket
import subprocess
from functools import partial
from typing import Any

import pytest
import yaml

from k8sbench.adapters.metrics import prometheus_api
from k8sbench.adapters.metrics.prometheus import PrometheusSource
from k8sbench.app import connections
from k8sbench.model.errors import UsageError
from k8sbench.model.gpu_metrics import Fetched
from k8sbench.model.missing import written
from tests.harness.cluster.limits import shorten
from tests.prometheus import fronts
from tests.prometheus.conftest import Start
from tests.prometheus.examples import PODS, UUIDS, fetch, labels, renamed, utilization, wanted

TOKEN = "a-token-that-nobody-may-see"
SAMPLES = utilization(labels(UUIDS[0], **renamed(PODS[0])))


def why(found: Fetched) -> str:
    assert found.series == ()
    assert [*found.missing] == ["*"]
    return written(found.missing)["*"]


@pytest.fixture
def configure(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write the file of credentials and name it in the environment."""

    def write(**config: Any) -> pathlib.Path:
        file = tmp_path / "client" / "http.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(config))
        monkeypatch.setenv(prometheus_api.VARIABLE, str(file))
        return file.parent

    return write


# -- signing in -----------------------------------------------------------------------------------


def test_an_authority_of_its_own(start: Start, configure: Any, tmp_path: pathlib.Path) -> None:
    certify(tmp_path)
    files = {"cert_file": f"{tmp_path}/server.crt", "key_file": f"{tmp_path}/server.key"}
    server = start(SAMPLES, web={"tls_server_config": files})
    folder = configure(tls_config={"ca_file": "ca.crt"})
    (folder / "ca.crt").write_bytes((tmp_path / "ca.crt").read_bytes())
    assert len(fetch(server.url).series) == 1
    configure()
    assert "its certificate: " in why(fetch(server.url))
    (folder / "ca.crt").write_text("none")
    configure(tls_config={"ca_file": "ca.crt"})
    assert "holds no certificate in PEM" in why(fetch(server.url))


def test_a_token_which_is_read_again_each_time(
    start: Start, configure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, prometheus_known=0.0)
    server = start(SAMPLES)
    with fronts.serving(fronts.guarded(server.url, TOKEN)) as url:
        folder = configure(authorization={"credentials_file": "token"})
        source = PrometheusSource(partial(prometheus_api.ways, url, None))
        (folder / "token").write_text("expired")
        assert "answers 401" in why(source.fetch(wanted()))
        (folder / "token").write_text(f"{TOKEN}\n")
        assert len(source.fetch(wanted()).series) == 1


def test_headers_of_a_tenant_and_of_a_gateway(configure: Any) -> None:
    """Mimir and Cortex answer nobody without one."""
    seen: list[Any] = []

    def handle(request: Any) -> None:
        seen.append(request.headers)
        fronts.answer(401, "no org id")(request)

    with fronts.serving(handle) as url:
        folder = configure(
            http_headers={
                "X-Scope-OrgID": {"values": ["team-a"]},
                "X-Key": {"values": ["of-the-file"], "files": ["key"]},
            }
        )
        (folder / "key").write_text(f"{TOKEN}\n")
        fetch(url)
    assert seen[0].get_all("X-Scope-OrgID") == ["team-a"]
    assert seen[0].get_all("X-Key") == ["of-the-file", TOKEN]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"authorization: {{token: {TOKEN}}}", "does not support the key `token` - at"),
        (f"bearer_token: {TOKEN}", "does not support the key `bearer_token`"),
        (f"http_headers: {{X-A: {{values: ['{TOKEN}\n\n x']}}}}", "No header can hold a token or"),
        (f"authorization: {{credentials_file: [{TOKEN}]}}", "Expected `str"),
        (f"password: '{TOKEN}\nb: c: d", "is not YAML."),
        ("authorization: {credentials_file: gone}", "gone cannot be read: no such file"),
    ],
)
def test_wrong_files_show_no_secret(configure: Any, text: str, reason: str) -> None:
    (configure() / "http.yml").write_text(text)
    said = why(fetch("http://127.0.0.1:9"))
    assert reason in said
    assert TOKEN not in said


@pytest.mark.parametrize("url", ["http://ada:secret@p.test", "secret", "ftp://secret"])
def test_an_address_that_cannot_be_used_is_refused_at_once_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as wrong:
        connections.checked_prometheus(url)
    assert "secret" not in str(wrong.value)


# -- what is no Prometheus ------------------------------------------------------------------------

PAGE = "<!DOCTYPE html><title>Sign in</title>"


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (200, PAGE, "does not speak Prometheus' API"),
        (200, "{}", "refuses the query"),
        (200, '{"status":"success"}', "does not speak Prometheus' API"),
        (200, '{"status":"success","data":{"result":[1,"x"]}}', "does not speak"),
        (200, '{"status":"success","data":{"result":[{"metric":{},"value":[1,"x"]}]}}', "no GPU"),
        (403, PAGE, "answers 403: Forbidden; K8SBENCH_PROMETHEUS_CONFIG names"),
        (422, '{"status":"error","error":"too many"}', "answers 422: too many."),
        (503, "Service Unavailable", "answers 503: Service Unavailable."),
    ],
)
def test_an_answer_that_is_no_figure_is_a_reason(status: int, text: str, reason: str) -> None:
    asked: list[str] = []

    def handle(request: Any) -> None:
        asked.append(request.path)
        fronts.answer(status, text)(request)

    with fronts.serving(handle) as url:
        assert reason in why(fetch(url))
    # Only what may pass soon is asked again.
    assert (len(asked) > len(set(asked))) is (status == 503)


def test_a_sign_in_page_is_named_without_its_state() -> None:
    to = f"https://sso.test/login?state={TOKEN}"
    with fronts.serving(fronts.answer(302, "", Location=to)) as url:
        assert "answers 302: it sends us on to https://sso.test/login;" in why(fetch(url))


@pytest.mark.parametrize("how", ["trickle", "silent", "nobody"])
def test_what_does_not_answer_is_given_up(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, prometheus_first=1.0)
    if how == "trickle":
        with fronts.serving(fronts.trickle) as url:
            said = why(fetch(url))
    else:
        with socket.create_server(("127.0.0.1", 0)) as held:
            url = f"http://127.0.0.1:{held.getsockname()[1]}"
            if how == "nobody":
                held.close()
            said = why(fetch(url))
    assert "cannot be reached: " in said


def test_one_that_hangs_is_given_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start(SAMPLES)
    source = PrometheusSource(partial(prometheus_api.ways, server.url, None))
    assert source.fetch(wanted()).series
    server.freeze()
    shorten(monkeypatch, prometheus=2.0)
    assert "it did not answer in time" in why(source.fetch(wanted()))
    assert source.settles_in(wanted()) == 0.0


def test_warnings_of_the_server_are_kept() -> None:
    warned = '{"status":"success","warnings":["one store is away"],"data":{"result":%s}}'

    def handle(request: Any) -> None:
        fronts.send(request, 200, (warned % "[]").encode())

    with fronts.serving(handle) as url:
        found = fetch(url)
    assert found.warnings == ("one store is away",)
    assert "has no GPU metrics" in why(found)


def certify(folder: pathlib.Path) -> None:
    """Make an authority and a certificate of the server."""
    base = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    base += ["-nodes", "-days", "1"]
    authority = ["-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt"]
    server = ["-subj", "/CN=server", "-keyout", "server.key", "-out", "server.crt"]
    server += ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
    server += ["-CA", "ca.crt", "-CAkey", "ca.key"]
    for words in (authority, server):
        subprocess.run([*base, *words], cwd=folder, check=True, capture_output=True)
