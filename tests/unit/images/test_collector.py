"""The collector's Dockerfile and pins; ``tests/node`` looks at what is in the image itself."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tiers import ROOT
from tests.unit.images import dockerfiles
from tests.unit.images.test_pins import closure

OWN = "collector"


def direct() -> list[Requirement]:
    """What k8sbench declares to need where the collector runs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = (*project["dependencies"], *project["optional-dependencies"][OWN])
    return [Requirement(text) for text in texts]


def test_its_pins_are_what_the_tests_run_with_and_all_that_k8sbench_and_its_extra_need() -> None:
    pinned, tested = dockerfiles.requirements(OWN), dockerfiles.pins("constraints.txt")
    assert {name: tested.get(name) for name in pinned} == pinned
    for wanted in direct():
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted
    extras = {f"psycopg-{extra}" for wanted in direct() for extra in wanted.extras}
    assert set(pinned) == closure(*(wanted.name for wanted in direct()), *extras)


def test_nothing_is_fetched_but_pinned_packages_and_an_index_of_one_s_own_stays_secret() -> None:
    assert not dockerfiles.rests(OWN, "ADD")
    runs = dockerfiles.rests(OWN, "RUN")
    assert not re.search(r"\b(curl|wget|git|ftp|apt-get)\b|https?:|ftp:", " ".join(runs))
    [packages, wheel] = [run for run in runs if "pip install" in run]
    assert "--no-deps --only-binary=:all: --requirement /collector/requirements.txt" in packages
    assert "--mount=type=secret,id=pip,target=/etc/pip.conf" in packages
    assert "--mount=type=cache,target=/root/.cache/pip" in packages
    assert "--no-deps --no-index --no-cache-dir" in wheel
    arguments = {rest.partition("=")[0] for rest in dockerfiles.rests(OWN, "ARG")}
    assert arguments == {"BASE", "VERSION", "REVISION"}


def test_the_image_is_checked_as_its_user_at_the_end_of_its_build() -> None:
    instructions = dockerfiles.read(OWN)
    words = [instruction.word for instruction in instructions]
    last = max(index for index, word in enumerate(words) if word == "RUN")
    assert last > words.index("USER")
    assert instructions[last].rest.endswith(f'python3 /check.py {OWN} "${{VERSION}}"')
    assert not set(words[last + 1 :]) & {"COPY", "ENV", "WORKDIR", "USER"}
