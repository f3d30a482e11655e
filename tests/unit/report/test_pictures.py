"""The pictures in docs/pictures are what the product draws today. Renewed by ``make golden``."""

import re

import pytest

from tests.tiers import ROOT
from tests.unit import goldens
from tests.unit.report.pictures import PICTURES, WIDTH, sample_row

FOLDER = ROOT / "docs" / "pictures"


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_the_golden_one(name: str) -> None:
    drawn = PICTURES[name]()
    goldens.check(FOLDER / name, drawn)
    # It fetches nothing and runs nothing.
    assert not re.search(r'@font-face|<script|<image|foreignObject|href="[^#]', drawn)


def test_there_is_no_other_picture_and_the_readme_shows_each_with_words_for_it() -> None:
    readme = (ROOT / "README.md").read_text()
    assert {path.name for path in FOLDER.iterdir()} == set(PICTURES)
    for name in PICTURES:
        assert re.search(rf"!\[[^\]]{{20,}}\]\(docs/pictures/{name}\)", readme), name


def test_the_sample_row_of_the_readme_is_what_results_prints() -> None:
    row = "\n".join(sample_row().splitlines())
    assert max(map(len, row.splitlines())) <= WIDTH
    assert row in (ROOT / "README.md").read_text()
