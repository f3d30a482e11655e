"""Groups of runs that the reader measured: copies of logs, and the logs of a published folder."""

from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.run import Run
from k8sbench.reader.measuring.recorded import measure_run
from tests.reader.measuring import copied_logs
from tests.reader.measuring.copied_logs import TWO_HOURS, varied
from tests.reader.measuring.support import Lines
from tests.results.groups.group_members import only
from tests.results.groups.spread import RESNET50
from tests.results.report import factory
from tests.results.report.factory import changed, run

SIDE = (688.80, 701.07, 674.42, 672.63, 690.0)
"""Rates of side runs in the published resnet50 1x8 folder; upstream averaged three."""


def test_neither_a_copy_nor_the_log_of_another_rank_counts() -> None:
    logs = [
        copied_logs.log(varied(1)),
        copied_logs.log(varied(1), at=TWO_HOURS),
        copied_logs.log(varied(2)),
        copied_logs.log(varied(3), seed=3, at=2 * TWO_HOURS),
    ]
    names = ("log_digest", "losses_digest", "window")
    runs = [
        factory.run(100.0 + n, repeat=n, measured={name: getattr(found, name) for name in names})
        for n, found in enumerate(logs, 1)
    ]
    found = {
        member.repeat: [reason.id for reason in member.reasons] for member in only(runs).members
    }
    twice = ["log-counted-twice"]
    assert found == {1: [], 2: twice, 3: twice, 4: []}


def log(rate: float, gpus: int) -> Lines:
    """Return a steady DeepLearningExamples log: 130 iterations, 128 images per GPU."""
    head = "arch : resnet50  batch_size : 128  print_freq : 1  prof : -1  amp : False"
    lines = [f"DLL 2026-03-02 10:00:00.000000 - PARAMETER {head}  world_size : {gpus} "]
    for iteration in range(1, 131):
        minutes, seconds = divmod(iteration * 128 * gpus / rate, 60)
        lines.append(
            f"DLL 2026-03-02 10:{minutes:02.0f}:{seconds:09.6f} - Epoch: 0 Iteration: {iteration}  "
            f"train.loss : 6.90000  train.total_ips : {rate:.2f} img/s"
        )
    return Lines(lines)


def upstreams(rates: Sequence[float], *, gpus: int, first: int = 1) -> list[Run]:
    """Return upstream's runs, planned for 8 GPUs, measured from their logs."""
    planned: dict[str, Any] = {"impl": "upstream", "trainer": None, "log": "dle-resnet50"}
    made = [run(unmeasured=True, repeat=n, **planned) for n, _ in enumerate(rates, first)]
    return [
        changed(each, measurement=measure_run(each, [log(rate, gpus)]))
        for each, rate in zip(made, rates, strict=True)
    ]


@pytest.mark.parametrize("estimator", ["time_weighted", "timestamps"])
def test_the_published_1x8_folder_gives_the_median_of_five_runs(estimator: str) -> None:
    """The folder's ten logs; side runs state fewer GPUs."""
    group = only([*upstreams(SIDE, gpus=2, first=6), *upstreams(RESNET50["1x8"][0], gpus=8)])
    assert group.spread is not None
    assert group.spread.median == pytest.approx(2806.66)
    assert round(group.spread.mean, 2) == 2810.55
    assert (group.counted, len(group.members)) == (5, 10)
    assert round(group.by_estimator[estimator], 2) == 2806.66
    left_out = [m for m in group.members if m.rate is None]
    assert [round(m.unverified or 0, 2) for m in left_out] == list(SIDE)
    ids = [{reason.id for reason in m.reasons} for m in left_out]
    assert all("gpu-count" in each for each in ids)
    assert group.reasons == ()
