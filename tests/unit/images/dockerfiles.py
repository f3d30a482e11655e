"""The Dockerfiles of ``images/``, read as far as the tests need it."""

import pathlib
import re

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from k8sbench.model.spec_values import Framework
from tests.tiers import ROOT

FRAMEWORKS: tuple[Framework, ...] = ("pytorch", "paddle")
IMAGES = (*FRAMEWORKS, "operator")
PYTHON = {"extra": "", "python_version": "3.11", "python_full_version": "3.11.14"}
"""Values of the markers of requirements in the images, whatever Python runs the tests."""
UPSTREAM: dict[str, Framework] = {"upstream-mmseg": "pytorch", "upstream-paddleseg": "paddle"}
"""Image of a published program → framework of its base image."""


class Instruction(msgspec.Struct, frozen=True):
    """One instruction, its continued lines joined by blanks."""

    word: str
    rest: str


def path(framework: str) -> pathlib.Path:
    return ROOT / "images" / framework / "Dockerfile"


def read(framework: str) -> list[Instruction]:
    lines = path(framework).read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", text)
    split = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [Instruction(word, rest.strip()) for word, _, rest in split]


def rests(framework: str, word: str) -> list[str]:
    return [each.rest for each in read(framework) if each.word == word]


def pairs(text: str) -> dict[str, str]:
    """``A=b C="d e"``, as ENV and LABEL have it."""
    return {
        key: quoted or bare for key, quoted, bare in re.findall(r'(\S+?)=(?:"([^"]*)"|(\S+))', text)
    }


def labels(framework: str) -> dict[str, str]:
    return pairs(" ".join(rests(framework, "LABEL")))


def environment(framework: str) -> dict[str, str]:
    return pairs(" ".join(rests(framework, "ENV")))


def pins(file: str) -> dict[str, str]:
    """Return package → version, for the images' Python, of a fully pinned requirements file."""
    found: dict[str, str] = {}
    for line in (ROOT / file).read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate(PYTHON):
            continue
        [pin] = wanted.specifier
        assert pin.operator == "==", line
        assert "*" not in pin.version, line
        name = canonicalize_name(wanted.name)
        assert name not in found, line
        found[name] = pin.version
    return found


def requirements(framework: str) -> dict[str, str]:
    return pins(f"images/{framework}/requirements.txt")
