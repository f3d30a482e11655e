"""GPU architectures of each build's kernels, and the advice for others."""

import pytest

from k8sbench.catalog import image as images
from k8sbench.catalog import packaged, pool_files, spec_files
from k8sbench.catalog.image import Build
from k8sbench.model import arithmetic
from k8sbench.model.spec_values import Framework
from tests.unit.presence import present

TABLE = packaged.read_image_table()
V100, A100 = "Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-80GB"
H100 = "NVIDIA H100 80GB HBM3"
PADDLE = "paddlepaddle/paddle:2.6.2-gpu-cuda11.7-cudnn8.4-trt8.4"
TORCH = "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime"
NEWER = "pytorch/pytorch:2.11.0-cuda13.0-cudnn9-runtime"


def build(*capabilities: str) -> Build:
    return Build(framework="pytorch", since="1.0", cuda=("12.8",), capabilities=capabilities)


# --- GPUs by name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        # With hyphens as a node's label writes it.
        ("7.0", (V100, "Tesla-V100-SXM2-16GB-SHARED", "Tesla V100S-PCIE-32GB")),
        ("7.5", ("Tesla T4", "Quadro RTX 6000")),
        ("8.0", (A100, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100-SXM4-40GB")),
        ("8.6", ("NVIDIA A10G", "NVIDIA GeForce RTX 3080 Laptop GPU")),
        ("8.9", ("NVIDIA L4", "NVIDIA RTX 6000 Ada Generation")),
        ("9.0", (H100, "NVIDIA H100 PCIe", "NVIDIA H200")),
        ("10.0", ("NVIDIA B200",)),
        ("12.0", ("NVIDIA RTX PRO 6000 Blackwell Server Edition",)),
    ],
)
def test_a_gpu_is_known_by_its_name_in_any_form(capability: str, names: tuple[str, ...]) -> None:
    assert {TABLE.capability(name) for name in names} == {capability}


@pytest.mark.parametrize("name", ["NVIDIA T400", "NVIDIA X100", "NVIDIA GH200 480GB", "", "MI300X"])
def test_a_gpu_that_is_not_in_the_table_is_not_guessed_at(name: str) -> None:
    assert TABLE.capability(name) is None
    assert images.image_failure(TABLE, gpu_model=name, image=PADDLE) is None


def test_every_gpu_of_the_built_in_pools_and_of_the_published_figures_is_known() -> None:
    models = {pool.gpu_model for pool in pool_files.load_pools(environ={}).pools.values()}
    models |= {
        figure.gpu_model
        for found in spec_files.load_all()
        for variant in found.spec.variants
        for figure in variant.published
    }
    assert [name for name in models if name and TABLE.capability(name) is None] == []


# --- which kernels run where ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "capability", "runs"),
    [
        *(("7.0", each, True) for each in ("7.0", "7.5")),
        *(("7.0", each, False) for each in ("8.0", "6.1", "10.0")),
        *(("8.6", "8.0", False), ("8.6", "8.9", True)),
        *(("1.0", "10.0", False), ("10.0", "10.3", True)),  # numbers, not texts
    ],
)
def test_machine_code_needs_its_major_and_minor(built: str, capability: str, runs: bool) -> None:
    assert images.has_kernels(build(built), capability) is runs
    assert images.version_number("2.10.0") > images.version_number("2.9.1")


# --- what an image holds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "framework", "version", "cuda"),
    [
        (TORCH, "pytorch", "2.10.0", "12.8"),
        ("docker.io/pytorch/pytorch:2.11.0-cuda13.0-cudnn9-devel", "pytorch", "2.11.0", "13.0"),
        (f"mirror.example:5000/hub/{TORCH}@sha256:{'0' * 64}", "pytorch", "2.10.0", "12.8"),
        (PADDLE, "paddle", "2.6.2", "11.7"),
        ("registry.example/ai/k8sbench-paddle:0.1.0-0123456789ab", "paddle", "2.6.2", "11.8"),
    ],
)
def test_any_registry_is_known(name: str, framework: Framework, version: str, cuda: str) -> None:
    there = present(TABLE.content(name))
    assert (there.framework, there.version, there.cuda) == (framework, version, cuda)


# --- what is said ---------------------------------------------------------------------------------


OTHERS = "Choose a pool with other GPUs: P100, P40, V100, T4, A100, A40, L4 or the like."


@pytest.mark.parametrize(
    ("image", "holds", "gpu", "capability", "action"),
    [
        (NEWER, "PyTorch 2.11.0 (CUDA 13.0)", V100, "7.0", f"Leave out --image: {TORCH} has them."),
        (PADDLE, "Paddle 2.6.2 (CUDA 11.7)", H100, "9.0", OTHERS),
    ],
)
def test_an_image_without_kernels_for_a_gpu_is_named_with_what_to_do(
    image: str, holds: str, gpu: str, capability: str, action: str
) -> None:
    said = (
        f"{image} holds {holds}, which has no kernels for {gpu} (compute capability"
        f" {capability}): the first step on the GPU will fail."
    )
    assert images.image_failure(TABLE, gpu_model=gpu, image=image) == (said, action)


def test_of_the_built_in_pools_pytorch_has_kernels_for_all_and_paddle_for_none_of_hopper() -> None:
    for pool in pool_files.load_pools(environ={}).pools.values():
        said = {
            framework: images.image_failure(TABLE, gpu_model=pool.gpu_model, image=image)
            for framework, image in (("pytorch", TORCH), ("paddle", PADDLE))
        }
        assert said["pytorch"] is None
        is_hopper = pool.name in ("h100", "h200")
        assert (said["paddle"] is not None) is is_hopper
        assert ("Paddle 2.6.2 has no kernels" in (pool.note or "")) is is_hopper
        assert arithmetic.peak_of(pool.gpu_model) is not None
