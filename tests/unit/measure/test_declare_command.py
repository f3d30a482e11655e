"""``k8sbench measure LOG --declare``: a first benchmark's file for a log that nothing reads."""

import json
import re
from pathlib import Path

import pytest

from tests.reader.declarable import SHORT_DATE, moments, stamped
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.measure.declaring import confirmed

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


def test_a_log_without_times_is_one_error(tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(stamped("step {step} loss {loss}", 1)))
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
