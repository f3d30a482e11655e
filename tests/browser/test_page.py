"""The results page in a browser: phone, dark mode, print."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import msgspec
import pytest

from k8sbench.results.report import page, page_content
from tests.harness import browser
from tests.results.report import pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES: dict[str, Callable[[], page_content.Page]] = {
    "full": pages.page,
    "hostile": pages.hostile,
    "chinese": lambda: pages.page(lang="zh"),
    "two rows": lambda: pages.nightly(8, 2),
    "findings": lambda: pages.nightly(30, 22, 2, change=pages.troubled),
    "findings in Chinese": lambda: msgspec.structs.replace(PAGES["findings"](), lang="zh"),
    "200 rows": lambda: pages.nightly(60, *[25] * 8, change=pages.troubled),
    "400 nights": lambda: pages.nightly(400, 5),
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


@pytest.fixture
def opened(chromium: Browser, tmp_path: pathlib.Path) -> Iterator[Page]:
    """The full page, on a wide screen."""
    path = tmp_path / "results.html"
    path.write_text(page.html(pages.page()), "utf-8")
    one = chromium.new_page(viewport={"width": 1920, "height": 800})
    one.goto(path.as_uri())
    yield one
    one.close()


def messages(opened: Page) -> list[str]:
    """Collect what the browser says of a page from now on."""
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda wrong: said.append(str(wrong)))
    opened.on("dialog", lambda dialog: said.append(dialog.message))
    opened.on("requestfailed", lambda asked: said.append(asked.url))
    return said


OUTSIDE = """() => [...document.querySelectorAll('caption, th, td')].filter(cell =>
  cell.getBoundingClientRect().right > Math.min(innerWidth, cell.closest('[role=region]')
    .getBoundingClientRect().right) + 1).map(cell => cell.textContent.slice(0, 60))"""
"""Cells that end outside of the window, or of their table's."""
OVERLAPS = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const all = [...svg.querySelectorAll('text')];
  const texts = all.map(text => [text.textContent, text.getBoundingClientRect()]);
  return texts.flatMap(([a, one], at) => texts.slice(at + 1)
    .filter(([b, other]) => one.left < other.right && other.left < one.right
      && one.top + 2 < other.bottom && other.top + 2 < one.bottom)
    .map(([b]) => a + ' | ' + b));
})"""
"""Overlapping texts of one chart; two pixels of line spacing may overlap."""
CUT = """() => [...document.querySelectorAll('svg')].flatMap(svg => {
  const right = svg.getBoundingClientRect().right;
  return [...svg.querySelectorAll('text')]
    .filter(text => text.getBoundingClientRect().right > right + 1).map(text => text.textContent);
})"""
"""Texts that end outside of their chart."""
LETTERS = """() => [...new Set([...document.querySelectorAll('svg text')].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))]"""
"""The sizes of the charts' letters, pixels."""


UNFOLDED = "main tbody > tr:not(:first-child):visible"
"""The lines below a row: its details, or a note of it."""
NOTE = "main td a[href^='#']"
"""The number of a note."""
HIDDEN = """() => [...document.querySelectorAll('tbody > tr:first-child > td')].filter(cell =>
  cell.textContent && !cell.getBoundingClientRect().height).map(cell => cell.textContent)"""
"""Cells of rows that are not shown."""


def test_nothing_overlaps_or_overflows_at_any_width(chromium: Browser, file: str) -> None:
    opened = chromium.new_page()
    said = messages(opened)
    for width in (390, 768, 1280, 1920):
        opened.set_viewport_size({"width": width, "height": 800})
        opened.goto(file)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.evaluate(OUTSIDE) == []
        assert opened.evaluate(OVERLAPS) == []
        assert opened.evaluate(CUT) == []
        assert opened.evaluate(LETTERS) in ([12], [])
        assert opened.evaluate(HIDDEN) == []
        assert opened.locator("table").count() >= 1
        opened.evaluate("document.querySelectorAll('td > button').forEach(one => one.click())")
        assert opened.locator(UNFOLDED).count() >= 1
        assert opened.evaluate(OUTSIDE) == []
        assert opened.locator("figure > svg").count() >= 1
    assert said == []
    opened.close()


def test_rows_are_filtered_and_sorted(opened: Page) -> None:
    rows = opened.locator("main tbody:visible > tr:first-child")
    every = rows.count()
    opened.fill("#filter", "1x8")
    shown = rows.all_inner_texts()
    assert 0 < len(shown) < every
    assert all("1x8" in text for text in shown)
    # The benchmark stands in the heading, the GPU in what unfolds.
    opened.fill("#filter", "v100 resnet50 pytorch")
    assert 0 < rows.count() < every
    heads = opened.locator("section:visible h2").all_inner_texts()
    assert heads == ["resnet50 Tesla V100-SXM2-16GB"]
    opened.fill("#filter", "no such row")
    assert rows.count() == 0
    assert opened.locator("section:visible").count() == 0
    assert opened.locator("#none").is_visible()
    opened.fill("#filter", "")
    place = opened.locator("table").last
    place.get_by_role("button", name="throughput").first.click()
    assert rows.count() == every
    assert place.locator("th[aria-sort=descending]").count() == 1
    for turn in (-1, 1):
        place.get_by_role("button", name="speedup").first.click()
        speedups = place.locator("td[data-title=speedup]").all_inner_texts()
        known = [float(text) for text in speedups if text != "–"]
        assert known == sorted(known, reverse=turn < 0)


