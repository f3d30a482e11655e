"""Shell completion, without heavy imports."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from k8sbench.cli import main

HEAVY = ("kubernetes", "sqlalchemy", "rich", "jinja2", "numpy", "psutil", "urllib3")
PROBE = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from k8sbench.cli.main import main
sys.exit(main())
"""


def completed(*words: str) -> tuple[list[str], set[str]]:
    """Return bash completions of the last word, and the imported modules."""
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
        (("explain", "mine"), ["file,mine"]),
    ],
    ids=" ".join,
)
def test_words_and_files_are_completed(words: tuple[str, ...] | str, expected: list[str]) -> None:
    assert names(*words) == expected


def test_the_first_word_is_any_command_and_imports_none() -> None:
    found, modules = completed("")
    assert [line.removeprefix("plain,") for line in found] == list(main.COMMANDS)
    assert not [each for each in modules if each.startswith("k8sbench.cli.commands.")]


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
