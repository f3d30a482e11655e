"""Every integrity rule of a run, in one table: what has which findings, boundaries included.

The sentences stand in ``findings.txt`` alone, each of the first case that has the finding.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from k8sbench.catalog import spec_files
from k8sbench.model import creation, rules
from k8sbench.model.errors import Finding
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.gpu_metrics import Shared
from k8sbench.model.log_format import LogFormat
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.reader.measuring import expectation
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.recorded import measure_run
from tests.reader.measuring import arrival, epochs, train_logs
from tests.reader.measuring import gpu_metrics as metrics
from tests.reader.measuring import recorded_runs as incomplete
from tests.reader.measuring.airank import airank
from tests.reader.measuring.own_runs import MASTER, PLAN, WORKER, both, edited
from tests.reader.measuring.support import Lines, fixture, lines_of, measured, mmseg, run, tsm
from tests.unit import goldens

Found = Callable[[], Iterable[Finding]]


# What has findings.


def log(lines: Iterable[str], aside: str = "", **known: Any) -> Found:
    """Return a log of mmsegmentation or a given format; ignore findings ``aside``."""
    return lambda: [
        found for found in measured(lines, **known).reasons if found.id not in aside.split()
    ]


def ours(
    event: str = "start",
    master: dict[str, Any] | None = None,
    worker: dict[str, Any] | None = None,
    *,
    expected: Expectation | None = None,
    **plan: Any,
) -> Found:
    """Return our trainers' logs with one event's fields changed, and their plan."""
    logs = edited(MASTER, event, **(master or {})), edited(WORKER, event, **(worker or {}))
    known = expected or expectation.from_plan(replace(PLAN, **plan))
    return lambda: both(*logs, known).reasons


def planned(lines: list[str], expected: Expectation | None = None) -> Found:
    """Return our trainers' log and its expectation, by default its plan's."""
    return lambda: both(lines, expected=expected).reasons


def declared(lines: Iterable[str], record: str | None = None, *, confirmed: bool = True) -> Found:
    """A log of a declared format."""
    summary = r"done: (?P<rate>\S+)"
    form = LogFormat(
        name="mine",
        confirmed=confirmed,
        unit="images",
        per="job",
        record=record,
        summary=summary,
    )
    return log(lines, format=form)


def mine(seconds: float) -> Found:
    """Lines of 0.08 s, each of which arrives after so much time."""
    return log(arrival.arrived(arrival.steps(), arrival.every(seconds)), **arrival.OWN)


def between(what: str, epoch: int = 1) -> Found:
    """Lines of 5 s in a declared format, with a pause of a minute."""
    record = r"(?P<stamp>\d+) epoch (?P<epoch>\d) step (?P<iteration>\d+) ips (?P<rate>\S+)"
    form = LogFormat(
        name="mine",
        unit="images",
        per="job",
        record=record,
        evaluation=r"evaluating(?P<value>)",
        averaged="step",
        numbering="run",
    )
    lines = [f"{1_700_000_000 + 5 * i} epoch 1 step {i} ips 0.8" for i in range(1, 21)]
    lines += [f"{1_700_000_060 + 5 * i} epoch {epoch} step {i} ips 0.8" for i in range(21, 41)]
    return log([*lines[:20], what, *lines[20:]], format=form)


def gpus(*series: Any, count: int = 1, shared: tuple[Shared, ...] = (), **more: Any) -> Found:
    """GPU metrics of a run."""
    fetched = metrics.of(*series, shared=shared)
    return lambda: [
        found
        for found in metrics.completed(fetched, gpus=count, **more).reasons
        if found.id != "too-few-records"  # of the example that they complete
    ]


def clocks(*mhz: float) -> Found:
    """GPUs that ran at these clocks."""
    every = (
        metrics.series("sm_clock", [clock] * 10, of=metrics.gpu(number))
        for number, clock in enumerate(mhz)
    )
    return gpus(*every, count=len(mhz))


def archived(**of_run: Any) -> Found:
    """A run of our own trainers, measured from its archive."""
    known = {"created_at": incomplete.START, "process": None, "history": ()} | of_run
    logs = [Lines(MASTER, "logs/master-0.log"), Lines(WORKER, "logs/worker-0.log")]
    made = Run(planned=PLAN, artifacts="file:///x", **known)
    return lambda: measure_run(made, logs if "history" in of_run else []).reasons


# Logs of mmsegmentation.
STEADY, LONG = run([0.5] * 8), run([0.5] * 12)
HUNDRED, TWO_HUNDRED = run([0.5] * 100), run([0.5] * 200)
HEAD = "2026-03-02 09:59:00,000 - mmseg - INFO - "
CONFIG = [HEAD + "Config:", *STEADY]
VALIDATED = "2026-03-02 10:00:25,000 - mmseg - INFO - Iter(val) [50]\tmIoU: 0.5000, aAcc: 0.9"
BETWEEN = VALIDATED.replace("Iter(val) [50]", "Epoch(val) [1][500]")
RANKS, ALL_RANKS = (
    [f"[1,{rank}]<stdout>:{line}" for line in STEADY for rank in range(count)] for count in (2, 8)
)
RESUMED = [HEAD + "resumed from epoch: 0, iter 4000", *run([0.5] * 8, first=4000)]
WAITING = [mmseg(i * 10, at=5 * i, waiting=0.055, total=80) for i in range(1, 9)]
TWICE_AS_FAST = [line.replace("time: 0.500", "time: 0.250") for line in STEADY]
EVALUATED = [*run([0.5] * 8, total=160), BETWEEN, *run([0.5] * 8, first=80, at=70, total=160)]
NO_LOSS = [*STEADY[:-1], mmseg(80, at=40, loss="nan", total=80)]
NO_FIRST_LOSS = [STEADY[0].replace("2.0000", "nan"), *STEADY[1:]]
EVERY_TENTH = "    interval=10, hooks=[dict(type='TextLoggerHook', by_epoch=False)])"
STATED = ["gpu_ids = range(0, 8)", "fp16 = dict(loss_scale=512.)", "    samples_per_gpu=4,"]
HEADLESS = ["gpu_ids = range(0, 2)", "samples_per_gpu=4,", *STEADY]
OTHER_HEAD = ["type='FCNHead'", *HEADLESS]
RIGHT_HEAD = ["type='DepthwiseSeparableASPPHead'", *HEADLESS]
SAID: dict[str, Any] = {"gpus": 8, "precision": "amp", "by_user": True}
UNSTATED = "gpus-unverified batch-unverified precision-unverified"
PLANNED: dict[str, Any] = {"benchmark": "deeplabv3p", "model": "DeepLabV3+"}
NAMED = PLANNED | {"gpus": 2, "logged_models": ("depthwiseseparableaspphead",)}
BATCHES = PLANNED | {"batch_size": None, "batch_sizes": {"fp32": 2, "amp": 4}}

# Logs of the other families.
EPOCHS, OTHER_EPOCHS = (
    [tsm(epoch, step, 0.5, 0.5) for epoch in numbers for step in range(0, 100, 20)]
    for numbers in ((0, 1), (0, 2))
)
COARSE = [
    *(tsm(0, step, 0.3, 0.3, total=40000) for step in range(0, 20001, 5000)),
    tsm(0, 20020, 0.3, 0.299, total=40000),
]
TSM: dict[str, Any] = {"format": "tsm", "batch_size": 16}
CLAS: dict[str, Any] = {"format": "paddleclas", "gpus": None, "batch_size": None}
CLAS["aside"] = "clocks-apart unsteady"
CLAS_1, DYGRAPH = CLAS | {"gpus": 1}, CLAS | {"gpus": 2, "warmup": 20}
CLAS_2020 = lines_of("paddleclas_2020.log")
CLAS_512 = [line.replace("batch_size : 256", "batch_size : 512") for line in CLAS_2020]
EARLIER = lines_of("paddleclas_dygraph.log")
LATER = [line.replace("02 10:", "02 11:") for line in EARLIER if "Epoch 2/2" in line]
LOADED = "[2026/03/02 11:00:00] ppcls INFO: Finish load checkpoints from ./output/epoch_1"
SEG: dict[str, Any] = {"format": "paddleseg", "gpus": None, "batch_size": 2, "warmup": 10}
SEG["aside"] = "clocks-apart unsteady"
SILENT_SEG = [line.replace("use amp to", "") for line in lines_of("paddleseg.log")]
VIDEO: dict[str, Any] = {"format": "paddlevideo", "gpus": 8, "batch_size": 16, "warmup": 20}
VIDEO["aside"] = "ends-early clocks-apart"
UNKNOWN_BATCH = VIDEO | {"batch_size": None}
DLE: dict[str, Any] = {"format": "dle-resnet50", "batch_size": 128}
RECORDS = [f"step {step} ips 64.0" for step in range(1, 9)]
PATTERN = r"step (?P<iteration>\d+) ips (?P<rate>\S+)"


def sized(samples: object, steps: int = 100, every: int = 10, **known: Any) -> Found:
    """Epochs of so many steps of 16, and AI-Rank's size of the data set."""
    lines = [f"- AI-Rank-log 1618109465.579 load_data, checksum:{samples}"]
    for epoch in range(1 if steps > 2 else 5):
        lines += [tsm(epoch, step, 0.5, 0.5, total=steps) for step in range(0, steps, every)]
    return log(lines, **(TSM | known))


