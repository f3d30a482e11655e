"""The page of results in a real browser: on a phone, on a dark screen, on paper."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from k8sbench.report import page
from tests.harness import browser
from tests.unit.report import pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES: dict[str, Callable[[], page.Page]] = {
    "full": pages.page,
    "hostile": pages.hostile,
    "chinese": lambda: pages.page(lang="zh"),
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.started() as one:
        yield one


@pytest.fixture(params=PAGES)
def file(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    path = tmp_path / "results.html"
    path.write_text(page.html(PAGES[request.param]()), "utf-8")
    return path.as_uri()


def messages(opened: Page) -> list[str]:
    """Collect what the browser says of a page from now on."""
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda wrong: said.append(str(wrong)))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    opened.on("requestfailed", lambda asked: said.append(asked.url))
    return said


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows_and_the_browser_has_nothing_to_say(
    chromium: Browser, file: str, width: int
) -> None:
    opened = chromium.new_page(viewport={"width": width, "height": 800})
    said = messages(opened)
    opened.goto(file)
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    assert opened.locator("table").count() >= 3
    assert opened.locator("svg").count() >= 5
    assert said == []
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_for_everybody(
    chromium: Browser, file: str, scheme: Literal["light", "dark"]
) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    # The page lets no script run; the checker is one.
    opened = chromium.new_page(color_scheme=scheme, bypass_csp=True)
    opened.goto(file)
    found = Axe().run(opened).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    opened.close()


def test_no_table_is_cut_on_paper(chromium: Browser, file: str, tmp_path: pathlib.Path) -> None:
    opened = chromium.new_page(viewport={"width": 1040, "height": 720})
    opened.goto(file)
    opened.emulate_media(media="print")
    cut = "[...document.querySelectorAll('table')].map(t => t.scrollWidth > innerWidth)"
    assert not any(opened.evaluate(cut))
    opened.pdf(path=str(tmp_path / "page.pdf"))
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    opened.close()
