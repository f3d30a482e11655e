"""Pages and drawings as trees, and what a drawing shows, whatever the text of either is."""

import html.parser
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import NamedTuple

VOID = {"meta", "link", "input", "br", "img", "hr"}
"""Elements of HTML without an end."""
ENDED_BY = {
    **dict.fromkeys(("dt", "dd"), ("dt", "dd")),
    "li": ("li",),
    **dict.fromkeys(("th", "td"), ("th", "td", "tr", "tbody")),
    "tr": ("tr", "tbody"),
    **dict.fromkeys(("thead", "tbody"), ("tbody",)),
}
"""Element that needs no end tag → elements whose begin ends it, as does the end of its parent."""
OF_SVG = {"viewbox": "viewBox"}
"""Attributes that HTML reads as small letters."""


class _Builder(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tree = ET.TreeBuilder()
        self.open: list[str] = []

    def end(self) -> str:
        """End the innermost open element."""
        tag = self.open.pop()
        self.tree.end(tag)
        return tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        while self.open and tag in ENDED_BY.get(self.open[-1], ()):
            self.end()
        self.tree.start(tag, {OF_SVG.get(name, name): value or "" for name, value in attrs})
        if tag in VOID:
            self.tree.end(tag)
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tree.start(tag, {OF_SVG.get(name, name): value or "" for name, value in attrs})
        self.tree.end(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag and self.open[-1] in ENDED_BY:
            self.end()
        assert self.end() == tag, f"{tag} ends, and another element is open"

    def handle_data(self, data: str) -> None:
        self.tree.data(data)


def tree(text: str) -> ET.Element:
    """Parse HTML; an element that is not closed, or not in its place, is an error."""
    builder = _Builder()
    builder.tree.start("document", {})
    builder.feed(text)
    builder.close()
    assert builder.open == []
    builder.tree.end("document")
    return builder.tree.close()


def svg(text: str | bytes) -> ET.Element:
    """Parse an SVG file, its elements without their namespace."""
    root = ET.fromstring(text)
    for one in root.iter():
        one.tag = one.tag.rpartition("}")[2]
    return root


def text_of(element: ET.Element) -> str:
    """Return the text of an element, in one line."""
    return " ".join("".join(element.itertext()).split())


def texts(found: Iterator[ET.Element]) -> list[str]:
    """Return the text of each element."""
    return [text_of(one) for one in found]


def images(element: ET.Element) -> list[str]:
    """Return the accessible names of the charts within an element."""
    return [one.get("aria-label", "") for one in element.iter() if one.get("role") == "img"]


def rows(element: ET.Element) -> list[list[ET.Element]]:
    """Return the cells of each row of the tables within an element, without what unfolds."""
    return [body.findall("tr")[0].findall("td") for body in element.iter("tbody")]


def unfolding(element: ET.Element) -> list[ET.Element]:
    """Return what unfolds below rows."""
    return [more for body in element.iter("tbody") for more in body.findall("tr")[1:]]


class Stroke(NamedTuple):
    """A line through places, of which one alone is a point."""

    places: tuple[tuple[float, float], ...]

    @property
    def left(self) -> float:
        return min(x for x, _ in self.places)

    @property
    def top(self) -> float:
        return min(y for _, y in self.places)

    @property
    def width(self) -> float:
        return max(x for x, _ in self.places) - self.left

    @property
    def height(self) -> float:
        return max(y for _, y in self.places) - self.top


def strokes(*paths: ET.Element) -> list[Stroke]:
    """Follow the straight lines of paths."""
    return [stroke for path in paths for stroke in _followed(path.attrib["d"])]


def _followed(commands: str) -> Iterator[Stroke]:
    x = y = 0.0
    found: list[list[tuple[float, float]]] = []
    for command, given in re.findall(r"([a-zA-Z])([^a-zA-Z]*)", commands):
        if command in "zZ":
            x, y = found[-1][0]
            continue
        numbers = [float(one) for one in re.findall(r"-?[\d.]+", given)]
        size = 1 if command in "hHvV" else 2
        for at in range(0, len(numbers), size):
            one = numbers[at : at + size]
            match command:
                case "h":
                    x += one[0]
                case "H":
                    x = one[0]
                case "v":
                    y += one[0]
                case "V":
                    y = one[0]
                case "m" | "l":
                    x, y = x + one[0], y + one[1]
                case "M" | "L":
                    x, y = one
                case _:
                    raise AssertionError(f"{command} is no straight line")
            if command in "mM" and at == 0:
                found.append([])
            found[-1].append((x, y))
    yield from (Stroke(tuple(places)) for places in found)


class Drawn(NamedTuple):
    """A panel of a chart, whose lines are stretched to its width."""

    element: ET.Element

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, in the units of its lines."""
        _, _, width, height = map(float, self.element.attrib["viewBox"].split())
        return width, height

    @property
    def lines(self) -> list[ET.Element]:
        """The parts of its lines, in order."""
        return self.element.findall("g")

    @property
    def points(self) -> list[tuple[float, float]]:
        """The points of its lines, as shares of its width and height."""
        return [place for line in self.lines for place in self.points_of(line)]

    def points_of(self, line: ET.Element) -> list[tuple[float, float]]:
        """Return the points within a part, as shares of the panel's width and height."""
        width, height = self.size
        return [
            (one.left / width, one.top / height)
            for one in strokes(*line.iter("path"))
            if one.width == one.height == 0
        ]

    @property
    def uprights(self) -> list[float]:
        """The places of lines without dashes through all of it, as shares of its width."""
        width, height = self.size
        paths = self.element.findall("path")
        every = strokes(*(path for path in paths if "stroke-dasharray" not in path.attrib))
        return [one.left / width for one in every if (one.width, one.height) == (0, height)]


def panels(root: ET.Element) -> list[Drawn]:
    """Return the panels of a chart."""
    inner = (one for one in root.iter("svg") if one is not root and "viewBox" in one.attrib)
    return [Drawn(one) for one in inner]
