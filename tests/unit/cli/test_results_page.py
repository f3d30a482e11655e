"""``results -o html`` and ``--lang``, and the command on the page that repeats a row."""

from __future__ import annotations

import json
import pathlib
import shlex
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli import main
from k8sbench.model import identity
from k8sbench.model.plan import RunPlan
from k8sbench.ports import LogLine
from k8sbench.report import repeating
from tests.tiers import ROOT
from tests.unit.cli.conftest import Fill, Typed
from tests.unit.report import example
from tests.unit.report.factory import START, run

FIXTURES = ROOT / "tests" / "fixtures" / "logs"


def test_the_page_goes_to_stdout_with_the_course_of_its_runs(
    fill: Fill, typed: Typed, root: pathlib.Path
) -> None:
    fill([run(2.0, run_id="seen", at=START)])
    with open_store(str(root)) as store:
        log = store.archive("seen")
        lines = (FIXTURES / "k8sbench_master.log").read_text().splitlines()
        for line in lines:
            log.write(LogLine(replica="master-0", at=START, text=line))
        log.close()
    code, out, err = typed("results", "-o", "html")
    assert (code, err) == (0, "")
    assert out.startswith("<!doctype html>")
    assert "k8sbench submit resnet50" in out
    assert str(root) in out
    assert 'aria-label="loss"' in out
    assert 'aria-label="throughput, samples/s"' in out


def test_a_page_does_without_the_steps_of_a_log_that_is_elsewhere(
    fill: Fill, typed: Typed, root: pathlib.Path
) -> None:
    fill([run(2.0, run_id="seen", at=START)])
    (root / "runs" / "seen" / "run.json").unlink()
    code, out, err = typed("results", "-o", "html")
    assert code == 0
    assert out.count("<details") == 1
    assert 'aria-label="loss"' not in out
    assert "warning: without the steps of seen: " in err


def test_a_page_has_every_row(fill: Fill, typed: Typed) -> None:
    fill(example.runs())
    rows = json.loads(typed("results", "-o", "json")[1])["rows"]
    assert typed("results", "-o", "html")[1].count("<details") == len(rows)


def test_tables_for_people_have_titles_in_chinese(fill: Fill, typed: Typed) -> None:
    fill(example.runs())
    for form in ("table", "wide", "markdown", "html"):
        code, out, _ = typed("results", "-o", form, "--lang", "zh")
        assert code == 0
        assert "吞吐" in out
    code, out, err = typed("results", "-o", "json", "--lang", "zh")
    assert (code, out) == (2, "")
    assert "--lang is for formats that people read, not for json." in err


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> RunPlan:
    assert main.main(["render", *words, "-o", "json"]) == 0
    items: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    job = next(one for one in items if one["kind"] in ("PyTorchJob", "PaddleJob"))
    return msgspec.json.decode(
        job["metadata"]["annotations"][identity.PLAN_ANNOTATION], type=RunPlan
    )


@pytest.mark.parametrize(
    "words",
    [
        "resnet50 --replicas 2 --gpus 8 --amp",
        "deeplabv3p --framework paddle --case 1x4 --batch-size 2 --iterations 30 --warmup 7",
        "deeplabv3p --replicas 4 --precision fp16 --speed-option channels-last=false",
        "tsm --preset smoke --speed-option workers=2 --data synthetic-host",
        "arcface --gpus 1 --image example.org/paddle:1",
        "deeplabv3p --gpus 8 --mode train --data pvc:city --weights pvc:city/start.pth",
        "tsm --gpus 8 --mode train --data pvc:frames --epochs 5 --target none --warmup 3",
        "resnet50 --gpus 8 --mode train --data pvc:i --target 70 --to-the-end --evaluate-every 2",
        "resnet50 --gpus 8 --mode train --data pvc:imagenet --checkpoints pvc:runs",
    ],
)
def test_the_command_of_a_row_repeats_its_case(
    capsys: pytest.CaptureFixture[str], words: str
) -> None:
    plan = planned(capsys, *shlex.split(words))
    again = planned(capsys, *shlex.split(repeating.command(plan))[2:])
    assert identity.case_key(again) == identity.case_key(plan)
