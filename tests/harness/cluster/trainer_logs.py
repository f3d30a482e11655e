"""Output of our trainer, written as the logs of a run's pods."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from k8sbench.trainers.parts import settings
from k8sbench.trainers.parts.events import Journal, RankPlace
from k8sbench.trainers.parts.steps import RankWindow, StepPlan, StepRecord
from tests.harness.cluster import pod_logs
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import log_text

WARMUP, MEASURED = 2, 10
"""Steps of resnet50's smoke preset."""
BATCH = 4
STEP_SECONDS = 0.5
RATE = 16.0
"""Samples per second of two GPUs with these."""
PARAMETERS = 25_557_032


class TrainerLogs:
    """The logs of replicas that train ``resnet50``, one GPU each: two, and ``--preset smoke``."""

    def __init__(
        self,
        namespace: Namespace,
        run_id: str,
        folder: Path,
        *,
        replicas: int = 2,
        preset: str = "smoke",
        step_seconds: float = STEP_SECONDS,
        proxy: FaultProxy | None = None,
    ) -> None:
        self.expected: dict[str, list[str]] = {}
        """All that was written so far, by replica."""
        self._step_seconds = step_seconds
        names = namespace.cluster.kind.names(replicas)
        self.files = {name: folder / f"{run_id}-{name}.log" for name in names}
        # Long ago enough that a whole run has passed since.
        self._now = time.time() - 60.0
        arguments = (
            "--benchmark=resnet50", "--variant=dle", f"--batch-size={BATCH}", f"--warmup={WARMUP}",
            f"--iterations={MEASURED}", "--log-interval=1", f"--preset={preset}", "--device=cuda",
            f"--run-id={run_id}",
        )  # fmt: skip
        defaults = settings.Defaults("resnet50", ("dle",), BATCH)
        chosen, _ = settings.read("resnet50", "", defaults, None, arguments)
        self._journals = {
            name: Journal(
                chosen,
                RankPlace(rank, 0, replicas),
                unit="samples",
                write=lambda line, name=name: self._write(name, line),  # type: ignore[misc]
                now=lambda: self._now,
            )
            for rank, name in enumerate(self.files)
        }
        for file in self.files.values():
            file.touch()
        pod_logs.serve(namespace, run_id, self.files, proxy)

    def again(self, step_seconds: float) -> Self:
        """Begin another attempt's log, in another file."""
        self._step_seconds = step_seconds
        for name, file in self.files.items():
            self.files[name] = file.with_stem(f"{file.stem}-again")
            self.files[name].touch()
        return self

    def begin(self, steps: int = 6) -> Self:
        """Write what stands there when so many steps are done."""
        for rank, journal in enumerate(self._journals.values()):
            journal.start(
                framework="pytorch",
                framework_version="2.10.0",
                device="cuda",
                precision_effective="fp32",
            )
            gpu = {"gpu_model": "Tesla V100-SXM2-32GB", "gpu_uuid": f"GPU-{rank}"}
            journal.event("environment", {"rank": rank, "host": f"gpu-{rank}", **gpu})
        self._steps(1, steps)
        return self

    def end(self, after: int = 6) -> Self:
        """Write the rest, after so many steps."""
        self._steps(after + 1, WARMUP + MEASURED)
        for journal in self._journals.values():
            journal.rank([self._step_seconds] * MEASURED)
        next(iter(self._journals.values())).summary(
            StepPlan(WARMUP, MEASURED, 1),
            RankWindow(WARMUP + 1, WARMUP + MEASURED, MEASURED * self._step_seconds),
            steps=WARMUP + MEASURED,
            parameters=PARAMETERS,
            precision_effective="fp32",
            sync_bn=False,
            norm="BatchNorm",
            final_loss=6.0,
            max_memory_mib=900.0,
            machine=None,
        )
        return self

    def _steps(self, first: int, last: int) -> None:
        for step in range(first, last + 1):
            self._now += self._step_seconds
            record = StepRecord(
                step=step,
                of=WARMUP + MEASURED,
                steps=1,
                seconds=self._step_seconds,
                data_seconds=0.01,
            )
            next(iter(self._journals.values())).step(record, loss=7.0, lr=0.1, memory_mib=900.0)

    def _write(self, replica: str, line: str) -> None:
        self.expected.setdefault(replica, []).append(line)
        # A runtime stamps each line; no two of one container at the same moment.
        self._now += 0.000_01
        with self.files[replica].open("a") as file:
            file.write(log_text([line], datetime.fromtimestamp(self._now, UTC)))
