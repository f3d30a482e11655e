"""The printed YAML is what was rendered, and readable."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from k8sbench.render.manifest import to_yaml
from tests.unit.render.conftest import FETCHING_SECONDS
from tests.unit.render.hostile import HOSTILE, plain, unicode
from tests.unit.render.plans import plan, rendered

# Strings that one YAML reader or another takes for something else when they stand bare.
TEMPTING = (
    *("1e-4", "1e3", "0o17", "0x1F", "017", "1_000", "1:30", "12:30:45", ".5", "5.", "-", "+1"),
    *("y", "n", "Y", "N", "yes", "No", "on", "OFF", "true", "False", "null", "~", "Null", ""),
    *(".inf", "-.INF", ".nan", "2026-11-20", "2026-11-20T08:15:00Z", "=", "<<", "!x"),
    *("a: b", "a #b", "- a", "[a]", "{a}", "'a'", '"a"', "%a", "@a", "`a", "*a", "&a", "|", ">"),
    *("a\nb", "a\n", "\na", " a", "a ", " a\nb", "a \nb", "a\n\n\n", "\n", "\t", "a\tb\nc"),
)


def read_back(objects: Any) -> list[Any]:
    return list(yaml.safe_load_all(to_yaml(objects)))


@given(value=plain)
@example("".join(HOSTILE))
def test_whatever_is_written_reads_back_equal(value: Any) -> None:
    assert read_back([{"a": value}, {"b": [value]}]) == [{"a": value}, {"b": [value]}]


@given(value=st.text(unicode))
def test_any_text_reads_back_equal_in_any_style(value: str) -> None:
    assert read_back([{"a": value, "b": f"{value}\n", "c": f"\n{value}\n x"}]) == [
        {"a": value, "b": f"{value}\n", "c": f"\n{value}\n x"}
    ]


# Breaks that a block scalar would turn into others, and what it may not hold.
ODD = ("a\u0085b\nc\n", "a\u2028b\nc\n", "a\u2029b\nc\n", "a\rb\nc\n", "a\r\nb\n", "\ufeffa\nb\n")


@pytest.mark.timeout(FETCHING_SECONDS)
def test_kubectls_reader_reads_the_same(go: Callable[..., str], tmp_path: Path) -> None:
    """PyYAML reading back what PyYAML wrote proves little: ``1e-4`` is a string to it."""
    shutil.copytree(Path(__file__).parent / "readback", tmp_path, dirs_exist_ok=True)
    document = {
        "texts": [*TEMPTING, *HOSTILE, *ODD],
        "keys": {text: text for text in (*TEMPTING, *HOSTILE, *ODD)},
        "objects": list(rendered(plan())),
    }
    answer = json.loads(go("-C", str(tmp_path), "run", ".", given=to_yaml([document])))
    assert answer == document


def test_nothing_is_written_as_a_reference_to_elsewhere() -> None:
    shared = {"key": 1}
    assert to_yaml([{"one": shared, "two": shared}]) == "---\none:\n  key: 1\ntwo:\n  key: 1\n"
