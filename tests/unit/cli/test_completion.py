"""Shell completion, without heavy imports."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from k8sbench.cli import commands, main
from k8sbench.store import database
from k8sbench.store.open_store import open_store
from tests.harness import children
from tests.unit import importing
from tests.unit.store.examples import plan

HEAVY = ("kubernetes", "sqlalchemy", "rich", "jinja2", "numpy", "psutil", "urllib3")


def completed(*words: str) -> tuple[list[str], set[str]]:
    """Return bash completions of the last word, and the imported modules."""
    done = subprocess.run(
        children.command(importing.complete),
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
        (("submit", "tsm", "--preset", "s"), ["smoke"]),
        (("submit", "tsm", "--mode", "tr"), ["train"]),
        (("results", "--published", "--la"), ["--lang"]),
        (("results", "--lang", "z"), ["zh"]),
        (("sub",), ["submit"]),
        (("store", "e"), ["export"]),
        (("submit", "r"), ["resnet50"]),
        (("results", "--benchmark", "d"), ["deeplabv3p"]),
        (("measure", "lo"), ["file,lo"]),
        (("submit", "./mine"), ["file,./mine"]),
        (("submit", "tsm", "--pools", ""), ["file,"]),
        (("nodes", "tsm", "--store", ""), ["file,"]),
        (("render", "tsm", "--checkpoints", "k"), ["file,k"]),
        (("submit", "tsm", "--target", ""), []),
        (("explain", "gpu-c"), ["gpu-clocks", "gpu-count"]),
        (("explain", "drif"), ["drift"]),
        (("results", "--accept", "outl"), ["outlier"]),
        (("explain", "mine"), ["file,mine"]),
        (("status", "n"), []),
        (("nosuch", "su"), ["submit"]),
    ],
    ids=" ".join,
)
def test_words_and_files_are_completed(words: tuple[str, ...] | str, expected: list[str]) -> None:
    assert names(*words) == expected


@pytest.fixture
def recorded(tmp_path: pathlib.Path) -> pathlib.Path:
    """A store with the runs of two sets, the later one made last."""
    root = tmp_path / "store"
    with open_store(str(root)) as store:
        for set_name, at in (("night-08", 1.0), ("night-09", 2.0)):
            new = plan(run_id=f"{set_name}-tsm", set_name=set_name)
            store.record(new, at=at, process=None)
    return root


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("compare", "ni"), ["night-09", "night-08", "night-09-tsm", "night-08-tsm"]),
        (("results", "--set", "night-0"), ["night-09", "night-08"]),
        (("status", "night-08"), ["night-08-tsm"]),
        (("report", "night-09"), ["night-09"]),
        (("import", "--set", "x"), []),
        (("explain", "night-09"), ["night-09-tsm"]),
        (("explain", "mine"), ["file,mine"]),
    ],
    ids=" ".join,
)
def test_sets_and_runs_are_completed_from_the_index_newest_first(
    recorded: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    expected: list[str],
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(recorded))
    assert names(*words) == expected


def test_a_store_named_on_the_line_is_the_one_that_is_asked(recorded: pathlib.Path) -> None:
    assert names("status", "--store", str(recorded), "night-08") == ["night-08-tsm"]


def test_completion_makes_no_store_and_survives_a_damaged_index(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "none"
    monkeypatch.setenv("K8SBENCH_STORE", str(root))
    assert names("status", "n") == []
    assert not root.exists()
    root.mkdir()
    (root / database.DATABASE).write_bytes(b"no database" * 100)
    assert names("status", "n") == []


def test_the_first_word_is_any_command_and_imports_none() -> None:
    found, modules = completed("")
    assert [line.removeprefix("plain,") for line in found] == list(main.COMMANDS)
    assert not [each for each in modules if each.startswith(f"{commands.__name__}.")]


def test_a_wrong_file_of_settings_keeps_no_shell_from_completing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k8sbench.toml").write_text("nonsense")
    assert names("submit", "tsm", "--preset", "s") == ["smoke"]


def test_bash_completes_the_name_of_a_command() -> None:
    program = pathlib.Path(sys.executable).parent
    script = (
        f'PATH="{program}:$PATH"; eval "$(_K8SBENCH_COMPLETE=bash_source k8sbench)";'
        " COMP_WORDS=(k8sbench sub); COMP_CWORD=1;"
        ' _k8sbench_completion k8sbench; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["submit"]
