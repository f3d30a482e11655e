"""``k8sbench measure`` gives the figures of INDEX.md for every log."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from k8sbench.cli.commands.measure import command
from tests import tiers
from tests.corpus import index
from tests.corpus.index import Row

OURS = [row for row in index.rows() if row.family is not None]
CLOSE = 0.005
END_EARLY = {
    row.file
    for row in OURS
    if row.file.startswith(("airank_pytorch_samples_deeplab", "airank_pytorch_samples_HRNet"))
    or "_samples_tsm__" in row.file
}
"""AI-Rank's logs that were cut before their planned iterations."""
SILENT = {row.file for row in OURS if row.family == "tsm"}
"""Logs that tell neither batch nor precision."""
BESIDE_THE_TABLE = {
    "ResNet50V1.5__paddle_gpu1_amp_bs128.txt@88e03412": 5,
    "airank_pytorch_samples_tsm__GPUx1_AMP.log@00a14bf9": 32,
}
"""Iterations that the table omits.

Only the line at an epoch's end tells of them, or the last digit of a running mean is more than
their time.
"""
ADDRESS = re.compile(r"\b(?:10|127|192\.168|172\.\d+)\.\d+\.\d+\b|/(?:home|root|Users)/")


def measured(row: Row, *words: str) -> dict[str, Any]:
    """Return the command's output for one log, which must be valid."""
    assert row.family is not None
    given = [row.path, "--format", row.family, "--gpus", str(row.gpus), *words]
    done = CliRunner().invoke(command, [*given, "--warmup", str(row.warmup), "-o", "json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def warnings(found: dict[str, Any]) -> set[str]:
    """Ids of the remarks."""
    return {each["id"] for each in found["reasons"]}


of_each_log = pytest.mark.parametrize("row", OURS, ids=lambda row: row.file)


def test_every_log_of_the_corpus_is_in_the_table_and_the_other_way_round() -> None:
    assert {row.file for row in index.rows()} == {path.name for path in tiers.corpus_logs()}
    assert len(OURS) >= 20


@of_each_log
def test_a_log_is_valid_by_its_family_alone_and_gives_the_figures_of_the_table(row: Row) -> None:
    found = measured(row, "--batch-size", str(row.batch))
    rates = found["throughput"]
    assert found["verdict"] == "valid"
    told = found["iterations"] - BESIDE_THE_TABLE.get(row.file, 0)
    assert (told, found["records"]) == (row.iterations, row.records)
    assert rates["time_weighted"] == pytest.approx(row.time_weighted, rel=CLOSE)
    assert rates["arithmetic"] == pytest.approx(row.arithmetic, rel=CLOSE)
    assert rates["median"] == pytest.approx(row.median, rel=CLOSE)
    if row.final_loss is not None:
        assert found["final_loss"] == pytest.approx(row.final_loss, rel=1e-3)


COARSE = {
    "DeepLabV3P__paddle__Deeplabv3_FP16_BS4-N1.log@0b2dd801",
    "HRNetW18__paddle__Hrnet_FP16_BS8-N1.log@0b6e04fc",
}
"""Logs with stamps of whole seconds, and windows of 4 s and 33 s."""


@of_each_log
def test_stamps_give_the_same_rate_and_wall_time_as_in_the_table(row: Row) -> None:
    found = measured(row, "--batch-size", str(row.batch))
    stamps, wall = (
        row.facts.get(name)
        for name in ("check_mean_from_timestamps", "wall_s_first_to_last_record")
    )
    if row.file in COARSE:
        assert found["throughput"]["timestamps"] is None
    elif stamps is not None:
        assert found["throughput"]["timestamps"] == pytest.approx(float(stamps), rel=CLOSE)
    if wall is not None:
        assert found["train_wall_s"] == pytest.approx(float(wall), abs=0.01)


@of_each_log
def test_evaluations_are_those_of_the_table_and_a_wall_time_is_no_time_to_train(row: Row) -> None:
    found = measured(row, "--batch-size", str(row.batch))
    said = index.accuracy(row)
    assert found["time_to_train_s"] is None
    if said is None:
        assert found["accuracy"] is None
        assert "accuracy" in found["missing"]
        return
    accuracy = found["accuracy"]
    last = said.get("final", said.get("lfw_last"))
    assert accuracy["final"] == last
    assert accuracy["best"] == said.get("best", last)
    assert accuracy["unit"] == ("%" if str(said["metric"]).endswith("%") else "fraction")
    name = str(said["metric"]).removesuffix(" %").replace("Prec@1", "top-1")  # as published tables
    assert accuracy["metric"].startswith(name)
    if "n_evals" in said:
        assert accuracy["evaluations"] == said["n_evals"]


@of_each_log
def test_logs_that_were_cut_carry_a_remark_and_the_others_do_not(row: Row) -> None:
    found = measured(row, "--batch-size", str(row.batch))
    assert ("ends-early" in warnings(found)) == (row.file in END_EARLY)


@pytest.mark.parametrize(
    "row", [row for row in OURS if row.family == "tsm"], ids=lambda row: row.file
)
def test_the_size_of_kinetics_tells_the_gpus_of_tsm(row: Row) -> None:
    given = [row.path, "--benchmark", "tsm", "--warmup", str(row.warmup), "-o", "json"]
    done = CliRunner().invoke(command, given)
    (found,) = json.loads(done.stdout)
    assert (found["gpus"], found["batch_size_per_gpu"]) == (row.gpus, row.batch)
    assert found["environment"]["global_batch"] == row.gpus * row.batch
    assert "batch-mismatch" not in warnings(found)


@pytest.mark.parametrize(
    "row", [row for row in OURS if row.file not in SILENT], ids=lambda row: row.file
)
def test_the_log_alone_tells_batch_and_precision_where_its_program_prints_them(row: Row) -> None:
    found = measured(row)
    assert found["batch_size_per_gpu"] == row.batch
    if row.family not in {"paddlevideo", "plsc"}:
        amp = row.precision != "fp32"
        assert found["precision"] == ("amp" if amp else "fp32")
    if "planned_iters" in row.facts:
        assert found["environment"]["planned_iterations"] == int(row.facts["planned_iters"])


@of_each_log
def test_no_address_and_no_folder_of_a_user_is_shown(row: Row) -> None:
    found = measured(row, "--batch-size", str(row.batch))
    shown = [
        json.dumps(found["environment"]),
        *(str(each["evidence"]) for each in found["reasons"]),
    ]
    shown.extend(each["text"] for each in found["window"]["left_out"])
    assert [text for text in shown if ADDRESS.search(text)] == []
