"""Search for a slow commit by ``git bisect run`` and ``docs/examples/bisect.sh``."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.harness import benchmark_files
from tests.tiers import ROOT

GPU = "Tesla V100-SXM2-16GB"
NVML = f"""
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return "570.86.15"
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(handle): return "GPU-0000"
def nvmlDeviceGetName(handle): return "{GPU}"
"""
"""A machine with one GPU, because figures of CPUs are not compared."""
PROGRAM = """
import random
COST = 1
print("GPU: MODEL")
for step in range(1, 21):
    print(f"step {step} {800 / COST * random.gauss(1, 0.002):.3f} samples/s", flush=True)
""".replace("MODEL", GPU)
SPEC = benchmark_files.benchmark(
    base=benchmark_files.variant(
        ("python3", "train.py"),
        "registry.example/team/mine:1",
        r"step (?P<iteration>\d+) (?P<rate>[\d.]+) samples/s",
        batch_size={"fp32": 8},
        window={"warmup": 4, "iterations": 16},
    )
)
SPEC["variants"][0]["log"]["facts"] = ["^GPU: (?P<gpu_model>.+)"]
COMMITS = 6
SLOW = 2
DOES_NOT_BUILD = 3
"""The commit that git tests first."""
FAILS = 4


class Repository:
    """A program in git, and a machine with a GPU to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "program"
        self.folder.mkdir()
        fakes = folder / "fakes"
        fakes.mkdir()
        (fakes / "pynvml.py").write_text(NVML)
        (folder / "mine.yaml").write_text(yaml.safe_dump(SPEC))
        self.script = str(folder / "bisect.sh")
        shutil.copy(ROOT / "docs" / "examples" / "bisect.sh", self.script)
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(fakes),
            "HOME": str(folder),
            "K8SBENCH_STORE": str(folder / "store"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "BUILD": "python3 -m py_compile train.py && cp ../mine.yaml $COMMIT.yaml",
        }
        for name in ("AUTHOR", "COMMITTER"):
            self._environment |= {f"GIT_{name}_NAME": "a", f"GIT_{name}_EMAIL": "a@example.com"}
        self.run("git", "init", "--quiet", "--initial-branch=main")

    def run(self, *words: str, code: int | None = 0) -> str:
        """Run a command in the repository; return what it prints."""
        done = subprocess.run(
            words,
            check=False,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert code in (None, done.returncode), done.stdout + done.stderr
        self.code = done.returncode
        return done.stdout + done.stderr

    def commit(self, program: str, message: str) -> str:
        (self.folder / "train.py").write_text(program)
        self.run("git", "add", "train.py")
        self.run("git", "commit", "--quiet", "--message", message)
        return self.run("git", "rev-parse", "HEAD").strip()

    def submit_good(self) -> None:
        """Measure the commit that is checked out as the set ``good``."""
        self.run("cp", "../mine.yaml", ".")
        self.run("k8sbench", "submit", "mine.yaml", *OPTIONS, "--set=good")

    def test(self, *words: str) -> int:
        """Run the script; return its exit code."""
        self.run(self.script, *words, code=None)
        return self.code


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


OPTIONS = ("--backend=local", "--yes", "--repeats=2")
TESTED = ("good", "20%", "{commit}.yaml", *OPTIONS)
ONCE = (*TESTED[:-1], "--repeats=1")


def test_git_bisect_finds_the_slow_commit_of_6(repository: Repository) -> None:
    commits = []
    for number in range(COMMITS + 1):
        program = f"# {number}\n{PROGRAM}"
        if number >= SLOW:
            program = program.replace("COST = 1", "COST = 2")
        if number == DOES_NOT_BUILD:
            program += "print('never ends"
        if number == FAILS:
            program += "raise SystemExit('error: no data')"
        commits.append(repository.commit(program, f"Change {number}"))
    repository.run("git", "checkout", "--quiet", commits[0])
    repository.submit_good()
    repository.run("git", "bisect", "start", commits[-1], commits[0])
    said = repository.run("git", "bisect", "run", repository.script, *TESTED)
    assert f"{commits[SLOW]} is the first bad commit" in said
    assert f"git bisect skip {commits[DOES_NOT_BUILD]}" in repository.run("git", "bisect", "log")


def test_what_cannot_be_told_is_skipped_and_what_no_commit_changes_ends_the_search(
    repository: Repository,
) -> None:
    repository.commit(PROGRAM, "Begin")
    assert repository.test(*TESTED) == 128, "there is no such set"
    repository.submit_good()
    assert repository.test(*TESTED) == 0
    repository.commit(PROGRAM.replace("COST = 1", "COST = 2"), "Slow down")
    assert repository.test(*ONCE) == 125, "it is undecided"
    assert repository.test(*TESTED) == 1
    repository.commit(PROGRAM.replace("21", "9"), "End too early")
    assert repository.test(*TESTED) == 125, "the run is rejected"
    assert repository.test(*TESTED[:3], "--backend=kubernetes") == 128