def dle(total: str) -> Found:
    """Lines of 128 images/s, and the rate of their epoch."""
    head = "DLL 2026-03-02 10:00:{:02d}.000000 - Epoch: 0 {} train.loss : 7.00000  "
    rates = [(f"Iteration: {step} ", "128.00") for step in range(1, 11)]
    lines = [
        head.format(second, step) + f"train.total_ips : {rate} img/s"
        for second, (step, rate) in enumerate([*rates, ("", total)], 1)
    ]
    return log(lines, **DLE)


def seg(*before: str, **known: Any) -> Found:
    """PaddleSeg's log of 4 GPUs behind other statements of them."""
    return log([*before, *lines_of("paddleseg.log")], **(SEG | known))


def box(gpus: int) -> str:
    return f"    |      PADDLE_TRAINERS_NUM         {gpus}        |"


def clas(size: int) -> Found:
    """PaddleClas' log of 64 images on a GPU, behind a configuration of so many."""
    head = "[2026/03/02 10:00:00] ppcls INFO:     "
    lines = lines_of("paddleclas_running.log")
    stated = ["Train : ", f"        batch_size : {size}", "Infer : ", "    batch_size : 10"]
    return log([*lines[:4], *(head + line for line in stated), *lines[4:]], **CLAS_1)


