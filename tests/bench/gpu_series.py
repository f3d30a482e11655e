"""What GPU metrics cost: 32 GPUs × 14 metrics × 10 minutes, fetched from a real Prometheus.

A process of its own fetches them and completes a run's measurement with them, so that its processor
time and memory are ours alone, imports included. Scrapes every 15 s are usual; those of every
second show how it grows. The limits are the project's own: 2 s of processor time and 100 MB above a
Python that does nothing. Exit code 1 if one is missed. Then, without a limit, how much each of many
runs takes that one process gathers.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

import msgspec

from k8sbench.model.gpu_metrics import METRICS
from tests.harness.prometheus import Samples, Server
from tests.unit.store.examples import measurement

GPUS, PER_NODE, SECONDS = 32, 8, 600.0
FIELDS = [metric.dcgm[0].name for metric in METRICS if metric.dcgm][:14]
INTERVALS = (15.0, 1.0)
RUNS = 1000
"""Of one pod with eight GPUs each, which one process gathers."""
PROCESSOR_SECONDS, MEGABYTES = 2.0, 100.0
START = float(int(time.time()) // 7200 * 7200 - 86_400)

FETCH = """
import json, sys, time
def most():  # what getrusage says is no less than it was of the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
bare = most()
began = time.process_time()
import msgspec
from k8sbench.adapters.metrics import prometheus
from k8sbench.measure.run import gpu_metrics
from k8sbench.measure.run.gpu_judgement import Job
from k8sbench.model.gpu_metrics import Wanted
from k8sbench.model.measurement import Measurement
url, start, seconds, pods = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
measured = msgspec.json.decode(sys.stdin.buffer.read(), type=Measurement)
wanted = Wanted(
    run_id="r",
    namespace="team",
    nodes={f"r-worker-{number}": f"node-{number}" for number in range(pods)},
    start=start,
    end=start + seconds,
)
gpus, runs = int(sys.argv[5]), int(sys.argv[6])
source = prometheus.source(url, None)
fetched = time.perf_counter()
found = source.fetch(wanted)
fetched, of_fetch = time.perf_counter() - fetched, time.process_time() - began
completed = gpu_metrics.completed(measured, Job(gpus, "full"), wanted, [found])
cpu, mb = time.process_time() - began, (most() - bare) / 1024
from k8sbench.adapters.metrics import prometheus_api
asked, ask = [], prometheus_api.ask
prometheus_api.ask = lambda *words, **more: (asked.append(words), ask(*words, **more))[1]
one = Wanted(run_id="r", namespace="team", nodes={"r-worker-0": "node-0"}, start=start,
             end=start + seconds)
began = time.process_time()
for _ in range(runs):
    assert source.settles_in(one) > 0 and source.fetch(one).series
print(json.dumps({
    "wall_s": fetched,
    "cpu_s": cpu,
    "taken_together_s": cpu - of_fetch,
    "figures": len(completed.gpu_metrics.figures),
    "gpus": len(completed.gpu_metrics.gpus),
    "mb": mb,
    "each_ms": 1000 * (time.process_time() - began) / max(runs, 1),
    "requests": len(asked),
    "series": len(found.series),
    "samples": sum(len(series.at) for series in found.series),
    "missing": found.missing.get("*"),
}))
"""


def samples(every: float) -> list[Samples]:
    """The series of all GPUs, the values different from sample to sample."""
    times = [START + place * every for place in range(int(SECONDS / every) + 1)]
    found = []
    for gpu in range(GPUS):
        node = gpu // PER_NODE
        labels = {
            "gpu": str(gpu % PER_NODE),
            "UUID": f"GPU-{gpu:08x}-0000-0000-0000-000000000000",
            "device": f"nvidia{gpu % PER_NODE}",
            "modelName": "Tesla V100-SXM2-32GB",
            "Hostname": f"node-{node}",
            "job": "dcgm",
            "instance": f"10.0.0.{node}:9400",
            "namespace": "gpu-operator",
            "pod": f"dcgm-exporter-{node}",
            "exported_namespace": "team",
            "exported_pod": f"r-worker-{node}",
        }
        for place, name in enumerate(FIELDS):
            values = [(at, 90.0 + (at / every + gpu + place) % 7 / 8) for at in times]
            found.append(Samples(name, labels, values))
    return found


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    missed = 0
    for every in INTERVALS:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(pathlib.Path(folder), samples=samples(every))
            try:
                runs = RUNS if every == INTERVALS[0] else 0
                words = [server.url, START, SECONDS, GPUS // PER_NODE, GPUS, runs]
                done = subprocess.run(
                    [sys.executable, "-c", FETCH, *map(str, words)],
                    input=msgspec.json.encode(measurement()),
                    check=True,
                    capture_output=True,
                )
            finally:
                server.stop()
        took = json.loads(done.stdout)
        expected = GPUS * len(FIELDS) * (int(SECONDS / every) + 1)
        assert took["samples"] == expected, took
        assert (took["figures"], took["gpus"]) == (len(FIELDS), GPUS), took
        within = took["cpu_s"] <= PROCESSOR_SECONDS and took["mb"] <= MEGABYTES
        missed += not within
        print(
            f"every {every:.0f} s: {took['series']} series, {took['samples']} samples in"
            f" {took['wall_s']:.2f} s; processor {took['cpu_s']:.2f} s (limit"
            f" {PROCESSOR_SECONDS:.0f}), {took['taken_together_s']:.2f} s of it to take them"
            f" together; memory {took['mb']:.0f} MB (limit {MEGABYTES:.0f}):"
            f" {'ok' if within else 'MISSED'}"
        )
        if runs:
            print(
                f"{runs} runs of {PER_NODE} GPUs: {took['requests']} requests, processor"
                f" {took['each_ms']:.0f} ms for each"
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
