"""What a collector's store takes for each run: database, logs, GPU series; no cluster is needed.

    python tests/bench/store_size.py [RUNS]

Jobs of ResNet-50 that train for ten minutes are played at our port, on 8 GPUs and on 32: their logs
are what our trainer writes, with the GPU samples of every rank each second, and a Prometheus has 14
metrics of every GPU each 15 s. The collector's own code records, archives, measures and completes
them. Printed are bytes on disk for each run, of this store (SQLite), and the processor's time.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

import msgspec

from k8sbench.adapters.metrics.trainer import TrainerSource
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.app import collect
from k8sbench.app.context import run_context
from k8sbench.model.gpu_metrics import METRICS, Fetched, Gpu, Series, SourceName, Wanted
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Run
from k8sbench.ports import LogLine, MetricSource
from k8sbench.runs import serving
from k8sbench.runs.context import Stop
from k8sbench.runs.following import FollowOptions
from k8sbench.trainers.parts import gpu_samples, lines, settings
from k8sbench.trainers.parts.events import Journal, Place
from k8sbench.trainers.parts.steps import Reading, Record, StepPlan, Window
from tests.bench.collector_memory import Played
from tests.unit.render import plans
from tests.unit.runs.played import Silent

RUNS = 20
SHAPES = ((1, 8), (4, 8))
"""Replicas, and GPUs of each."""
WARMUP, MEASURED, STEP_SECONDS, BATCH = 20, 600, 1.0, 128
SCRAPED_SECONDS = 15.0
MODEL = "Tesla V100-SXM2-32GB"


class Jobs(Played):
    """A cluster whose jobs print what our trainer prints in ten minutes."""

    def __init__(self, runs: int, replicas: int, gpus: int) -> None:
        super().__init__(runs)
        self._replicas, self._gpus = replicas, gpus

    def planned(self, run_id: str, set_name: str) -> RunPlan:
        case = f"{self._replicas}x{self._gpus}"
        return plans.plan(case, run_id=run_id, set_name=set_name)

    def lines(self, run: Run) -> Iterator[LogLine]:
        found: list[LogLine] = []
        clock = [time.time() - MEASURED - WARMUP]
        names = ["master-0", *(f"worker-{number}" for number in range(self._replicas - 1))]
        world = self._replicas * self._gpus
        defaults = settings.Defaults("resnet50", ("v15",), BATCH)
        arguments = (
            *("--benchmark=resnet50", "--variant=v15", f"--warmup={WARMUP}", "--log-interval=1"),
            *(f"--batch-size={BATCH}", "--iterations=100", "--preset=full", "--device=cuda"),
            f"--run-id={run.run_id}",
        )
        chosen, _ = settings.read("resnet50", "", defaults, None, arguments)

        def write(replica: str, text: str) -> None:
            clock[0] += 1e-6
            found.append(LogLine(replica=replica, at=clock[0], text=text))

        ranks = [
            Journal(
                chosen,
                Place(rank, rank % self._gpus, world),
                unit="images",
                write=partial(write, names[rank // self._gpus]),
                now=lambda: clock[0],
            )
            for rank in range(world)
        ]
        for rank, journal in enumerate(ranks):
            journal.start(
                framework="pytorch",
                framework_version="2.10.0",
                device="cuda",
                precision_effective="fp32",
            )
            journal.environment(
                {"host": f"node-{rank // self._gpus}", "gpu_model": MODEL, "gpu_uuid": uuid(rank)}
            )
        for step in range(1, WARMUP + MEASURED + 1):
            clock[0] += STEP_SECONDS
            record = Record(
                step=step,
                of=WARMUP + MEASURED,
                steps=1,
                seconds=STEP_SECONDS + step % 7 / 1000,
                data_seconds=0.0123,
                last_seconds=STEP_SECONDS,
                last_data_seconds=0.0123,
                total_seconds=step * STEP_SECONDS,
                total_data_seconds=step * 0.0123,
            )
            progress = lines.Progress(
                at=datetime.fromtimestamp(clock[0], UTC),
                record=record,
                batch_size_per_gpu=BATCH,
                world_size=world,
                lr=0.256,
                values={"loss": Reading(6.5, 6.0 + step / 1000, 6.0)},
            )
            ranks[0].text(lines.dle_resnet50(progress))
            ranks[0].step(record, loss=6.0 + step / 1000, lr=0.256, memory_mib=14345.5)
            if step % gpu_samples.AT_ONCE == 0:
                for rank, journal in enumerate(ranks):
                    journal.event("gpu", samples(rank, clock[0]))
        for journal in ranks:
            journal.rank([STEP_SECONDS] * MEASURED, [0.0123] * MEASURED)
        ranks[0].summary(
            StepPlan(WARMUP, MEASURED, 1),
            Window(WARMUP + 1, WARMUP + 100, 100 * STEP_SECONDS),
            steps=WARMUP + MEASURED,
            final_loss=6.0,
        )
        return iter(found)


def uuid(rank: int) -> str:
    return f"GPU-{rank:08x}-0000-0000-0000-000000000000"


def samples(rank: int, now: float) -> dict[str, object]:
    """Return what a rank's sampler writes after ten samples."""
    moments = range(gpu_samples.AT_ONCE)
    taken = [round(now - gpu_samples.AT_ONCE + number + 1, 3) for number in moments]
    values = {
        name: [round(123.456 + rank + number, decimals) for number in moments]
        for name, (_, _, _, decimals) in gpu_samples.METRICS.items()
    }
    processes = {gpu_samples.PROCESSES: [1.0] * gpu_samples.AT_ONCE}
    return {"rank": rank, "every": gpu_samples.EVERY, "at": taken, **values, **processes}


