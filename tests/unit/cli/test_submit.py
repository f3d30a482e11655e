"""Output of ``submit``, and its check of the API server beforehand."""

import yaml

from k8sbench.model import planning
from tests.unit.command_line import Cli

WORDS = ("submit", "resnet50", "--backend=local", "--dry-run")


def test_a_dry_run_prints_the_manifest_in_the_format_asked_for(cli: Cli) -> None:
    printed = cli(*WORDS).out
    assert planning.DRAFT_ID not in printed
    as_json = cli.json(*WORDS, "--output=json")
    assert as_json["items"] == list(yaml.safe_load_all(printed))
    assert "PyTorchJob" in {one["kind"] for one in as_json["items"]}
