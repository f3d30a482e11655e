"""``watch --gpu`` looks at a run of a real cluster, and leaves it alone."""

from __future__ import annotations

from tests.cluster.test_gpu_metrics import PROGRAM
from tests.harness.cluster.shell import Shell, until


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
        drawn.until_drawn(r"master-0 +0 +gpu-\d +90% ")
        drawn.until_drawn(r"worker-0 +0 +gpu-\d +90% ")
        drawn.interrupt().ends(130)
    assert "Come back with: k8sbench watch live" in drawn.out
    assert "releases live" in drawn.out

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
