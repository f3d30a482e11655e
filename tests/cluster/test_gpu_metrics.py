"""A row on a real cluster waits for its GPU metrics.

Their source is a fake at the port.
"""

import contextlib
import re

from tests.harness.cluster import metric_source
from tests.harness.cluster.shell import Shell

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
