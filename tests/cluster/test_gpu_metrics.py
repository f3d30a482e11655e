"""A row on a real cluster waits for its GPU metrics; their source is ours, at the port."""

from __future__ import annotations

import contextlib
import re

from tests.harness.cluster import metric_source
from tests.harness.cluster.shell import Shell, until

METRICS = """
import os
def metrics(node):
    return {"gpu_utilization": [0.9] * 30, "throttled": [float(os.environ.get("BITS", 0))] * 30}
MISSING = {}
"""
PROGRAM = METRICS + metric_source.PROGRAM
"""Its environment says the bits by which GPUs are throttled, which are none otherwise."""
FOLLOW = re.compile(r"GPU metrics follow in \d(\.\d)?s; Ctrl-C leaves them out\.")


def test_the_row_and_the_exit_code_come_with_the_gpu_metrics(own_shell: Shell) -> None:
    own_shell.program = ("-c", PROGRAM)
    own_shell.environment |= {"BITS": str(0x40), "SETTLES_IN": "4"}
    own_shell.logs("held").begin().end()
    with (
        own_shell.submitted("held") as done,
        contextlib.ExitStack() as stack,
    ):
        done.until("Running: ")
        watch = stack.enter_context(own_shell.started("watch", "held"))
        watch.until("Running: ")
        own_shell.finish("held")
        done.until("Ctrl-C leaves them out.")
        assert re.search(r"measured .*, valid, smoke", done.err)
        assert done.out == ""
        assert done.process.poll() is None
        assert FOLLOW.search(done.err)
        # It does not wait for what the other process fetches, and says so.
        watch.ends()
        assert "The GPU metrics of held are not recorded yet." in watch.err
        done.ends(5)
    assert "gpu-throttled (held): " in done.out
    measured = own_shell.json("status", "held")["measurement"]
    assert measured["gpu_metrics"]["figures"]["throttled"]["source"] == "prometheus"
    gpus = [one["gpu"] for one in measured["gpu_metrics"]["gpus"]]
    assert [one["pod"] for one in gpus] == ["held-master-0", "held-worker-0"]
    assert all(one["node"].startswith("gpu-") for one in gpus)
    (row,) = own_shell.json("results")["rows"]
    assert (row["state"], row["throttled"]) == ("rejected", None)
    assert own_shell.on_cluster() == []


def test_watch_gpu_shows_a_run_that_goes_on_and_only_looks(own_shell: Shell) -> None:
    logs = own_shell.printing("live")
    until(
        lambda: (own_shell.json("status", "live")["on_cluster"] or {}).get("phase") == "Running",
        "it runs",
    )
    # Nothing of this cluster has GPU metrics.
    with own_shell.started("watch", "live", "--gpu") as piped:
        piped.until("No GPU metrics: ")
        piped.interrupt().ends(130)
    own_shell.program = ("-c", PROGRAM)
    with own_shell.started("watch", "live", "--gpu", columns=80) as drawn:
        drawn.until_drawn(r"Running .* · step 6/12 · 16 samples/s")
        drawn.until_drawn(r"master-0 +0 +gpu-\d +90 % ")
        drawn.until_drawn(r"worker-0 +0 +gpu-\d +90 % ")
        drawn.interrupt().ends(130)
    assert "Come back with: k8sbench watch live" in drawn.out

    # A foreign run, whose job alone is known.
    colleague = own_shell.colleague()
    colleague.program = ("-c", PROGRAM)
    with colleague.started("watch", "live", "--gpu") as piped:
        piped.until("step 6/12")
        piped.interrupt().ends(130)
    assert "master-0" in piped.out
    assert colleague.json("list") == []
    logs.end()
    own_shell.finish("live")
    own_shell.run("collect", "live", "--prometheus=none")
    assert own_shell.on_cluster() == []
