"""``benchmarks NAME``: one screen, with everything that was published and how to run it."""

import shlex

import pytest
import yaml

from k8sbench.app import catalog
from tests.unit.command_line import Cli

NAMES = [loaded.spec.name for loaded in catalog.benchmarks()]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_is_one_screen_with_a_command_that_plans(cli: Cli, name: str) -> None:
    out = cli("benchmarks", name).out
    assert len(out.splitlines()) <= 30
    (line,) = (line for line in out.splitlines() if line.startswith("Run it: "))
    _, _, *words = shlex.split(line.partition(": ")[2])
    (job,) = yaml.safe_load_all(cli("render", *words).out)
    assert job["metadata"]["labels"]["k8sbench.io/benchmark"] == name


@pytest.mark.parametrize("name", NAMES)
def test_every_published_speed_stands_in_its_row(cli: Cli, name: str) -> None:
    rows = [line.split() for line in cli("benchmarks", name).out.splitlines()]
    for variant in catalog.benchmark(name).spec.variants:
        for figure in variant.published:
            if figure.throughput is not None:
                shown = f"{figure.throughput:.15g}{'*' if figure.anomalous else ''}"
                here = [row for row in rows if row[:2] == [figure.case, figure.precision]]
                assert any(shown in row for row in here)
