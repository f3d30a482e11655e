"""Names of logs: what they say must agree with the log; they may be no text."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.reader.measuring.stamped_logs import dle
from tests.reader.measuring.support import FIXTURES, run
from tests.unit.command_line import Cli
from tests.unit.imports import foreign
from tests.unit.imports.programs import mmseg

SETS = itertools.count()


def dle_log(*, amp: bool = False) -> str:
    """A log of ResNet-50 on eight GPUs, batch 128, which states all of it."""
    head = f"DLL x - PARAMETER arch : resnet50  batch_size : 128  amp : {amp}  world_size : 8 "
    return "\n".join([head, *dle([2400.0] * 130, batch=8 * 128)])


def imported(cli: Cli, name: str, *words: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Import one log by its name; return its row, and the sentence of each reason by its id."""
    set_name = f"set-{next(SETS)}"
    cli("import", name, "--from-names", "--set", set_name, *words, code=None)
    (row,) = cli.json("results", "--set", set_name, "-o", "json")["rows"]
    reasons = row["members"][0]["reasons"]
    return row, {reason["id"]: reason["message"] for reason in reasons}


@pytest.mark.parametrize(
    ("name", "amp", "reason", "values"),
    [
        ("n1g4_fp32.log", False, "gpu-count", ("4 GPUs", "8")),
        ("n2g8.log", False, "gpu-count", ("16 GPUs", "8")),
        ("gpu4/a.log", False, "gpu-count", ("4 GPUs", "8")),
        ("n1g8_amp.log", False, "precision", ("amp", "fp32")),
        ("n1g8_bf16.log", False, "precision", ("amp", "fp32")),
        ("n1g8_fp32.log", True, "precision", ("fp32", "amp")),
        ("n1g8_bf16_amp.log", True, "precision", ("bf16", "fp16")),
        ("n1g8_fp32_bs64.log", False, "batch-size", ("64", "128")),
    ],
)
def test_a_name_that_contradicts_the_log_rejects_it_with_both_values(
    place: Path, cli: Cli, name: str, amp: bool, reason: str, values: tuple[str, str]
) -> None:
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_text(dle_log(amp=amp))
    for words in ([], ["--format", "dle-resnet50"], ["--benchmark", "resnet50"]):
        row, reasons = imported(cli, name, *words)
        assert (row["runs_valid"], row["throughput"]) == (0, None)
        assert "The log's name says" in reasons[reason]
        assert all(value in reasons[reason] for value in values)
        assert row["case"] == "1x8", "the log's own, as ever"
        cli("store", "remove", row["set"], "--yes")


@pytest.mark.parametrize("name", ["n1g8_fp32_bs128.log", "gpu8.log", "a.log", "b128.log"])
def test_a_name_that_agrees_adds_nothing(place: Path, cli: Cli, name: str) -> None:
    (place / name).write_text(dle_log())
    row, reasons = imported(cli, name)
    assert row["runs_valid"] == 1
    assert not any("name" in sentence for sentence in reasons.values())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n1g4_fp32.log", ["--gpus", "8"]),
        ("n1g4_fp32.log", ["--case", "1x8"]),
        ("n1g8_amp.log", ["--precision", "fp32"]),
        ("n1g8_bs64.log", ["--batch-size", "128"]),
    ],
)
def test_an_option_overrides_the_name(place: Path, cli: Cli, name: str, words: list[str]) -> None:
    (place / name).write_text(dle_log())
    assert imported(cli, name)[0]["runs_valid"] == 0
    cli("store", "remove", f"set-{next(SETS) - 1}", "--yes")
    row, _ = imported(cli, name, *words)
    assert (row["runs_valid"], row["case"]) == (1, "1x8")


def test_nodes_that_the_log_states_differently_reject_it(place: Path, cli: Cli) -> None:
    gpus = "- '^Num GPUs"
    nodes = f"- '^Nodes (?P<replicas>\\d+)'\n        {gpus}"
    (place / "mine.yaml").write_text(foreign.BENCHMARK.read_text().replace(gpus, nodes))
    (place / "n1g8.txt").write_text("Nodes 2\n" + foreign.log(8))
    row, reasons = imported(cli, "n1g8.txt", "--benchmark", "mine.yaml")
    assert row["case"] == "2x4"
    assert "The log's name says 1 node, the log says 2." in reasons["gpu-count"]