def video(config: int | None, factor: float = 1) -> list[str]:
    """PaddleVideo's log of 16 clips per card, its rates multiplied; what its configuration says."""
    lines = [
        re.sub(r"ips: ([\d.]+)", lambda rate: f"ips: {float(rate[1]) * factor:.5f}", line)
        for line in fixture("paddlevideo.log")
    ]
    stated = [] if config is None else [f"[03/02 10:00:00]     batch_size : {config} "]
    return ["[03/02 10:00:00]     valid_batch_size : 1 ", *stated, *lines]


FOUR_WORKERS_EIGHTFOLD = [
    re.sub(r"qps:([\d.]+)", lambda rate: f"qps:{float(rate[1]) * 8:.2f}", line)
    for line in lines_of("plsc_v1_four_workers.log")
]


def summed(mean: float, total: float) -> Found:
    return log(epochs.paddleclas(mean, total), **CLAS_1)


def sampled(total: float, *, each: float = 0.2, steps: int = 161, **known: Any) -> Found:
    """An epoch of PaddleVideo whose every 20th step is printed."""
    lines = epochs.paddlevideo(1, [each] * 8, total, steps)
    return log(lines, **(VIDEO | {"gpus": 1} | known))


# GPUs and what they can do.
V100, A100 = "Tesla V100-SXM2-16GB", "NVIDIA A100-SXM4-40GB"
MODEL = Fingerprint(model="any", parameters=43_589_878, gmac=371.7, input="any")
"""8 samples/s of it are 17.8 TFLOP/s."""


def on(gpu: str | None, seconds: float, precision: str | None = "fp32", **known: Any) -> Found:
    head = [] if gpu is None else [f"GPU 0: {gpu}"]
    known = {"fingerprint": MODEL, "precision": precision} | known
    return log([*head, *run([seconds] * 8)], "precision loader-stall", **known)


def fast(**options: bool) -> Found:
    """Our own trainer's log of 24 TFLOP/s on an A100: above FP32, below TF32."""
    lines = of_full_size(edited(MASTER, "start", precision="fp32", precision_effective="fp32"))
    lines = edited(edited(lines, "start", options=options), "summary", parameters=MODEL.parameters)
    model = replace(MODEL, gmac=1000.0)
    known: dict[str, Any] = {"gpus": 2, "fingerprint": model, "gpu_model": A100}
    return log(lines, "unsteady", format="k8sbench", **known)


# Our own trainers.
SPEC = spec_files.load_spec("deeplabv3p").spec
(VARIANT,) = (each for each in SPEC.variants if each.name == "mmseg")
BY_CATALOG = expectation.from_variant(SPEC, VARIANT)
OURS: dict[str, Any] = {"format": "k8sbench", "gpus": None, "batch_size": None}
WITHOUT_A_STEP = [line for line in MASTER if '"step": 14' not in line]
FROM_PLAN = expectation.from_plan(PLAN)
SUM = {"first_step": 5, "last_step": 12, "seconds": 4.0, "samples": 64, "samples_per_second": 16.0}
FP32 = {"precision_effective": "fp32"}
OF_V100, OF_A100 = {"gpu_model": "V100"}, {"gpu_model": "A100"}
NO_EFFECT = "precision-without-effect"
SHORT = "too-few-iterations short-warmup"
RATE, FEW = {"samples_per_second": 16.2}, {"first_step": 5, "last_step": 12}
TRAINED = train_logs.texts(train_logs.attempt())
BROKEN = train_logs.event("broken", train_logs.START, part="train", path="a.png", count=1)
UNSAVED = train_logs.event("checkpoint", train_logs.START, step=20, failed="No space left.")
UNEVALUATED = [line for line in TRAINED if '"evaluation", "step": 60' not in line]
UNREAD = [*TRAINED[:20], BROKEN, *TRAINED[20:]]
VALIDATION_FAILED = Transition(
    phase=Phase.FAILED, at=1.0, cause="master-0 exited with code 1: RuntimeError: [10.0.0.7]:29500"
)
CONTINUED = (
    Transition(phase=Phase.CANCELLED, at=1.0, cause="Cancelled."),
    creation.training_continues(PLAN, 1, 61.0),
)


def by_another_program() -> Iterable[Finding]:
    """Return the findings of a measurement that another program made."""
    found = measured(TRAINED, **OURS)
    return rules.with_maker(replace(found, measured_by="meter 1.3", reasons=())).reasons


