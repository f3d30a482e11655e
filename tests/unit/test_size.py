"""``make size``: what counts as code and as words, and which sizes warn or fail."""

from __future__ import annotations

import pathlib

import pytest

from tests import size

SOURCE = '''"""Docstring
of two lines."""

import os  # a comment beside code


class Value:
    field: int = 0
    """Docstring of a field."""


TEXT = """not a docstring:
it is assigned"""
'''

LIMITS = {"product": 5, "data": 3, "tests": 1, "goldens": 2, "words": 5}
"""The sizes of ``tree``."""


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    files = {
        "k8sbench/value.py": SOURCE,
        "k8sbench/pools.yaml": "pools:\n- a\n",
        "manifests/job.yaml.j2": "kind: Job\n",
        "tests/test_value.py": "assert True\n",
        "tests/unit/golden/plans/one.txt": "id 1\nid 2\n",
        "README.md": "five words <!-- table --> not these <!-- table: end --> and three more\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def _limits(tree: pathlib.Path, limits: dict[str, int]) -> None:
    text = "".join(f"{name} = {limit}\n" for name, limit in limits.items())
    (tree / size.LIMITS).write_text(text)


def test_docstrings_comments_and_blank_lines_are_no_code() -> None:
    assert size.code_lines(SOURCE) == 5


def test_each_size_is_of_its_own_files_and_generated_words_do_not_count(tree: pathlib.Path) -> None:
    assert size.sizes(tree) == LIMITS


def test_sizes_at_their_limits_pass(tree: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    _limits(tree, LIMITS)
    assert size.main(tree) == 0
    assert "ABOVE" not in capsys.readouterr().out


@pytest.mark.parametrize(("limit", "code", "severity"), [(100, 0, "warning"), (99, 1, "error")])
def test_a_size_up_to_five_per_cent_above_its_limit_warns_and_beyond_fails(
    tree: pathlib.Path, capsys: pytest.CaptureFixture[str], limit: int, code: int, severity: str
) -> None:
    (tree / "k8sbench/more.py").write_text("x = 1\n" * 100)
    _limits(tree, {**LIMITS, "product": limit})
    assert size.main(tree) == code
    *_, last, _ = capsys.readouterr().out.splitlines()
    assert last.startswith(severity)
    assert "product" in last


def test_a_limit_that_is_missing_fails(tree: pathlib.Path) -> None:
    _limits(tree, {"product": 5})
    assert size.main(tree) == 1
