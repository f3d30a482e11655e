"""Reports of the five published benchmarks, from logs in the form of their programs.

Each example has the points of its published page. A report has the texts of each point.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from k8sbench import messages
from k8sbench.catalog import spec_files
from k8sbench.cli.main import main
from k8sbench.messages import Lang
from k8sbench.results.groups import ratios, speedup
from k8sbench.results.report import words
from tests.results.report import parsed
from tests.unit.reports import published_logs as logs

UNSTATED = messages.text("en", ratios.DATA_UNSTATED)

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
machine: 4 nodes with 8 GPUs each
network: InfiniBand, 100 Gbit/s
container: NVIDIA/DeepLearningExamples 99b1c898, PyTorch/LanguageModeling/BERT
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
        "4 container": ("--shm-size=1g", "--ulimit memlock=-1", '-v "$DATA:$DATA" -e DATA'),
        "5 data": (MD5, "dataset/cityscapes.tar", "Cityscapes lies on a local disk."),
        "6 hardware": ("Tesla V100-SXM2-32GB", "4 nodes with 8 GPUs each"),
        "7 parameters": (
            *("gpu1_fp32_bs2", "gpu32_amp_bs4"),
            "| DepthwiseSeparableASPPHead (its head) |",
        ),
        "8 commands": (
            *("python3 tools/train.py", "--nnodes=4", "--node_rank=$RANK"),
            "/deeplabv3plus/code/mmsegmentation/. mmsegmentation/",
            "git -C AI-Rank fetch origin cb196e2e",
            "export DATA=/folder/of/the/data\n\ndocker run",
        ),
        "9 log interval and evaluations": (
            *(
                "one every 50 iterations.",
                "10 evaluations. The log plans one every 8000 iterations.",
            ),
            "evaluation.interval=8000 checkpoint_config.interval=8000",
        ),
        "9 epochs": (
            "80000 iterations are 860.5 epochs of the 2975 samples that the catalog states.",
        ),
        "10 table of FP32": ("| 32 | - | 81.01 (published 81.01", "| 16 | - | 49.23 "),
        "11 table of AMP": (
            "| 8 | 44338.456 (published 44338.456, ai-rank-2021-04, ±0.0 %) | 46.39 (",
            "46.39 (published 58.2, ai-rank-2021-04, −20",
            "| 78.5 (published 78.5, ai-rank-2021-04, ±0.0 %) |",
            "77.3",
            "182.07",
        ),
        "11 interval": ("A deviation such as −20.6…+0.9 % has two ends",),
        "11 published speedup": (
            "| gpu32_fp32_bs2 | ai-rank-2021-04 | 19.9 | 19.89 | 19.89 |\n",
            "| gpu16_amp_bs4 | ai-rank-2021-04 | 12.36 | 12.39 | 12.39 |\n",
            "| gpu32_amp_bs4 | perf-2021-06 | – | 24.39 | 21.86 |\n",
        ),
        "11 version": (
            "| gpu32_amp_bs4 | perf-2021-06 (another version of the program, 0.12.0+3e46c1b) |",
        ),
        "11 another batch": (
            "throughput 16.84, by its own logs 32.3 (perf-2021-06: its batch per GPU is 4",
            "- gpu32_fp32_bs2, perf-2021-06: The figure does not follow from the report's log",
        ),
        "12 logs": ("(logs/gpu8_amp_bs4/rank0.log)",),
        "13 analysis": (
            "near `median` 58.72",
            "\n- 8 GPUs reach 69.6 % of linear scaling in AMP, 16 reach 77.4 %: ",
            "16 are more efficient than 8. gpu8_amp_bs4 waited for data for 21.9 % of its time.\n",
            "\n- 32 GPUs reach 68.3 % of linear scaling in AMP.\n",
        ),
    },
)
TSM = Example(
    benchmark="tsm",
    imports=tuple(
        (logs.tsm(gpus, rate, top1=top1), *_options(gpus, precision, 16), *V100_16)
        for gpus, precision, rate, top1 in (
            (1, "fp32", 28.828, ()),
            (1, "amp", 56.537, ()),
            (8, "fp32", 226.148, (30.0,)),
            (8, "amp", 386.707, (30.0, 48.436)),
            (32, "amp", 1380.045, (*(40 + 0.6 * n for n in range(49)), 71.199)),
        )
    ),
    environment="""
