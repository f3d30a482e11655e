"""A user's own program on this machine: confirmation and the operator's variables."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.cli.main import main
from k8sbench.operator import metrics
from tests.harness import benchmark_files

PROGRAM = """
import json, os, sys
names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PET_NNODES", "SECRET", "MINE")
print(json.dumps({name: os.environ.get(name) for name in names} | {"words": sys.argv[1:]}))
for step in range(1, 21):
    print(f"step {step} 8.0 samples/s", flush=True)
"""
SPEC = benchmark_files.benchmark(
    base=benchmark_files.variant(
        (
            *("python3", "train.py", "--steps={total_iterations}", "--hosts={hosts}"),
            "--master=$(MASTER_ADDR):$(MASTER_PORT)",
        ),
        "registry.example.com/team/mine:1",
        r"step (?P<iteration>\d+) (?P<rate>[\d.]+) samples/s",
        title="As it is",
        env={"MINE": "yes"},
        batch_size={"fp32": 4},
        window={"warmup": 4, "iterations": 16, "rule": "ours"},
    )
)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the file and the program beside it; the store is another folder."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("SECRET", "of the user's shell")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    (folder / "mine.yaml").write_text(yaml.safe_dump(SPEC))
    return folder / "mine.yaml"


def words(path: Path, *more: str) -> list[str]:
    return ["submit", str(path), "--backend=local", "--run-id=mine-1", *more]


def test_it_runs_with_the_operator_s_variables_and_is_measured(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(mine, "--yes", "--replicas=2", "-o", "json")) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["impl"], row["throughput"], row["unit"]) == ("user", 8.0, "samples/s")
    logs = tmp_path / "store" / "runs" / "mine-1" / "logs"
    said: dict[str, Any] = {}
    for name in ("master-0", "worker-0"):
        first = (logs / f"{name}.log").read_text().splitlines()[0]
        said[name] = json.loads(first.partition(" ")[2])
    assert [said[name]["RANK"] for name in said] == ["0", "1"]
    assert {one["WORLD_SIZE"] for one in said.values()} == {"2"}
    assert {one["MASTER_ADDR"] for one in said.values()} == {"127.0.0.1"}
    assert {one["MINE"] for one in said.values()} == {"yes"}
    assert {one["SECRET"] for one in said.values()} == {None}
    port = said["master-0"]["MASTER_PORT"]
    assert said["worker-0"]["words"] == [
        "--steps=20",
        "--hosts=127.0.0.1,127.0.0.1",
        f"--master=127.0.0.1:{port}",
    ]


IN_FOLDERS = """
import os, pathlib
import beside
assert pathlib.Path("data/one").read_text() == "1", "a relative path"
pathlib.Path("mine").write_text(os.environ["RANK"])
pathlib.Path("beside.py").with_name("raport.json").write_text(os.environ["RANK"])
"""


def test_each_replica_starts_in_a_folder_of_its_own_in_which_relative_paths_hold(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mine.parent / "data").mkdir()
    (mine.parent / "data" / "one").write_text("1")
    (mine.parent / "beside.py").write_text(f"# {'x' * 10**6}\n")
    (mine.parent / "train.py").write_text(IN_FOLDERS + PROGRAM)
    before = sorted(path.name for path in mine.parent.iterdir())
    assert main(words(mine, "--yes", "--replicas=2", "-o", "json")) == 0
    capsys.readouterr()
    work = tmp_path / "store" / "runs" / "mine-1" / "work"
    ranks = {path.parent.name: path.read_text() for path in work.glob("*/mine")}
    assert ranks == {"master-0": "0", "worker-0": "1"}
    assert [path.read_text() for path in sorted(work.glob("*/raport.json"))] == ["0", "1"]
    left = {path.name for path in mine.parent.iterdir()} - {"__pycache__"}
    assert sorted(left) == before
    size = metrics.room(str(tmp_path / "store")).taken
    assert size < 10**6, "linked files are not the store's"


@pytest.mark.parametrize(
    ("last", "rate", "reason", "runs"), [(20, 8.0, "exit-code", 1), (18, None, "run-failed", 2)]
)
def test_a_run_that_fails_after_its_last_iteration_has_its_row(
    mine: Path,
    capsys: pytest.CaptureFixture[str],
    last: int,
    rate: float | None,
    reason: str,
    runs: int,
) -> None:
    program = f"{PROGRAM.replace('21', str(last + 1))}raise SystemExit('error: in validation')\n"
    (mine.parent / "train.py").write_text(program)
    command = ["submit", str(mine), "--backend=local", "--yes", "-o", "json"]
    assert main([*command, "--set=nightly"]) == 3
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    (member,) = row["members"]
    (found,) = member["reasons"]
    assert (row["throughput"], member["phase"], found["id"]) == (rate, "Failed", reason)
    assert "exited with code 1: error: in validation" in found["message"]
    # One that has its row is not run once more.
    main([*command, "--resume=nightly"])
    capsys.readouterr()
    main(["list", "-o", "json"])
    assert len(json.loads(capsys.readouterr().out)) == runs


SWEPT = """
import sys
class OutOfMemoryError(RuntimeError):
    __module__ = "torch"
size = int(sys.argv[1])
if size > 4:
    raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} GiB.")
for step in range(1, 21):
    print(f"step {step} {size}.0 samples/s", flush=True)
"""


def test_sizes_that_do_not_fit_are_rows_of_a_sweep_and_no_failure(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (variant,) = SPEC["variants"]
    swept = {**variant, "command": ["python3", "train.py", "{batch_size}"]}
    mine.write_text(yaml.safe_dump({**SPEC, "variants": [swept]}))
    (mine.parent / "train.py").write_text(SWEPT)
    command = ["submit", str(mine), "--backend=local", "--yes", "-o", "json"]

    def rows(*words: str, code: int) -> dict[int, tuple[str, float | None, int | None]]:
        assert main([*command, *words]) == code
        found = json.loads(capsys.readouterr().out)["rows"]
        names = ("state", "throughput", "fastest_batch_size")
        return {row["batch_size_per_gpu"]: tuple(row[name] for name in names) for row in found}

    # One run of each size shows no fastest one.
    sweep = {2: ("valid", 2.0, None), 4: ("valid", 4.0, None), 8: ("out-of-memory", None, None)}
    assert rows("--batch-size=8,2,4", "--set=sweep", code=0) == sweep
    assert rows("--batch-size=8,2,4", "--resume=sweep", code=0) == sweep
    none = {8: ("out-of-memory", None, None), 16: ("out-of-memory", None, None)}
    assert rows("--batch-size=8,16", code=3) == none
    main(["list", "-o", "json"])
    assert len(json.loads(capsys.readouterr().out)) == 5, "the resumed sweep had all of its rows"


def test_yes_is_required(mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(mine)) == 2
    err = capsys.readouterr().err
    assert f"error: {mine} runs a program of its own on this machine, as you:\n" in err
    assert "python3 train.py --steps=20" in err
    assert "give --yes" in err
    assert not (tmp_path / "store").exists()
