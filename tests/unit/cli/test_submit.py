"""What ``submit`` prints where it starts nothing."""

from __future__ import annotations

import json

import pytest
import yaml

from k8sbench.cli import main

WORDS = ("submit", "resnet50", "--backend=local", "--dry-run")


def test_a_dry_run_prints_the_manifest_in_the_format_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main(WORDS) == 0
    printed = capsys.readouterr().out
    assert main.main([*WORDS, "--output=json"]) == 0
    as_json = json.loads(capsys.readouterr().out)
    assert as_json["items"] == list(yaml.safe_load_all(printed))
    assert "PyTorchJob" in {one["kind"] for one in as_json["items"]}
