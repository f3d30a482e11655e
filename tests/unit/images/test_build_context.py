"""The build context holds the files that Dockerfiles copy, and no others."""

import fnmatch
import pathlib
import re

from tests.tiers import ROOT
from tests.unit.images import dockerfiles


def seen(path: str) -> bool:
    """Return True if ``.dockerignore`` keeps a file; its last match wins."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        parts = pathlib.PurePosixPath(path).parts
        if any(matches("/".join(parts[: i + 1]), pattern) for i in range(len(parts))):
            kept = line.startswith("!")
    return kept


def matches(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return matches(path.rpartition("/")[2], pattern[3:])
    steps, wanted = path.split("/"), pattern.split("/")
    return len(steps) == len(wanted) and all(map(fnmatch.fnmatchcase, steps, wanted))


def test_a_build_sees_every_file_that_the_dockerfiles_take() -> None:
    for framework in dockerfiles.FRAMEWORKS:
        taken = [rest.split()[0] for rest in dockerfiles.rests(framework, "COPY")]
        taken += re.findall(r"source=(\S+?),", " ".join(dockerfiles.rests(framework, "RUN")))
        files = [
            file.relative_to(ROOT).as_posix()
            for name in taken
            for file in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*.py"))
        ]
        assert len(files) > 20
        assert [file for file in files if not seen(file)] == []


def test_a_build_sees_wheels_of_k8sbench_and_beside_the_dockerfile_and_nothing_else() -> None:
    for path in (
        *("dist/k8sbench-1.2.3-py3-none-any.whl", "images/operator/click-8.5-any.whl"),
        *("images/upstream-mmseg/resnet50_v1c.pth", "images/upstream-paddleseg/train.py"),
    ):
        assert seen(path), path
    for path in (
        *(".env", ".git/config", ".venv/bin/python", ".demo/store.sqlite", "pip.conf"),
        *("constraints.txt", "dist/k8sbench-1.2.3.tar.gz", "images/operator/Dockerfile"),
        *("images/pytorch/Dockerfile", "images/pytorch/.env", "images/build.py"),
        *("k8sbench/cli/main.py", "k8sbench/benchmarks/tsm.yaml", "images/upstream-mmseg/.env"),
        "k8sbench/trainers/__pycache__/tsm.cpython-311.pyc",
        "k8sbench/trainers/parts/__pycache__/steps.cpython-311.pyc",
    ):
        assert not seen(path), path
