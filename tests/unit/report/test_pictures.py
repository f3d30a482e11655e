"""The picture in docs/pictures is what the product draws today. Renewed by ``make golden``."""

import re

from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.report import pictures

FILE = ROOT / "docs" / "pictures" / "live.svg"


def test_the_picture_is_the_golden_one() -> None:
    drawn = pictures.live_view()
    goldens.check(FILE, drawn)
    # It fetches nothing and runs nothing.
    assert not re.search(r'@font-face|<script|<image|foreignObject|href="[^#]', drawn)


def test_the_readme_shows_pictures_with_words_for_them() -> None:
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", readme)
    assert len(shown) == readme.count("![") == 2
    assert FILE in {ROOT / each for each in shown}
