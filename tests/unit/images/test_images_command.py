"""``k8sbench images``: what it prints, to people and to programs."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from click.testing import CliRunner, Result

from k8sbench import __version__
from k8sbench.adapters.files import packaged
from k8sbench.cli.commands import images
from k8sbench.model.errors import NotFound
from tests.harness import benchmark_files

PADDLE = "paddlepaddle/paddle:2.6.2-gpu-cuda11.7-cudnn8.4-trt8.4"
TORCH = "pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime"


def run(*args: str) -> Result:
    result = CliRunner().invoke(images.command, list(args), catch_exceptions=False)
    assert result.exit_code == 0
    return result


def rows(*args: str) -> list[dict[str, Any]]:
    document = json.loads(run("-o", "json", *args).stdout)
    assert document["schema"] == 2
    found: list[dict[str, Any]] = document["images"]
    return found


def test_every_benchmark_has_a_row_for_each_of_its_frameworks() -> None:
    lines = [line.split() for line in run().stdout.splitlines()]
    assert lines[0] == ["BENCHMARK", "FRAMEWORK", "IMAGE", "VERSIONS", "DRIVER", "GPUS"]
    assert [line[:3] for line in lines[1:]] == [
        ["arcface", "paddle", PADDLE],
        ["deeplabv3p", "pytorch", TORCH],
        ["deeplabv3p", "paddle", PADDLE],
        ["resnet50", "pytorch", TORCH],
        ["tsm", "pytorch", TORCH],
    ]


def test_a_row_says_versions_driver_and_gpus() -> None:
    [line] = run("tsm").stdout.splitlines()[1:]
    assert "   2.10.0, CUDA 12.8, cuDNN 9   ≥ 525.60.13   V100, V100S, T4, A100," in line
    assert " H100, " in line
    [line] = run("arcface").stdout.splitlines()[1:]
    assert "   2.6.2, CUDA 11.7, cuDNN 8.4   ≥ 450.80.02   P100, P40, P4, V100," in line
    assert "H100" not in line


def test_programs_get_everything_with_its_sources() -> None:
    [row] = rows("arcface")
    table = packaged.image_table()
    build = table.build(table.image("paddle", "public"))
    assert build is not None
    assert row["origin"] == "public"
    versions = {
        "version": "2.6.2",
        "cuda": "11.7",
        "cudnn": "8.4",
        "nccl": None,  # not known of the public image: null, not a guess
        "python": "3.10",
    }
    assert versions.items() <= row["content"].items()
    assert row["content"]["minimum_driver"] == "450.80.02"
    assert row["build"]["capabilities"] == list(build.capabilities)
    assert {"capability": "7.0", "architecture": "Volta"}.items() <= row["gpus"][2].items()
    sources = [row["content"]["source"], row["build"]["source"]]
    assert sources == [table.image("paddle", "public").source, build.source]


def test_a_registry_lists_the_images_that_are_built_for_it() -> None:
    found = rows("--image-registry", "registry.example/ai/")
    digest = packaged.trainer_sources().digest[:12]
    assert {row["image"] for row in found} == {
        f"registry.example/ai/k8sbench-{name}:{__version__}-{digest}"
        for name in ("pytorch", "paddle")
    }
    assert {row["origin"] for row in found} == {"built"}
    assert {row["content"]["nccl"] for row in found} == {"2.27.5", "2.19.3"}


def test_names_are_one_per_line_and_once_each() -> None:
    assert run("-o", "name").stdout.splitlines() == [PADDLE, TORCH]


def test_an_image_of_the_user_s_own_is_listed_and_nothing_is_claimed_of_it(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "mine.yaml"
    mine = benchmark_files.variant(["train"], "registry.example/me/mine:1")
    file.write_text(json.dumps(benchmark_files.benchmark(mine=mine)))
    [row] = rows(str(file))
    assert row["image"] == "registry.example/me/mine:1"
    assert row["origin"] == "user"
    assert row["content"] is row["build"] is row["gpus"] is None
    [line] = run(str(file)).stdout.splitlines()[1:]
    assert line.split() == ["mine", "pytorch", "registry.example/me/mine:1", "–"]


def test_a_benchmark_that_is_not_there_is_reported() -> None:
    result = CliRunner().invoke(images.command, ["resnet"])
    assert isinstance(result.exception, NotFound)
