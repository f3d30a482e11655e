"""The pictures in docs/pictures are what the product draws today. Renewed by ``make golden``."""

import re
from pathlib import Path

import pytest

from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.report import pictures

FOLDER = ROOT / "docs" / "pictures"
PICTURES = {FOLDER / "history.svg": pictures.history, FOLDER / "live.svg": pictures.live_view}


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: str(file.stem))
def test_the_picture_is_the_golden_one(file: Path) -> None:
    drawn = PICTURES[file]()
    goldens.check(file, drawn)
    # It fetches nothing and runs nothing.
    assert not re.search(r'@font-face|<script|<image|foreignObject|href="[^#]', drawn)


def test_the_readme_shows_pictures_with_words_for_them() -> None:
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", readme)
    assert len(shown) == readme.count("![")
    assert [ROOT / each for each in shown] == [*PICTURES]
