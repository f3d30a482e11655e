"""``docs/images.md`` says what the Dockerfiles and the build of the tests say."""

from tests.harness.node import operator_image
from tests.tiers import ROOT
from tests.unit.images import dockerfiles

PAGE = (ROOT / "docs" / "images.md").read_text()


def test_the_page_names_the_base() -> None:
    for framework in dockerfiles.IMAGES:
        base = dockerfiles.rests(framework, "ARG")[0].partition("=")[2]
        assert f"`{base}`" in PAGE


def test_the_page_fetches_the_packages_beforehand_as_the_build_of_the_tests_does() -> None:
    assert f"python3 -m pip download {operator_image.DOWNLOAD} " in PAGE
    assert f"printf '{operator_image.PIP_CONF!r}'".replace("''", "'") in PAGE
    assert "--dest=images/operator --requirement=images/operator/requirements.txt" in PAGE
