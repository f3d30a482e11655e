"""Pins of the images: complete, as tested, and as labelled."""

import importlib.metadata
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from k8sbench.catalog import packaged
from k8sbench.model.spec_values import Framework
from tests.tiers import ROOT
from tests.unit.images import dockerfiles
from tests.unit.presence import present

each_image = pytest.mark.parametrize("framework", dockerfiles.FRAMEWORKS)
CUDA_OF_PADDLE = "-cu11"
PACKAGES: dict[Framework, str] = {"pytorch": "torch", "paddle": "paddlepaddle-gpu"}


def closure(*roots: str) -> set[str]:
    """Everything that packages, of the versions here, declare to need in an image."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = canonicalize_name(todo.pop())
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate(dockerfiles.PYTHON):
                todo.append(needed.name)
    return found


@pytest.mark.parametrize("image", dockerfiles.IMAGES)
def test_a_pin_is_the_version_that_the_tests_run_with(image: str) -> None:
    tested = dockerfiles.pins("constraints.txt")
    for name, version in dockerfiles.requirements(image).items():
        # No test can run with these: they need a GPU, and come with the GPU build alone.
        if image != "paddle" or not name.endswith(CUDA_OF_PADDLE):
            assert (name, version) == (name, tested.get(name))


@pytest.mark.tier("frameworks")
def test_pytorch_s_pins_are_all_that_it_needs_and_nothing_else() -> None:
    assert set(dockerfiles.requirements("pytorch")) == closure("torch", "numpy", "pillow")


@each_image
def test_the_labels_say_what_is_pinned(framework: Framework) -> None:
    labels, pinned = dockerfiles.labels(framework), dockerfiles.requirements(framework)
    cu = {"pytorch": "cu12", "paddle": "cu11"}[framework]

    def label(name: str) -> str:
        return labels[f"k8sbench.io/{name}"]

    assert label("framework") == framework
    assert label("framework-version") == pinned[PACKAGES[framework]]
    assert pinned[f"nvidia-cuda-nvrtc-{cu}"].startswith(f"{label('cuda')}.")
    assert pinned[f"nvidia-cudnn-{cu}"].startswith(f"{label('cudnn')}.")
    assert pinned[f"nvidia-nccl-{cu}"] == label("nccl")
    base = dockerfiles.rests(framework, "ARG")[0]
    assert base.startswith(f"BASE=python:{label('python')}.")
    assert labels["org.opencontainers.image.title"] == f"k8sbench-{framework}"
    assert labels["org.opencontainers.image.base.name"] == "${BASE}"
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert labels["org.opencontainers.image.revision"] == "${REVISION}"
    assert labels["k8sbench.io/trainers-digest"] == "${TRAINERS_DIGEST}"


@pytest.mark.tier("frameworks")
def test_the_table_says_of_the_installed_torch_what_it_says_of_itself() -> None:
    import torch

    table = packaged.read_image_table()
    build = present(table.build(table.image("pytorch", "built")))
    assert torch.version.cuda in build.cuda
    # torch.cuda.get_arch_list() is empty where there is no GPU.
    flags = str(torch._C._cuda_getArchFlags())
    assert [f"{sm[3:-1]}.{sm[-1]}" for sm in flags.split()] == list(build.capabilities)


def direct() -> list[Requirement]:
    """Return k8sbench's declared requirements in the operator."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = (*project["dependencies"], *project["optional-dependencies"]["operator"])
    return [Requirement(text) for text in texts]


def test_the_operator_s_pins_are_all_that_it_and_its_extra_need() -> None:
    pinned = dockerfiles.requirements("operator")
    for wanted in direct():
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), wanted
    assert set(pinned) == closure(*(wanted.name for wanted in direct()))
