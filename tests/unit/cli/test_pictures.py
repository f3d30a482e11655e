"""The pictures in docs/pictures are what the product draws today. Renewed by ``make golden``."""

import re
from pathlib import Path

import pytest

from tests.results.report import parsed
from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.cli import pictures

FOLDER = ROOT / "docs" / "pictures"
PICTURES = {FOLDER / "history.svg": pictures.history, FOLDER / "live.svg": pictures.live_view}


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: str(file.stem))
def test_the_picture_is_the_golden_one(file: Path) -> None:
    drawn = PICTURES[file]()
    goldens.check(file, drawn)
    # It fetches nothing and runs nothing.
    every = [*parsed.svg(drawn).iter()]
    assert not {one.tag for one in every} & {"script", "image", "foreignObject"}
    assert not [one for one in every if "@font-face" in (one.text or "")]
    links = (value for one in every for name, value in one.attrib.items() if "href" in name)
    assert not [link for link in links if not link.startswith("#")]


def test_the_readme_shows_pictures_with_words_for_them() -> None:
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", readme)
    assert len(shown) == readme.count("![")
    assert [ROOT / each for each in shown] == [*PICTURES]
