"""Reports of the five published benchmarks, from logs in the form of their programs.

Each example has the points of its published page. A report has the texts of a point, unless the
point is among the lacking ones, with the reason.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from k8sbench.cli.main import main
from tests.unit.report import published_logs as logs

MOST_LACKING = 0.1
SPREAD = (0.9992, 1.0007, 1.0, 0.9996, 1.0004)
"""Five runs ÷ their median."""
CASES = {1: "1x1", 4: "1x4", 8: "1x8", 16: "2x8", 32: "4x8"}


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """Logs, what people know of them, and the points of the published page."""

    imports: tuple[tuple[str, ...], ...]
    """The log's text and the options of its import."""
    benchmark: str
    environment: str
    notes: str
    points: Mapping[str, tuple[str, ...]]
    """Point → texts of the README."""
    lacking: Mapping[str, str] = {}
    """Point → why a report does not have it."""


V100_32 = ("--gpu-model", "Tesla V100-SXM2-32GB")
V100_16 = ("--gpu-model", "Tesla V100-SXM2-16GB")
MD5 = "37724b19b6e5d41f9f147936d60b3c29"
TRAINED = {8000 * n: 60.0 + n for n in range(1, 11)} | {64000: 78.5}


def _options(gpus: int, precision: str, batch: int | None = None) -> tuple[str, ...]:
    given = ("--case", CASES[gpus], "--precision", precision)
    return given if batch is None else (*given, "--batch-size", str(batch))


def _mmseg(
    gpus: int, rate: float, batch: int, amp: bool = False, **more: object
) -> tuple[str, ...]:
    text = logs.mmseg(gpus, rate, batch, amp=amp, **more)  # type: ignore[arg-type]
    return (text, *_options(gpus, "amp" if amp else "fp32"))