class Scraped:
    """A Prometheus that has every metric of every GPU; stands at our own port."""

    name: SourceName = "prometheus"

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus

    def follow(self, run: Run, nodes: Collection[str]) -> None:
        pass

    def release(self, run_id: str) -> None:
        pass

    def settles_in(self, wanted: Wanted) -> float:
        return 0.0

    def fetch(self, wanted: Wanted) -> Fetched:
        count = int((wanted.end - wanted.start) / SCRAPED_SECONDS) + 1
        at = tuple(wanted.start + SCRAPED_SECONDS * number for number in range(count))
        gpus = [
            Gpu(node=node, index=str(index), uuid=uuid(8 * place + index), model=MODEL, pod=pod)
            for place, (pod, node) in enumerate(wanted.nodes.items())
            for index in range(self._gpus)
        ]
        series = tuple(
            Series(
                metric=metric.id,
                gpu=gpu,
                source=self.name,
                at=at,
                values=tuple(0.90125 + number % 7 / 8 for number in range(count)),
            )
            for gpu in gpus
            for metric in [each for each in METRICS if each.dcgm][:14]
        )
        return Fetched(source=self.name, series=series)

    def close(self) -> None:
        pass


def measure(runs: int, replicas: int, gpus: int) -> None:
    """Collect so many runs and print what each takes."""
    cluster, stop = Jobs(runs, replicas, gpus), Stop()
    with tempfile.TemporaryDirectory() as folder:
        with open_store(folder) as store:
            location = Location(server="https://cluster.example", namespace="team")
            sources: list[MetricSource] = [TrainerSource(store.log_files), Scraped(gpus)]
            ticks = itertools.count(time.time(), serving.LIST_SECONDS / 10)
            context = msgspec.structs.replace(
                run_context(store, cluster, location=location, metric_sources=sources),
                clock=lambda: next(ticks),
            )
            find = partial(collect.pending_runs, context, lambda _: None, renumber=True)

            def look(places: Sequence[serving.Serving]) -> None:
                series = Path(folder).glob("runs/*/gpu/fetched.json")
                if cluster.removed >= runs and len(list(series)) >= runs:
                    stop("Enough.")

            began = time.process_time()
            with serving.Serving(find, context, Silent(), FollowOptions(), patient=True) as served:
                serving.serve([served], stop, lambda _: None, look)
            took = (time.process_time() - began) / runs
            measured = [store.run(run_id).measurement for run_id in store.ids()]
            verdict = ", ".join(sorted({each.verdict for each in measured if each is not None}))
        sizes = {"database": 0, "logs": 0, "gpu": 0, "other files": 0}
        for path in Path(folder).rglob("*"):
            if path.is_file():
                parts = path.relative_to(folder).parts
                name = parts[2] if parts[0] == "runs" else "database"
                what = name if name in sizes else "other files"
                sizes[what] += path.stat().st_blocks * 512
    each = ", ".join(f"{what} {size / runs / 1000:.0f} kB" for what, size in sizes.items())
    total = sum(sizes.values()) / runs / 1e6
    print(
        f"{replicas}x{gpus}, {runs} runs ({verdict}), each: {each}; {total:.2f} MB in all;"
        f" processor {took:.2f} s",
        flush=True,
    )


def main() -> None:
    """Measure each shape."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    for replicas, gpus in SHAPES:
        measure(runs, replicas, gpus)


if __name__ == "__main__":
    main()
