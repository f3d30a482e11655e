"""``results -o html`` and ``--lang``, and each row's command on the page."""

import pathlib
import shlex

import msgspec
import pytest

from k8sbench.app import reports
from k8sbench.model import identity, names
from k8sbench.model.plan import RunPlan
from k8sbench.results.groups import grouping
from k8sbench.results.report import group_words
from k8sbench.store.open_store import open_store
from tests.results.report import parsed
from tests.results.report.factory import START, run
from tests.tiers import ROOT
from tests.unit.cli.conftest import Fill, Typed
from tests.unit.command_line import Cli
from tests.unit.store.examples import archive


def is_drawn(run_id: str, page: str) -> bool:
    """True if a page has the chart of a run over time."""
    return any(name.startswith(f"{run_id}: ") for name in parsed.images(parsed.tree(page)))


def test_the_page_draws_its_runs(fill: Fill, typed: Typed, root: pathlib.Path) -> None:
    fill([run(2.0, run_id="seen", at=START)])
    lines = (ROOT / "tests/fixtures/logs/k8sbench_master.log").read_text().splitlines()
    with open_store(str(root)) as store:
        archive(store, *lines, run_id="seen", at=START)
    code, out, err = typed("results", "-o", "html")
    assert (code, err) == (0, "")
    assert out.startswith("<!doctype html>")
    assert "k8sbench submit resnet50" in out
    assert str(root) not in out
    assert is_drawn("seen", out)
    (root / "runs" / "seen" / "run.json").unlink()
    code, out, err = typed("results", "-o", "html")
    assert code == 0
    assert len(parsed.unfolding(parsed.tree(out))) == 1
    assert not is_drawn("seen", out)
    assert "warning: without the steps of seen: " in err


def test_of_a_row_the_last_run_that_counts_is_drawn() -> None:
    of_row = [run(2.0, repeat=1), run(2.1, repeat=2), run(measured={}, repeat=3)]
    (group,) = grouping.groups(of_row)
    assert reports.last(group).run_id == of_row[1].run_id
    (rejected,) = grouping.groups([of_row[2], run(measured={}, repeat=4)])
    assert reports.last(rejected).repeat == 4


def test_the_page_has_published_figures_if_they_are_asked_for(fill: Fill, typed: Typed) -> None:
    fill([run(2.0, run_id="seen", at=START)])
    for words, count in (((), 0), (("--published",), 1)):
        _, out, _ = typed("results", "-o", "html", *words)
        assert parsed.texts(parsed.tree(out).iter("th")).count("published") == count


def planned(cli: Cli, words: str) -> RunPlan:
    items = cli.json("render", *shlex.split(words), "-o", "json")["items"]
    job = next(one for one in items if one["kind"] in ("PyTorchJob", "PaddleJob"))
    return msgspec.json.decode(job["metadata"]["annotations"][names.PLAN_ANNOTATION], type=RunPlan)


@pytest.mark.parametrize(
    "words",
    [
        "resnet50 --replicas 2 --gpus 8 --amp",
        "deeplabv3p --framework paddle --gpus 4 --batch-size 2 --iterations 30 --warmup 7",
        "deeplabv3p --replicas 4 --precision fp16 --speed-option channels-last=false",
        "tsm --preset smoke --speed-option workers=2 --data synthetic-host",
        "arcface --gpus 1 --image example.org/paddle:1",
        "deeplabv3p --gpus 8 --mode train --data pvc:city --weights pvc:city/start.pth",
        "tsm --gpus 8 --mode train --data pvc:frames --epochs 5 --target none --warmup 3",
        "resnet50 --gpus 8 --mode train --data pvc:i --target 70 --to-the-end --evaluate-every 2",
        "resnet50 --gpus 8 --mode train --data pvc:imagenet --checkpoints pvc:runs",
    ],
)
def test_the_command_of_a_row_repeats_its_case(cli: Cli, words: str) -> None:
    plan = planned(cli, words)
    again = planned(cli, group_words.command(plan).removeprefix("k8sbench submit "))
    assert identity.case_key(again) == identity.case_key(plan)
