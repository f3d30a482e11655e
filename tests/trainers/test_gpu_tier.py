"""The tier of tests on a GPU: when it runs, what it says where it cannot, and what it asks."""

from __future__ import annotations

import functools

import pytest

from tests import tiers
from tests.gpu import needs

H200 = "NVIDIA H200"


def machine(monkeypatch: pytest.MonkeyPatch, *gpus: str) -> None:
    """Have a machine with these GPUs."""
    monkeypatch.setattr(needs, "gpus", lambda: gpus)
    monkeypatch.setattr(needs, "usable", functools.cache(needs.usable.__wrapped__))


def test_a_machine_without_a_gpu_says_so_and_owes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    monkeypatch.setenv("K8SBENCH_REQUIRE_TIERS", "all")
    assert tiers.NEEDS["gpu"]() == tiers.NEEDS["gpu-paddle"]() == "no GPU here"
    assert [tier for tier in tiers.NEEDS if not tiers.required(tier)] == [
        "dali",
        "gpu",
        "gpu-paddle",
        "corpus",
    ]


def test_where_a_gpu_is_its_tier_is_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, H200)
    monkeypatch.setenv("K8SBENCH_REQUIRE_TIERS", "all")
    assert tiers.required("gpu")
    assert not tiers.required("gpu-paddle")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not tiers.required("gpu")
    monkeypatch.setenv("K8SBENCH_REQUIRE_TIERS", "linux, gpu-paddle")
    assert tiers.required("gpu-paddle")
    assert not tiers.required("gpu")


@pytest.mark.tier("frameworks")
def test_a_gpu_that_a_framework_cannot_use_is_named_with_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trials themselves run; here they find no GPU, or a build for CPUs."""
    machine(monkeypatch, H200)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert needs.missing("torch") == (
        f"{needs._version('torch')} cannot use the {H200}: "
        "AssertionError: torch.cuda.is_available() says no"
    )
    built_for_cpus = "this build knows no GPUs" in (needs.missing("paddle") or "")
    assert needs.paddle_missing() == (
        f"{needs._version('paddle')} is the CPU build"
        if built_for_cpus
        else needs.missing("paddle")
    )
    assert (needs.count("torch"), needs.count("paddle")) == (0, 0)
