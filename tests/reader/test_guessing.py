"""Guesses of the format of a log that no family reads: its line, rate, batch and stamps."""

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model import notation
from k8sbench.model.notation import Pattern
from k8sbench.reader import guessing
from k8sbench.reader.json_fields import JsonFields
from tests.reader.declarable import SHORT_DATE, stamped
from tests.reader.family_logs import ALL


def pattern(lines: list[str]) -> Pattern | None:
    """Return the expression or the keys of the proposed file."""
    guessed = guessing.guess(lines)
    if guessed is None:
        return None
    said = yaml.safe_load(str(guessed["expression"]))
    return JsonFields(said) if isinstance(said, dict) else notation.compile_expression(said)


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


@pytest.mark.parametrize(
    ("head", "known", "batch"),
    [
        (["micro_batch_size ............ 4", "gradient_accumulation_steps: 8"], {}, 32),
        (["Instantaneous batch size per device = 4", "Total train batch size = 32"], {}, 4),
        (["global_batch_size: 256"], {"gpus": 8}, 32),
        (["global_batch_size: 256"], {}, 1),
        (["global_batch_size: 260"], {"gpus": 8}, 1),
        (["train_batch_size: 256", "num_gpus: 8"], {}, 32),
        (["batch_size: 16"], {"batch": 8}, 8),
        (["'batch_size': 16,"], {}, 16),
        (["micro_batch_size: 4", "rank 1: micro_batch_size: 8"], {}, 1),
    ],
)
def test_a_batch_of_all_gpus_is_not_proposed_as_one_gpus(
    head: list[str], known: dict[str, int], batch: int
) -> None:
    guessed = guessing.guess([*head, *SHORT_DATE], **known)
    assert guessed is not None
    assert guessed["batch"] == batch


@pytest.mark.parametrize(
    ("head", "known", "per"),
    [([], {"batch": 8}, "job"), (["global_batch_size: 512"], {}, "card")],
)
def test_a_rate_by_whole_batches_is_the_job_s_or_one_gpu_s_whatever_the_number_of_gpus(
    head: list[str], known: dict[str, int], per: str
) -> None:
    lines = [*head, *stamped("step {step} loss 6.9 256.0 samples/s 0.25 s/it", 1)]
    guessed = guessing.guess(lines, **known)
    assert guessed is not None
    assert guessed["per"] == per


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
        "step {n} loss 2.5",
        "step {n} acc 0.{n} lr 0.1 data_time 0.2 ETA 10.{n} s",
        "step {n}: the train moves at {n} km/h",
        "412.{n} img/s",
        "step {n} loss 1.5 time 0,5{n} s",
        "step {n} loss 1.5 time 1,{n} s",
        "step {n} loss 1,1234 speed 64,{n} samples/s",
        "eval step {n} 412.7 img/s",
        "epoch 1:  10%|█         | 1/10 [00:00<00:01,  8.{n}it/s]",
        "  1/90   4.03G   1.189   85   640: 10% ━╸──────── {n}/400 8.{n}it/s 0:05<0:45",
    ],
)
def test_a_log_without_times_has_no_format(line: str) -> None:
    assert guessing.guess([line.replace("{n}", str(n)) for n in range(10, 40)]) is None


@pytest.mark.parametrize(
    "line",
    [
        "Step {step}: the train moves at {step} km/h and arrives",
        "Step {step}: the car goes 12 m/s now",
        "Step {step}: the shop sells 5 apples per hour",
        "Step {step}: he types 45 words per minute",
    ],
)
def test_the_text_of_an_answer_has_no_rate(line: str) -> None:
    assert guessing.guess(stamped(line, 1)) is None


def test_a_fact_is_read_by_the_expression_that_is_written() -> None:
    """The head's table has another form of the label than its first mention."""
    lines = [
        "micro_batch_size_per_gpu: 4",
        "batch_size_per_gpu=4",
        *stamped("step {step} time 0.5", 1),
    ]
    guessed = guessing.guess(lines)
    assert guessed is not None
    (expression,) = re.findall(r"- '(.*batch_size>.*)'", str(guessed["more"]))
    read = [m["batch_size"] for line in lines if (m := re.search(expression, line))]
    assert set(read) == {"4"}
    assert guessed["batch"] == 4


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
