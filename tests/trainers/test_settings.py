"""The command line of the trainers: defaults, refusals, and what --help costs."""

import argparse
import ast
import dataclasses
import pathlib
import sys
from typing import Any

import pytest

from k8sbench import trainers
from k8sbench.trainers import allreduce, gpt
from k8sbench.trainers.parts import settings
from tests.trainers.runs import Captured

TRAINERS = pathlib.Path(trainers.__file__).parent
DEFAULTS = settings.Defaults(
    benchmark="b", recipes=("first", "second"), batch_size=2, batch_size_amp=4
)


def read(*argv: str) -> settings.Settings:
    return settings.read("b", "A trainer.", DEFAULTS, None, argv)[0]


def test_no_option_means_upstreams_values() -> None:
    found = read()
    assert found.variant == "first"
    assert (found.batch_size, found.amp_dtype, found.precision) == (2, None, "fp32")
    assert (found.warmup, found.iterations, found.log_interval) == (20, 100, 10)
    assert found.min_steady_seconds == 0.0
    assert found.cudnn_benchmark
    assert not any((found.tf32, found.channels_last, found.compile, found.fused_optimizer))
    amped = read("--amp-dtype", "fp16")
    assert (amped.batch_size, amped.precision) == (4, "amp")
    assert read("--amp-dtype", "bf16", "--batch-size", "3").batch_size == 3


def test_the_runs_identity_comes_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("K8SBENCH_RUN_ID", raising=False)
    assert read().run_id is None
    monkeypatch.setenv("K8SBENCH_RUN_ID", "dlv3-7")
    assert read().run_id == "dlv3-7"
    assert read("--run-id", "mine").run_id == "mine"
    monkeypatch.setenv("K8SBENCH_RUN_ID", "")
    assert read().run_id is None


@pytest.mark.parametrize(
    ("argv", "nhwc", "overlaps"),
    [
        ([], False, True),
        (["--recipe", "second", "--amp-dtype", "fp16"], True, False),
        (["--recipe", "second"], False, True),
        (["--amp-dtype", "fp16"], False, True),
        (["--recipe", "second", "--amp-dtype", "fp16", "--no-channels-last"], False, False),
        (["--recipe", "second", "--amp-dtype", "fp16", "--overlap"], True, True),
        (["--channels-last", "--no-overlap"], True, False),
    ],
)
def test_layout_and_sums_of_gradients_are_upstreams_unless_asked_for_otherwise(
    argv: list[str], nhwc: bool, overlaps: bool
) -> None:
    defaults = dataclasses.replace(
        DEFAULTS,
        speed_options=settings.SPEED_OPTIONS,
        channels_last_amp=("second",),
        flat_sum_amp=("second",),
    )
    found, _ = settings.read("b", "", defaults, None, argv)
    told = found.speed_options()
    assert (told["channels_last"], told["overlap"], found.overlap) == (nhwc, overlaps, overlaps)


def test_a_recipe_may_have_loader_processes_of_its_own() -> None:
    defaults = dataclasses.replace(DEFAULTS, workers=8, recipe_workers={"second": (2, 4)})

    def workers(*argv: str) -> int:
        return settings.read("b", "", defaults, None, argv)[0].workers

    assert (workers(), workers("--recipe", "second")) == (8, 2)
    amp = ("--amp-dtype", "fp16")
    assert (workers(*amp), workers("--recipe", "second", *amp)) == (8, 4)
    assert workers("--recipe", "second", "--workers", "0") == 0
    assert workers("--preset", "smoke") == 1


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--batch-size", "0"], "at least 1 and at most 2147483647, not '0'"),
        (["--batch-size", "two"], "whole number"),
        (["--iterations", "0"], "at least 1"),
        (["--warmup", "-1"], "at least 0"),
        (["--min-steady-seconds", "nan"], "at least 0"),
        (["--min-steady-seconds", "inf"], "at least 0"),
        (["--amp-dtype", "fp8"], "fp8"),
        (["--data", "data"], "data"),
        (["--recipe", "third"], "third"),
        (["--device", "tpu"], "tpu"),
        (["--seed", "99999999999"], "at most 2147483647"),
        (["--no-such-option"], "--no-such-option"),
        (["--length", "3"], "--length is for --mode train; add that, or leave it out"),
        (["--length-unit", "epochs"], "--length-unit is for --mode train"),
        (["--evaluate-every", "3"], "--evaluate-every is for --mode train"),
        (["--target", "0"], "--target is for --mode train"),
        (["--stop-at-target"], "--stop-at-target is for --mode train"),
        (["--checkpoints", "/kept"], "--checkpoints is for --mode train"),
        (["--checkpoint-every", "9"], "--checkpoint-every is for --mode train"),
        (["--iter", "5"], "--iter"),  # abbreviations would change meaning as options are added
    ],
)
def test_a_bad_value_is_one_line_and_code_2(argv: list[str], told: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*argv)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert told in shown.err


@pytest.mark.parametrize("trainer", [allreduce, gpt])
def test_a_trainer_that_evaluates_nothing_has_no_training(trainer: Any, capsys: Captured) -> None:
    words = ("--mode", "train", "--length", "1", "--data", "/data")
    with pytest.raises(SystemExit) as ended:
        settings.read("b", "", trainer.DEFAULTS, None, words)
    assert ended.value.code == 2
    assert "measures speed and evaluates nothing" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["512", "0x4", "4x0", "ax4", "4x4x4", "-4x4", ""])
def test_a_size_is_height_by_width_or_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"512x1024|at least"):
        settings.size(text)
    assert settings.size("512x1024") == (512, 1024)


def test_an_option_that_a_trainer_lacks_is_unknown(capsys: Captured) -> None:
    lacking = settings.Defaults(
        benchmark="b", recipes=("v",), batch_size=1, speed_options=("tf32",)
    )
    found, _ = settings.read("b", "", lacking, None, ["--tf32"])
    assert found.tf32
    assert not found.cudnn_benchmark
    with pytest.raises(SystemExit):
        settings.read("b", "", lacking, None, ["--compile"])
    assert "--compile" in capsys.readouterr().err


OF_EITHER = {"allreduce.py"}
"""Trainers of either framework; each imports only the requested one."""


def sources() -> list[pathlib.Path]:
    return sorted(TRAINERS.rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(TRAINERS)))
def test_a_trainer_imports_only_its_own_kind(path: pathlib.Path) -> None:
    """The standard library, numpy, Pillow, one framework, NVML; of k8sbench only the trainers."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what is imported"
            imported.add(node.module or "")
    allowed = {*sys.stdlib_module_names, "numpy", "PIL", "torch", "paddle"}
    strange = {
        name
        for name in imported
        if name.partition(".")[0] not in allowed and not f"{name}.".startswith("k8sbench.trainers.")
    }
    assert not strange
    if path.name not in OF_EITHER:
        assert not {"torch", "paddle"} <= {name.partition(".")[0] for name in imported}


def test_all_trainers_fit_into_a_config_map() -> None:
    assert sum(path.stat().st_size for path in sources()) < 512 * 1024
