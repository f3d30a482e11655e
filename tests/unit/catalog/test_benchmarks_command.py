"""``k8sbench benchmarks``: what it prints, to people and to programs."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner, Result

from k8sbench.adapters.files import catalog
from k8sbench.cli.commands import benchmarks
from tests.tiers import ROOT
from tests.unit.chart.test_generated import holds
from tests.unit.command_line import Cli

NAMES = ["arcface", "deeplabv3p", "resnet50", "tsm"]
GOLDEN = pathlib.Path(__file__).parent / "golden"
MINE = ROOT / "docs" / "examples" / "my-model.yaml"


def run(*args: str) -> Result:
    result = CliRunner().invoke(benchmarks.command, list(args), catch_exceptions=False)
    assert result.exit_code == 0
    return result


def on_terminal(columns: int, *args: str) -> str:
    """What a terminal of that width shows."""
    child, stream = pty.fork()
    if child == 0:
        os.environ |= {"COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
        os.execv(sys.executable, [sys.executable, "-m", "k8sbench", "benchmarks", *args])
    shown = b""
    try:
        while part := os.read(stream, 65536):
            shown += part
    except OSError:  # the child has closed the terminal
        pass
    finally:
        os.close(stream)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def test_the_list_has_a_row_per_benchmark() -> None:
    lines = run().stdout.splitlines()
    assert lines[0].split() == ["NAME", "TITLE", "FRAMEWORKS", "VARIANTS", "CASES"]
    assert [line.split()[0] for line in lines[1:]] == NAMES
    assert re.search(r"pytorch, paddle +mmseg, paddleseg, matched +1x1, 1x8, 2x8, 4x8", lines[2])


def test_names_are_one_per_line() -> None:
    assert run("-o", "name").stdout.splitlines() == NAMES
    assert run("tsm", "-o", "name").stdout == "tsm\n"


def test_the_list_for_programs_has_the_document_of_each() -> None:
    listed = json.loads(run("-o", "json").stdout)
    assert listed == [json.loads(run(name, "-o", "json").stdout) for name in NAMES]
    assert yaml.safe_load(run("-o", "yaml").stdout) == listed


@pytest.mark.parametrize("name", NAMES)
def test_json_of_one_holds_everything_that_its_file_holds(name: str) -> None:
    shown = json.loads(run(name, "-o", "json").stdout)
    assert shown["schema"] == 2
    assert shown["source"] == "built-in"
    found = catalog.find(name)
    assert shown["digest"] == found.digest
    text = (ROOT / "k8sbench" / "benchmarks" / f"{name}.yaml").read_text()

    def held(part: object, whole: object) -> bool:
        if isinstance(part, dict):
            return isinstance(whole, dict) and all(held(v, whole[k]) for k, v in part.items())
        if isinstance(part, list):
            return isinstance(whole, list) and all(map(held, part, whole))
        return part == whole

    assert held(yaml.safe_load(text), shown["benchmark"])
    assert yaml.safe_load(run(name, "-o", "yaml").stdout) == shown


@pytest.mark.parametrize("name", NAMES)
def test_what_the_reports_published_is_shown_golden(name: str) -> None:
    """Every figure, run, note and source: a slip in the YAML is a line of the diff."""
    holds(GOLDEN / f"{name}.txt", run(name).stdout)


def test_a_file_of_the_users_is_shown_like_a_built_in_one() -> None:
    shown = run(str(MINE)).stdout
    assert f"Read from: {MINE}" in shown
    assert "torchrun --nnodes={replicas}" in shown
    assert "408.7 409.2 411" in shown


def test_a_file_with_a_built_in_name_says_so_beside_the_data(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.read_text().replace("name: my-model\ntitle", "name: tsm\ntitle"))
    result = run(str(path), "-o", "json")
    assert json.loads(result.stdout)["shadows_built_in"]
    assert "also a built-in benchmark" in result.stderr


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


@pytest.mark.parametrize("columns", [30, 50, 80])
def test_a_narrow_terminal_loses_nothing(columns: int) -> None:
    shown = on_terminal(columns, "resnet50")
    facts = [line for line in shown.splitlines() if line.startswith("  Window")]
    assert facts
    assert max(map(len, facts)) <= max(columns, 14 + 24)
    flat = " ".join(shown.split())
    for number in ("2802.14", "2833.72", "timestamps", "anomalous"):
        assert number in flat


def test_a_terminal_of_another_encoding_gets_question_marks_and_no_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "k8sbench", "benchmarks", "deeplabv3p"],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        timeout=60,
    )
    assert b"paddle ? paddleseg" in done.stdout
