"""Output of ``submit``, and its check of the API server beforehand."""

import pathlib
from typing import Any

import pytest
import yaml

from k8sbench import limits
from k8sbench.app import connections
from k8sbench.model import planning
from k8sbench.model.errors import Unreachable
from tests.unit.command_line import Cli
from tests.unit.test_imports import KUBECONFIG

WORDS = ("submit", "resnet50", "--backend=local", "--dry-run")


def test_a_dry_run_prints_the_manifest_in_the_format_asked_for(cli: Cli) -> None:
    printed = cli(*WORDS).out
    assert planning.DRAFT_ID not in printed
    as_json = cli.json(*WORDS, "--output=json")
    assert as_json["items"] == list(yaml.safe_load_all(printed))
    assert "PyTorchJob" in {one["kind"] for one in as_json["items"]}


def test_nothing_is_made_before_the_api_server_answers(
    monkeypatch: pytest.MonkeyPatch, root: pathlib.Path, cli: Cli
) -> None:
    def answer(_: Any, seconds: float) -> None:
        assert seconds == limits.now.api_answer
        raise Unreachable("It does not answer.", "")

    monkeypatch.setattr(connections, "check_answers", answer)
    pathlib.Path("kubeconfig").write_text(KUBECONFIG)
    err = cli("submit", "resnet50", "--gpus=1", "--kubeconfig=kubeconfig", code=6).err
    assert "error: It does not answer." in err
    assert not root.exists()
