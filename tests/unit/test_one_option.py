"""An option that reaches the manifest is five files: its recipe."""

import pathlib

import pytest
import yaml

from tests.unit import recipes
from tests.unit.recipes import Recipe, k8sbench

RECIPE: Recipe = {
    # What is asked for, and how it is typed.
    "k8sbench/model/request.py": (
        ("    force: bool = False\n", "    patience: int | None = None\n"),
        (
            '    "force": Flag(',
            '    "patience": Flag("Seconds of patience.", "N", (1, 9), cluster_only=True),\n',
        ),
    ),
    # What is decided, and carried by the job.
    "k8sbench/model/plan.py": (("    pack: bool = False\n", "    patience: int | None = None\n"),),
    "k8sbench/model/planning.py": (
        ("        queue=request.queue,\n", "        patience=request.patience,\n"),
    ),
    # Where it stands in the manifest.
    "manifests/job.yaml.j2": (
        (
            "    {% if plan.queue is not none %}\n",
            "    ttlSecondsAfterFinished: {{ (plan.patience or 0) | q }}\n",
        ),
    ),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Copy the product, and add the option ``--patience`` to the copy."""
    return recipes.carried_out(tmp_path_factory.mktemp("tree"), RECIPE)


def test_at_most_five_files_know_an_option_that_reaches_the_manifest() -> None:
    assert len(RECIPE) <= 5


@pytest.mark.parametrize("command", ["submit", "render", "nodes"])
def test_every_submitting_command_has_the_option_in_help(tree: pathlib.Path, command: str) -> None:
    done = k8sbench(tree, command, "--help")
    assert done.returncode == 0, done.stderr
    assert "--patience N" in done.stdout
    assert "Seconds of patience." in done.stdout


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "in k8sbench.toml"])
def test_the_option_reaches_the_manifest(tree: pathlib.Path, is_typed: bool) -> None:
    typed = ["--patience=7"] if is_typed else []
    (tree / "k8sbench.toml").write_text("" if is_typed else "[render]\npatience = 7\n")
    done = k8sbench(tree, "render", "resnet50", *typed)
    assert done.returncode == 0, done.stderr
    *_, job = yaml.safe_load_all(done.stdout)
    assert job["spec"]["runPolicy"]["ttlSecondsAfterFinished"] == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--patience=10",), "10 is not in the range 1<=x<=9."),
        (("--patience=7", "--backend=local"), "--patience is for jobs on a cluster"),
    ],
)
def test_the_options_flag_decides(tree: pathlib.Path, words: tuple[str, ...], message: str) -> None:
    done = k8sbench(tree, "render", "resnet50", *words)
    assert done.returncode == 2
    assert message in done.stderr
