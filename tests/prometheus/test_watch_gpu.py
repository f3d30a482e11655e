"""``watch --gpu`` with a Prometheus that scrapes during the run."""

import time

import msgspec

from k8sbench.lifecycle.live import LiveMetrics
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location
from tests.harness.prometheus import wait
from tests.prometheus.conftest import Expose, Start
from tests.prometheus.examples import NAMESPACE, PODS, UUIDS, opened
from tests.prometheus.test_live import GPU, Gpus, exposed, scraping
from tests.unit.cli import live_runs
from tests.unit.cli.live_runs import moved, replica


def test_the_latest_scrape_is_what_the_gpus_do_now(start: Start, expose: Expose) -> None:
    gpus = Gpus()
    theirs = Gpus({**GPU, "gpu": "1", "UUID": UUIDS[1], "pod": "other-master-0"})
    server = start(scrape=scraping(exposed(expose(), gpus), exposed(expose(), theirs)))
    run = msgspec.structs.replace(
        live_runs.run("r50", device="cuda"),
        location=Location(server="https://cluster.example", namespace=NAMESPACE),
    )
    assert f"{run.plan.job_name}-master-0" == PODS[0]
    source = opened(server.url)
    events = [moved(Phase.RUNNING), replica("master-0", Phase.RUNNING, node="node-0")]

    def now() -> list[tuple[str | None, str | None, float]]:
        metrics = LiveMetrics(run, [source], time.time)
        metrics.take(events, lambda _: None)
        metrics.read()
        return [
            (one.gpu.pod, one.gpu.index, one.metrics["gpu_utilization"].value)
            for one in metrics.gpus()[0]
        ]

    wait(lambda: now() == [(PODS[0], "0", 0.9)], "the first scrape")
    gpus.values["DCGM_FI_DEV_GPU_UTIL"] = 12.0
    wait(lambda: now() == [(PODS[0], "0", 0.12)], "the next scrape")
