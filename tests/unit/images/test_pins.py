"""Pins of the images: complete, as tested, and as labelled."""

import importlib.metadata
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from k8sbench.adapters.files import packaged
from k8sbench.model.spec import Framework
from tests.tiers import ROOT
from tests.unit.images import dockerfiles
from tests.unit.presence import present

each_image = pytest.mark.parametrize("framework", dockerfiles.FRAMEWORKS)
CUDA_OF_PADDLE = "-cu11"
PACKAGES: dict[Framework, str] = {"pytorch": "torch", "paddle": "paddlepaddle-gpu"}


def closure(*roots: str) -> set[str]:
    """Everything that packages declare to need, here and now."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = canonicalize_name(todo.pop())
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                todo.append(needed.name)
    return found


@pytest.mark.parametrize("image", dockerfiles.IMAGES)
def test_a_pin_is_the_version_that_the_tests_run_with(image: str) -> None:
    tested = dockerfiles.pins("constraints.txt")
    for name, version in dockerfiles.requirements(image).items():
        # No test can run with these: they need a GPU, and come with the GPU build alone.
        if image != "paddle" or not name.endswith(CUDA_OF_PADDLE):
            assert (name, version) == (name, tested.get(name))


@pytest.mark.parametrize("image", dockerfiles.UPSTREAM)
def test_a_program_s_pin_is_the_version_that_its_tests_run_with(image: str) -> None:
    folder = ROOT / "tests" / "upstream" / "requirements"
    tested = dockerfiles.pins("constraints.txt")
    for file in sorted(folder.glob("*.txt")):
        tested |= dockerfiles.pins(str(file.relative_to(ROOT)))
    pinned = dockerfiles.requirements(image)
    # Only the build of mmcv's operators, which no test compiles, takes it.
    pinned.pop("ninja", None)
    assert pinned == {name: tested.get(name) for name in pinned}
    base = dockerfiles.requirements(dockerfiles.UPSTREAM[image])
    assert not [name for name, pin in pinned.items() if base.get(name) == pin]


@each_image
def test_the_framework_is_the_one_of_the_package_s_own_extra(framework: Framework) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extra = {"pytorch": "torch", "paddle": "paddle-gpu"}[framework]
    pinned = dockerfiles.requirements(framework)
    for text in extras["optional-dependencies"][extra]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)])
    assert PACKAGES[framework] in pinned


@pytest.mark.tier("frameworks")
def test_pytorch_s_pins_are_all_that_it_needs_and_nothing_else() -> None:
    assert set(dockerfiles.requirements("pytorch")) == closure("torch", "numpy", "pillow")


@pytest.mark.tier("frameworks")
def test_paddle_s_pins_are_all_that_it_needs_and_cuda_s_libraries() -> None:
    pinned = set(dockerfiles.requirements("paddle"))
    cuda = {name for name in pinned if name.endswith(CUDA_OF_PADDLE)}
    # setuptools it needs without declaring it; the CPU build declares the same as the GPU build.
    needed = closure("paddlepaddle", "numpy") | {"setuptools", "paddlepaddle-gpu"}
    assert pinned - cuda == needed - {"paddlepaddle"}
    assert {name.removeprefix("nvidia-").removesuffix(CUDA_OF_PADDLE) for name in cuda} == {
        *("cublas", "cuda-cupti", "cuda-nvrtc", "cudnn", "cufft", "curand"),
        *("cusolver", "cusparse", "nccl", "nvtx"),
    }


def test_paddles_protobuf_is_one_that_its_fleet_works_with() -> None:
    # Not tried here: the environment may hold another. 4.25.9 works, 7.36.2 does not.
    assert dockerfiles.requirements("paddle")["protobuf"].startswith("4.")


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


@each_image
def test_the_table_of_images_says_what_the_labels_say(framework: Framework) -> None:
    labels = dockerfiles.labels(framework)
    table = packaged.image_table()
    image = table.image(framework, "built")
    build = present(table.build(image))
    assert {
        "framework-version": image.version,
        "cuda": image.cuda,
        "compute-capabilities": " ".join(build.capabilities),
    }.items() <= {key.removeprefix("k8sbench.io/"): text for key, text in labels.items()}.items()
    assert labels["org.opencontainers.image.title"] == image.name


@pytest.mark.tier("frameworks")
def test_the_table_says_of_the_installed_torch_what_it_says_of_itself() -> None:
    import torch

    table = packaged.image_table()
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
    extras = {f"psycopg-{extra}" for wanted in direct() for extra in wanted.extras}
    assert set(pinned) == closure(*(wanted.name for wanted in direct()), *extras)
