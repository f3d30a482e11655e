"""SQLAlchemy is slow to import: only those who open a store pay for it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from tests.tiers import ROOT

MODULES = """
import sys
from k8sbench.cli.main import main
code = main(sys.argv[1:])
print(code, sorted({"sqlalchemy", "rich", "yaml", "psycopg"} & set(sys.modules)), file=sys.stderr)
"""


def imported(*words: str, where: pathlib.Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MODULES, *words],
        check=True,
        capture_output=True,
        text=True,
        env={"K8SBENCH_STORE": str(where), "PATH": "/usr/bin:/bin"},
    )
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["list", "status", "logs", "store"])
def test_help_opens_no_store(name: str, tmp_path: pathlib.Path) -> None:
    assert imported(name, "--help", where=tmp_path) == "0 []"


def test_reading_a_store_imports_what_it_needs_and_no_more(tmp_path: pathlib.Path) -> None:
    assert imported("list", where=tmp_path) == "0 ['sqlalchemy']"


def test_the_database_is_a_matter_of_the_stores_adapter() -> None:
    using = {
        str(path.relative_to(ROOT / "k8sbench"))
        for path in (ROOT / "k8sbench").rglob("*.py")
        if re.search(
            r"^\s*(import|from) (sqlalchemy|sqlite3|psycopg)", path.read_text(), re.MULTILINE
        )
    }
    assert using == {
        f"adapters/store/{name}.py"
        for name in (
            "claims",
            "database",
            "index",
            "sql_store",
            "run_store",
        )
    }
