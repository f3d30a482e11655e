"""Package, chart, changelog and pages are of one version, and a release has its notes."""

import re
import runpy
import subprocess
import sys

import pytest
import yaml

from k8sbench import __version__
from tests.harness.cluster import tools
from tests.tiers import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
RELEASES = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", CHANGELOG, re.MULTILINE)
SECTIONS = ["What scripts notice", "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
"""Sections of Keep a Changelog, in its order, after what breaks scripts."""
NOTES = ROOT / ".ci" / "notes.py"
MOST_ENTRIES, LONGEST, MOST_WORDS = 60, 125, 1_200


def test_the_newest_release_of_the_changelog_is_the_version_of_the_package() -> None:
    assert RELEASES[0][0] == __version__


def test_chart_and_package_have_the_same_version() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_oldest_kubernetes_that_the_chart_allows_is_that_of_make_soak() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "Chart.yaml").read_text())
    oldest, newest = (
        [int(each) for each in tools.OTHERS[name].version.split(".")]
        for name in ("oldest", "newest")
    )
    assert chart["kubeVersion"] == f">=1.{oldest[1]}.0-0"
    assert oldest < [int(each) for each in tools.KUBERNETES.split(".")] < newest


@pytest.mark.parametrize("release", re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:])
def test_a_release_has_few_short_entries_in_the_usual_sections(release: str) -> None:
    _, *lines = filter(None, release.splitlines())
    sections = [line.removeprefix("### ") for line in lines if line.startswith("#")]
    assert sections == [each for each in SECTIONS if each in sections]
    entries = [line for line in lines if not line.startswith("#")]
    assert len(entries) <= MOST_ENTRIES
    assert [line for line in entries if not re.fullmatch(r"- .+\.", line)] == []
    assert [line for line in entries if len(line) > LONGEST] == []
    assert len(release.split()) <= MOST_WORDS, "it can be read in five minutes"


WRITTEN = """# Changelog

## Unreleased

## 1.10.0 - 2026-01-03

### Added
- Add b.

## 1.1.0 - 2026-01-02

### Added
- Add a.

### Fixed
- Fix a.

## 1.0.0 - 2026-01-01
"""


def test_the_notes_of_a_version_are_its_section_of_the_changelog_alone() -> None:
    notes = runpy.run_path(str(NOTES))["notes"]
    assert notes(WRITTEN, "1.1.0") == "### Added\n- Add a.\n\n### Fixed\n- Fix a.\n"
    assert notes(WRITTEN, "1.10.0") == "### Added\n- Add b.\n"


@pytest.mark.parametrize("version", ["1.0.0", "1.2.0", "1.1", "1x1.0", "Unreleased"])
def test_a_version_without_entries_has_no_notes(version: str) -> None:
    module = runpy.run_path(str(NOTES))
    with pytest.raises(module["Refused"], match=re.escape(version)):
        module["notes"](WRITTEN, version)


def test_a_tag_releases_the_version_of_the_package_alone() -> None:
    def ask(tag: str) -> int:
        command = [sys.executable, str(NOTES), tag]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert ask(f"v{__version__}") == 0
    assert [ask(tag) for tag in ("", __version__, "v0.0.1")] == [2, 2, 2]