def test_a_row_unfolds_and_folds(opened: Page) -> None:
    folded = opened.locator(UNFOLDED)
    assert folded.count() == 0
    button = opened.locator("td > button").first
    button.click()
    assert (folded.count(), button.get_attribute("aria-expanded")) == (1, "true")
    button.click()
    assert (folded.count(), button.get_attribute("aria-expanded")) == (0, "false")


def test_the_number_of_a_note_leads_to_it_and_unfolds_the_notes(opened: Page) -> None:
    number = opened.locator(NOTE).first
    number.focus()
    opened.keyboard.press("Enter")
    note = opened.locator(":target")
    assert note.inner_text().startswith(f"[{number.inner_text()}] ")
    assert note.is_visible()


def test_the_values_of_the_nearest_set_stand_beside_the_pointer(
    chromium: Browser, tmp_path: pathlib.Path
) -> None:
    made = PAGES["findings"]()
    path = tmp_path / "results.html"
    path.write_text(page.html(made), "utf-8")
    opened = chromium.new_page(viewport={"width": 1280, "height": 800})
    said = messages(opened)
    opened.goto(path.as_uri())
    tip = opened.locator("#tip")
    assert not tip.is_visible()
    panel = opened.locator("figure svg svg").first
    panel.scroll_into_view_if_needed()
    box = panel.locator(".grid.l").bounding_box()
    assert box is not None
    # The first panel shows 1x8; its step is in night-020 of 30.
    for number in (0, 20, 29):
        opened.mouse.move(box["x"] + box["width"] * number / 29, box["y"] + 10)
        name, time, value = tip.inner_text().split("\n")
        point = made.series[0].points[number]
        assert (name, time[-1]) == (point.group.key.set_name, "Z")
        assert point.group.spread is not None
        assert value.startswith(f"{point.group.spread.median:.2f}")
        assert ("−" in value) == (number == 20)
    opened.mouse.move(1, 1)
    assert not tip.is_visible()
    assert said == []
    opened.close()


def test_a_finding_leads_to_its_row_which_unfolds(opened: Page) -> None:
    link = opened.locator("header tbody a").first
    link.click()
    row = opened.locator(":target")
    assert row.get_attribute("id") == (link.get_attribute("href") or "").lstrip("#")
    assert row.locator("tr").nth(1).is_visible()


def test_points_of_all_cases_stand_over_one_date(chromium: Browser, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "results.html"
    path.write_text(page.html(PAGES["findings"]()), "utf-8")
    opened = chromium.new_page()
    opened.goto(path.as_uri())
    ends = """() => [...document.querySelector('figure')
      .querySelectorAll('svg svg > g > path:first-child')].map(line => line.getBoundingClientRect())
      .map(box => [box.left, box.right].map(Math.round))"""
    for width in (390, 1280):
        opened.set_viewport_size({"width": width, "height": 800})
        found = opened.evaluate(ends)
        assert len({left for left, _ in found}) == 1
        # The missing case ends earlier.
        assert len({right for _, right in found}) > 1
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_for_all(chromium: Browser, file: str, scheme: Literal["light", "dark"]) -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    # The page lets no script run; the checker is one.
    opened = chromium.new_page(color_scheme=scheme, bypass_csp=True)
    opened.goto(file)
    found = Axe().run(opened).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    opened.close()


BROKEN = """() => [...document.querySelectorAll('th, td[data-title]')].flatMap(cell => {
  let text = cell.querySelector('button') || cell;
  while (text.firstChild) text = text.firstChild;
  return (text.data || '').matchAll(/[\\w.,]+/g).map(word => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length > 1 ? word[0] : '';
  }).filter(word => word).toArray();
})"""
"""Words and figures of tables that stand on two lines."""


def test_paper_is_white_and_folded(chromium: Browser, file: str) -> None:
    opened = chromium.new_page(viewport={"width": 1040, "height": 720}, color_scheme="dark")
    opened.goto(file)
    colours = "[getComputedStyle(document.body).color, getComputedStyle(document.body).background]"
    on_screen, _ = opened.evaluate(colours)
    opened.emulate_media(media="print")
    text, background = opened.evaluate(colours)
    assert on_screen == "rgb(230, 237, 243)"
    assert text == "rgb(27, 31, 36)"
    assert background.startswith("rgb(255, 255, 255)")
    assert opened.evaluate(BROKEN) == []
    cut = "[...document.querySelectorAll('table')].map(t => t.scrollWidth > innerWidth)"
    assert not any(opened.evaluate(cut))
    assert opened.locator(UNFOLDED).count() == 0
    opened.close()


def test_a_benchmark_takes_one_printed_page(chromium: Browser, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "results.html"
    path.write_text(page.html(pages.nightly(10, 22, 22, 22)), "utf-8")
    opened = chromium.new_page()
    opened.goto(path.as_uri())
    assert len(re.findall(rb"/Type /Page\b", opened.pdf(prefer_css_page_size=True))) == 3
    opened.close()
