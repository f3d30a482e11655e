"""Logs of our own trainers, with a master and a worker."""

import json
from typing import Any

from k8sbench.model.measurement import Measurement
from k8sbench.model.plan import PlannedWindow
from k8sbench.model.pool import CPU_POOL
from k8sbench.reader.measuring import expectation
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.support import Lines, lines_of
from tests.unit.model.plans import plan

PLAN = plan(
    "2x1-cpu",
    run_id="deeplabv3p-260302-100000-x7k2qd",
    set_name="s",
    benchmark="deeplabv3p",
    variant="mmseg",
    precision="amp",
    amp_dtype="bf16",
    batch_size=4,
    preset="smoke",
    window=PlannedWindow(
        warmup=4, iterations=8, log_interval=1, min_steady_seconds=0.0, rule="ours"
    ),
    log="mmseg",
    unit="samples",
    trainer="deeplabv3p_pytorch",
    options={},
    image=None,
    pool=CPU_POOL,
    backend="local",
)
MASTER, WORKER = lines_of("k8sbench_master.log"), lines_of("k8sbench_worker.log")


def edited(lines: list[str], event: str, **changes: Any) -> list[str]:
    """Return lines with one event's fields changed; None removes a field."""
    found = []
    for line in lines:
        head, mark, body = line.partition("K8SBENCH ")
        if mark and (fields := json.loads(body))["event"] == event:
            fields = {k: v for k, v in (fields | changes).items() if v is not None}
            line = f"{head}{mark}{json.dumps(fields)}"  # noqa: PLW2901
        found.append(line)
    return found


def both(
    master: list[str] | None = None,
    worker: list[str] | None = None,
    expected: Expectation | None = None,
) -> Measurement:
    logs = [Lines(master or MASTER, "master-0.log"), Lines(worker or WORKER, "worker-0.log")]
    return measure(logs, expected or expectation.from_plan(PLAN))
