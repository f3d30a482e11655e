"""The steady part of a run: warm-up's end to last step."""

import json

from k8sbench.model.measurement import SteadyPart
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.measuring import measure
from tests.reader.measuring.support import Lines, measured, mmseg
from tests.unit.presence import present

TEN = 1772445600.0
"""2026-03-02 10:00:00 UTC."""


def ours(event: str, **fields: object) -> str:
    return f"2026-03-02T11:00:00.000000Z K8SBENCH {json.dumps({'event': event, **fields})}"


def own_log(steps: int, rank: int = 0) -> list[str]:
    start = {"rank": rank, "world_size": 2, "batch_size_per_gpu": 4, "warmup": 4, "iterations": 8}
    lines = [
        ours("start", impl="k8sbench", device="cuda", **start),
        ours("environment", rank=rank, gpu_uuid=f"GPU-aaaa-{rank}"),
    ]
    if rank:
        return lines
    return lines + [
        ours("step", step=k, steps=1, seconds=2.0, loss=1.0, time=TEN + 2.0 * k)
        for k in range(1, steps + 1)
    ]


def test_it_goes_on_after_the_window_to_the_last_step_and_knows_every_ranks_gpu() -> None:
    logs = [Lines(own_log(90), "master-0.log"), Lines(own_log(90, 1), "worker-0.log")]
    found = measure(logs, Expectation(format="k8sbench"))
    assert found.window is not None
    assert (found.window.first_iteration, found.window.last_iteration) == (5, 12)
    assert found.steady == SteadyPart(
        started_at=TEN + 8, ended_at=TEN + 180, gpu_uuids=("GPU-aaaa-0", "GPU-aaaa-1")
    )


def test_of_other_programs_it_is_of_the_times_at_which_lines_were_received() -> None:
    # The program prints local time, eight hours ahead of what the lines were received at.
    lines = [
        f"2026-03-02T02:00:{10 + i:02d}.500000Z {mmseg(i, at=i, total=20)}" for i in range(1, 21)
    ]
    found = measured(lines, warmup=5)
    assert present(found.window).ended_at == TEN + 20
    received = TEN - 8 * 3600 + 10.5
    assert found.steady == SteadyPart(started_at=received + 5, ended_at=received + 20)
    whole = present(measured(lines, warmup=0).steady)
    assert whole.started_at == received + 1


def test_without_known_times_there_is_none_and_a_reason() -> None:
    found = measured([mmseg(i, at=i, total=20) for i in range(1, 21)], warmup=5)
    assert found.steady is None
    assert found.missing["steady"] == "No line's time is known."
    assert found.missing["gpu_metrics"] == "no source of GPU metrics was asked"
