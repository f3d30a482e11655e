"""What ``submit`` prints, and that it asks the API server before it makes anything."""

from __future__ import annotations

import json
import pathlib
import threading
from typing import Any

import pytest
import yaml

from k8sbench.app import cases, targets
from k8sbench.cli import main
from k8sbench.model import planning
from k8sbench.model.errors import Unreachable
from tests.unit.test_imports import KUBECONFIG

WORDS = ("submit", "resnet50", "--backend=local", "--dry-run")


def test_a_dry_run_prints_the_manifest_in_the_format_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(WORDS) == 0
    printed = capsys.readouterr().out
    assert planning.DRAFT_ID not in printed
    assert main.main([*WORDS, "--output=json"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert as_json["items"] == list(yaml.safe_load_all(printed))
    assert "PyTorchJob" in {one["kind"] for one in as_json["items"]}


def test_the_api_server_is_asked_while_cases_are_planned_and_nothing_is_made_before_it_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_asked = threading.Event()
    store = tmp_path / "store"

    def answer(_: Any, *, asked: bool) -> None:
        is_asked.set()
        assert asked
        raise Unreachable("It does not answer.", "")

    def prepare(*args: Any) -> Any:
        assert is_asked.wait(20.0)
        return planned(*args)

    planned = cases.prepare
    monkeypatch.setattr(targets, "check_answers", answer)
    monkeypatch.setattr(cases, "prepare", prepare)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    words = ["submit", "resnet50", "--gpus=1", f"--kubeconfig={kubeconfig}", f"--store={store}"]
    assert main.main(words) == 6
    assert "error: It does not answer." in capsys.readouterr().err
    assert not store.exists()
