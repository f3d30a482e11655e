"""``k8sbench measure LOG --declare``: a first benchmark's file for a log that nothing reads."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model import notation
from k8sbench.model.notation import Pattern
from k8sbench.reader import guessing
from k8sbench.reader.json_fields import JsonFields
from tests.reader.family_logs import ALL
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.measure.declaring import confirmed, moments


def stamped(
    line: str, seconds: float, form: str = "%Y-%m-%d %H:%M:%S", every: int = 10
) -> list[str]:
    """Return 40 lines; ``{at}``, ``{step}`` and ``{loss}`` differ."""
    return [
        line.format(at=at, step=every * n, loss=f"{4 - n / 20:.4f}")
        for n, at in enumerate(moments(40, seconds, form), 1)
    ]


OWN = stamped("{at} step {step}/400 loss {loss} 412.7 img/s", 2)
ARCFACE = [
    f"Training: {at},319-Speed 64.50 samples/sec   Loss {40 - n}.6965   "
    f"LearningRate 0.016000   Epoch: {n // 8}   Global Step: {20 * n}   Required: 0 hours"
    for n, at in enumerate(moments(20, 320 / 64.5), 2)
]
TIMM = [
    f"Train: {epoch} [{step:>4d}/100 ({step + 1:>3d}%)]  Loss: 2.10 (2.14)  "
    "Time: 0.250s,   64.00/s  (0.604s,   26.49/s)  LR: 1.000e-05  Data: 0.007 (0.012)"
    for epoch in (0, 1)
    for step in range(0, 100, 10)
]
TESTS = ["Test: [   2/3]  Time: 0.145 (0.240)  Loss:   2.092 ( 2.083)"] * 90
SHORT_DATE = [
    f"{at} - INFO - Iter(train) [{n:>2d}/30]  lr: 1.0e-02  time: 0.5000  "
    f"data_time: 0.0217  loss: 4.{n}"
    for n, at in enumerate(moments(30, 0.5, "%m/%d %H:%M:%S"), 1)
]
JSON = [f'{{"step": {50 * n}, "loss": {n}.25, "tokens_per_second": 1200.5}}' for n in range(20)]
MEGATRON = (
    " [{at}] iteration {step:>8}/     500 | consumed samples: 2560 | elapsed time per iteration "
    "(ms): 4000.0 | throughput per GPU (TFLOP/s/GPU): 40.4 | learning rate: 1.500000E-06 | "
    "global batch size:   256 | lm loss: {loss}E+00 | loss scale: 1.0 | grad norm: 5.960 | "
    "number of skipped iterations:   0 | number of nan iterations:   0 |"
)
TITAN = (
    "\x1b[31mstep: {step:>2}  \x1b[32mloss: {loss}  grad_norm: 1.2  \x1b[33mmemory: "
    "47.31GiB(59.7%)  \x1b[34mtps: 7,301  \x1b[36mtflops: 410.22  \x1b[35mmfu: 41.48%\x1b[39m"
)
DEEPSPEED = (
    "[{at},171] [INFO] [timer.py:199:stop] epoch=0/micro_step={step}/global_step={step}, "
    "RunningAvgSamplesPerSec=150.5, CurrSamplesPerSec=160.1, MemAllocated=3.96GB"
)
PADDLE_OCR = (
    "[{at}] ppocr INFO: epoch: [2/72], global_step: 1{step:03}, lr: 0.001000, acc: 0.5, loss: "
    "{loss}, avg_reader_cost: 0.02000 s, avg_batch_cost: 0.71000 s, avg_samples: 128.0, ips: "
    "180.28169 samples/s, eta: 1:00:00"
)
SWIN = [
    f"[{at} swin_tiny] (main.py 200): INFO Train: [{n // 26}/300][{50 * (n % 26)}/1251]\t"
    "eta 0:10:00 lr 0.000010\ttime 0.3500 (0.4012)\tloss 6.9 (6.9)"
    for n, at in enumerate(moments(52, 17.5))
]
LLM = stamped("{at} step {step} loss {loss} throughput: 122.0K tok/s dt=0.5", 10.74)
CASES: dict[str, tuple[list[str], dict[str, str], float]] = {
    "a program of one's own": (OWN, {"batch_size": "{fp32: 80}"}, 412.7),
    "arcface_torch": (ARCFACE, {"batch_size": "{fp32: 16}"}, 64.5),
    "timm, whose evaluations have more lines": (TIMM + TESTS, {}, 64.0),
    "seconds of a step, with the batch in the head": (
        ["batch_size:        16", *SHORT_DATE],
        {},
        32.0,
    ),
    "steps per second": (
        ["batch size 8", *(f"iter {n}, speed: 4.50 step/s, loss 0.5" for n in range(30))],
        {},
        36.0,
    ),
    "JSON": (JSON, {}, 1200.5),
    "JSON of MMEngine": (
        [
            f'{{"lr": 0.01, "data_time": 0.1, "loss": 1.0, "time": 0.5, "epoch": {n // 20 + 1}, '
            f'"memory": 1000, "step": {10 * n}}}'
            for n in range(1, 101)
        ],
        {"batch_size": "{fp32: 8}"},
        16.0,
    ),
    "epochs and iterations in brackets": (
        [f"[e {n // 10}][{n % 10 + 1:>2d}/10] 0.25 s/it, cost 0.25" for n in range(40)],
        {},
        4.0,
    ),
    "steps of the run beside epochs": (
        [f"epoch {n // 10} | step {n} | ips: 5.5 | elapsed {n}.1s" for n in range(1, 40)],
        {},
        5.5,
    ),
    "a rate after its label": (
        stamped("step {step} loss {loss} tokens/s 52001", 1),
        {},
        52001.0,
    ),
    "keys and values": (
        stamped("step={step} loss={loss} samples_per_sec=520.1 lr=1e-4", 1),
        {},
        520.1,
    ),
    "the wait for data first": (
        stamped("iter {step} data_time 0.0100 batch_time 0.5123 loss 3.21", 1),
        {"batch_size": "{fp32: 8}"},
        8 / 0.5123,
    ),
    "the wait for the reader first": (
        stamped("step {step}, reader_cost: 0.0100 s, batch_cost: 0.5123 s, loss: 3.21", 1),
        {"batch_size": "{fp32: 8}"},
        8 / 0.5123,
    ),
    "the wait and the remaining time in other words": (
        stamped(
            "{at} | it {step} | remaining 90.5 s | load 0.2 s | acc 0.93 | lr 0.1 | iter_time 0.5",
            5,
        ),
        {"batch_size": "{fp32: 8}"},
        16.0,
    ),
    "Megatron-LM": (stamped(MEGATRON, 40), {"batch_size": "{fp32: 256}"}, 64.0),
    "torchtitan": (
        [
            f"[rank0]:{at},512 - root - INFO - {line}"
            for at, line in zip(moments(40, 10), stamped(TITAN, 1), strict=True)
        ],
        {"batch_size": "{fp32: 1}", "sequence_length": "7301"},
        7301.0,
    ),
    "nanoGPT": (
        stamped("iter {step}: loss {loss}, time 244.00ms, mfu 41.23%", 1),
        {"batch_size": "{fp32: 12}"},
        12 / 0.244,
    ),
    "DeepSpeed": (stamped(DEEPSPEED, 8), {"batch_size": "{fp32: 128}"}, 160.1),
    "PaddleOCR": (stamped(PADDLE_OCR, 7.1), {"batch_size": "{fp32: 128}"}, 180.28169),
    "Swin": (SWIN, {"batch_size": "{fp32: 128}"}, 128 / 0.35),
    "Lightning": (
        stamped("Epoch 0: {step}/400 [00:10<00:10, 3.21it/s, v_num=0, train_loss={loss}]", 1),
        {"batch_size": "{fp32: 8}"},
        8 * 3.21,
    ),
    "thousands of tokens": (LLM, {"sequence_length": "131028"}, 122000.0),
}
"""Lines, the values that the user corrects, and the figure."""


@pytest.mark.parametrize("name", CASES)
def test_the_file_measures_the_log_that_it_was_written_for_once_it_is_confirmed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    lines, values, rate = CASES[name]
    monkeypatch.chdir(tmp_path)
    Path("train.log").write_text("\n".join(["starting …", *lines, "done"]) + "\n")
    text, err = cli("measure", "train.log", "--declare")
    # Of some programs there is a family by now.
    assert re.fullmatch(r"(k8sbench measure train.log reads it as \S+ without a file.\n)?", err), (
        err
    )
    Path("mine.yaml").write_text(confirmed(text, values))
    _, matched, *_ = cli("explain", "mine.yaml", "train.log").out.splitlines()
    assert re.match(r"(record|summary|fields) of pytorch/base matches \d", matched), matched
    words = ("measure", "train.log", "--benchmark", "mine.yaml", "--gpus", "1", "-o", "json")
    (found,) = json.loads(cli(*words).out)
    estimator = "printed_steps" if found["estimator"] == "printed_steps" else "time_weighted"
    assert (found["verdict"], found["throughput"][estimator]) == ("valid", pytest.approx(rate))
    # Each value is a guess, and says so.
    written = [line for line in text.splitlines() if re.search(r"(?:: |- ).", line)]
    assert [line for line in written if "# " not in line] == []


OTHERS: dict[str, tuple[str, str, str, str]] = {
    "a speed in seconds": (
        "iter {step} | speed: 0.25 s/iter | lr 0.1 | loss {loss}",
        *("0.25", "s/step", "job"),
    ),
    "a time that is a rate": (
        "iter {step} | time 412.5 img/s | fetch 0.1 s | loss {loss}",
        *("412.5", "images/s", "job"),
    ),
    "frames a second": (
        "iter {step} 312.5 fps acc 0.5 loss {loss}",
        *("312.5", "images/s", "job"),
    ),
    "labels of tokens after a time and a rate": (
        "iter {step} time 0.5 steps/s 2.1 tokens/s 52001 loss {loss}",
        *("52001", "tokens/s", "job"),
    ),
    "units of a rate and a time after a label": (
        "iter {step} speed 412.5 img/s 0.25 s/it loss {loss}",
        *("412.5", "images/s", "job"),
    ),
    "a unit before a number without a label": (
        "iter: {step} ips: 630.25 sequences/s 12 loss: {loss}",
        *("630.25", "sequences/s", "card"),
    ),
    "an elapsed time before a rate": (
        "step={step} tokens=4096 elapsed_s=0.31 tokens/sec=13212.9 speed=0.2 min/epoch",
        *("13212.9", "tokens/s", "job"),
    ),
    "a bandwidth and a loss a second": (
        "step {step} bandwidth 300.1 GB/s loss/s 3.5 loss {loss} 412.5 img/s",
        *("412.5", "images/s", "job"),
    ),
    "JSON without a step": (
        'Trained batch {step} in epoch 0, metrics: {{"loss": {loss}, "samples_per_sec": 812.5}}',
        *("812.5", "samples/s", "job"),
    ),
    "a label of tokens after a loss": (
        "step {step} loss {loss} tokens/s 52001",
        *("52001", "tokens/s", "job"),
    ),
    "fairseq": (
        (
            "{at} | INFO | train_inner | epoch 001:    {step} / 9000 loss={loss}, ppl=14.2, "
            "wps=52001.3, ups=3.2, wpb=16250, bsz=256, num_updates={step}, lr=1.2e-05, "
            "gnorm=1.2, wall=31"
        ),
        *("52001.3", "tokens/s", "job"),
    ),
    "Detectron2": (
        (
            "[{at} d2.utils.events]:  eta: 1:00:00  iter: {step}  total_loss: {loss}  "
            "loss_cls: 0.3  time: 0.3512  last_time: 0.3401  data_time: 0.0102  "
            "last_data_time: 0.0021  lr: 0.001"
        ),
        *("0.3512", "s/step", "job"),
    ),
    "torchvision": (
        (
            "Epoch: [0]  [{step:>5}/5005]  eta: 1:00:00  lr: 0.1  img/s: 409.12  loss: 6.9 "
            "(6.9)  acc1: 0.1 (0.1)  time: 0.0775  data: 0.0010  max mem: 5000"
        ),
        *("409.12", "images/s", "job"),
    ),
    "DeiT": (
        (
            "Epoch: [0]  [{step:>4}/1251]  eta: 0:10:00  lr: 0.000010  loss: 6.9 (6.9)  "
            "time: 0.3500  data: 0.0002  max mem: 5000"
        ),
        *("0.3500", "s/step", "job"),
    ),
    "PyTorch's ImageNet example": (
        (
            "Epoch: [0][{step:>5}/5005]\tTime  0.312 ( 0.412)\tData  0.001 ( 0.101)\tLoss "
            "6.9e+00 (6.9e+00)\tAcc@1   0.39 (  0.10)"
        ),
        *("0.312", "s/step", "job"),
    ),
    "GPT-NeoX": (
        (
            " samples/sec: 23.148 | iteration {step:>8}/  320000 | elapsed time per "
            "iteration (ms): 1382.0 | learning rate: 1.2E-05 | approx flops per GPU: "
            "41.3TFLOPS | lm_loss: {loss}E+00 |"
        ),
        *("23.148", "samples/s", "job"),
    ),
    "Megatron-DeepSpeed": (
        (
            " iteration {step:>8}/     500 | elapsed time per iteration (s): 4.00 | lm loss: "
            "{loss} | samples per second: 64.012 | tokens per gpu per second (tgs): 16384.1 "
            "| TFLOPs: 40.1 |"
        ),
        *("64.012", "samples/s", "job"),
    ),
    "NeMo": (
        (
            "Training epoch 0, iteration {step}/99999 | lr: 1.499e-07 | global_batch_size: "
            "512 | global_step: {step} | reduced_train_loss: {loss} | train_step_timing in "
            "s: 12.34"
        ),
        *("12.34", "s/step", "job"),
    ),
    "InternLM": (
        (
            "{at},123\tINFO train.py:256 in record -- tflops=188.4, step={step}, "
            "loss={loss}, tgs (tokens/gpu/second)=4181.17, tgs/last_tgs_1=4181.19, "
            "fwd_bwd_time=6.81, acc=0.0721"
        ),
        *("4181.17", "tokens/s", "card"),
    ),
    "MaxText": (
        (
            "completed step: {step}, seconds: 5.123, TFLOP/s/device: 201.5, Tokens/s/device: "
            "3201.2, total_weights: 65536, loss: {loss}"
        ),
        *("3201.2", "tokens/s", "card"),
    ),
    "llm.c": (
        (
            "step {step:>4}/19560 | loss {loss} (+nanz)| norm 0.3000 (+nanz)| lr 1.00e-04 | "
            "3020.12 ms | 32.1% bf16 MFU | 173601 tok/s"
        ),
        *("173601", "tokens/s", "job"),
    ),
    "Caffe": (
        (
            "I0302 {at} 12345 solver.cpp:218] Iteration {step} (4.51 iter/s, 2.2173s/10 "
            "iters), loss = {loss}"
        ),
        *("2.2173", "s/step", "job"),
    ),
    "DeepSpeed of 2022": (
        (
            "[{at},985] [INFO] [timer.py:189:stop] 0/{step}, SamplesPerSec=83.48609, "
            "MemAllocated=0.26GB"
        ),
        *("83.48609", "samples/s", "job"),
    ),
    "PaddleNLP": (
        (
            "[{at},123] [    INFO] - global step {step}, epoch: 0, batch: {step}, loss: "
            "{loss}, speed: 6.50, ips: 630.0320 sequences/s, lr: 1e-4"
        ),
        *("630.0320", "sequences/s", "card"),
    ),
    "PaddleDetection": (
        (
            "[{at}] ppdet.engine INFO: Epoch: [0] [{step:>4}/1000] learning_rate: 0.001 "
            "loss: {loss} eta: 1:00:00 batch_cost: 0.3012 data_cost: 0.0102 ips: 26.5600 "
            "images/s"
        ),
        *("26.5600", "images/s", "card"),
    ),
    "Keras": (
        (
            "{step}/10000 [==>...........] - ETA: 10:12 - 120ms/step - loss: {loss} - "
            "accuracy: 0.1234"
        ),
        *("120", "ms/step", "job"),
    ),
    "PyTorch's language model": (
        (
            "| epoch   1 | {step:>5}/ 2983 batches | lr 20.00 | ms/batch 143.20 | loss "
            "{loss} | ppl 300.1"
        ),
        *("143.20", "ms/step", "job"),
    ),
    "MLPerf": (
        (
            '":::MLLOG {{"namespace": "", "time_ms": 1600000{step:06}, "key": '
            '"tracked_stats", "value": {{"throughput": 512.0, "loss": {loss}}}, "metadata": '
            '{{"lineno": 12, "step": {step}}}}}'
        ),
        *("512.0", "samples/s", "job"),
    ),
    "a total and a smoothed rate before": (
        (
            "iter {step} total_time {step}.5 s avg speed 70.1 running throughput 60.1 "
            "throughput 64.2"
        ),
        *("64.2", "samples/s", "job"),
    ),
}
"""Line, number of its speed, unit and scope, by program."""


@pytest.mark.parametrize("name", OTHERS)
def test_the_number_that_belongs_to_its_label_is_taken(name: str) -> None:
    line, number, unit, per = OTHERS[name]
    lines = stamped(line, 10)
    guessed, found = guessing.guess(lines), pattern(lines)
    assert guessed is not None
    assert found is not None
    assert (guessed["unit"], guessed["per"]) == (unit, per)
    for written, step in ((lines[0], "10"), (lines[-1], "400")):
        match = found.search(written)
        assert match is not None
        groups = match.groupdict()
        assert (groups["iteration"], groups.get("rate") or groups["step_seconds"]) == (step, number)


HEAD = [
    "args: world_size=8, micro_batch=4, gradient_accumulation_steps=1, dtype=torch.bfloat16",
    "max_seq_len: 2048",
    "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory",
]


def proposed(lines: list[str], folder: Path, cli: Cli, *options: str) -> str:
    (folder / "a.log").write_text("\n".join(lines))
    return cli("measure", str(folder / "a.log"), "--declare", *options).out


@pytest.mark.parametrize(("rate", "verdict"), [("5,461.3", "valid"), ("2,730.7", "rejected")])
def test_stamps_and_facts_are_proposed_so_that_the_log_can_contradict(
    rate: str, verdict: str, tmp_path: Path, cli: Cli
) -> None:
    """Steps of 4 × 2048 tokens take 1.5 s."""
    lines = [*HEAD, *stamped(f"{{at}} step {{step}} loss {{loss}} {rate} tokens/s/gpu", 15)]
    (tmp_path / "mine.yaml").write_text(confirmed(proposed(lines, tmp_path, cli), {}))
    words = (str(tmp_path / "a.log"), "--benchmark", str(tmp_path / "mine.yaml"), "-o", "json")
    out, _ = cli("measure", *words, code=0 if verdict == "valid" else 5)
    (found,) = json.loads(out)
    assert (found["verdict"], found["gpus"], found["batch_size_per_gpu"]) == (verdict, 8, 4)
    assert (found["precision"], found["amp_dtype"]) == ("amp", "bf16")
    assert found["gpu_model"] == "NVIDIA H100 80GB HBM3"
    figure = (found["throughput"] or found["unverified"])["time_weighted"]
    assert figure == pytest.approx(8 * float(rate.replace(",", "")))
    assert [each["id"] for each in found["reasons"]] == (
        [] if verdict == "valid" else ["clock-mismatch"]
    )


@pytest.mark.parametrize(
    ("head", "options", "batch"),
    [
        (["micro_batch_size ............ 4", "gradient_accumulation_steps: 8"], [], "32"),
        (["Instantaneous batch size per device = 4", "Total train batch size = 32"], [], "4"),
        (["global_batch_size: 256"], ["--gpus", "8"], "32"),
        (["global_batch_size: 256"], [], "1"),
        (["global_batch_size: 260"], ["--gpus", "8"], "1"),
        (["train_batch_size: 256", "num_gpus: 8"], [], "32"),
        (["batch_size: 16"], ["--batch-size", "8"], "8"),
        (["'batch_size': 16,"], [], "16"),
        (["micro_batch_size: 4", "rank 1: micro_batch_size: 8"], [], "1"),
    ],
)
def test_a_batch_of_all_gpus_is_not_proposed_as_one_gpus(
    head: list[str], options: list[str], batch: str, tmp_path: Path, cli: Cli
) -> None:
    text = proposed([*head, *SHORT_DATE], tmp_path, cli, *options)
    assert f"{{fp32: {batch}}}" in text


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("%Y-%m-%d %H:%M:%S,%f", "{at} step {step} 5 img/s"),
        ("%Y/%m/%d %H:%M:%S", "[{at}] step {step} 5 img/s"),
        ("%m/%d/%Y %H:%M:%S", "{at} - INFO - step {step} 5 img/s"),
        ("%m%d %H:%M:%S.%f", "I{at} 140 loop.py:145] step {step} 5 img/s"),
        ("%b %d %H:%M:%S", "{at} host train: step {step} 5 img/s"),
        ("%H:%M:%S", "[{at}] step {step} 5 img/s"),
        ("s", '{{"ts": 161800{step:0>4}.5, "step": {step}, "img_per_sec": 5}}'),
    ],
)
def test_stamps_of_many_forms_are_found(form: str, line: str) -> None:
    guessed = guessing.guess(stamped(line, 2, "%s" if form == "s" else form))
    assert guessed is not None
    assert f'stamp_format: "{form}"' in str(guessed["more"])


@pytest.mark.parametrize(
    "line",
    [
        "nothing of the kind",
        "step {} loss 2.5",
        "step {} acc 0.{} lr 0.1 data_time 0.2 ETA 10.{} s",
        "step {}: the train moves at {} km/h",
        "412.{} img/s",
        "step {} loss 1.5 time 0,5{} s",
        "step {} loss 1.5 time 1,{} s",
        "step {} loss 1,1234 speed 64,{} samples/s",
        "eval step {} 412.7 img/s",
        "epoch 1:  10%|█         | 1/10 [00:00<00:01,  8.{}it/s]",
        "  1/90   4.03G   1.189   85   640: 10% ━╸──────── {}/400 8.{}it/s 0:05<0:45",
    ],
)
def test_a_log_without_times_is_one_error(line: str, tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"{line}\n".replace("{}", str(n)) for n in range(10, 40)))
    out, err = cli("measure", str(log), "--declare", code=2)
    assert (out, err.count("error: ")) == ("", 1)
    assert "a.log: has no line that comes again and again" in err
    assert "Print both" in err
    assert "progress bars" in err


@pytest.mark.parametrize(
    ("log", "family"),
    [
        ("olmo", "olmo"),
        ("lerobot", "lerobot"),
        ("mlperf_throughput", "mlperf"),
        ("hf_trainer_running", "hf-trainer"),
    ],
)
def test_a_log_that_is_read_without_a_file_is_told_so_where_none_can_be_written(
    log: str, family: str, cli: Cli
) -> None:
    path = str(ROOT / "tests" / "fixtures" / "logs" / f"{log}.log")
    out, err = cli("measure", path, "--declare", code=2)
    assert out == ""
    assert f"{log}.log: has no line that comes again and again" in err
    assert f"k8sbench measure {path} reads it as {family} without a file." in err
    assert "Print both" not in err


def test_a_proposed_file_has_one_format(tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(OWN))
    out, err = cli("measure", str(log), "--declare", "-o", "json", code=2)
    assert (out, err.count("error: ")) == ("", 1)
    assert "Leave out -o." in err


def pattern(lines: list[str]) -> Pattern | None:
    """Return the expression or the keys of the proposed file."""
    guessed = guessing.guess(lines)
    if guessed is None:
        return None
    said = yaml.safe_load(str(guessed["expression"]))
    return JsonFields(said) if isinstance(said, dict) else notation.compiled(said)


@pytest.mark.parametrize("family", ALL)
def test_a_line_of_any_program_is_matched_by_its_expression(family: str) -> None:
    found = pattern([ALL[family]] * 5)
    assert found is not None
    matched = found.search(ALL[family])
    assert matched is not None
    assert matched.groupdict().keys() >= {"iteration"}


PARTS = [
    "step 10k",
    "1/2",
    "[3][4/5]",
    "5 img/s",
    "it/s 7",
    "time: 1e5",
    "loss",
    "'",
    "\t",
    "$",
    "",
]


@given(st.lists(st.one_of(st.sampled_from([*PARTS, *ALL.values()]), st.text()), max_size=6))
def test_any_lines_are_guessed_at_or_not(parts: list[str]) -> None:
    line = " ".join("".join(parts).split("\n"))
    found = pattern([line] * 5)
    assert found is None or found.search(line.encode(errors="replace").decode())
