"""The page on benchmark files says what the program does, and its examples work."""

import json
import pathlib
import re
from typing import Any

import pytest

from k8sbench.catalog import pool_files, spec_files
from k8sbench.model import program
from k8sbench.model.log_format import LogFormat
from tests import struct_docs, tiers
from tests.unit.command_line import Cli
from tests.unit.measure import declaring

PAGE = tiers.ROOT / "docs" / "catalog.md"
FOLDER = tiers.ROOT / "docs" / "examples"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))
LINES = {
    "my-model": (
        "2026-03-02 11:20:31 step 120/250 loss 0.5312 412.7 img/s",
        {
            "stamp": "2026-03-02 11:20:31",
            "iteration": "120",
            "total": "250",
            "loss": "0.5312",
            "rate": "412.7",
        },
    ),
    "paddlenlp-bert": (
        "global step 40, epoch: 0, batch: 39, loss: 11.09, speed: 6.5, ips: 630.03 sequences/s",
        {"iteration": "40", "epoch": "0", "loss": "11.09", "rate": "630.03"},
    ),
    "paddlenlp-transformer": (
        "step_idx: 200, epoch: 0, batch: 200, avg loss: 7.52, ppl: 18.5, ips: 8886.61 words/sec",
        {"iteration": "200", "loss": "7.52", "rate": "8886.61"},
    ),
    "dle-transformer": (
        "Transformer | epoch 0 | step 20 |avg loss 15.408 |avg tokens 4684.9 |tokens/s 9046.781 |",
        {"epoch": "0", "iteration": "20", "loss": "15.408", "rate": "9046.781"},
    ),
    "dle-bert": (
        "DLL - e2e s training_sequences_per_second : 639.16 sequences/s final_loss : 8.557 None",
        {"rate": "639.16", "loss": "8.557"},
    ),
    "dle-tensorflow": (
        "DLL 2026-03-02 04:02:49.192609 - () train_throughput : 1219.65768 images/s",
        {"rate": "1219.65768"},
    ),
    "megatron-lm": (
        " [2025-04-13 23:41:12] iteration 10/ 1000 | elapsed time per iteration (ms): 1147.6 | x |",
        {
            "stamp": "2025-04-13 23:41:12",
            "iteration": "10",
            "total": "1000",
            "step_seconds": "1147.6",
            "loss": None,
        },
    ),
    "torchtitan": (
        "2025-06-04 08:51:58,557 - root - INFO - step: 10  loss: 10.7069  memory: 3%  tps: 7,034",
        {
            "stamp": "2025-06-04 08:51:58,557",
            "iteration": "10",
            "loss": "10.7069",
            "rate": "7,034",
        },
    ),
    "nanogpt": (
        "iter 5000: loss 0.8205, time 9107.82ms, mfu 24.47%",
        {"iteration": "5000", "loss": "0.8205", "step_seconds": "9107.82"},
    ),
    "dle-mxnet": ("     1     |   1471.9  |", {"rate": "1471.9"}),
}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_placeholders_on_the_page_are_the_codes_golden() -> None:
    rows = [f"| `{{{name}}}` | {what} |" for name, what in program.PLACEHOLDERS.items()]
    table = "\n".join(["| placeholder | stands for |", "| --- | --- |", *rows])
    struct_docs.assert_generated(PAGE, "placeholders", table)


def test_the_example_on_the_page_is_of_the_file() -> None:
    lines = iter((tiers.ROOT / "docs" / "examples" / "my-model.yaml").read_text().splitlines())
    assert all(line in lines for line in blocks("yaml")[1].splitlines())  # in their order


def test_the_template_on_the_page_is_printed_and_its_answers_measure_the_log(
    tmp_path: pathlib.Path, cli: Cli
) -> None:
    log = str(FOLDER / "my-model.log")
    template = cli("measure", log, "--declare").out
    lines = iter(template.splitlines())
    assert all(line in lines for line in blocks("text")[0].splitlines())  # in their order
    answers = dict(line.split(": ", 1) for line in blocks("yaml")[0].splitlines())
    assert answers.pop("confirmed") == "true"
    assert {*answers} == {*declaring.questions(template)}

    def measured(file: pathlib.Path, code: int = 0) -> Any:
        words = ("measure", log, "--gpus", "8", "--warmup", "50", "-o", "json")
        return json.loads(cli(*words, "--benchmark", str(file), code=code).out)[0]

    own = tmp_path / "mine.yaml"
    own.write_text(declaring.answered(template, {**answers, "batch_size": "8"}))
    assert "clock-mismatch" in [each["id"] for each in measured(own, code=5)["reasons"]]
    own.write_text(declaring.answered(template, answers))
    finished = measured(FOLDER / "my-model.yaml")
    assert measured(own)["throughput"]["time_weighted"] == finished["throughput"]["time_weighted"]


def test_the_pools_on_the_page_load(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(blocks("yaml")[2])
    assert pool_files.load_pools(str(path)).pool().gpu_model == "Tesla T4"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_reads_its_own_log(path: pathlib.Path) -> None:
    found = spec_files.load_spec(str(path)).spec
    assert found.name == path.stem
    for variant in found.variants:
        assert variant.impl == "user"
        assert isinstance(variant.log, LogFormat)
        line, groups = LINES[variant.log.name]
        match = re.search(variant.log.record or variant.log.summary or "", line)
        assert match is not None
        assert match.groupdict() == groups
