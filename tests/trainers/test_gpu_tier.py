"""The tier of tests on a GPU: when it runs, what it says where it cannot, and what it asks."""

from __future__ import annotations

import functools
import subprocess

import pytest

from tests import tiers
from tests.gpu import needs
from tests.trainers.smi import QUESTIONS, differences

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


@pytest.mark.parametrize(
    ("out", "err", "found"),
    [
        ("warm\nUSABLE 2 0.5\n", "a warning", (2, None)),
        ("", "Traceback\nError: no kernel image", (0, "Error: no kernel image")),
        ("", "", (0, "exit code -6")),
    ],
)
def test_a_trial_ends_with_a_count_or_a_cause(
    out: str, err: str, found: tuple[int, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, H200)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    ended = subprocess.CompletedProcess([], -6, out, err)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    count, cause = needs.usable("torch")
    assert count == found[0]
    assert cause is None if found[1] is None else (cause or "").endswith(f": {found[1]}")


def test_a_trial_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, H200)

    def run(command: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setattr(subprocess, "run", run)
    assert (needs.missing("torch") or "").endswith("no answer within 120 s")


ABOUT = {
    "gpu_model": "NVIDIA H200",
    "driver": "580.159.04",
    "ecc": True,
    "clock_sm_max_mhz": 1980,
    "clock_memory_max_mhz": 3201,
    "power_limit_w": 700.0,
    "gpu_compute_capability": "9.0",
}
SMI = "NVIDIA H200, 580.159.04, Enabled, 1980, 3201, 700.00, 9.0\n"


def test_nvidia_smi_is_asked_for_what_it_can_be_held_against() -> None:
    assert {field for field, _ in QUESTIONS.values()} == ABOUT.keys()
    assert differences(ABOUT, SMI) == {}
    assert differences({**ABOUT, "power_limit_w": 699.996}, SMI) == {}


@pytest.mark.parametrize(
    ("about", "line", "found"),
    [
        ({"ecc": False}, SMI, {"ecc": (False, True)}),
        ({"ecc": None}, SMI.replace("Enabled", "[N/A]"), {}),
        ({"ecc": True}, SMI.replace("Enabled", "[Not Supported]"), {"ecc": (True, None)}),
        ({"power_limit_w": 600.0}, SMI, {"power_limit_w": (600.0, 700.0)}),
        ({"driver": "470.1"}, SMI, {"driver": ("470.1", "580.159.04")}),
    ],
)
def test_what_nvidia_smi_says_otherwise_is_found(
    about: dict[str, object], line: str, found: dict[str, object]
) -> None:
    assert differences({**ABOUT, **about}, line) == found
