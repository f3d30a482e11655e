"""Target of ``submit`` without ``--backend``: the configured cluster or an error."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.limits import shorten
from tests.unit.command_line import Cli, Printed
from tests.unit.kubernetes import servers

DETACHED = ("submit", "resnet50", "--replicas=2", "--gpus=1", "--detach")
NOWHERE = "https://127.0.0.1:1"
"""Address without a server."""
Submit = Callable[..., Printed]


@pytest.fixture
def submit(no_cluster: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cli: Cli) -> Submit:
    """Submit as a user does whose kubeconfig is at its usual place."""
    shorten(monkeypatch, request_absent=0.0)
    (tmp_path / ".kube").mkdir()

    def run(*words: str, code: int = 0, text: str = "", **config: Any) -> Printed:
        path = tmp_path / ".kube" / "config"
        if config:
            servers.kubeconfig(path, **config)
        elif text:
            path.write_text(text)
        return cli(*DETACHED, f"--store={tmp_path / 'store'}", *words, code=code)

    return run


# Of each kind one; the others are in ``tests/unit/kubernetes/``.
UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "refused": ({"server": NOWHERE}, "cannot be reached: connection refused"),
    "no YAML": ({"text": "a: ["}, "the kubeconfig is not YAML"),
    "empty": ({"text": "\n"}, "The kubeconfig ~/.kube/config names no cluster."),
}


@pytest.mark.parametrize(("config", "sentence"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_cluster_that_cannot_be_used_is_an_error_with_its_cause(
    submit: Submit, config: dict[str, Any], sentence: str
) -> None:
    out, err = submit(code=6, **config)
    assert out == ""
    assert err.startswith("error: ")
    assert sentence in err
    assert err.endswith("; or run on this machine: --backend local\n")


def test_a_dry_run_goes_without_a_cluster_and_says_whose_pools_it_took(submit: Submit) -> None:
    out, err = submit("--dry-run", server=NOWHERE)
    assert "kind: PyTorchJob" in out
    assert "; pools from built-in (those of the cluster were not read: The API server" in err
    assert "insecure" not in err
    skipped = {"server": NOWHERE, "insecure-skip-tls-verify": True}
    out, err = submit("--dry-run=client", "--output=json", **skipped)
    assert json.loads(out)["items"]
    assert "not checked (insecure-skip-tls-verify)" in err


def test_without_a_kubeconfig_this_machine_is_used_and_why_is_said(submit: Submit) -> None:
    # Which then rejects what only a cluster can do.
    err = submit(code=2).err
    assert "this run is local (" in err
    assert "; no cluster is configured: there is no ~/.kube/config, and this is not a pod" in err


@pytest.mark.parametrize(
    ("word", "variable", "sentence"),
    [
        ("--wait", "/no/such", "KUBECONFIG (/no/such) does not exist."),
        ("--kubeconfig=/no/such", "", "The kubeconfig /no/such does not exist."),
        ("--context=nosuch", "", "There is no context nosuch: ~/.kube/config does not exist."),
        ("--namespace=team", "", "No cluster is configured: ~/.kube/config does not exist"),
    ],
)
def test_a_cluster_that_was_named_and_is_not_there_is_an_error_and_nothing_runs_here(
    submit: Submit, monkeypatch: pytest.MonkeyPatch, word: str, variable: str, sentence: str
) -> None:
    if variable:
        monkeypatch.setenv("KUBECONFIG", variable)
    out, err = submit("--dry-run", word, code=6)
    assert out == ""
    assert sentence in err


def test_a_cluster_is_asked_and_named(submit: Submit, tmp_path: Path, cli: Cli) -> None:
    printed = submit("--backend=kubernetes", server=NOWHERE, code=6)
    assert "--backend local" not in printed.err
    err = cli("status", "nope", f"--store={tmp_path / 'store'}", code=2).err
    assert f"The cluster could not be queried: The API server {NOWHERE}" in err