DEEPLAB = Example(
    benchmark="deeplabv3p",
    imports=(
        _mmseg(1, 4.073, 2),
        _mmseg(8, 29.74, 2),
        _mmseg(16, 49.23, 2),
        _mmseg(32, 81.01, 2),
        _mmseg(1, 8.33, 4, amp=True),
        _mmseg(
            8,
            46.4,
            4,
            amp=True,
            waits=0.21,
            iterations=80000,
            accuracies=TRAINED,
            reached_after=44338.456,
        ),
        _mmseg(16, 103.2, 4, amp=True),
        _mmseg(32, 182.07, 4, amp=True, accuracies={600: 77.3}),
    ),
    environment="""
machine: 4 nodes with 8 GPUs each, NVLink
network: InfiniBand, 100 Gbit/s
container: NVIDIA/DeepLearningExamples 99b1c898, PyTorch/Segmentation
driver: 450.80.02
os: Ubuntu 18.04
""",
    notes="# Set-up\n\nCityscapes lies on a local disk.\n",
    points={
        "1 title": ("# DeepLabV3+ on PyTorch",),
        "2 source of the environment": ("NVIDIA/DeepLearningExamples 99b1c898",),
        "3 program": (
            "mmsegmentation 0.11.0+d0a71c1",
            "checkout d0a71c15",
            "| mmcv-full | 1.2.7 |",
        ),
        "4 container": ("--shm-size=1g", "--ulimit memlock=-1", '-v "$DATA:$DATA"'),
        "5 data": (MD5, "Cityscapes lies on a local disk."),
        "6 hardware": ("Tesla V100-SXM2-32GB", "4 nodes with 8 GPUs each"),
        "7 parameters": ("gpu1_fp32_bs2", "gpu32_amp_bs4"),
        "8 commands": ("python3 tools/train.py", "--nnodes=4", "--node_rank=$RANK"),
        "9 log interval": ("in 600 iterations of 12 lines",),
        "10 table of FP32": ("| 32 | - | 81.01 (published 81.01", "| 16 | - | 49.23"),
        "11 table of AMP": ("| 8 | 44338.456 | 46.4", "| 78.5 |", "77.3", "182.07"),
        "12 logs": ("(logs/gpu8_amp_bs4/rank0.log)",),
        "13 analysis": ("of the time waited for data; the median step gives 58.7",),
    },
    lacking={"9 log interval": "epochs and the evaluation's interval are in the logs alone"},
)
TSM = Example(
    benchmark="tsm",
    imports=tuple(
        (logs.tsm(gpus, rate, top1=top1), *_options(gpus, precision, 16), *V100_32)
        for gpus, precision, rate, top1 in (
            (1, "fp32", 28.828, ()),
            (1, "amp", 56.537, ()),
            (8, "fp32", 226.148, (30.0,)),
            (8, "amp", 386.707, (30.0, 48.436)),
            (32, "amp", 1380.045, (*(40 + 0.6 * n for n in range(49)), 71.199)),
        )
    ),
    environment="""
os: Ubuntu 18.04
CPU: 2 × Xeon Gold 6148
cpus: 80
memory: 376 GiB
driver: 418.39
container: ngc-pytorch-1.7
framework: PyTorch 1.7.0
cuda: "10.1"
cudnn: 7.6.5
nccl: 2.4.7
network: InfiniBand, one device per node
""",
    notes="""
## Set-up

### Two changes of the program

AMP by autocast; several nodes by DistributedDataParallel.

```sh
# InfiniBand
mpirun --allow-run-as-root
```
""",
    points={
        "1 machine": ("Ubuntu 18.04", "2 × Xeon Gold 6148", "376 GiB", "418.39"),
        "2 image": ("ngc-pytorch-1.7", "PyTorch 1.7.0", "| CUDA | 10.1", "7.6.5"),
        "3 dependencies": ("| torchvision | 0.8.0 |",),
        "4 program": ("temporal-shift-module", "git -C temporal-shift-module checkout"),
        "5 changes": ("AMP by autocast", "needs the report's two changes"),
        "6 InfiniBand and MPI": ("mpirun --allow-run-as-root",),
        "7 parameters": (
            "--lr 0.02",
            "--wd 1e-4",
            "--lr_steps 20 40",
            "--epochs 50",
            "--dropout 0.5",
        ),
        "8 commands": ("# gpu1_fp32_bs16", "# gpu8_amp_bs16", "# gpu32_amp_bs16"),
        "9 throughput": ("| 32 | - | 1380.045 ", "samples/s"),
        "10 top-1": ("| 8 | 30 (unfinished) | 48.436 (unfinished) |", "| 32 | - | 71.199 |"),
        "11 logs": ("(logs/gpu32_amp_bs16/rank0.log)",),
    },
)
EXAMPLES = {"DeepLabV3+ on PyTorch": DEEPLAB, "TSM on PyTorch": TSM}


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_report_has_the_points_of_the_published_page(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES[title]
    text = written(example, title, tmp_path, monkeypatch)
    found = {
        point: [part for part in parts if part not in text]
        for point, parts in example.points.items()
        if point not in example.lacking
    }
    assert {point: parts for point, parts in found.items() if parts} == {}
    assert len(example.lacking) <= MOST_LACKING * len(example.points)


def written(
    example: Example, title: str, place: Path, monkeypatch: pytest.MonkeyPatch, *words: str
) -> str:
    """Import the logs, write the report, and return its README."""
    monkeypatch.setenv("K8SBENCH_STORE", str(place / "store"))
    monkeypatch.chdir(place)
    for number, (text, *options) in enumerate(example.imports):
        name = Path(f"{number}.log")
        name.write_text(text)
        given = ["--benchmark", example.benchmark, "--set", "ours", *options]
        assert main(["import", str(name), *given]) == 0
    Path("environment.yaml").write_text(example.environment)
    Path("notes.md").write_text(example.notes)
    given = ["--environment", "environment.yaml", "--notes", "notes.md", "--published"]
    assert main(["report", "ours", "-o", "report", "--title", title, *given, *words]) == 0
    return Path("report/README.md").read_text("utf-8")
