"""``k8sbench benchmarks``: what it prints, to people and to programs."""

import json
import pathlib
import re

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from k8sbench.catalog import spec_files
from k8sbench.cli.commands import benchmarks
from tests.harness import benchmark_files
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.command_line import Cli

NAMES = ["allreduce", "arcface", "deeplabv3p", "gpt", "resnet50", "tsm"]
GOLDEN = pathlib.Path(__file__).parent / "golden"
MINE = ROOT / "docs" / "examples" / "my-model.yaml"


def run(*args: str) -> Result:
    result = CliRunner().invoke(benchmarks.command, list(args), catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_the_list_has_a_row_per_benchmark_and_framework_golden() -> None:
    goldens.check(GOLDEN / "list.txt", run().stdout)


def test_nothing_is_claimed_of_an_image_of_the_user_s_own(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.yaml"
    mine = benchmark_files.variant(["train"], "registry.example/me/mine:1")
    file.write_text(json.dumps(benchmark_files.benchmark(mine=mine)))
    assert json.loads(run(str(file), "-o", "json").stdout)["images"] == [
        {"framework": "pytorch", "image": "registry.example/me/mine:1", "gpus": None}
    ]


@pytest.mark.parametrize("name", NAMES)
def test_json_of_one_holds_everything_that_its_file_holds(name: str) -> None:
    shown = json.loads(run(name, "-o", "json").stdout)
    assert shown["schema"] == 2
    assert shown["source"] == "built-in"
    found = spec_files.load_spec(name)
    assert shown["digest"] == found.digest
    assert shown["benchmark"] == json.loads(msgspec.json.encode(found.spec))
    assert yaml.safe_load(run(name, "-o", "yaml").stdout) == shown


@pytest.mark.parametrize("name", NAMES)
def test_what_the_reports_published_is_shown_golden(name: str) -> None:
    """All figures, runs, notes and sources of the catalog's YAML."""
    goldens.check(GOLDEN / f"{name}.txt", run(name).stdout)


def test_a_reference_stands_with_its_source_and_what_differs_and_is_no_published_figure() -> None:
    spec = spec_files.load_spec("resnet50").spec
    (b200,) = (
        one for one in spec.references if (one.gpu_model, one.case) == ("NVIDIA B200", "1x8")
    )
    assert (b200.throughput, b200.batch_size, b200.layout) == (24461, 3328, "NCHW")
    assert spec.sources[b200.source].commit
    assert not [f for v in spec.variants for f in v.published if f.gpu_model == "NVIDIA B200"]
    row = next(row for row in run("resnet50").stdout.splitlines() if "B200" in row and "1x8" in row)
    assert row.split()[-3:] == ["24461", "[4]", "b"]


def test_mistakes_end_with_code_2_and_one_clear_message(tmp_path: pathlib.Path, cli: Cli) -> None:
    assert "Did you mean resnet50?" in cli("benchmarks", "resnet5", code=2).err
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.read_text().replace("    batch_size:", "    batchsize:", 1))
    shown = cli("benchmarks", str(path), code=2)
    assert shown.out == ""
    assert re.search(rf"error: {re.escape(str(path))}:\d+: unknown key", shown.err)
    assert "Did you mean" in shown.err
    assert "Traceback" not in shown.err
    for strange in ("/dev/zero", str(tmp_path), "/no/such/file.yaml"):
        cli("benchmarks", strange, code=2)
