"""``submit --mode train`` on real nodes: a training goes on from its checkpoint on the claim."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import volumes
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.node import image
from tests.harness.node.cluster import NodeCluster
from tests.tiers import ROOT

EPOCHS = 10


@pytest.fixture
def folder(trained_in: Namespace, tmp_path: Path) -> Iterator[Path]:
    """Give the folder of this machine that the claim ``training`` stands for; it holds a set."""
    made = volumes.shared(tmp_path / "volume")
    program = (sys.executable, "-m", "k8sbench.trainers.prepare_data", "make-sample", "imagenet")
    subprocess.run([*program, str(made / "imagenet")], check=True, cwd=ROOT, capture_output=True)
    volumes.shared(made / "checkpoints")
    with volumes.claimed(trained_in, "training", made):
        yield made


def events(lines: list[str], name: str) -> list[dict[str, Any]]:
    found = (json.loads(line[len("K8SBENCH ") :]) for line in lines if line.startswith("K8SBENCH "))
    return [event for event in found if event["event"] == name]


@pytest.mark.soak
def test_a_training_goes_on_from_its_checkpoint_when_a_pod_is_killed(
    node_cluster: NodeCluster, trained_in: Namespace, folder: Path, tmp_path: Path
) -> None:
    shell = Shell(trained_in, trained_in.user(tmp_path), tmp_path / "shell")
    what = ("resnet50", "--mode=train", "--preset=smoke", "--replicas=2", f"--epochs={EPOCHS}")
    claims = ("--data=pvc:training/imagenet", "--checkpoints=pvc:training/checkpoints")
    site = (f"--pools={node_cluster.pools}", f"--image={image.PYTHON}", "--run-id=run")
    with shell.started("submit", *what, *claims, *site, "--to-the-end") as submit:
        until(lambda: [*folder.glob("checkpoints/run/step-*")], "the first checkpoint")
        first = trained_in.get("pod", "run-worker-0")["metadata"]["uid"]
        trained_in.kubectl("delete", "pod", "run-worker-0", "--force", "--grace-period=0")
        submit.until("Attempt 2 of 4")
        submit.ends()
    assert first
    status = shell.json("status", "run")
    assert [step["cause_id"] for step in status["history"]].count("restarting") == 1
    lines = shell.archived("run")
    # Both attempts are in one log: the second goes on from a step of the first.
    assert len(events(lines, "start")) == 2
    (resumed,) = events(lines, "resume")
    saved = [event["step"] for event in events(lines, "checkpoint")]
    assert resumed["step"] in saved
    evaluated = [round(event["epoch"]) for event in events(lines, "evaluation")]
    assert evaluated[-1] == EPOCHS
    assert sorted(set(evaluated)) == [*range(1, EPOCHS + 1)]
    measured = status["measurement"]
    assert measured["verdict"] == "valid", measured["reasons"]
    assert (measured["restarts"], measured["mode"]) == (1, "train")
    assert measured["accuracy"]["evaluations"] == EPOCHS
    assert re.search(r"^resnet50 .*2x1-cpu", shell.run("results").out, re.MULTILINE)
    # Nothing is left but what the claim keeps: the last checkpoints.
    until(lambda: not shell.on_cluster("pods"), "the end of the pods")
    assert 1 <= len([*folder.glob("checkpoints/run/step-*")]) <= 2
