"""GPU metrics of a run on a node, from its program and Prometheus."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.node import faults
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import GATE, POOL, Programs, variant

RUN, NODE, UUID = "trains", "node-0", "GPU-0"
TRAINS = f"""
import itertools, json, threading, time
def say(**event):
    print("K8SBENCH " + json.dumps(event), flush=True)
{GATE}
opened = threading.Event()
threading.Thread(target=lambda: (wait_at_gate(), opened.set()), daemon=True).start()
say(event="environment", rank=0, pod="{RUN}-master-0", gpu_uuid="{UUID}", gpu_model="Tesla T4")
for number in itertools.count(1):
    print("step", number, 5.0, flush=True)
    say(event="gpu", rank=0, every=0.5, at=[time.time()], throttled=[0x40], temperature=[61])
    if opened.wait(0.5):
        break
"""
"""Program that prints our trainers' samples until its gate opens."""
STEPS = 8
"""Further steps of the program after its gate opened."""


@pytest.fixture
def programs(node_cluster: NodeCluster, namespace: Namespace, tmp_path: Path) -> Iterator[Programs]:
    """Yield a GPU node's program; its user may only run jobs."""
    shell = Shell(namespace, namespace.user(tmp_path), tmp_path / "shell")
    found = Programs(shell, **{RUN: variant(TRAINS)})
    selector = {"nvidia.com/gpu.product": faults.GPU_PRODUCT}
    pool = {**POOL, "name": "gpu", "gpus_per_node": 1, "gpu_model": "Tesla T4"}
    pools = {"default": "gpu", "pools": [{**pool, "selector": selector}]}
    shell.pools.write_text(json.dumps(pools))
    with faults.gpu(node_cluster, NODE):
        yield found


def test_the_programs_samples_are_in_the_row(programs: Programs) -> None:
    shell = programs.shell

    def steps() -> int:
        return shell.namespace.kubectl("logs", f"{RUN}-master-0").count("step ")

    with shell.started(*programs.words(RUN)) as submit:
        submit.until("step 2")
        with shell.started("watch", RUN) as watch:
            before = steps()
            until(lambda: steps() >= before + STEPS, "the program goes on")
            programs.open_gate(RUN)
            # A GPU that was held down gives no valid row, unless somebody accepts it.
            submit.ends(5)
            watch.ends(0, 5)  # 0: the run closed before `submit` had recorded the metrics

    accepted = ("results", "--accept=gpu-throttled")
    (row,) = shell.json(*accepted)["rows"]
    assert row["throttled"] == 1.0
    figure = row["members"][0]["gpu"]["throttled"]
    assert (figure["source"], figure["codes"]) == ("trainer", [0x40])
    assert figure["samples"] >= STEPS
    assert 0.5 < figure["coverage"] <= 1
    assert re.search(r" 100\.0 % ", shell.run(*accepted, "-o", "wide").out)
