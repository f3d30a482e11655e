"""A row on a real cluster waits for its GPU metrics.

Their source is a fake at the port.
"""

import re

from tests.harness.cluster import metric_source
from tests.harness.cluster.shell import Shell

PROGRAM = f"""
def metrics(node):
    return {{"throttled": [{0x40}.0] * 30}}
MISSING = {{}}
{metric_source.PROGRAM}"""


def test_the_row_and_the_exit_code_come_with_the_gpu_metrics(own_shell: Shell) -> None:
    answers = own_shell.folder / "answers"
    own_shell.program = ("-c", PROGRAM)
    own_shell.environment["ANSWERS"] = str(answers)
    own_shell.logs("held").begin().end()
    with own_shell.submitted("held") as done:
        done.until("Running: ")
        with own_shell.started("watch", "held") as watch:
            watch.until("Running: ")
            own_shell.finish("held")
            done.until("Ctrl-C leaves them out.")
            assert re.search(r"measured .*, valid, smoke", done.err)
            # It does not wait for what the other process fetches, and says so.
            watch.ends()
        assert "The GPU metrics of held are not recorded yet." in watch.err
        assert (done.out, done.process.poll()) == ("", None)
        answers.touch()
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
