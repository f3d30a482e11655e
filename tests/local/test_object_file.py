"""``k8sbench submit -f`` on this machine: Benchmark objects of a file, run as processes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.cli.main import main
from tests.harness import benchmark_files

PROGRAM = """
import random
for step in range(1, 21):  # no log is a copy of another one
    print(f"step {step} 8.00{random.randrange(1000):03} samples/s", flush=True)
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Text of a benchmark file whose program needs no framework."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    variant = benchmark_files.variant(
        ("python3", str(program), "--steps={total_iterations}"),
        "registry.example.com/team/mine:1",
        r"step (?P<iteration>\d+) (?P<rate>[\d.]+) samples/s",
        title="As it is",
        batch_size={"fp32": 4},
        window={"warmup": 4, "iterations": 16, "rule": "ours"},
    )
    return yaml.safe_dump(benchmark_files.benchmark(base=variant))


def written(folder: Path, *specs: dict[str, Any]) -> str:
    objects = [
        {
            "apiVersion": "k8sbench.io/v1alpha1",
            "kind": "Benchmark",
            "metadata": {"name": f"night-{letter}"},
            "spec": one,
        }
        for letter, one in zip("abc", specs, strict=False)
    ]
    path = folder / "night.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_the_objects_of_a_file_are_run_one_after_the_other(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, {"file": spec}, {"file": spec, "repeats": 2})
    assert main(["submit", "-f", file, "--backend=local", "--yes", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert {row["set"]: len(row["members"]) for row in found} == {"night-a": 1, "night-b": 2}
    runs = {"night-a-1", "night-b-1", "night-b-2"}
    assert {path.name for path in (tmp_path / "store" / "runs").iterdir()} == runs


def test_the_same_file_means_the_same_runs_and_a_resumption_the_next_ones(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def runs_of(*words: str) -> list[str]:
        submit = ["submit", "-f", file, "--backend=local", "--yes", "-o", "json", *words]
        assert main(submit) == 0
        (row,) = json.loads(capsys.readouterr().out)["rows"]
        return [member["run_id"] for member in row["members"]]

    file = written(tmp_path, {"file": spec, "repeats": 2})
    first = runs_of()
    assert first == ["night-a-1", "night-a-2"]
    assert runs_of() == first
    assert main(["store", "remove", "night-a-1", "--yes"]) == 0
    capsys.readouterr()
    assert runs_of("--resume=night-a") == ["night-a-2", "night-a-3"]


def test_a_program_of_a_file_is_not_run_without_consent(spec: str, tmp_path: Path) -> None:
    file = written(tmp_path, {"file": spec})
    assert main(["submit", "-f", file, "--backend=local"]) == 2
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("wrong", "more"),
    [
        ({"repeats": 0}, ()),
        ({"nodePool": "v100-16gb"}, ()),
        ({"nodes": ["node-1"]}, ()),
        ({"pool": {"name": "a", "gpus_per_node": 8, "gpu_model": "V100"}}, ()),
        ({}, ("--repeats=2",)),
        ({}, ("--resume=another",)),
    ],
)
def test_nothing_is_run_where_an_object_of_the_file_is_wrong_or_contradicted(
    spec: str, tmp_path: Path, wrong: dict[str, Any], more: tuple[str, ...]
) -> None:
    file = written(tmp_path, {"file": spec}, {"file": spec, **wrong})
    assert main(["submit", "-f", file, "--backend=local", "--yes", *more]) == 2
    assert not (tmp_path / "store").exists()
