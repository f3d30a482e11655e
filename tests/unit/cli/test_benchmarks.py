"""``benchmarks NAME``: one screen, with everything that was published and how to run it."""

import shlex

import pytest
import yaml

from k8sbench.catalog import spec_files
from tests.unit.command_line import Cli

NAMES = [loaded.spec.name for loaded in spec_files.load_all()]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_is_one_screen_with_a_command_that_plans(cli: Cli, name: str) -> None:
    out = cli("benchmarks", name).out
    first, _, references = out.partition("\nReferences")
    assert len(first.splitlines()) <= 30
    assert len(references.splitlines()) <= 24
    (line,) = (line for line in out.splitlines() if line.startswith("Run it: "))
    _, _, *words = shlex.split(line.partition(": ")[2])
    (job,) = yaml.safe_load_all(cli("render", *words).out)
    assert job["metadata"]["labels"]["k8sbench.io/benchmark"] == name