os: CentOS 6.3
CPU: Intel Xeon Gold 6271C, 2.6 GHz
cpus: 48
memory: 502 GB
driver: 450.80.02
container: ngc-pytorch-1.7
framework: PyTorch 1.7.0
cuda: "10.1"
cudnn: 7.6.5
nccl: 2.4.7
network: InfiniBand (optional)
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
        "1 machine": ("CentOS 6.3", "Xeon Gold 6271C", "502 GB", "450.80.02"),
        "2 image": ("ngc-pytorch-1.7", "PyTorch 1.7.0", "| CUDA | 10.1", "7.6.5"),
        "3 dependencies": ("| torchvision | 0.8.0 |",),
        "4 program": ("temporal-shift-module", "git -C temporal-shift-module checkout"),
        "5 changes": (
            "AMP by autocast",
            "git -C AI-Rank checkout 79cb70a8",
            "s/best_prec1 >= 70.0/best_prec1 > 100/",
            "temporal-shift-module/ops/utils.py temporal-shift-module/ops/",
            "temporal-shift-module/main.py temporal-shift-module/",
            "initial scale of AMP is 1",
        ),
        "6 InfiniBand and MPI": (
            "mpirun --allow-run-as-root",
            "$mpirun bash run_benchmark.sh 4 8 True",
        ),
        "6 data": ("ln -s $DATA /ssd/video/kinetics", '-v "$DATA:$DATA"'),
        "7 parameters": (
            "--lr 0.02",
            "0.0025 × the GPUs of a node",
            "--wd 1e-4",
            "--lr_steps 20 40",
            "--epochs 50",
            "--dropout 0.5",
        ),
        "8 commands": (
            *("# gpu1_fp32_bs16\n", "# gpu8_amp_bs16\n", "# gpu32_amp_bs16: "),
            "# gpu32_fp32_bs16 (a case of the published page without a figure, not in these runs)",
            "--gpus all --network host --ipc=host",
        ),
        "9 dates": ("date not stated",),
        "9 iterations between": (
            "with 22749 iterations, one every 4 iterations. 98 more iterations are in no log line",
        ),
        "9 throughput": ("| 32 | - | 1380.05 (published 1380.045", "samples/s"),
        "10 target": ("target of tsm is top-1 71.1 %. AI-Rank's rules name it since 12",),
        "10 top-1": ("| 8 | 30 (unfinished) | 48.436 (unfinished) |", "| 32 | - | 71.199 |"),
        "11 logs": ("(logs/gpu32_amp_bs16/rank0.log)",),
    },
)
PADDLE_IMAGE = "paddlepaddle/paddle-benchmark:cuda11.0-cudnn8-runtime-ubuntu16.04-gcc82"
PYTORCH_IMAGE = "nvcr.io/nvidia/pytorch:20.06-py3"
PADDLE = Example(
    benchmark="deeplabv3p",
    imports=(
        *(
            (logs.paddleseg(gpus, rate, batch, amp=amp), *_options(gpus, "amp" if amp else "fp32"))
            for gpus, rate, batch, amp in (
                (1, 6.3, 2, False),
                (8, 46.0, 2, False),
                (32, 176.0, 2, False),
                (1, 17.0, 4, True),
                (8, 99.2, 4, True),
                (32, 373.76, 4, True),
            )
        ),
        _mmseg(1, 4.073, 2),
        _mmseg(8, 29.74, 2),
        _mmseg(1, 8.33, 4, amp=True),
        _mmseg(8, 58.2, 4, amp=True),
    ),
    environment="""
machine: one node and four nodes, 8 GPUs each
os: CentOS 6.3
CPU: Intel Xeon Gold 6271C, 2.6 GHz
memory: 502 GB
driver: 450.80.02
rows:
  deeplabv3p_paddle:
    nccl: "2.8"
    container: paddlepaddle/paddle-benchmark:cuda11.0-cudnn8-runtime-ubuntu16.04-gcc82
    dependencies: pip install -r requirements.txt
    program: PaddleSeg, branch benchmark, 318dd24c
  deeplabv3p_pytorch:
    container: nvcr.io/nvidia/pytorch:20.06-py3
    program: mmsegmentation d0a71c15
""",
    notes="""The measure is throughput: what an hour of a GPU costs.

# Data

Place it in data/cityscapes.
""",
    points={
        "1 measure": ("The measure is throughput", "Throughput: the median"),
        "2 dimensions": (
            *("FP32(BS=2)", "AMP(BS=4)", "gpu32_amp_bs4"),
            *("| GPUs | 1, 8, 32 |\n", "| precision | fp32, amp (fp16) |\n"),
            "| pure FP16 instead of AMP | fp32: no; amp (fp16): not stated |\n",
            "| FP32 | 2 | 2 |\n| AMP | 4 | 4 |\n",
        ),
        "3 machine": ("CentOS 6.3", "Xeon Gold 6271C", "450.80.02", "502 GB"),
        "4 image": (
            "paddle-benchmark:cuda11.0",
            "318dd24c",
            "branch benchmark",
            "| cuDNN | 8.0",
            "| CUDA | 11.0 |",
        ),
        "4 image of each side": (
            f"{PADDLE_IMAGE} | PaddleSeg, branch benchmark, 318dd24c | all deeplabv3p_paddle |",
            f"{PYTORCH_IMAGE} | mmsegmentation d0a71c15, 0.11.0 | all deeplabv3p_pytorch |",
            f"{PADDLE_IMAGE} (all deeplabv3p_paddle); {PYTORCH_IMAGE} (all deeplabv3p_pytorch) |",
            "| NCCL | 2.8 (all deeplabv3p_paddle) |",
        ),
        "4 not stated": (
            "Not stated: CUDA (all deeplabv3p_paddle), NCCL (all deeplabv3p_pytorch), network, ",
            ", pure FP16 instead of AMP. Add facts with `k8sbench report --environment FILE`.",
        ),
        "5 start": ("docker run", "cd /workspace/models && pip install -r requirements.txt"),
        "6 data": (
            *(MD5, "dataset/cityscapes.tar", "Place it in data/cityscapes."),
            "in the log: cityscapes, by the catalog Cityscapes",
        ),
        "7 options": ("--data_format NHWC --fp16", "--batch_size 2"),
        "7 changed options": (
            "other values: `--iters`, `--log_iters`, `-m paddle.distributed.launch`, `--ips`.",
            "the last value holds.",
            "--iters=500 ",
        ),
        "7 addresses of several nodes": (
            "-m paddle.distributed.launch --ips=$HOSTS train.py",
            "`$HOSTS`: addresses of all nodes",
        ),
        "8 table of Paddle": ("| 8 | 46.00 ", "| 99.20 (published 99.2"),
        "9 Paddle and PyTorch": (
            "| GPU=8,BS=2 | 46.00 | 29.74 (published 29.74",
            "(26.79 M and 43.59 M",
            "are the catalog's; the logs state none.\n",
        ),
        "10 logs": ("(logs/deeplabv3p_paddle/gpu32_amp_bs4/rank0.log)",),
    },
)
FIVE = {
    1: (366.54, 366.27, 365.81, 366.14, 365.51),
    4: (1449.08, 1448.06, 1445.03, 1447.61, 1448.58),
    8: (2806.66, 2833.72, 2800.71, 2808.11, 2803.56),
}
RESNET50 = Example(
    benchmark="resnet50",
    imports=tuple(
        (logs.dle(gpus, rate, number), *V100_16)
        for gpus, rates in FIVE.items()
        for number, rate in enumerate(rates)
    ),
    environment="""
machine: 1 node with 8 GPUs
nodes: gpu-node-1
os: Ubuntu 16.04 (host), Ubuntu 18.04 (container)
CPU: Xeon Gold 6148
memory: 376 GiB
driver: 440.33.01
cuda: 10.2.89
cudnn: 7.6.5
nccl: 2.5.6
container: nvcr.io/nvidia/pytorch:20.03-py3
framework: PyTorch 1.5.0a0+8f84ded
dependencies: DALI 0.19, OpenMPI 3.1.4
Python: 3.6.9
program: DeepLearningExamples 5cc03caa
""",
    notes="""
# Set-up

DALI reads ImageNet from a local disk.
""",
    points={
        "1 hardware and host": (
            *("440.33.01", "Ubuntu 16.04 (host)", "| cuDNN | 7.6.5"),
            *("| CUDA of the host | 10.2 |", "| cuDNN of the host | 7.6.5 |"),
        ),
        "2 container": (
            "| NCCL | 2.5.6",
            "1.5.0a0+8f84ded",
            "DALI 0.19, OpenMPI",
            "| Python | 3.6.9",
        ),
        "3 features": (
            "| pure FP16 instead of AMP | no |",
            "| several GPUs | yes |",
            "| data loader | dali-cpu |",
            "| mixed precision (AMP) | no |",
        ),
        "4 program": ("DeepLearningExamples 5cc03caa", "checkout 5cc03caa153f"),
        "5 data": ("ImageNet (ILSVRC 2012)", "886,372 files from 698 directories"),
        "6 image": (
            "--shm-size=16g",
            "/PyTorch/Classification/ConvNets:/workspace/rn50",
            "nvcr.io/nvidia/pytorch:20.03-py3",
        ),
        "7 nodes": ("gpu-node-1",),
        "8 commands": (
            *("/workspace/rn50/multiproc.py --nnodes 1", "--nproc_per_node 8"),
            *("--prof 121 ", "`--master_port`, `--prof`."),
        ),
        "9 method": (
            *("iterations 21 to 120", "with 100 iterations", "the median of the valid runs"),
            *("Valid runs of a row: 5.", "of the first epoch (1281167 samples by the catalog)"),
        ),
        "10 every run": ("366.54 366.27 365.81 366.14 365.51", "2806.66 2833.72 2800.71"),
        "11 mean and median": ("| 2806.66 | 2810.55 |", "| 366.14 | 366.05 |"),
        "12 table": ("| 1 | 128 | 366.14 ", "| 4 | 128 | 1448.06 ", "| 3.95 |", "| 7.67 |"),
        "12 wrong figure": (
            "(published 2802.14, by its own logs 2806.66, dlperf-2020-08, ±0.0 % from 2806.66 ",
            "from 2806.66 by timestamps)",
            "| gpu8_fp32_bs128 | dlperf-2020-08 | 7.65 | 7.65 | 7.67 |",
            "logs of side runs in the same folder",
        ),
        "12 interval": (words.say("en", "interval_rule"),),
        "13 links": ("/PyTorch/Classification/ConvNets/resnet50v1.5#results",),
        "14 logs": ("(logs/gpu8_fp32_bs128/run5/rank0.log)",),
    },
)
ARCFACE_RUNS = {
    1: (397.44, 398.05, 398.98, 397.64, 397.78),
    4: (1555.18, 1534.62, 1540.66, 1539.66, 1535.04),
    8: (2536.04, 2545.3, 2563.28, 2554.13, 2542.14),
    16: (5950.34, 5953.84, 5982.75, 5961.68, 5934.43),
    32: (11165.17, 11109.91, 11084.53, 11077.58, 10997.67),
}
ARCFACE = Example(
    benchmark="arcface",
    imports=tuple(
        (logs.plsc(gpus, rate, number), *_options(gpus, "fp32", 128), *V100_16)
        for gpus, rates in ARCFACE_RUNS.items()
        for number, rate in enumerate(rates)
    ),
    environment="""
os: Ubuntu 16.04.4
CPU: Xeon Gold 6148
memory: 376 GiB
driver: 440.33.01
cuda: "10.2"
cudnn: 7.6.5
nccl: 2.7.3
network: InfiniBand
container: none, a virtual environment
framework: paddlepaddle-gpu 1.8.5.post107
program: PLSC 9bba9c90, which ends after batch 150
data: synthetic, 112 × 112
""",
    notes="""
# Set-up

NCCL is installed from its package.
""",
    points={
        "1 system": ("Ubuntu 16.04.4", "440.33.01", "| NCCL | 2.7.3", "| CUDA | 10.2"),
        "2 framework": ("paddlepaddle-gpu 1.8.5",),
        "3 features": ("| several nodes | yes |", "| NCCL | 2.7.3 |\n"),
        "4 program": (
            *("checkout 9bba9c90", "ends the run at batch 150", "PLSC 9bba9c90"),
            "if batch_id == 150: exit()' PLSC/plsc/entry.py",
        ),
        "5 environment": (
            "NCCL is installed from its package.",
            "sudo dpkg -i nccl-repo",
            "conda env create -f PLSC/environment.yaml",
            "conda activate plsc",
        ),
        "6 data": ("synthetic, 112 × 112",),
        "7 nodes": (
            "Not stated: names of the nodes.",
            "`$HOSTS`: addresses of all nodes",
            "| 4 | 32 |",
        ),
        "8 commands": (
            "--cluster_node_ips=$HOSTS --node_ip=$HOST",
            "0,1,2,3 train.py",
            *("(cd PLSC && ", 'train.LOSS_TYPE = "arcface"'),
        ),
        "9 every run": ("11165.17 11109.91 11084.53 11077.58 10997.67",),
        "10 mean and median": ("| 11084.53 | 11086.97 |", "| 2545.30 | 2548.18 |"),
        "11 two ways": (
            *("mean of the qps that its log prints", "150 iterations of which the first 50"),
            *("### Ways to compute", "timestamps |"),
        ),
        "11 left out": (
            *("iterations 52 to 151 of the log, counted from 1", "with iteration 51;"),
            *("its batches 51 to 150 are iterations 52 to 151", "takes those of batches 60 to 150"),
        ),
        "11 windows": (
            "| 397.78 (arithmetic) | iterations 52–151 | ±0.0 % |",
            words.say("en", "windows_rule"),
            "\n- arcface, by the catalog: A sample is one image.\n",
        ),
        "12 speedup": ("Speedup: the median", "11084.53 ÷ 397.78 = 27.87"),
        "13 table": (
            "| 1 | 8 | 2545.30 ",
            "| 2 | 16 | 5953.84 ",
            "| 4 | 32 | 11084.53 ",
            "| 27.87 |",
        ),
        "14 remarks": ("The loss head is arcface, on several GPUs dist_arcface",),
        "15 logs": ("(logs/gpu32_fp32_bs128/run5/rank0.log)",),
    },
)
EXAMPLES = {
    "DeepLabV3+ on PyTorch": DEEPLAB,
    "TSM on PyTorch": TSM,
    "DeepLabV3P on Paddle": PADDLE,
    "ResNet-50 on PyTorch": RESNET50,
    "ArcFace on Paddle": ARCFACE,
}


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_report_has_the_points_of_the_published_page(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = EXAMPLES[title]
    text = written(example, title, tmp_path, monkeypatch)
    found = {
        point: [part for part in parts if part not in text]
        for point, parts in example.points.items()
    }
    assert {point: parts for point, parts in found.items() if parts} == {}


@pytest.mark.parametrize("title", ["DeepLabV3+ on PyTorch", "TSM on PyTorch"])
def test_an_accuracy_of_logs_is_the_published_one_by_its_name(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch)
    assert words.say("en", "unlike_metric") not in text


@pytest.mark.parametrize("title", EXAMPLES)
def test_one_quantity_of_a_row_has_the_same_digits_in_all_tables(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report's own tables have the throughput and speedup of the table of all rows."""
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch)
    own, _, every = text.partition("\n## Results\n")[2].partition("\n### All rows\n")
    figure = re.compile(r"(?<=\| )\d+\.\d+(?= [|(])")
    cells = figure.findall(own.partition("\n### ")[0])
    of_rows = {*figure.findall(every.partition("\n### ")[0])}
    assert cells
    assert {*cells} - of_rows == set()


NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@pytest.mark.parametrize("title", EXAMPLES)
def test_both_languages_have_the_same_numbers(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand in the same chapters; a month in the title of a source is a word in English."""
    example = EXAMPLES[title]
    english = written(example, title, tmp_path, monkeypatch)
    assert main(["report", "ours", "-o", "zh", "--title", title, "--lang", "zh", *GIVEN]) == 0
    chinese = Path("zh/README.md").read_text("utf-8")
    titles = [
        source.title for source in spec_files.load_spec(example.benchmark).spec.sources.values()
    ]
    cited = [source for source in titles if f": {source}: " in english]
    assert cited
    for source in cited:
        translated = words.of_catalog("zh", source)
        assert f"：{translated}：" in chinese
        english, chinese = english.replace(source, ""), chinese.replace(translated, "")
    english, chinese = (text.replace("k8sbench", "") for text in (english, chinese))
    parts = [re.split(r"^## .*", text, flags=re.MULTILINE) for text in (english, chinese)]
    numbers = [[Counter(NUMBER.findall(part)) for part in some] for some in parts]
    assert numbers[0] == numbers[1]


GIVEN = ("--environment", "environment.yaml", "--notes", "notes.md", "--published")


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
    assert main(["report", "ours", "-o", "report", "--title", title, *GIVEN, *words]) == 0
    return Path("report/README.md").read_text("utf-8")


@pytest.mark.parametrize("start", ["", "sets:\n  ours:\n    "])
@pytest.mark.parametrize("fact", ["container", "program", "nccl", "dependencies", "framework"])
def test_a_fact_of_one_program_is_not_joined_to_rows_of_two_frameworks(
    fact: str,
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    imports = (PADDLE.imports[0], PADDLE.imports[6])
    example = msgspec.structs.replace(PADDLE, imports=imports, environment="os: Ubuntu")
    written(example, "DeepLabV3P", tmp_path, monkeypatch)
    Path("environment.yaml").write_text(f"{start}{fact}: one of both")
    before = Path("report/README.md").read_text()
    assert main(["report", "ours", "-o", "report", *GIVEN]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("rows:", "deeplabv3p_paddle", "deeplabv3p_pytorch"))
    assert Path("report/README.md").read_text() == before


def test_a_table_of_two_frameworks_is_not_headed_by_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(PADDLE, "DeepLabV3P", tmp_path, monkeypatch)
    heads = re.findall(r"^(.+)\n\n\| case \| PaddlePaddle \|", text, re.MULTILINE)
    assert len(heads) == 2
    assert [head for head in heads if "paddle" in head.lower()] == []


def test_a_chinese_comparison_names_averaging_rules_by_their_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(ARCFACE, "ArcFace", tmp_path, monkeypatch, "--lang", "zh")
    rules = re.findall(r"^\| gpu\w+ \| dlperf\S+ \| [\d.]+ \(.*?、(.*?)\)", text, re.MULTILINE)
    assert {*rules} == {"arithmetic"}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("title", EXAMPLES)
def test_each_row_is_compared_or_the_report_says_why_not(
    title: str, lang: Lang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reasons are words: no id of a difference stands alone."""
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch, "--lang", lang)
    told = text.partition(f"\n## {words.say(lang, 'published')}\n")[2].partition("\n## ")[0]
    rows = json.loads(Path("report/results.json").read_text())["rows"]
    unlike = [
        one
        for row in rows
        for one in row["published"]
        if (one["case"], one["precision"]) == (row["case"], row["precision"])
        and one["ratio"] is one["ratios"] is None
    ]
    said = Counter(re.findall(r" \(([a-z0-9-]+)(?:: |：)", told))
    assert said == Counter(one["source"] for one in unlike)
    ids = {name for one in unlike for name in one["not_comparable"]}
    alone = [name for name in ids if re.search(rf"(?:[:,] |[：、]){name}[,、)]", told)]
    assert alone == []


@pytest.mark.parametrize(("lang", "word"), [("en", "the catalog"), ("zh", "基准库")])
@pytest.mark.parametrize("title", EXAMPLES)
def test_a_fact_of_the_catalog_names_it(
    title: str, lang: Lang, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Title, data and cases, outside the chapters on the published program and figures."""
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch, "--lang", lang)
    for name in ("repeat", "published"):
        before, heading, rest = text.partition(f"\n## {words.say(lang, name)}\n")
        assert heading
        text = before + "\n## " + rest.partition("\n## ")[2]
    spec = spec_files.load_spec(EXAMPLES[title].benchmark).spec
    known = [spec.title, *(str(v.data_set.samples) for v in spec.variants if v.data_set)]
    noted = [note for variant in spec.variants for note in variant.case_notes.values()]
    known += [words.of_catalog(lang, note) for note in noted]
    known.append(messages.text(lang, speedup.SYNC_BN_NOTE))
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    stated = [line for line in lines if any(fact in line for fact in known)]
    assert stated
    assert [line for line in stated if word not in line] == []


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_deviation_of_two_ends_is_explained_once_where_it_stands_first(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch)
    chapters = re.split(r"^## .*\n", text, flags=re.MULTILINE)
    with_ranges = [part for part in chapters if re.search(r"[+−±][\d.]+…[+−±]", part)]
    explained = [part for part in chapters if "such as" in part and "two ends" in part]
    assert explained == with_ranges[:1]


@pytest.mark.parametrize(
    ("title", "named"),
    [
        ("ResNet-50 on PyTorch", "data in the log: imagenet"),
        ("DeepLabV3P on Paddle", "data in the log: cityscapes"),
        ("ArcFace on Paddle", "data by environment.yaml: synthetic, 112 × 112"),
        ("TSM on PyTorch", UNSTATED),
    ],
)
def test_a_comparison_names_the_data_where_log_or_user_name_it(
    title: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(EXAMPLES[title], title, tmp_path, monkeypatch)
    told = text.partition("\n## Comparison with")[2].partition("\n## ")[0]
    assert named in told
    assert (UNSTATED in told) is (named == UNSTATED)


def test_an_analysis_tells_each_cause_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(DEEPLAB, "DeepLabV3+", tmp_path, monkeypatch)
    told = text.partition("\n## Analysis\n")[2].partition("\n## ")[0]
    assert [told.count(figure) for figure in ("58.72", "…+0.9 %", "21.9 %")] == [1, 0, 1]
    assert told.count("8 GPUs reach 69.6 %") == 1


def test_a_chinese_report_has_one_word_for_a_thing_and_keeps_its_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(PADDLE, "DeepLabV3P", tmp_path, monkeypatch, "--lang", "zh")
    assert "公布值" not in text
    assert "| container |" not in text
    advice = words.say("zh", "more-imports")
    assert "import" not in advice
    assert advice in text


CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
NAMES = re.compile(
    r"\b(?:pytorch|paddle|tsm|arcface|deeplabv3p|resnet50|dle|mmseg|paddleseg|plsc|kinetics)\b"
)
ORIGINAL = "（英文原文）"
"""Mark of a note of the catalog, which is English."""
ENGLISH = re.compile(r"\b[a-z]{3,}(?: [a-z]{2,})+\b")


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_chinese_report_has_nothing_english_but_names_ids_and_code(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = msgspec.structs.replace(EXAMPLES[title], environment="machine: A", notes="")
    text = written(example, title, tmp_path, monkeypatch, "--lang", "zh")
    text = "\n".join(line for line in text.splitlines() if ORIGINAL not in line)
    assert ENGLISH.findall(NAMES.sub("", CODE.sub("", text))) == []
    drawn = [parsed.svg(path.read_text()) for path in Path("report/figures").iterdir()]
    words = [text for root in drawn for text in parsed.texts(root.iter("text"))]
    assert [text for text in words if ENGLISH.search(NAMES.sub("", text))] == []
