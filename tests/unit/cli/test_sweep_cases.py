"""Cases of a sweep, their order, and named exclusions."""

import importlib.util
import os

import pytest

from k8sbench.adapters.local import cluster
from k8sbench.app import submit
from k8sbench.app.submission import Submission
from k8sbench.diagnose.preflight.nodes import refusal, room
from k8sbench.model.errors import DoesNotFit
from k8sbench.model.plan import RunPlan
from tests.unit.cli.conftest import Told
from tests.unit.command_line import Cli
from tests.unit.doctor.clusters import node, request

HERE = ("--backend=local", "--dry-run")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two cores, 6 GiB and no GPU, wherever this runs."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(cluster, "free_memory_gib", lambda: 6.0)
    monkeypatch.setattr(
        cluster, "machine_gpus", lambda: cluster.Inventory(gpus=(), reason="there is none")
    )


def test_cases_that_cannot_run_are_named_and_left_out_golden(told: Told) -> None:
    """One that was asked for by its name is an error."""
    words = (
        *("deeplabv3p --all-cases", "deeplabv3p --replicas=4 --gpus=8", "resnet50 --replicas=3"),
        "resnet50 --replicas=3 --preset=full",
    )
    lines = (f"submit {each} {' '.join(HERE)}" for each in (*words, "all --framework=paddle"))
    told("sweeps", lines, data=False)


def test_all_benchmarks_skip_a_missing_framework(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    there = {"torch": object()}
    monkeypatch.setattr(importlib.util, "find_spec", there.get)
    planned: list[RunPlan] = []

    def run(submission: Submission, *_: object) -> None:
        planned.extend(case.draft for case in submission.planned)
        raise DoesNotFit("Far enough.")

    monkeypatch.setattr(submit, "run", run)
    err = cli("submit", "all", "--backend=local", code=2).err
    assert {plan.benchmark for plan in planned} == {"deeplabv3p", "gpt", "resnet50", "tsm"}
    assert "left out: arcface paddle 1x1-cpu: paddle is not installed." in err
    planned.clear()
    err = cli("submit", "arcface", "--backend=local", code=2).err
    assert "error: arcface paddle 1x1-cpu: paddle is not installed." in err
    assert "left out" not in err, "it is said once"
    assert planned == []


def test_room_is_counted_in_replicas_on_empty_nodes_and_one_without_says_why() -> None:
    nodes = [node("a"), node("b", gpus="4"), node("c", ready="False")]
    assert room(nodes, request()) == 1
    assert room(nodes, request("1x4")) == 2
    assert room(nodes, request("1x4", pack=True)) == 3
    assert room([], request()) == 0
    assert refusal(node("a"), request()) is None
    assert refusal(node("a", ready="False"), request()) == "not ready"
    assert refusal(node("a", gpus="4"), request()) == ("offers 4 of nvidia.com/gpu, 8 are needed")
