"""GPU metrics follow the row of a run on a real cluster; their source is ours, at the port."""

from __future__ import annotations

import contextlib
import re

from tests.harness.cluster.shell import Shell

SECONDS = 4.0
PROGRAM = f"""
import contextlib, os, runpy, sys, time
from k8sbench.app import metric_sources
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series

class Source:
    name = "prometheus"

    def follow(self, run, nodes):
        print(f"follows {{run.run_id}}", file=sys.stderr)

    def release(self, run_id):
        print(f"releases {{run_id}}", file=sys.stderr)

    def settles_in(self, wanted):
        return time.time() - wanted.end + float(os.environ.get("SETTLES_IN", {SECONDS}))

    def fetch(self, wanted):
        at = tuple(wanted.start + 0.25 * i for i in range(30))
        value = {{"gpu_utilization": 0.9, "throttled": float(os.environ.get("BITS", 0))}}
        return Fetched(source="prometheus", series=tuple(
            Series(metric=metric, gpu=Gpu(pod=pod, node=node, index="0"), source="prometheus",
                   at=at, values=(value[metric],) * 30, every=0.25)
            for pod, node in wanted.nodes.items() for metric in value))

    def close(self):
        pass

@contextlib.contextmanager
def opened(prometheus, api, store):
    yield [Source()] if prometheus != "none" else []

metric_sources.opened = opened
runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
"""
FOLLOW = re.compile(r"GPU metrics follow in \d(\.\d)?s; Ctrl-C leaves them out\.")


def test_the_row_comes_at_once_and_the_exit_code_after_the_gpu_metrics(own_shell: Shell) -> None:
    own_shell.program = ("-c", PROGRAM)
    own_shell.environment["BITS"] = str(0x40)
    logs = own_shell.logs("held")
    logs.begin()
    logs.end()
    with (
        own_shell.submitted("held") as done,
        contextlib.ExitStack() as stack,
    ):
        done.until("follows held")
        watch = stack.enter_context(own_shell.started("watch", "held"))
        watch.until("Running: ")
        own_shell.finish("held")
        for one in (done, watch):
            one.until(" valid; smoke")
            one.until("Ctrl-C leaves them out.")
            assert re.search(r"^resnet50 +2x1 .* valid; smoke", one.out, re.MULTILINE)
            assert "GPU busy" not in one.out
            assert one.process.poll() is None
        assert FOLLOW.search(done.err)
        done.ends(5)
        # By the record of the one that follows it.
        watch.ends(5)
    assert "follows held" not in watch.err
    assert watch.out == done.out
    assert re.search(
        r"^held .* 90\.0 % .* 100\.0 % .* rejected: gpu-throttled", done.out, re.MULTILINE
    )
    measured = own_shell.json("status", "held")["measurement"]
    assert measured["gpu_metrics"]["figures"]["throttled"]["source"] == "prometheus"
    gpus = [one["gpu"] for one in measured["gpu_metrics"]["gpus"]]
    assert [one["pod"] for one in gpus] == ["held-master-0", "held-worker-0"]
    assert all(one["node"].startswith("gpu-") for one in gpus)
    (row,) = own_shell.json("results")["rows"]
    assert (row["state"], row["throttled"]) == ("rejected", None)
    assert own_shell.on_cluster() == []


def test_ctrl_c_leaves_the_gpu_metrics_out_and_collecting_all_fetches_them(
    own_shell: Shell,
) -> None:
    own_shell.program = ("-c", PROGRAM)
    own_shell.environment["SETTLES_IN"] = "90"
    logs = own_shell.logs("left")
    logs.begin()
    logs.end()
    with own_shell.submitted("left") as done:
        done.until("follows left")
        own_shell.finish("left")
        done.until(" valid; smoke")
        done.until("GPU metrics follow in")
        done.interrupt().ends(0)
    assert "Fetch them with: k8sbench collect left" in done.err
    assert re.search(r"^resnet50 +2x1 .* valid; smoke", done.out, re.MULTILINE)
    assert own_shell.json("status", "left")["measurement"]["gpu_metrics"] is None
    own_shell.environment["SETTLES_IN"] = "0"
    (row,) = own_shell.json("collect", "--all")["rows"]
    assert row["gpu_utilization"] == 0.9


def test_who_watches_does_not_wait_for_one_that_was_killed(own_shell: Shell) -> None:
    own_shell.program = ("-c", PROGRAM)
    own_shell.environment["SETTLES_IN"] = "3600"
    logs = own_shell.logs("alone")
    logs.begin()
    logs.end()
    with (
        own_shell.submitted("alone") as done,
        contextlib.ExitStack() as stack,
    ):
        done.until("follows alone")
        watch = stack.enter_context(own_shell.started("watch", "alone"))
        watch.until("Running: ")
        own_shell.finish("alone")
        watch.until("Ctrl-C leaves them out.")
        done.kill()
        watch.ends(0)
    assert re.search(r"^resnet50 +2x1 .* valid; smoke", watch.out, re.MULTILINE)
    assert own_shell.json("status", "alone")["measurement"]["missing"]["gpu_metrics"] == (
        "They have not been fetched. Fetch them with: k8sbench collect alone"
    )


def test_without_a_source_there_is_nothing_to_wait_for(own_shell: Shell) -> None:
    own_shell.program = ("-c", PROGRAM)
    logs = own_shell.logs("none")
    logs.begin()
    logs.end()
    with own_shell.submitted("none", "--prometheus=none", "--output=json") as done:
        done.until("Running: ")
        own_shell.finish("none")
        done.ends()
    assert "GPU metrics" not in done.err
    measured = own_shell.json("status", "none")["measurement"]
    assert measured["missing"]["gpu_metrics"] == "No source of GPU metrics was queried."
