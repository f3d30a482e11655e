"""Cluster and namespace are chosen as by kubectl, and named."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import NoCluster, connect
from k8sbench.adapters.kubernetes.client.faults import KubeconfigFault
from k8sbench.model.errors import NamedNotThere, Unreachable
from tests.unit.kubernetes import servers


def config(*names: str, current: str | None = "", **cluster: Any) -> dict[str, Any]:
    """Make a kubeconfig of contexts with a cluster and a user each."""
    return {
        "current-context": names[0] if current == "" else current,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443", **cluster}}
            for name in names
        ],
        "users": [{"name": name, "user": {"token": f"token-of-{name}"}} for name in names],
    }


CONTEXT = "contexts: [{name: a, context: {cluster: x}}]\ncurrent-context: a\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".kube").mkdir()
    return tmp_path


def write(path: Path, what: dict[str, Any] | str) -> Path:
    path.write_text(what if isinstance(what, str) else json.dumps(what))
    return path


def configured(home: Path, what: dict[str, Any] | str) -> Path:
    return write(home / ".kube" / "config", what)


def reached(home: Path, **options: Any) -> Api:
    environ = {"HOME": str(home), **options.pop("environ", {})}
    return connect(environ=environ, service_account=home / "none", **options)


def test_options_come_before_the_environment_and_that_before_the_home_folder(home: Path) -> None:
    configured(home, config("of-home"))
    variable = write(home / "variable", config("of-variable"))
    option = write(home / "option", config("of-option", "other"))
    environ = {"KUBECONFIG": str(variable)}
    assert reached(home, environ=environ).place.context == "of-variable"
    api = reached(home, environ=environ, kubeconfig=str(option), context="other", namespace="n")
    assert (api.place.context, api.place.namespace) == ("other", "n")
    assert api.place.kubeconfig == str(option)
    assert api.why == f"context other of {option}"


def test_of_several_kubeconfigs_the_first_current_context_counts(home: Path) -> None:
    whats = (config("none", current=None), config("first"), config("second"))
    paths = [write(home / str(number), what) for number, what in enumerate(whats)]
    listed = os.pathsep.join(map(str, paths))
    assert reached(home, environ={"KUBECONFIG": listed}).place.context == "first"


def test_in_a_pod_its_service_account_is_used(home: Path) -> None:
    account = home / "account"
    account.mkdir()
    for name, text in (("token", "secret\n"), ("namespace", "team")):
        (account / name).write_text(text)
    authority, _ = servers.certificate(home / "pki", "20200101000000Z", "20990101000000Z")
    authority.rename(account / "ca.crt")
    environ = {
        "HOME": str(home),
        "KUBERNETES_SERVICE_HOST": "fd00::1",
        "KUBERNETES_SERVICE_PORT": "443",
    }
    api = connect(environ=environ, service_account=account)
    assert (api.place.server, api.place.namespace) == ("https://[fd00::1]:443", "team")
    assert api.place.context is None
    assert api.why == "in-cluster configuration"
    found = api.sender.login()
    assert found.headers()["Authorization"] == "bearer secret"
    # The kubelet renews the token, and at times it cannot be read.
    found.configuration.refresh_api_key_hook = lambda _: (account / "gone").read_text()
    with pytest.raises(KubeconfigFault, match=r"account cannot be used: .*No such file"):
        found.headers()


def test_a_pod_without_a_service_account_has_no_cluster(home: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(NoCluster, match="this pod has no service account"):
        reached(home, environ=environ)
    # One whose token is missing has one that cannot be used.
    account = home / "account"
    account.mkdir()
    (account / "ca.crt").write_text("the authority")
    api = connect(environ={"HOME": str(home), **environ}, service_account=account)
    with pytest.raises(KubeconfigFault, match=r"service account .* token file does not exist"):
        api.sender.login()


def test_a_context_that_is_not_there_is_reported_with_the_nearest(home: Path) -> None:
    configured(home, config("production", "staging"))
    with pytest.raises(NamedNotThere, match="no context prodution") as wrong:
        reached(home, context="prodution")
    assert wrong.value.action == "It has: production. Choose one with --context."


def test_without_a_current_context_one_must_be_named(home: Path) -> None:
    configured(home, config("a", "b", current=None))
    with pytest.raises(KubeconfigFault, match="no current context") as wrong:
        reached(home)
    assert wrong.value.action == "Choose one with --context: a, b."


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", r"config:\d: the kubeconfig is not YAML: "),
        ("- a\n- b\n", "this is not a kubeconfig"),
        ("contexts: {a: b}\n", "this is not a kubeconfig"),
        ("current-context: a\n", "has no context a, which is its current context"),
        (CONTEXT, "context a names the cluster 'x', which is not there"),
        (f"{CONTEXT}clusters: [{{name: x}}]\n", "the cluster x of context a has no server"),
        (f"{CONTEXT}clusters: [{{name: x, cluster: {{server: 7}}}}]\n", "a server is not a text"),
        (
            """{current-context: a, contexts: [{name: a, context: {cluster: x, user: u}}],
            clusters: [{name: x, cluster: {server: 'https://x'}}]}""",
            "context a names the user 'u', which is not there",
        ),
    ],
)
def test_a_broken_kubeconfig_is_named_with_its_fault(home: Path, text: str, sentence: str) -> None:
    path = configured(home, text)
    with pytest.raises(Unreachable, match=sentence) as wrong:
        reached(home)
    assert wrong.value.exit_code == 6
    assert str(path) in str(wrong.value)


def test_a_kubeconfig_that_cannot_be_read_is_not_taken_for_none(home: Path) -> None:
    path = home / ".kube" / "config"
    path.mkdir()
    with pytest.raises(KubeconfigFault, match="cannot be read: is a directory"):
        reached(home)
    path.rmdir()
    path.symlink_to(home / "gone")
    with pytest.raises(KubeconfigFault, match="cannot be read: no such file or directory"):
        reached(home)


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://a.example", {}, None),
        ("https://a.example", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://a.example", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("https://a.example", {"HTTP_PROXY": "http://p:3128"}, None),
        ("https://a.example", {"HTTPS_PROXY": "http://p", "NO_PROXY": "b.example"}, "http://p"),
        ("https://a.example", {"HTTPS_PROXY": "http://p", "NO_PROXY": "x, .example"}, None),
        ("https://a.example:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.example:6443"}, None),
        (
            "https://a.example:6443",
            {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.example:1"},
            "http://p",
        ),
        ("https://aa.example", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.example"}, "http://p"),
        ("https://10.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "http://p"),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://localhost", {"HTTPS_PROXY": "http://p"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://[2001:db8::1]", {"HTTPS_PROXY": "http://p", "NO_PROXY": "2001:db8::/32"}, None),
    ],
)
def test_proxies_are_kubectl_s(server: str, environ: dict[str, str], proxy: str | None) -> None:
    assert connection.proxy_for(server, environ) == proxy


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_server_on_this_machine_answers_without_an_error_from_the_proxy(
    home: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions of the official client below 36 take any proxy variable, and no exception."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    try:
        serving = servers.serving(servers.saying(servers.answer()), host=host)
        with serving as address:
            configured(home, config("a", server=f"http://{address}"))
            reached(home, environ=os.environ | {"HOME": str(home)}).check_answers(retry_s=0.0)
    except OSError:
        pytest.skip(f"this machine has no {host}")
