"""``docs/images.md`` says what the table of images says."""

from __future__ import annotations

import re

from k8sbench.adapters.files import packaged
from k8sbench.model.image import TITLES
from tests.harness.node import collector_image
from tests.tiers import ROOT
from tests.unit.images import dockerfiles

PAGE = (ROOT / "docs" / "images.md").read_text()
ROWS = re.findall(r"^\| ((?:PyTorch|Paddle) .+?) \| ([0-9., ]+) \| (.+?) \|$", PAGE, re.MULTILINE)


def test_the_page_has_every_build_with_its_compute_capabilities() -> None:
    table = packaged.image_table()
    assert {(title.split()[0], codes) for title, codes, _ in ROWS} == {
        (TITLES[build.framework], ", ".join(build.capabilities)) for build in table.builds
    }
    for build in table.builds:
        codes = ", ".join(build.capabilities)
        [title] = [
            title
            for title, row, _ in ROWS
            if row == codes and title.startswith(TITLES[build.framework])
        ]
        assert all(cuda in title for cuda in build.cuda)


def test_the_gpus_that_the_page_excludes_are_excluded() -> None:
    table = packaged.image_table()
    for title, codes, excluded in ROWS:
        [build, *_] = [b for b in table.builds if ", ".join(b.capabilities) == codes]
        running = {name for row in table.running_on(build) for name in row.data_center}
        for name in re.findall(r"[A-Z]+[0-9]+", excluded):
            assert table.capability(name) is not None
            assert name not in running, title


def test_the_page_names_the_base() -> None:
    for framework in dockerfiles.IMAGES:
        base = dockerfiles.rests(framework, "ARG")[0].partition("=")[2]
        assert f"`{base}`" in PAGE


def test_the_page_fetches_the_packages_beforehand_as_the_build_of_the_tests_does() -> None:
    assert f"python3 -m pip download {collector_image.DOWNLOAD} " in PAGE
    assert f"printf '{collector_image.PIP_CONF!r}'".replace("''", "'") in PAGE
    assert "--dest=images/collector --requirement=images/collector/requirements.txt" in PAGE
