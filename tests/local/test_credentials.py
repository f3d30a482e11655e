"""A program that prints credentials and fails: no output of k8sbench shows one."""

from __future__ import annotations

import tarfile
import time
from pathlib import Path

import pytest
import urllib3
import yaml

from k8sbench.cli.main import main
from k8sbench.model.kube import TOKEN_HEADER
from k8sbench.operator import http
from k8sbench.operator.controller import OperatorSettings, OperatorState
from k8sbench.operator.metrics import Metrics
from tests.harness import benchmark_files
from tests.harness.credentials import written

CREDENTIALS = written()
SECRETS = [secret for one in CREDENTIALS for secret in one.secrets]
QUOTED = "error: the hub answers 401 to password={} with HF_TOKEN={}"
"""The last line, which the cause of the failure quotes."""
PROGRAM = """
import sys
for step in range(1, 21):
    print(f"step {step} 8.0 samples/s", flush=True)
*lines, last = open(sys.argv[1]).read().splitlines()
print("\\n".join(lines), flush=True)
raise SystemExit(last)
"""


@pytest.fixture
def failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Run the program; returns the store's folder, and all that submit has printed."""
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "train.py").write_text(PROGRAM)
    last = QUOTED.format(*(one.secrets[0] for one in CREDENTIALS[:2]))
    printed = folder / "printed.txt"
    printed.write_text("\n".join([*(one.text for one in CREDENTIALS), last]))
    spec = benchmark_files.benchmark(
        base=benchmark_files.variant(
            ("python3", "train.py", str(printed)),
            "registry.example.com/team/mine:1",
            r"step (?P<iteration>\d+) (?P<rate>[\d.]+) samples/s",
            batch_size={"fp32": 4},
            window={"warmup": 4, "iterations": 16, "rule": "ours"},
        )
    )
    (folder / "mine.yaml").write_text(yaml.safe_dump(spec))
    return tmp_path / "store", str(folder / "mine.yaml")


def test_no_output_shows_a_credential_that_a_program_has_printed(
    failed: tuple[Path, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    root, benchmark = failed
    outputs: dict[str, str] = {}

    def run(*words: str) -> None:
        main(words)
        outputs[" ".join(words)] = "".join(capfd.readouterr())

    run("submit", benchmark, "--backend=local", "--yes", "--run-id=mine-1", "--set=nightly")
    for form in ("table", "json", "yaml"):
        run("status", "mine-1", "-o", form)
    for form in ("table", "wide", "csv", "json"):
        run("list", "-o", form)
    for form in ("table", "wide", "json", "csv", "markdown", "html", "junit"):
        run("results", "--all", "-o", form)
    run("explain", "mine-1")
    run("logs", "mine-1")
    run("history", "mine")
    folder, archive = tmp_path / "report", tmp_path / "runs.tar.gz"
    run("report", "nightly", "-o", str(folder))
    run("store", "export", str(archive))
    outputs |= {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}
    outputs |= served(root)
    with tarfile.open(archive) as tar:
        files = {one.name: tar.extractfile(one) for one in tar if one.isfile()}
        exported = {name: file.read().decode() for name, file in files.items() if file}
    (log,) = (name for name in exported if name.endswith(".log"))
    archived = exported.pop(log)
    outputs |= exported
    assert not {name for name, text in outputs.items() if any(one in text for one in SECRETS)}
    masked = QUOTED.format("***", "***")
    quoting = [name for name, text in outputs.items() if masked in " ".join(text.split())]
    assert {"status mine-1 -o json", "explain mine-1", "logs mine-1", "GET /"} <= set(quoting)
    # The archive and its export hold what was printed, to be measured again.
    assert [one for one in SECRETS if one not in archived] == []
    assert (root / log).read_text() == archived


def served(root: Path) -> dict[str, str]:
    """Return all documents and files that an operator of a store serves."""
    settings = OperatorSettings(store=str(root))
    state = OperatorState(settings=settings, looked_at=time.monotonic())
    app = http.application(state, Metrics().registry, lambda: "token")
    found: dict[str, str] = {}
    with (
        http.Server("127.0.0.1:0", app) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port) as pool,
    ):

        def get(path: str) -> urllib3.BaseHTTPResponse:
            answer = pool.request("GET", path, headers={TOKEN_HEADER: "token"})
            assert answer.status == 200, path
            found[f"GET {path}"] = answer.data.decode()
            return answer

        runs = "/api/v1/runs"
        for path in ("/", runs, f"{runs}?detail=status", "/api/v1/groups?all=true", "/api/v1/rows"):
            get(path)
        for one in get(f"{runs}/mine-1/artifacts").json():
            get(f"{runs}/mine-1/artifacts/{one['name']}")
    assert f"GET {runs}/mine-1/artifacts/logs/master-0.log" in found
    return found