def test_what_only_the_name_says_is_unverified(place: Path, cli: Cli) -> None:
    (place / "n1g8_fp32_bs4.log").write_text("\n".join(run([0.5] * 20)))
    row, reasons = imported(cli, "n1g8_fp32_bs4.log")
    assert row["runs_valid"] == 1
    assert {"gpus-unverified", "precision-unverified", "batch-unverified"} <= set(reasons)


def test_a_batch_in_the_name_counts_before_that_of_the_benchmark(place: Path, cli: Cli) -> None:
    (place / "n1g8_bs64.log").write_text(dle_log().replace("batch_size : 128", ""))
    row, reasons = imported(cli, "n1g8_bs64.log", "--benchmark", "resnet50")
    assert row["batch_size_per_gpu"] == 64
    assert "batch-size" not in reasons


def test_the_half_type_in_the_name_completes_amp(place: Path, cli: Cli) -> None:
    head = ["Training in mixed precision.", "Model resnet50 created, param count: 25"]
    lines = [each for each in (FIXTURES / "timm.log").read_text().splitlines() if "AMP" not in each]
    (place / "bf16_gpu1_bs4.log").write_text("\n".join([*head, *lines]))
    cli("import", "bf16_gpu1_bs4.log", "--from-names", "--set", "s", code=None)
    (row,) = cli.json("results", "-o", "json")["rows"]
    assert (row["precision"], row["amp_dtype"]) == ("amp", "bf16")


def test_a_name_contradicts_what_a_configuration_leaves_out(place: Path, cli: Cli) -> None:
    (place / "gpu1_amp.log").write_text(mmseg())
    _, reasons = imported(cli, "gpu1_amp.log")
    assert "The log's name says amp" in reasons["precision"]


# Names that are not UTF-8


ODD = "n1g8_caf\udce9.log"
SHOWN = "n1g8_caf\\xe9.log"


def test_a_name_that_is_no_text_is_measured_and_shown_with_its_bytes(place: Path, cli: Cli) -> None:
    (place / ODD).write_text(dle_log())
    (place / "d\udcff").mkdir()
    (place / "d\udcff" / "a.log").write_text(dle_log().replace("2400.0", "2401.0"))
    assert cli("measure", ODD).out.startswith(f"{SHOWN}\n")
    (found,) = cli.json("measure", ODD, "-o", "json")
    assert found["files"] == [SHOWN]
    every = [each["files"] for each in cli.json("measure", str(place), "-o", "json")]
    assert sorted(every) == [["d\\xff/a.log"], [SHOWN]]
    err = cli("measure", "gone\udce9.log", code=2).err
    assert err.startswith("error: gone\\xe9.log: cannot be read:")


def test_a_name_that_is_no_text_is_imported_like_any_other(place: Path, cli: Cli) -> None:
    (place / ODD).write_text(dle_log())
    (place / "n1g8_caf\udce8.log").write_text(dle_log().replace("2400", "2410"))
    mine = "b\udce9.yaml"
    (place / mine).write_bytes(foreign.BENCHMARK.read_bytes())
    (place / "\udce9.txt").write_text(foreign.log())
    names = cli("import", ODD, "n1g8_caf\udce8.log", "--from-names", "--set", "s", "-o", "name").out
    cli("import", "\udce9.txt", "--benchmark", mine, "--set", "s")
    assert cli("import", ODD, "--set", "s").err.endswith("; 1 run was there already.\n")
    before = cli.json("results", "-o", "json")
    assert len(names.split()) == 2
    assert sum(row["runs_total"] for row in before["rows"]) == 3
    for name, shown in zip(names.split(), (SHOWN, "n1g8_caf\\xe8.log"), strict=True):
        assert shown in cli("explain", name).out
    assert cli("logs", names.split()[0]).out == f"{dle_log()}\n"
    cli("store", "reindex")
    assert cli.json("results", "-o", "json") == before
    cli("report", "s", "-o", "page")
    cli("store", "export", "s", "all.tar.gz")
    cli("store", "import", "all.tar.gz", "--store", "other")