PAUSED = f'"paused_seconds": {train_logs.EVALUATES + train_logs.SAVES}, '


def paused(stated: str) -> Found:
    """A training whose lines state other times of its evaluations."""
    return log([line.replace(PAUSED, stated) for line in TRAINED], **OURS)


def goes_on(before: str, after: str) -> Found:
    """A training that was killed, and another attempt of which something may differ."""
    first = train_logs.texts(train_logs.until(train_logs.attempt(), 70))
    second = train_logs.texts(train_logs.attempt(train_logs.START + 100, resume=40))
    lines = [*first, *(line.replace(before, after) for line in second)]
    return log(lines, "restarted", **OURS)


def of_full_size(lines: list[str]) -> list[str]:
    return edited(lines, "start", preset="full", device="cuda")


def effective(preset: str, device: str, *, is_known: bool = True) -> Found:
    """A run that was planned with AMP, and computed in FP32."""
    lines = edited(MASTER, "start", preset=preset, device=device, **FP32)
    lines = edited(lines, "summary", **FP32)
    plan = expectation.from_plan(replace(PLAN, preset=preset, device=device))
    known = plan if is_known else replace(plan, device=None)
    return lambda: both(lines, expected=known).reasons


def parameters(found: int, *, smoke: bool = False) -> Found:
    """A run of so many parameters, of which the plan has 100,000."""
    lines = edited(edited(MASTER, "start", preset="full"), "summary", parameters=found)
    known = replace(FROM_PLAN, parameters=100_000, smoke=smoke)
    return lambda: both(lines, expected=known).reasons


def on_paddle(version: str) -> Found:
    """Our trainer on a version of Paddle."""
    stated = {"framework": "paddle", "framework_version": version}
    return ours("start", stated, stated, framework="paddle")


def sockets(master: str, worker: str) -> Found:
    """Two replicas that report a transport and a node; ``-``: nothing."""
    told = [
        dict(zip(("transport", "node"), each.split(), strict=True)) for each in (master, worker)
    ]
    known = [{name: word for name, word in each.items() if word != "-"} for each in told]
    return ours("environment", *known)


def nodes(master: str | None, worker: str | None, **plan: Any) -> Found:
    """Two replicas that report their nodes."""
    return ours("environment", {"node": master}, {"node": worker}, **plan)


ON_A, ON_B = (edited(WORKER, "environment", node=node) for node in "ab")
MOVED = [*ON_B[:2], *ON_A]
MASTER_ON_A = edited(MASTER, "environment", node="a")
CLUSTER = expectation.from_plan(replace(PLAN, backend="kubernetes"))


def window(warmup: int, at_least: int) -> Found:
    """A run of 4 and 8 iterations, where the catalog has others."""
    known = Expectation(
        format="mmseg",
        framework="pytorch",
        benchmark="deeplabv3p",
        variant="mmseg",
        warmup=warmup,
        at_least=at_least,
        window_by_catalog=True,
        batch_sizes={"amp": 4, "fp32": 2},
    )
    logs = of_full_size(MASTER), of_full_size(WORKER)
    return lambda: both(*logs, known).reasons


# GPU metrics.
WORKING, IDLE = (
    metrics.series("gpu_utilization", [share] * 10, of=metrics.gpu(number))
    for number, share in enumerate((0.9, 0.0))
)
ENGINE = metrics.series("gr_engine_active", [0.4] * 10, of=metrics.gpu(1))
THREE = [
    metrics.series("gpu_utilization", [0.9] * 10, of=metrics.gpu(number)) for number in range(3)
]
NEARLY_IDLE = metrics.series("gpu_utilization", [0.01] * 10, of=metrics.gpu(2))


def processes(*counts: int) -> Found:
    return gpus(metrics.series("processes", counts, source="trainer"))


def model(by_metrics: str, by_log: str) -> Found:
    one = metrics.series("power", [200] * 10, of=metrics.gpu(model=by_metrics))
    return gpus(one, gpu_model=by_log)


SHARED = Shared(gpu=metrics.gpu(), other="team-b/train-0")

