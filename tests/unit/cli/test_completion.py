"""What a shell completes, and that it does so quickly: nothing heavy is imported for it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli import completion, main
from k8sbench.model.baseline import Baseline
from tests.unit.report.factory import run

HEAVY = ("kubernetes", "sqlalchemy", "rich", "jinja2", "numpy", "psutil", "urllib3", "matplotlib")
PROBE = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from k8sbench.cli.main import main
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def _store(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with open_store() as store:
        for number, name in enumerate(("first-a", "first-b", "second")):
            one = run(run_id=name, set_name=f"set-{name[:3]}", repeat=number + 1)
            store.record(one.plan, at=one.created_at, owner=None)
        for at, name in enumerate(("old-base", "new-base")):
            store.save_baseline(Baseline(name=name, saved_at=float(at), of=(), runs=()))


def completed(*words: str) -> tuple[list[str], set[str]]:
    """What bash is told for the last of the words; and which modules that took."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={
            **os.environ,
            "_K8SBENCH_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("k8sbench", *words)),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line], set(json.loads(done.stderr))


def names(*words: str) -> list[str]:
    found, modules = completed(*words)
    tops = {module.partition(".")[0] for module in modules}
    assert not tops & set(HEAVY)
    return [line.removeprefix("plain,") for line in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("status", ""), ["second", "first-b", "first-a"]),
        (("logs", "first"), ["first-b", "first-a"]),
        (("collect", "first-a", "f"), ["first-b"]),
        (("results", "--set", ""), ["set-sec", "set-fir"]),
        (("submit", "resnet50", "--resume", "set-f"), ["set-fir"]),
        (("nodes", "resnet50", "--against", "set-f"), ["set-fir"]),
        (("measure", "--record", "set-s"), ["set-sec"]),
        (("compare", "set-fir", "se"), ["set-sec", "set-fir", "second"]),
        (("compare", "n"), ["new-base"]),
        (("baseline", "remove", ""), ["new-base", "old-base"]),
        (("baseline", "save", "night", "first-a", "f"), ["first-b"]),
        (("explain", "first"), ["first-b", "first-a"]),
        (("submit", "r"), ["resnet50"]),
        (("benchmarks", "ts"), ["tsm"]),
        (("list", "--benchmark", "arc"), ["arcface"]),
        (("submit", "tsm", "--node-pool", "v"), ["v100-16gb", "v100-32gb"]),
        (("results", "--accept", "gpu-c"), ["gpu-clocks", "gpu-count"]),
        (("submit", "tsm", "--preset", "s"), ["smoke"]),
        (("submit", "tsm", "--mode", "tr"), ["train"]),
        (("results", "--published", "--pl"), ["--plot"]),
        (("results", "--color", "a"), ["auto", "always"]),
        (("sub",), ["submit"]),
        (("store", "e"), ["export"]),
    ],
    ids=" ".join,
)
def test_a_word_is_completed_and_nothing_heavy_is_imported(
    words: tuple[str, ...] | str, expected: list[str]
) -> None:
    assert names(*words) == expected


def test_the_first_word_is_any_command_and_imports_none() -> None:
    found, modules = completed("")
    assert [line.removeprefix("plain,") for line in found] == list(main.COMMANDS)
    assert not [each for each in modules if each.startswith("k8sbench.cli.commands.")]


def test_a_file_is_completed_where_one_is_taken() -> None:
    assert completed("measure", "lo")[0] == ["file,lo"]
    assert completed("submit", "./mine")[0] == ["file,./mine"]
    assert completed("submit", "tsm", "--pools", "")[0] == ["file,"]
    assert completed("nodes", "tsm", "--store", "")[0] == ["file,"]
    assert completed("render", "tsm", "--checkpoints", "k")[0] == ["file,k"]
    assert completed("submit", "tsm", "--target", "")[0] == []
    assert completed("explain", "mine")[0] == ["file,mine"]
    assert completed("explain", "mine.yaml", "tr")[0] == ["file,tr"]


def test_the_store_is_the_one_that_was_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    with open_store(str(other)) as store:
        one = run(run_id="elsewhere")
        store.record(one.plan, at=one.created_at, owner=None)
    assert names("status", "--store", str(other), "") == ["elsewhere"]
    monkeypatch.setenv("K8SBENCH_STORE", str(other))
    assert names("status", "") == ["elsewhere"]
    monkeypatch.delenv("K8SBENCH_STORE")
    (tmp_path / "k8sbench.toml").write_text('store = "other"\n')
    monkeypatch.chdir(tmp_path)
    assert names("status", "") == ["elsewhere"]


@pytest.mark.parametrize("where", ["nowhere", "postgresql://127.0.0.1:1/none", "k8sbench.toml"])
def test_what_cannot_be_read_completes_nothing_and_says_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k8sbench.toml").write_text("nonsense")
    assert names("status", "--store", where, "") == []
    assert not (tmp_path / "nowhere").exists()
    assert main.main(["completion", "bash"]) == 0


def test_every_kind_of_name_is_one_of_a_parameter() -> None:
    params = {
        str(param.name)
        for command in filter(None, map(main.find, main.names()))
        for param in command.params
        if isinstance(param.type, completion.Names)
    }
    assert set(completion._OF) <= params


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_k8sbench(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    assert main.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_K8SBENCH_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_completes_the_name_of_a_run(tmp_path: pathlib.Path) -> None:
    program = pathlib.Path(sys.executable).parent
    script = (
        f'PATH="{program}:$PATH"; eval "$(k8sbench completion bash)";'
        " COMP_WORDS=(k8sbench status first); COMP_CWORD=2;"
        ' _k8sbench_completion k8sbench; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["first-b", "first-a"]
