"""``k8sbench import``: logs from elsewhere become rows."""

import gzip
import io
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k8sbench.catalog import imported_logs
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from tests.reader.measuring.support import FIXTURES, run
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.imports import foreign
from tests.unit.store import schemas


def runs() -> list[str]:
    with open_store() as store:
        return store.ids()


def rows(cli: Cli, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli.json("results", "-o", "json", *words)["rows"]
    return found


def test_thirty_logs_of_six_cases_are_one_table(logs: Path, cli: Cli) -> None:
    out, err = cli("import", "logs", *foreign.OF, "--set", "march", "-o", "json")
    found = {(row["case"], row["precision"]): row for row in json.loads(out)["rows"]}
    assert err == "30 runs imported into set march.\n"
    cases = {f"1x{gpus}": gpus for gpus in (1, 4, 8)}
    assert set(found) == {(case, p) for case in cases for p in ("amp", "fp32")}
    for (case, precision), row in found.items():
        amp, gpus = "True" if precision == "amp" else "False", cases[case]
        rate, alone = foreign.CASES[gpus, amp], foreign.CASES[1, amp]
        assert (row["runs_valid"], row["runs_total"]) == (5, 5)
        assert row["throughput"] == pytest.approx(rate, rel=1e-4)
        assert row["interval_low"] < row["throughput"] < row["interval_high"]
        assert row["speedup"] == pytest.approx(rate / alone, rel=1e-4)
        assert row["batch_size_per_gpu"] == (256 if precision == "amp" else 128)
        assert (row["impl"], row["backend"]) == ("user", "imported")
        assert {member["source"] for member in row["members"]} == {"imported"}
        assert [member["repeat"] for member in row["members"]] == [1, 2, 3, 4, 5]


def test_a_log_of_another_set_is_named_with_its_run(place: Path, run_id: str, cli: Cli) -> None:
    err = cli("import", "one.txt", *foreign.OF, "--set", "two", code=2).err
    assert "one.txt: is in set one already." in err
    assert "k8sbench store remove one" in err
    assert "k8sbench store remove one" in err, "that set"
    assert runs() == [run_id]
    cli("store", "remove", "one", "--yes")
    cli("import", "one.txt", *foreign.OF, "--set", "two")


def test_the_same_log_with_other_values_is_refused(place: Path, run_id: str, cli: Cli) -> None:
    err = cli("import", "one.txt", *foreign.OF, "--set", "one", "--warmup", "210", code=2).err
    assert "was imported into set one with another window." in err


def test_a_refused_log_names_the_options_and_no_fields(place: Path, cli: Cli) -> None:
    shutil.copy(FIXTURES / "hf_trainer_running.log", place / "hf.log")
    words = ("import", "hf.log", "--set", "s", "--gpu-model", "A100")
    cli(*words, "--gpus", "8", "--precision", "amp")

    def differing(*options: str) -> str:
        err = cli(*words, *options, code=2).err
        return err.partition("with another ")[2].partition(".\n")[0]

    assert differing("--gpus", "8", "--precision", "fp16") == "precision"
    other_gpus = differing("--gpus", "4", "--precision", "amp")
    assert other_gpus == "batch (--batch-size), case (--gpus, --case)"


def test_a_log_of_one_summary_line_is_counted_once_too(place: Path, cli: Cli) -> None:
    path = str(ROOT / "docs" / "examples" / "resnet50-tensorflow.yaml")
    line = "DLL 2026-03-02 04:02:49.192609 - () train_throughput : 1219.65 images/s\n"
    for name in ("a.txt", "b.txt"):
        (place / name).write_text(line)
    words = ["--benchmark", path, "--gpus", "1", "--precision", "amp", "--set", "s"]
    err = cli("import", "a.txt", "b.txt", *words, code=2).err
    assert "b.txt: is the same log as a.txt." in err
    cli("import", "a.txt", *words)
    assert "b.txt: is in set" in cli("import", "b.txt", *words[:-1], "other", code=2).err


def test_one_unreadable_log_keeps_all_out_unless_skipped(logs: Path, cli: Cli) -> None:
    (logs / "notes.txt").write_text("Dear all,\nthis is no log.\n")
    err = cli("import", "logs", *foreign.OF, "--set", "march", code=2).err
    assert err.startswith("error: logs/notes.txt: no line is a training line of")
    assert "k8sbench explain" in err
    assert "Nothing was imported" in err
    assert runs() == []
    err = cli("import", "logs", *foreign.OF, "--set", "march", "--skip-unreadable").err
    assert err.startswith("left out: logs/notes.txt: no line is a training line of")
    assert "30 runs imported" in err


def test_each_log_that_is_left_out_is_named(logs: Path, cli: Cli) -> None:
    names = [f"logs/notes-{number}.txt" for number in range(12)]
    for name in names:
        Path(name).write_text("Dear all,\nthis is no log.\n")
    err = cli("import", "logs", *foreign.OF, "--set", "march", "--skip-unreadable").err
    assert [name for name in names if name not in err] == []


def test_a_log_that_is_given_twice_is_not_left_out_as_one_that_cannot_be_read(
    place: Path, cli: Cli
) -> None:
    for name in ("one.txt", "copy.txt"):
        (place / name).write_text(foreign.log())
    words = ("one.txt", "copy.txt", *foreign.OF, "--set", "march", "--skip-unreadable")
    cli("import", *words, code=2)
    assert runs() == []


def test_packed_logs_are_kept(place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "a.txt.gz").write_bytes(gzip.compress(foreign.log().encode()))
    other = foreign.log(rate=1210.0)
    stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(other.encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    out = cli("import", "a.txt.gz", "-", *foreign.OF, "--set", "s", "-o", "name").out
    first, second = out.split()
    for name, text in ((first, foreign.log()), (second, other)):
        assert cli("logs", name).out == text


def test_logs_of_several_ranks_are_one_run(place: Path, cli: Cli) -> None:
    for rank in (0, 1):
        (place / f"workerlog.{rank}").write_text(foreign.log(gpus=4, rate=4500.0 + rank / 100))
    words = ["workerlog.0", "workerlog.1", *foreign.OF, "--set", "s", "--one-run", "-o", "name"]
    (name,) = cli("import", *words).out.split()
    assert cli("logs", name, "--replica", "log-1").out == (place / "workerlog.1").read_text()
    assert cli("logs", name).out.startswith("[log-0] DLL")


# What is said of the logs besides what they state


def mmseg_logs(place: Path) -> None:
    for gpus in (1, 8):
        folder = place / f"n{gpus}"
        folder.mkdir()
        for repeat in (1, 2):
            lines = run([0.5 + repeat / 1000] * 8, interval=10 + gpus)
            (folder / f"{repeat}.log").write_text("\n".join(lines))


MMSEG = ["--format", "mmseg", "--batch-size", "4", "--precision", "fp32", "--set", "s"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--case", "2x8", "--gpus", "8"], "--case 2x8 and --gpus 8 differ"),
        ([], "does not state how many GPUs the job had"),
        (["--gpus", "32"], "does not state on how many nodes the 32 GPUs were"),
        (["--set", "a/b"], "'a/b' cannot name a set"),
    ],
)
def test_errors_record_nothing(place: Path, cli: Cli, words: list[str], says: str) -> None:
    mmseg_logs(place)
    assert says in cli("import", "n8", *MMSEG, *words, code=2).err
    assert runs() == []


def test_what_neither_log_nor_option_nor_catalog_states_is_no_fact(cli: Cli) -> None:
    cli("import", str(FIXTURES / "mlperf_throughput.log"), "--set", "s", "--gpus=8")
    (row,) = rows(cli)
    unknown = ("precision", "framework", "amp_dtype")
    assert {row[name] for name in unknown} == {None}
    assert set(unknown) <= row["missing"].keys()
    assert (row["runs_valid"], row["throughput"] > 0) == (1, True)
    (run,) = cli.json("list", "-o", "json")
    assert (run["precision"], run["case"]) == (None, "1x8")
    schemas.validate("results", cli.json("results", "-o", "json"))
    cli("results")
    cli("explain", run["run_id"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("deeplabv3p_c8_fp16.log@7d6bff4e", {"gpus": 8, "precision": "fp16"}),
        ("Deeplabv3_FP16_BS4-N1.log", {"batch_size": 4, "precision": "fp16"}),
        ("fcn_bs8_fp32_DP_N1C1_log", {"case": "1x1", "precision": "fp32", "batch_size": 8}),
        ("8gpu/batch_size_32/run1.log", {"gpus": 8, "batch_size": 32}),
        ("gpu8/gpu4.log", {"gpus": 4}),
        ("crop512x1024_r50_2gpus_4gpus.log", {}),
        ("efficientnet_b5_n1g8_fp32.log", {"case": "1x8", "precision": "fp32"}),
        ("n1g8_b128_amp.log", {"case": "1x8", "batch_size": 128, "precision": "amp"}),
        ("vit-b16/amp_b64.log", {"batch_size": 64, "precision": "amp"}),
        ("no_amp_n1g8.log", {"case": "1x8"}),
        ("fp32/1x8/amp_off.log", {"case": "1x8", "precision": "fp32"}),
    ],
)
def test_a_logs_name_says_nodes_gpus_batch_precision(name: str, said: dict[str, Any]) -> None:
    assert imported_logs.options_in_name(name) == said


def test_what_only_names_say_is_recorded_when_it_is_asked_for(place: Path, cli: Cli) -> None:
    mmseg_logs(place)
    for gpus in (1, 8):
        (place / f"n{gpus}").rename(place / f"gpu{gpus}_fp32_bs4")
    cli("import", "gpu1_fp32_bs4", "gpu8_fp32_bs4", code=2)
    assert runs() == []
    cli("import", "gpu1_fp32_bs4", "gpu8_fp32_bs4", "--from-names")
    found = {row["case"]: (row["precision"], row["batch_size_per_gpu"]) for row in rows(cli)}
    assert found == {"1x1": ("fp32", 4), "1x8": ("fp32", 4)}


def published(folder: Path) -> Path:
    """A published report's folder: 1n1g/r50_b128_fp32_1.log, 4n8g/…."""
    for case, rate in (("1n1g", 397.0), ("4n8g", 11000.0)):
        (folder / case).mkdir(parents=True)
        for repeat in range(1, 4):
            lines = [
                f"INFO 2021-03-12 10:{n:02}:00,113 entry.py:1023] Pass:0 batch:{10 * n}"
                f" lr:0.10000000 loss:44.045238 qps:{rate + repeat + n % 3:.2f}\n"
                for n in range(30)
            ]
            (folder / case / f"r50_b128_fp32_{repeat}.log").write_text("".join(lines))
    return folder


def test_a_published_folder_is_imported_by_one_command_that_the_error_names(
    place: Path, cli: Cli
) -> None:
    published(place / "PLSC")
    assert "--from-names" in cli("import", "PLSC", code=2).err
    cli("import", "PLSC", "--from-names", "--set", "plsc", code=None)
    found = {row["case"]: (row["batch_size_per_gpu"], row["runs_total"]) for row in rows(cli)}
    assert found == {"1x1": (128, 3), "4x8": (128, 3)}


@pytest.mark.parametrize("again", [["--set", "plsc"], []])
def test_importing_again_with_other_options_is_one_error(
    place: Path, cli: Cli, again: list[str]
) -> None:
    words = ["import", str(published(place / "PLSC")), "--from-names"]
    cli(*words, "--set", "plsc", "--gpu-model", foreign.GPU, code=None)
    err = cli(*words, *again, code=2).err
    assert len(err.splitlines()) == 3
    assert ("--replace" if again else "k8sbench store remove plsc") in err
    assert ("--gpu-model" in err) is bool(again)


def test_a_log_that_states_its_case_has_that_one_whatever_its_name(place: Path, cli: Cli) -> None:
    gpus = "- '^Num GPUs"
    nodes = f"- '^Nodes (?P<replicas>\\d+)'\n        {gpus}"
    mine = foreign.BENCHMARK.read_text().replace(gpus, nodes)
    (place / "mine.yaml").write_text(mine)
    (place / "n4g8.txt").write_text("Nodes 2\n" + foreign.log(8))
    words = ["--benchmark", "mine.yaml", "--gpu-model", foreign.GPU, "--from-names"]
    cli("import", "n4g8.txt", *words, code=5)
    assert [(row["case"], row["runs_valid"]) for row in rows(cli)] == [("2x4", 0)]


def test_runs_keep_the_benchmark(logs: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = logs / "mine.yaml"
    mine.write_bytes(foreign.BENCHMARK.read_bytes())
    cli("import", "logs", "--benchmark", "logs/mine.yaml", "--gpu-model", foreign.GPU, "--set", "s")
    before = rows(cli)
    monkeypatch.chdir(logs)
    mine.unlink()
    out, err = cli("results", "-o", "json")
    assert json.loads(out)["rows"] == before
    assert "catalog entry" not in err


def test_a_record_shows_no_folder_above_what_was_given(place: Path, cli: Cli) -> None:
    home = place / "home" / "alice"
    home.mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (home / name).write_text(foreign.log(rate=1100.0 + ord(name[0])))
    out = cli("import", str(home), *foreign.OF, "--set", "s", "-o", "json").out
    with open_store() as store:
        found = store.runs(RunFilter())
        texts = [p.read_text() for p in store.root.rglob("*.json") if p.is_file()]
    assert [run.measurement and run.measurement.files for run in found] == [("a.txt",), ("b.txt",)]
    assert len(texts) >= 6
    kept = json.dumps([text.replace(str(place / "store"), "") for text in texts])
    assert "alice" not in kept + out


def test_what_was_added_to_a_folder_is_a_further_repeat(logs: Path, cli: Cli) -> None:
    cli("import", "logs", *foreign.OF, "--set", "march")
    (logs / "gpu1_True_6.txt").write_text(foreign.log(rate=1201.0))
    cli("import", "logs", *foreign.OF, "--set", "march")
    (row,) = (r for r in rows(cli) if (r["case"], r["precision"]) == ("1x1", "amp"))
    assert [member["repeat"] for member in row["members"]] == [1, 2, 3, 4, 5, 6]


def test_a_rejected_log_is_recorded_and_exits_5(place: Path, cli: Cli) -> None:
    (place / "short.txt").write_text("\n".join(foreign.log().splitlines()[:8]) + "\n")
    out = cli("import", "short.txt", *foreign.OF, "--set", "s", code=5).out
    assert "rejected" in out
    assert "too-few-iterations" in out


def test_a_run_that_lacks_one_of_its_files_is_not_recorded(place: Path, cli: Cli) -> None:
    (place / "workerlog.0").write_text(foreign.log(gpus=4, rate=4500.0))
    words = ["workerlog.0", "workerlog.1", *foreign.OF, "--one-run", "--skip-unreadable"]
    assert "workerlog.1: cannot be read" in cli("import", *words, code=2).err
    assert runs() == []


@pytest.mark.parametrize(
    ("log", "asked", "case", "batch"),
    [
        # 64 GPUs and 32 samples per step: two GPUs share each of them.
        ("megatron_2021.log", ["--case 8x8"], "8x8", 0.5),
    ],
)
def test_a_log_that_states_little_is_imported_with_the_options_that_errors_name(
    place: Path, cli: Cli, log: str, asked: list[str], case: str, batch: float
) -> None:
    given: list[str] = []
    for option in asked:
        err = cli("import", str(FIXTURES / log), *given, "--set", "s", code=2).err
        name, value = option.split()
        assert name in err
        given += [name, value]
    cli("import", str(FIXTURES / log), *given, "--set", "s")
    (row,) = rows(cli)
    assert (row["case"], row["batch_size_per_gpu"], row["runs_valid"]) == (case, batch, 1)
    assert (row["framework"], row["precision"]) == ("pytorch", "amp")


def test_it_is_kept_who_states_a_fact_of_an_imported_run(cli: Cli) -> None:
    words = ("--gpus=8", "--precision=bf16", "--batch-size=12", "--set=s")
    cli("import", str(FIXTURES / "nanogpt.log"), *words, code=None)
    with open_store() as store:
        (run,) = store.runs(RunFilter())
    stated = run.facts.stated_by
    assert (stated["precision"], stated["batch_size"], stated["gpus"]) == (
        "option --precision",
        "option --batch-size",
        "option --gpus",
    )
    assert "nanogpt" in stated["framework"]
    assert "gpu_model" not in stated
    assert "option --batch-size" in cli("explain", run.run_id).out


def test_figures_that_only_our_own_runs_have_lack_for_one_reason(logs: Path, cli: Cli) -> None:
    cli("import", "logs", *foreign.OF, "--set", "march")
    [row] = cli.json("results", "--set", "march", "-o", "json")["rows"][:1]
    own = ("gpu_hours", "gpu_utilization", "power", "target", "weights", "restarts", "data_set")
    assert {row["missing"][name] for name in own} == {"imported logs"}
