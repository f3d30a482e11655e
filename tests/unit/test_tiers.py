"""``tests.tiers``: a test has the tiers of its file, its marks and its fixtures."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

MADE_UP = """
import pytest
from tests import tiers
from tests.harness.cluster.fixture import cluster, namespace, new_namespace, user
from tests.harness.cluster.shell import own_shell

tiers.NEEDS |= {{tier: lambda: None for tier in tiers.NEEDS}}
tiers.NEEDS |= {{tier: lambda: "it is made up" for tier in {lacking}}}

@pytest.fixture
@tiers.needs("browser")
def page():
    raise AssertionError("it was begun")

@pytest.fixture(params=["sqlite", "postgres"])
def store(request):
    return request.getfixturevalue("postgres_server") if request.param == "postgres" else None

{test}
"""


def pytest_of(folder: Path, test: str, *lacking: str, options: tuple[str, ...] = ()) -> str:
    """Run a made-up test, outside of any tier's folder, where tiers lack something."""
    file = folder / "test_made_up.py"
    file.write_text(MADE_UP.format(test=test, lacking=lacking))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  tier(name): a tier\n  soak: x\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "tests.conftest", *options, str(file)],
        cwd=folder,
        env={"PYTHONPATH": str(tiers.ROOT), "HOME": str(folder), "PATH": ""},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 5), done.stdout + done.stderr
    return done.stdout


UNMARKED = """
def test_both(own_shell, postgres_server): pass

@pytest.mark.tier("corpus")
def test_marked(page): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["cluster", "postgres", "browser", "corpus"])
def test_a_test_has_the_tiers_of_its_fixtures_without_a_mark(lacking: str, tmp_path: Path) -> None:
    test = "test_both" if lacking in ("cluster", "postgres") else "test_marked"
    out = pytest_of(tmp_path, UNMARKED, lacking, options=("-k", test))
    assert "1 skipped" in out
    assert f"tier {lacking}: SKIPPED, it is made up" in out
    assert ": ran" not in out


@pytest.mark.slow
def test_unit_tests_have_no_fixture_with_a_tier(tmp_path: Path) -> None:
    assert "2 deselected" in pytest_of(tmp_path, UNMARKED, options=("-m", "not tier"))


@pytest.mark.parametrize(
    ("file", "tier"),
    [
        ("cluster/test_x.py", "cluster"),
        ("harness/cluster/fixture.py", "cluster"),
        ("gpu/test_paddle.py", "gpu-paddle"),
        ("gpu/test_x.py", "gpu"),
        ("unit/model/test_x.py", None),
    ],
)
def test_a_file_has_the_tier_of_its_nearest_place(file: str, tier: str | None) -> None:
    assert tiers.of_file(tiers.ROOT / "tests" / file) == (() if tier is None else (tier,))