CASES: dict[str, tuple[Found, str]] = {
    # Lines that are missing, or come again.
    "lines are lost behind the first": (log([*LONG[:1], *LONG[4:]]), "iterations-missing"),
    "1 % is torn": (
        log([*HUNDRED[:50], HUNDRED[50][:60], *HUNDRED[51:]]),
        "warn iterations-missing",
    ),
    "more than 1 %": (log([*HUNDRED[:50], *HUNDRED[52:]]), "iterations-missing"),
    "less at the beginning of the window": (
        log([*TWO_HUNDRED[:2], *TWO_HUNDRED[3:]], warmup=20),
        "iterations-missing",
    ),
    "at the log's": (log(TWO_HUNDRED[1:]), "iterations-missing"),
    "an evaluation stands behind the first": (log([*LONG[:1], VALIDATED, *LONG[2:]]), ""),
    "every second line is lost": (log([EVERY_TENTH, LONG[0], *LONG[1::2]]), "iterations-missing"),
    "every tenth iteration has a line": (log([EVERY_TENTH, *LONG]), ""),
    "every twentieth iteration has a line": (log(LONG[1::2]), ""),
    "every twentieth has one, then every tenth": (log([*LONG[1:6:2], *LONG[6:]]), ""),
    "every tenth has one, then every twentieth": (log([LONG[0], *LONG[1::2]]), ""),
    "a line is lost before the window": (log([*LONG[:1], *LONG[2:]], warmup=30), ""),
    "a line is lost behind it": (log([*LONG[:9], *LONG[10:]], warmup=10, iterations=80), ""),
    "the head is cut off": (log(run([0.5] * 8, first=4000), warmup=20), "iterations-missing"),
    "its first iteration is cut off": (
        log(run([0.5] * 8, first=21), warmup=20),
        "iterations-missing",
    ),
    "all before the window is cut off": (log(run([0.5] * 8, first=20), warmup=20), ""),
    "it says that it resumes": (log(RESUMED, warmup=20), "restarted"),
    "mmcv prints an evaluation for a record": (log([*LONG[:4], VALIDATED, *LONG[5:]]), ""),
    "it explains no second line": (log([*LONG[:4], VALIDATED, *LONG[6:]]), "iterations-missing"),
    "the end of an epoch is in no record": (log(EPOCHS, format="tsm"), ""),
    "its last line is lost": (log([*EPOCHS[:4], *EPOCHS[5:]], format="tsm"), "iterations-missing"),
    "an epoch is missing": (log(OTHER_EPOCHS, format="tsm"), "iterations-missing"),
    "the first epoch is missing": (log(EPOCHS[5:], format="tsm"), "iterations-missing"),
    "the last interval is shorter": (log(run([0.5] * 8, total=85)), ""),
    "the same log twice": (log([*STEADY, *STEADY]), "repeated-lines"),
    "a later run behind it": (log([*STEADY, *run([0.5] * 8, at=1000)]), "two-runs"),
    "it ends early": (log(run([0.5] * 8, total=80_000)), "ends-early"),
    "ranks of another total": (log([*RANKS[::2], *LONG], gpus=2), "two-runs"),
    "PaddleClas goes on": (log([*EARLIER[:-3], LOADED, *LATER], **DYGRAPH), "restarted"),
    "it does not say so": (log([*EARLIER[:-3], *LATER], **DYGRAPH), "two-runs"),
    "a step of ours behind the window is missing": (planned(WITHOUT_A_STEP), ""),
    # Figures that cannot be.
    "minutes in the first line": (log(run([90.0, *[0.5] * 19])), "reject unsteady"),
    "two fast lines": (log(run([*[0.5] * 7, 0.25, 0.25])), "unsteady"),
    "a slow line": (log(run([*[0.5] * 8, 0.76])), "unsteady"),
    "it waits for data": (log(WAITING), "loader-stall"),
    "stamps of twice the time": (log(TWICE_AS_FAST), "clock-mismatch"),
    "lines that arrive late": (mine(0.12), "arrival-mismatch"),
    "lines that arrive early": (mine(0.04), "arrival-mismatch"),
    "an evaluation between epochs": (log(EVALUATED), ""),
    "a gap without a reason": (between("flushing"), "clocks-apart"),
    "a gap with an evaluation": (between("evaluating"), ""),
    "a gap between two epochs": (between("flushing", epoch=2), ""),
    "AI-Rank's test does not end": (log([airank(0, "test_begin"), *STEADY]), "ends-early"),
    "a loss that is no number": (log(NO_LOSS), "loss-not-finite"),
    "in the warm-up": (log(NO_FIRST_LOSS, warmup=10), "warn loss-not-finite"),
    "few iterations": (log(STEADY, at_least=200), "too-few-iterations"),
    # Programs that stop after N iterations may print one less.
    "2 % fewer than asked for": (log(run([0.5] * 11), warmup=10, at_least=102), ""),
    "more than 2 % fewer": (log(run([0.5] * 11), warmup=10, at_least=103), "too-few-iterations"),
    "few records": (log(STEADY, warmup=50), "too-few-records"),
    "no step at all": (planned(MASTER[:2]), "too-few-records too-few-iterations"),
    "a mean that is rounded": (log(COARSE, **TSM), ""),
    # More than the GPU can do: 15.7 TFLOP/s in FP32, 125 in FP16; 156 in TF32.
    "a V100 in FP32": (on(V100, 0.5), "above-peak"),
    "a V100 in AMP": (on(V100, 0.5, "amp"), ""),
    "a faster one in AMP": (on(V100, 0.05, "amp"), "above-peak"),
    "perhaps in AMP": (on(V100, 0.5, None), ""),
    "an A100 may have used TF32": (on(A100, 0.4), ""),
    "a ResNet that must have": (on(A100, 0.4, benchmark="deeplabv3p"), "tf32-likely"),
    "one that need not": (on(A100, 0.8, benchmark="deeplabv3p"), ""),
    "too fast for TF32": (on(A100, 0.05), "above-peak"),
    "a GPU without a data sheet": (on("Mystery 1", 0.001), ""),
    "no GPU": (on(None, 0.001), ""),
    "a GPU that is given": (on(None, 0.5, gpu_model=V100), "above-peak"),
    "the log's GPU comes before it": (on(A100, 0.5, gpu_model=V100), ""),
    "a smoke run is not judged": (on(V100, 0.5, smoke=True), ""),
    "our trainer without TF32": (fast(tf32=False), "above-peak"),
    "our trainer with TF32": (fast(tf32=True), ""),
    # GPUs, precision, model: what was planned, or said by the user.
    "more ranks than GPUs": (log(RANKS, gpus=1), "gpu-count"),
    "as many ranks as GPUs": (log(RANKS, gpus=2), ""),
    "the environment counts nodes": (seg("PADDLE_TRAINERS_NUM=1"), "gpu-count"),
    "the GPUs are given": (seg("PADDLE_TRAINERS_NUM=1", gpus=4), ""),
    "others are given": (seg("PADDLE_TRAINERS_NUM=1", gpus=1), "gpu-count"),
    "the launcher counts processes": (seg(box(8), gpus=4), "gpu-count"),
    "the environment agrees": (seg("PADDLE_TRAINERS_NUM=4"), ""),
    "program and launcher overrule it": (seg("PADDLE_TRAINERS_NUM=1", box(4)), ""),
    "another framework": (log(STEADY, framework="paddle"), "framework"),
    "a configuration without AMP": (log(CONFIG, precision="amp"), "precision"),
    "as it was planned": (log(CONFIG, precision="fp32"), ""),
    "a configuration that never has it": (
        log(SILENT_SEG, **(SEG | {"precision": "amp"})),
        "precision-unverified",
    ),
    "neither it nor anybody": (
        log(SILENT_SEG, **(SEG | {"precision": None})),
        "precision-unverified",
    ),
    "its default": (log(SILENT_SEG, **(SEG | {"precision": "fp32", "by_user": True})), ""),
    "another size of the model": (seg(parameters=43_589_878), "other-benchmark"),
    "a format alone has no model": (log(["type='FCNHead',", *STEADY], model="DeepLabV3+"), ""),
    "it states nothing": (log(STEADY, **SAID), UNSTATED),
    "it states all": (log([HEAD + "Config:", *STATED, *STEADY], **SAID), ""),
    "it was started with these values": (log(STEADY, **SAID | {"by_user": False}), ""),
    "as many ranks as are said": (log(ALL_RANKS, **SAID), UNSTATED.partition(" ")[2]),
    "it names no model": (log(HEADLESS, **NAMED, by_user=True), "model-unverified"),
    "none of it is known": (log(OTHER_HEAD, **PLANNED, gpus=2, by_user=True), "model-unverified"),
    "a run of our own names no model": (log(HEADLESS, **NAMED), ""),
    "another model": (log(OTHER_HEAD, **NAMED, by_user=True), "other-benchmark"),
    "the benchmark's model": (log(RIGHT_HEAD, **NAMED, by_user=True), ""),
    # Batches.
    "another batch": (log(["    samples_per_gpu=8,", *STEADY]), "batch-size"),
    "no batch": (log(EPOCHS, format="tsm", batch_size=None), "reject batch-unverified"),
    "none of the catalog's": (log(["samples_per_gpu=1,", *STEADY], **BATCHES), "batch-size"),
    "one of the catalog's": (log(["samples_per_gpu=2,", *STEADY], **BATCHES), ""),
    "1700 samples in 100 steps of 16": (sized(1700), "batch-mismatch"),
    "1600, as many as there are": (sized(1600), ""),
    "1584, the last step left out": (sized(1584), ""),
    "1583": (sized(1583), "batch-mismatch"),
    "1616, the last step smaller": (sized(1616), ""),
    "1617": (sized(1617), "batch-mismatch"),
    "12800 on 8 GPUs": (sized(12800, gpus=8), ""),
    "1600 on 8 GPUs": (sized(1600, gpus=8), "batch-mismatch"),
    "a hash is not a size": (sized("37724b19b6e5d41f"), ""),
    "two steps of fewer samples": (sized(15, 2, 1), "batch-mismatch"),
    "two steps of more samples": (sized(49, 2, 1), "batch-mismatch"),
    "the job's batch": (log(CLAS_2020, **CLAS), ""),
    "another batch of the job": (log(CLAS_512, **CLAS), "batch-mismatch"),
    "a card's batch": (clas(64), ""),
    "another batch of a card": (clas(48), "batch-mismatch"),
    "2 % more": (log(video(16, factor=1.0203), **VIDEO), ""),
    "multiplied by the GPUs": (
        log(video(16, factor=8), **UNKNOWN_BATCH),
        "batch-mismatch clock-mismatch",
    ),
    "multiplied, by its own stamps": (
        log(
            FOUR_WORKERS_EIGHTFOLD,
            "repeated-lines",
            format="plsc",
            gpus=4,
            batch_size=100,
            warmup=10,
        ),
        "clock-mismatch",
    ),
    "multiplied, and given": (log(video(None, factor=8), **VIDEO), "batch-size"),
    "one sample more": (log(video(None, factor=17 / 16), **VIDEO), "batch-size"),
    "10 % more": (log(video(16, factor=1.1), **UNKNOWN_BATCH), "batch-mismatch"),
    "10 %, and given": (log(video(None, factor=1.1), **VIDEO), "batch-mismatch"),
    "nothing shows it": (log(video(None, factor=8), **UNKNOWN_BATCH), ""),
    # The log's own summary.
    "an epoch's rate of twice its lines": (dle("256.00"), "summary-mismatch"),
    "steps behind the last are slower": (dle("149.00"), ""),
    "an epoch's sum": (summed(0.1, 9.5), ""),
    "printed steps are faster than all": (sampled(161 * 0.2, each=0.1), "sampled-steps"),
    # The mean of the printed rates is 71.6; these are 69.6, 73.6 and 67.8.
    "5 % slower": (sampled(38.0), "sampled-steps"),
    "the epoch lies in the window": (
        sampled(161 * 0.2, each=0.1, warmup=0),
        "clock-mismatch reject unsteady",
    ),
    "a whole run's rate alone": (declared(["done: 64.0"]), "summary-only"),
    # It holds the warm-up, too: half of the lines' rate, to a tenth more.
    "a whole run's rate": (declared([*RECORDS, "done: 32.5"], PATTERN), ""),
    "under half of the lines": (declared([*RECORDS, "done: 31.5"], PATTERN), "summary-mismatch"),
    "a tenth more than the lines": (declared([*RECORDS, "done: 70.3"], PATTERN), ""),
    "more than a tenth": (declared([*RECORDS, "done: 70.5"], PATTERN), "summary-mismatch"),
    "a draft of a format": (declared(RECORDS, PATTERN, confirmed=False), "format-unconfirmed"),
    "an unread number": (declared([*RECORDS, "step 9 ips 1,064.5"], PATTERN), "unread-number"),
    # Our own trainers, and their plan.
    "another world size": (ours(replicas=4), "gpu-count trainer-count"),
    "a rank did not start": (lambda: both(worker=["nothing here"]).reasons, "trainer-count"),
    "another run": (ours(worker={"run_id": "another"}), "two-runs"),
    "another batch on a rank": (ours(worker={"batch_size_per_gpu": 8}), "two-runs"),
    "other GPUs": (ours("environment", OF_V100, OF_A100), "mixed-gpu-model"),
    "another benchmark": (ours(master={"benchmark": "tsm"}), "other-benchmark"),
    "another variant": (ours(master={"variant": "paddleseg"}), "other-benchmark"),
    "on a CPU": (ours(expected=replace(FROM_PLAN, device="cuda")), "device"),
    "a smoke run": (ours(expected=replace(FROM_PLAN, smoke=False)), "preset"),
    "AMP without effect, a smoke run": (effective("smoke", "cpu"), f"warn {NO_EFFECT}"),
    "its device is not known": (effective("smoke", "cpu", is_known=False), f"warn {NO_EFFECT}"),
    "of full size": (effective("full", "cpu"), NO_EFFECT),
    "on a GPU": (effective("smoke", "cuda"), NO_EFFECT),
    "its summary": (ours("summary", {"window": SUM}), ""),
    "other seconds": (ours("summary", {"window": SUM | {"seconds": 3.9}}), "summary-mismatch"),
    "other samples": (ours("summary", {"window": SUM | {"samples": 80}}), "summary-mismatch"),
    "another rate": (ours("summary", {"window": SUM | RATE}), "summary-mismatch"),
    "a summary of little": (ours("summary", {"window": FEW}), ""),
    "a thousandth more parameters": (parameters(100_100), ""),
    "a thousandth fewer": (parameters(99_901), ""),
    "one more": (parameters(100_101), "other-benchmark"),
    "one fewer": (parameters(99_899), "other-benchmark"),
    "in a small model": (parameters(100_101, smoke=True), ""),
    "a smoke run of the catalog's": (planned(MASTER, BY_CATALOG), f"device preset {SHORT}"),
    "with a small model": (planned(of_full_size(MASTER), BY_CATALOG), f"other-benchmark {SHORT}"),
    "with a format alone": (planned(MASTER, Expectation(format="k8sbench", by_user=True)), ""),
    "a window of the catalog": (window(4, 8), ""),
    "a longer warm-up than it": (window(2, 8), ""),
    "fewer iterations": (window(4, 80), "too-few-iterations"),
    "a shorter warm-up": (window(5, 8), "short-warmup"),
    "sockets": (sockets("Socket a", "Socket b"), "sockets-between-nodes"),
    "sockets on one side": (sockets("IB a", "Socket b"), "sockets-between-nodes"),
    "on two hosts, without pods": (sockets("Socket -", "Socket -"), "sockets-between-nodes"),
    "on one node": (sockets("Socket a", "Socket a"), ""),
    "nothing is known of the transport": (sockets("- a", "- b"), ""),
    "a Paddle that was never tried": (on_paddle("3.0.0"), "framework-untried"),
    "another one, whose number begins alike": (on_paddle("2.60.1"), "framework-untried"),
    "one that was tried": (on_paddle("2.6.2"), ""),
    "another framework's version": (ours("start", {"framework_version": "3.0.0"}), ""),
    "two replicas on a node": (nodes("a", "a", backend="kubernetes"), "shared-node"),
    "on two nodes": (nodes("a", "b", backend="kubernetes"), ""),
    "one may have been on another": (nodes("a", None, backend="kubernetes"), ""),
    "packed on a node": (nodes("a", "a", backend="kubernetes", pack=True), ""),
    "local replicas": (nodes("a", "a", backend="local"), ""),
    "the last attempt's nodes": (lambda: both(MASTER_ON_A, MOVED, CLUSTER).reasons, "shared-node"),
    # Training, archives and what happened to the job.
    "another run goes on": (goes_on("-100000-x7k2qd", "-110000-other2"), "two-runs"),
    "with another batch": (goes_on('_per_gpu": 4', '_per_gpu": 8'), "two-runs"),
    "with other data": (goes_on('"d1"', '"d2"'), "two-runs"),
    "as it was": (goes_on('"d1"', '"d1"'), ""),
    "evaluations that its times leave out": (paused(PAUSED), ""),
    "evaluations that they do not": (paused(""), "clock-mismatch"),
    "twice as long ones": (paused('"paused_seconds": 22.0, '), "clock-mismatch"),
    "a sample is broken": (log(UNREAD, **OURS), "broken-samples"),
    "an evaluation is missing": (log(UNEVALUATED, **OURS), "evaluation-missing"),
    "a checkpoint failed": (log([*TRAINED, UNSAVED], **OURS), "checkpoint-failed"),
    "it was continued": (archived(history=CONTINUED), "continued"),
    "it failed in its last validation": (archived(history=(VALIDATION_FAILED,)), "exit-code"),
    "nothing was printed": (archived(), "nothing-measured"),
    "another program measured it": (by_another_program, "measured-elsewhere"),
    "lines of the window were lost": (
        lambda: incomplete.measured(incomplete.gap(10.5, 11.5)).reasons,
        "reject incomplete-log",
    ),
    # GPU metrics.
    "a lower clock": (clocks(1980, 1980, 1770), "gpu-clocks"),
    "a clock that is 10 % lower": (clocks(1980, 1800), ""),
    "another pod used the GPU": (gpus(WORKING, shared=(SHARED,)), "gpu-shared"),
    "two processes computed": (processes(1, 1, 2, *[1] * 7), "gpu-shared"),
    "one process computed": (processes(*[1] * 10), ""),
    "held down by heat": (gpus(metrics.series("throttled", [0x20] * 10)), "gpu-throttled"),
    "the driver reports an error": (gpus(metrics.series("xid", [0] * 5 + [48] * 5)), "xid-error"),
    "a GPU did nothing": (gpus(WORKING, IDLE, count=2), "metrics-at-odds"),
    "in a smoke run": (gpus(WORKING, IDLE, count=2, preset="smoke"), ""),
    # Utilization is not known of parts of a GPU, or rounds to 0.
    "another metric shows the work": (gpus(WORKING, IDLE, ENGINE, count=2), ""),
    "more GPUs than planned": (gpus(*THREE, count=2), "metrics-at-odds"),
    "the third is nearly idle": (gpus(*THREE[:2], NEARLY_IDLE, count=2), ""),
    "another clock of Prometheus": (
        gpus(metrics.series("gpu_utilization", metrics.IDLE["last"])),
        "clocks-apart",
    ),
    "a GPU by another name": (model("Tesla V100-SXM2-32GB", "NVIDIA V100-SXM2-32GB"), ""),
    "a part of a GPU": (model(A100, f"{A100} MIG 1g.5gb"), ""),
    "another GPU": (model("NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB"), "metrics-at-odds"),
}
"""Log and expected finding ids; ``warn`` if only the rule rejects."""


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_its_findings_with_the_actions_of_their_rules(case: str) -> None:
    make, expected = CASES[case]
    findings = [*make()]
    shown = [
        found.id
        if found.severity == rules.ALL[found.id].severity
        else f"{found.severity} {found.id}"
        for found in findings
    ]
    assert " ".join(shown) == expected
    assert [found.action for found in findings] == [
        rules.ALL[found.id].action for found in findings
    ]


def test_every_rule_has_a_case_and_its_sentence_is_golden() -> None:
    first: dict[tuple[str, str], Finding] = {}
    for make, _ in CASES.values():
        for found in make():
            first.setdefault((found.id, found.severity), found)
    assert {name for name, _ in first} == {*rules.ALL}
    made = "".join(
        f"{name} ({severity}): {found.sentence}\n"
        for (name, severity), found in sorted(first.items())
    )
    goldens.check(Path(__file__).with_name("findings.txt"), made)
