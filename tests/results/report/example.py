"""A small store for golden files, with every kind of row.

Ids and times are fixed.
"""

import itertools
from typing import Any

import msgspec

from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.errors import Finding
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.gpu_metrics import BY_ID
from k8sbench.model.measurement import GpuFigure, GpuMetrics
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.model.sample import Place
from k8sbench.results.groups.selection import Report, Wanted
from tests.results.groups.grouped import report
from tests.results.groups.rows import catalog
from tests.results.groups.spread import RESNET50
from tests.results.report.factory import START, accuracy, reject, run, smoke, throughput

MMSEG = Fingerprint(model="DeepLabV3+", parameters=43_589_878, gmac=371.7, input="3×512×1024")
PADDLESEG = Fingerprint(model="DeepLabV3P", parameters=26_794_000, gmac=228.4, input="3×512×1024")
SIDE = (688.80, 701.07, 674.42)


def gpu_metrics() -> GpuMetrics:
    """Return metrics of eight starved GPUs, without tensor core use."""
    values = {"gpu_utilization": 0.38, "memory_used": 14132.0, "power": 181.5, "throttled": 0.004}
    return GpuMetrics(
        figures={
            name: GpuFigure(
                value=value, unit=BY_ID[name].unit, source="dcgm", coverage=0.98, samples=80
            )
            for name, value in values.items()
        },
        gpus=(),
        energy_per_1000_samples=517.3,
        judgement="Input-bound: the GPUs were busy 38 % of the time while the loader took 41 % of"
        " each step.",
    )


def runs() -> list[Run]:
    """Resnet50 as published with its side runs, and the demo, and what goes wrong."""
    numbers = itertools.count(1)

    def one(rate: float | None = None, **fields: Any) -> Run:
        number = next(numbers)
        fields = {"run_id": f"resnet50-{number:03d}", "at": START + number, **fields}
        return (smoke if fields.pop("small", False) else run)(rate, **fields)  # type: ignore[arg-type]

    made: list[Run] = []
    for case, rates in (
        ("1x1", RESNET50["1x1"][0]),
        ("1x4", RESNET50["1x4"][0]),
        ("1x8", RESNET50["1x8"][0]),
    ):
        waited = {"gpu_metrics": gpu_metrics(), "data_fraction": 0.41}
        measured = waited if case == "1x8" else None
        made += [
            one(rate, case=case, repeat=n, measured=measured) for n, rate in enumerate(rates, 1)
        ]
    side = reject("gpu-count", "Its log states 2 GPUs, its plan 8.")
    for number, rate in enumerate(SIDE, 6):
        found = {"unverified": throughput(rate), "reasons": (side,)}
        made.append(one(case="1x8", repeat=number, measured=found))
    made.append(one(case="2x8", phase=Phase.RUNNING))
    made.append(one(case="4x8", phase=Phase.FAILED))
    few = Finding(
        id="too-few-records",
        severity="reject",
        sentence="4 records in the window, 5 are needed.",
        evidence=(Place(file="master-0.log", line=120, text="Iter [100/100]"),),
    )
    made.append(
        one(
            precision="amp",
            amp_dtype="fp16",
            measured={"unverified": throughput(9000.0), "reasons": (few,)},
        )
    )
    demo: dict[str, Any] = {"small": True, "benchmark": "deeplabv3p", "unit": "samples"}
    made.append(one(1.2345, variant="mmseg", fingerprint=MMSEG, **demo))
    made.append(one(0.5512, framework="paddle", variant="paddleseg", fingerprint=PADDLESEG, **demo))
    return made


def trained() -> list[Run]:
    """A run to the target accuracy, for AI-Rank's columns."""
    goal = {"accuracy": accuracy(76.63), "time_to_train_s": 137335.29}
    amp: dict[str, Any] = {"precision": "amp", "amp_dtype": "fp16", "mode": "train"}
    return [run(859.24, run_id="resnet50-t", case="1x1", measured=goal, at=START, **amp)]


def find(plan: Any) -> BenchmarkSpec:
    """The catalog of the example."""
    return msgspec.structs.replace(catalog(), name=plan.benchmark)


def made(**wanted: Any) -> Report:
    """The report of the example, with published figures."""
    return report(runs(), Wanted(**wanted), find=find, published=True)
