"""``k8sbench report``: a folder that holds everything a reader needs, and only that."""

import hashlib
import re
from pathlib import Path

import pytest
import yaml

from k8sbench.app import report_folder
from k8sbench.model.phase import Phase
from tests.harness.credentials import written
from tests.results.report.factory import run
from tests.tiers import ROOT
from tests.unit.cli.conftest import Fill, Typed

EXAMPLES = "docs/examples/tensorflow"


@pytest.fixture
def imported(root: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six imported logs in a set; the folder where their report is to be."""
    monkeypatch.chdir(ROOT)
    words = ("--benchmark", f"{EXAMPLES}/benchmark.yaml", "--set", "march")
    assert typed("import", f"{EXAMPLES}/logs", *words)[0] == 0
    return root.parent / "report"


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their paths in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_it_writes_tables_logs_digests_and_links(imported: Path, typed: Typed) -> None:
    assert typed("report", "march", "-o", str(imported))[0] == 0
    found = content(imported)
    figures = {"figures/throughput-1.svg", "figures/over-time-2.svg"}
    assert {"README.md", "results.json", "SHA256SUMS", *figures} <= found.keys()
    logs = {f"logs/gpu{n}_amp_bs256/run{k}/rank0.log" for n in (1, 8) for k in (1, 2, 3)}
    assert logs == {path for path in found if path.startswith("logs/")}
    links = re.findall(r"\]\((.*?)\)", found["README.md"].decode())
    assert {*links} == logs | {path for path in found if path.startswith("figures/")}
    sums = dict(line.split("  ")[::-1] for line in found["SHA256SUMS"].decode().splitlines())
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in found.items()}
    assert sums == {path: digests[path] for path in found if path != "SHA256SUMS"}


def test_its_logs_hold_no_credential_and_no_archived_log_changes(
    root: Path, typed: Typed, tmp_path: Path
) -> None:
    given, example = tmp_path / "logs", ROOT / EXAMPLES / "logs" / "gpu8_amp_1.txt"
    given.mkdir()
    credentials = written()
    log = example.read_text() + "".join(f"{one.text}\n" for one in credentials)
    (given / example.name).write_text(log)
    words = ("--benchmark", f"{ROOT / EXAMPLES}/benchmark.yaml", "--set", "march")
    assert typed("import", str(given), *words)[0] == 0
    assert typed("report", "march", "-o", str(tmp_path / "report"))[0] == 0
    found = content(tmp_path / "report")
    (copy,) = (data.decode() for path, data in found.items() if path.startswith("logs/"))
    assert copy.startswith(example.read_text())
    assert copy.count("\n") == log.count("\n")
    secrets = [secret.encode() for one in credentials for secret in one.secrets]
    assert not [path for path, data in found.items() if any(one in data for one in secrets)]
    (archived,) = root.rglob("logs/*")
    assert archived.read_text() == log


def test_a_second_run_changes_no_byte(imported: Path, typed: Typed) -> None:
    typed("report", "march", "-o", str(imported))
    before = content(imported)
    assert typed("report", "march", "-o", str(imported))[0] == 0
    assert content(imported) == before


def test_it_replaces_its_former_files_alone(imported: Path, typed: Typed, fill: Fill) -> None:
    (imported / ".git").mkdir(parents=True)
    (imported / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    typed("report", "march", "-o", str(imported))
    (imported / "notes.txt").write_text("mine")
    fill([run(2.0, set_name="april", run_id="one")])
    assert typed("report", "april", "-o", str(imported))[0] == 0
    found = content(imported)
    assert found[".git/HEAD"] == b"ref: refs/heads/main\n"
    assert found["notes.txt"] == b"mine"
    assert not [path for path in found if path.startswith("logs/gpu1_amp")]
    assert b"k8sbench submit resnet50" in found["commands.sh"]


def test_a_folder_with_something_else_is_left_alone(imported: Path, typed: Typed) -> None:
    imported.mkdir()
    (imported / "thesis.txt").write_text("mine")
    code, _, err = typed("report", "march", "-o", str(imported))
    assert (code, [*content(imported)]) == (2, ["thesis.txt"])
    assert "thesis.txt" in err
    assert typed("report", "march", "-o", str(imported / "thesis.txt"))[0] == 2


def test_environment_and_notes_stay_in_the_folder(imported: Path, typed: Typed) -> None:
    own = imported.parent / "own.yaml"
    rows = {"gpu8_amp_bs256": {"driver": "535.2"}}
    own.write_text(yaml.safe_dump({"network": "HDR 200", "rows": rows}) + "driver: 535.10\n")
    notes = imported.parent / "own.md"
    notes.write_text("Before all.\n\n## Analysis\n\nMine.\n\n## Tuning\n\n```\n# no heading\n```\n")
    words = ("--environment", str(own), "--notes", str(notes))
    assert typed("report", "march", "-o", str(imported), *words)[0] == 0
    first = content(imported)
    text = first["README.md"].decode()
    assert first["environment.yaml"] == own.read_bytes()
    assert first["notes.md"] == notes.read_bytes()
    assert "| network | HDR 200 | environment.yaml |" in text
    assert "| GPU driver | 535.10 (gpu1_amp_bs256); 535.2 (gpu8_amp_bs256) |" in text
    assert text.index("Before all.") < text.index("## Environment")
    assert text.index("## Analysis") < text.index("Mine.") < text.index("## Charts")
    assert text.count("## Analysis") == 1
    assert "## Tuning\n\n```\n# no heading\n```" in text
    assert typed("report", "march", "-o", str(imported))[0] == 0
    assert content(imported) == first
    (imported / "environment.yaml").write_text("network: NDR 400\n")
    assert typed("report", "march", "-o", str(imported))[0] == 0
    assert "| network | NDR 400 |" in (imported / "README.md").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "rows: {gpu9_amp_bs256: {driver: 1}}",
        "sets: {mrach: {driver: 1}}",
        "driver: {a: 1}",
        "[driver]",
        "driver: [",
    ],
)
def test_a_wrong_environment_is_an_error_that_names_the_file(
    text: str, imported: Path, typed: Typed
) -> None:
    own = imported.parent / "own.yaml"
    own.write_text(text)
    code, _, err = typed("report", "march", "-o", str(imported), "--environment", str(own))
    assert code == 2
    assert "own.yaml" in err
    assert not imported.exists()


def test_a_file_that_was_changed_by_hand_is_overwritten_with_force_alone(
    imported: Path, typed: Typed
) -> None:
    typed("report", "march", "-o", str(imported))
    readme = imported / "README.md"
    made = readme.read_text("utf-8")
    readme.write_text(f"{made}\nMy remark.\n", "utf-8")
    code, _, err = typed("report", "march", "-o", str(imported))
    assert code == 2
    assert str(readme) in err
    assert "My remark." in readme.read_text("utf-8")
    assert typed("report", "march", "-o", str(imported), "--force")[0] == 0
    assert readme.read_text("utf-8") == made


def test_a_missing_or_active_set_is_wrong(imported: Path, typed: Typed, fill: Fill) -> None:
    code, _, err = typed("report", "marhc", "-o", str(imported))
    assert code == 2
    assert "march" in err
    fill([run(phase=Phase.RUNNING, set_name="goes-on", run_id="runs")])
    code, _, err = typed("report", "march", "goes-on", "-o", str(imported))
    assert code == 2
    assert "runs" in err
    assert not imported.exists()


def test_a_full_disk_leaves_the_former_report_as_it_was(
    imported: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed("report", "march", "-o", str(imported))
    before = content(imported)

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_folder, "mask_pieces", full)
    code, _, err = typed("report", "march", "-o", str(imported), "--title", "Other")
    assert code != 0
    assert "disk is full" in err
    assert content(imported) == before


def test_several_sets_and_a_chinese_title(imported: Path, typed: Typed, fill: Fill) -> None:
    fill([run(2.0, set_name="april", run_id="one")])
    words = ("--lang", "zh", "--title", "三月", "--published")
    assert typed("report", "march", "april", "-o", str(imported), *words)[0] == 0
    text = (imported / "README.md").read_text("utf-8")
    assert text.startswith("# 三月\n")
    assert {"resnet50-tf_tensorflow", "resnet50_pytorch"} <= {
        *re.findall(r"\w[\w-]+(?=/gpu)", text)
    }
