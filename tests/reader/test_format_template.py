"""The template of a log format: its line, the fields that labels name, and the questions."""

import re
import sys
from collections.abc import Sequence
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.notation import compile_expression
from k8sbench.reader import format_template, reading, training_line
from k8sbench.reader.training_line import TrainingLine
from tests.reader.declarable import SHORT_DATE, stamped
from tests.reader.family_logs import ALL


def training(lines: Sequence[str]) -> TrainingLine:
    """Return the training line of a log that has one."""
    line = training_line.find(lines)
    assert line is not None
    return line


def written(lines: Sequence[str], key: str) -> str:
    """Return a part of the template."""
    values = format_template.fill(lines)
    assert values is not None
    return str(values[key])


NAMED: dict[str, tuple[str, str, str, str | None]] = {
    "a speed in seconds": (
        ("iter {step} | speed: 0.25 s/iter | lr 0.1 | loss {loss}"),
        *("step_seconds", "0.25", "s/step"),
    ),
    "a time that is a rate": (
        ("iter {step} | time 412.5 img/s | fetch 0.1 s | loss {loss}"),
        *("rate", "412.5", "images/s"),
    ),
    "frames a second": (
        ("iter {step} 312.5 fps acc 0.5 loss {loss}"),
        *("rate", "312.5", "images/s"),
    ),
    "a bandwidth and a loss a second": (
        ("step {step} bandwidth 300.1 GB/s loss/s 3.5 loss {loss} 412.5 img/s"),
        *("rate", "412.5", "images/s"),
    ),
    "JSON without a step": (
        ('Trained batch {step} in epoch 0, metrics: {{"loss": {loss}, "samples_per_sec": 812.5}}'),
        *("rate", "812.5", "samples/s"),
    ),
    "a label of tokens after a loss": (
        ("step {step} loss {loss} tokens/s 52001"),
        *("rate", "52001", "tokens/s"),
    ),
    "fairseq": (
        (
            "{at} | INFO | train_inner | epoch 001:    {step} / 9000 loss={loss}, ppl=14."
            "2, wps=52001.3, ups=3.2, wpb=16250, bsz=256, num_updates={step}, lr=1.2e-05,"
            " gnorm=1.2, wall=31"
        ),
        *("rate", "52001.3", None),
    ),
    "Detectron2": (
        (
            "[{at} d2.utils.events]:  eta: 1:00:00  iter: {step}  total_loss: {loss}  los"
            "s_cls: 0.3  time: 0.3512  last_time: 0.3401  data_time: 0.0102  last_data_ti"
            "me: 0.0021  lr: 0.001"
        ),
        *("step_seconds", "0.3512", None),
    ),
    "DeiT": (
        (
            "Epoch: [0]  [{step:>4}/1251]  eta: 0:10:00  lr: 0.000010  loss: 6.9 (6.9)  t"
            "ime: 0.3500  data: 0.0002  max mem: 5000"
        ),
        *("step_seconds", "0.3500", None),
    ),
    "PyTorch's ImageNet example": (
        (
            "Epoch: [0][{step:>5}/5005]\tTime  0.312 ( 0.412)\tData  0.001 ( 0.101)\tLoss 6."
            "9e+00 (6.9e+00)\tAcc@1   0.39 (  0.10)"
        ),
        *("step_seconds", "0.312", None),
    ),
    "NeMo": (
        (
            "Training epoch 0, iteration {step}/99999 | lr: 1.499e-07 | global_batch_size"
            ": 512 | global_step: {step} | reduced_train_loss: {loss} | train_step_timing"
            " in s: 12.34"
        ),
        *("step_seconds", "12.34", "s/step"),
    ),
    "DeepSpeed of 2022": (
        (
            "[{at},985] [INFO] [timer.py:189:stop] 0/{step}, SamplesPerSec=83.48609, MemA"
            "llocated=0.26GB"
        ),
        *("rate", "83.48609", "samples/s"),
    ),
    "Keras": (
        (
            "{step}/10000 [==>...........] - ETA: 10:12 - 120ms/step - loss: {loss} - acc"
            "uracy: 0.1234"
        ),
        *("step_seconds", "120", "ms/step"),
    ),
    "PyTorch's language model": (
        (
            "| epoch   1 | {step:>5}/ 2983 batches | lr 20.00 | ms/batch 143.20 | loss {l"
            "oss} | ppl 300.1"
        ),
        *("step_seconds", "143.20", "ms/step"),
    ),
    "MLPerf": (
        (
            '":::MLLOG {{"namespace": "", "time_ms": 1600000{step:06}, "key": "tracked_st'
            'ats", "value": {{"throughput": 512.0, "loss": {loss}}}, "metadata": {{"linen'
            'o": 12, "step": {step}}}}}'
        ),
        *("rate", "512.0", None),
    ),
}
"""Line → the field, number and unit of its speed; None: the line states no unit."""
ASKED: dict[str, tuple[str, list[str]]] = {
    "labels of tokens after a time and a rate": (
        ("iter {step} time 0.5 steps/s 2.1 tokens/s 52001 loss {loss}"),
        ["2.1", "52001", "0.5"],
    ),
    "units of a rate and a time after a label": (
        ("iter {step} speed 412.5 img/s 0.25 s/it loss {loss}"),
        ["412.5", "0.25"],
    ),
    "a unit before a number without a label": (
        ("iter: {step} ips: 630.25 sequences/s 12 loss: {loss}"),
        ["630.25", "12"],
    ),
    "an elapsed time before a rate": (
        ("step={step} tokens=4096 elapsed_s=0.31 tokens/sec=13212.9 speed=0.2 min/epoch"),
        ["13212.9", "0.2"],
    ),
    "torchvision": (
        (
            "Epoch: [0]  [{step:>5}/5005]  eta: 1:00:00  lr: 0.1  img/s: 409.12  loss: 6."
            "9 (6.9)  acc1: 0.1 (0.1)  time: 0.0775  data: 0.0010  max mem: 5000"
        ),
        ["409.12", "0.0775"],
    ),
    "GPT-NeoX": (
        (
            " samples/sec: 23.148 | iteration {step:>8}/  320000 | elapsed time per itera"
            "tion (ms): 1382.0 | learning rate: 1.2E-05 | approx flops per GPU: 41.3TFLOP"
            "S | lm_loss: {loss}E+00 |"
        ),
        ["23.148", "1382.0"],
    ),
    "Megatron-DeepSpeed": (
        (
            " iteration {step:>8}/     500 | elapsed time per iteration (s): 4.00 | lm lo"
            "ss: {loss} | samples per second: 64.012 | tokens per gpu per second (tgs): 1"
            "6384.1 | TFLOPs: 40.1 |"
        ),
        ["64.012", "16384.1", "4.00"],
    ),
    "InternLM": (
        (
            "{at},123\tINFO train.py:256 in record -- tflops=188.4, step={step}, loss={los"
            "s}, tgs (tokens/gpu/second)=4181.17, tgs/last_tgs_1=4181.19, fwd_bwd_time=6."
            "81, acc=0.0721"
        ),
        ["4181.17", "4181.19"],
    ),
    "MaxText": (
        (
            "completed step: {step}, seconds: 5.123, TFLOP/s/device: 201.5, Tokens/s/devi"
            "ce: 3201.2, total_weights: 65536, loss: {loss}"
        ),
        ["3201.2", "5.123"],
    ),
    "llm.c": (
        (
            "step {step:>4}/19560 | loss {loss} (+nanz)| norm 0.3000 (+nanz)| lr 1.00e-04"
            " | 3020.12 ms | 32.1% bf16 MFU | 173601 tok/s"
        ),
        ["173601", "3020.12"],
    ),
    "Caffe": (
        (
            "I0302 {at} 12345 solver.cpp:218] Iteration {step} (4.51 iter/s, 2.2173s/10 i"
            "ters), loss = {loss}"
        ),
        ["4.51", "2.2173"],
    ),
    "PaddleNLP": (
        (
            "[{at},123] [    INFO] - global step {step}, epoch: 0, batch: {step}, loss: {"
            "loss}, speed: 6.50, ips: 630.0320 sequences/s, lr: 1e-4"
        ),
        ["6.50", "630.0320"],
    ),
    "PaddleDetection": (
        (
            "[{at}] ppdet.engine INFO: Epoch: [0] [{step:>4}/1000] learning_rate: 0.001 l"
            "oss: {loss} eta: 1:00:00 batch_cost: 0.3012 data_cost: 0.0102 ips: 26.5600 i"
            "mages/s"
        ),
        ["26.5600", "0.3012"],
    ),
    "a total and a smoothed rate before": (
        (
            "iter {step} total_time {step}.5 s avg speed 70.1 running throughput 60.1 thr"
            "oughput 64.2"
        ),
        ["70.1", "60.1", "64.2"],
    ),
}
"""Line → the numbers that may be its speed."""


@pytest.mark.parametrize("name", NAMED)
def test_a_label_that_is_certain_names_the_speed(name: str) -> None:
    form, field, number, unit = NAMED[name]
    lines = stamped(form, 10)
    (speed,) = training(lines).speeds
    assert (speed.meaning.field, speed.number.texts[0]) == (field, number)
    assert re.search(
        rf"\n        {field}: {re.escape(speed.place)}\b|{field}: '", written(lines, "fields")
    )
    assert f"\n      unit: {unit or '?'}" in written(lines, "questions")


@pytest.mark.parametrize("name", ASKED)
def test_a_speed_of_several_possible_numbers_is_asked(name: str) -> None:
    form, numbers = ASKED[name]
    lines = stamped(form, 10)
    assert [speed.number.texts[0] for speed in training(lines).speeds] == numbers
    assert "\n        speed: ?" in written(lines, "fields")
    assert "\n      unit: ?  #" in written(lines, "questions")


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ([1592939516.33 + 0.52 * n for n in range(5)], ["elapsed"]),
        ([60.5 + 1.5 * n for n in range(30)], ["elapsed"]),
        ([(n % 10) * 1.5 + 0.25 for n in range(60)], ["elapsed"]),
        ([60.5 + 1.5 * n for n in range(5)], ["step_seconds", "rate"]),
        ([400.5 * (1 - 0.9 / n) for n in range(1, 60)], ["step_seconds", "rate"]),
        ([400.5 + n / 100 for n in range(60)], ["step_seconds", "rate"]),
        ([400.5 + 50 * (n % 3) for n in range(60)], ["step_seconds", "rate"]),
    ],
    ids=[
        "Unix times",
        "since the start",
        "since the epoch's start",
        "few lines",
        "a running mean",
        "hardly another",
        "falls",
    ],
)
def test_a_number_that_runs_as_a_clock_is_offered_as_no_speed_of_a_step(
    numbers: list[float], names: list[str]
) -> None:
    lines = [f"step {n % 10} loss 3.5 <{number:.4f}>" for n, number in enumerate(numbers)]
    fields = written(lines, "fields")
    assert re.findall(r"#   (\w+): 3 ", fields) == names
    assert "speed: ?" in fields
    assert ("averaged: interval" in written(lines, "questions")) == (names == ["elapsed"])


@pytest.mark.parametrize("label", ["step time: {}", "cost {}s", "took {} s", "{} ms/step"])
def test_a_label_of_a_step_makes_no_speed_of_a_clock(label: str) -> None:
    lines = [f"step {n} loss 3.5 | {label.format(1.5 * n)}" for n in range(1, 40)]
    fields = written(lines, "fields")
    assert re.findall(r"(\w+): 3 ", fields) == ["elapsed"]
    assert "speed: ?" in fields


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("step {step} time 0.35 (0.40) loss {loss}", {"step_seconds": ["2", "3"]}),
        ("step {step} time 0.35 loss {loss} (0.40)", {"step_seconds": ["2"]}),
        ("step {step} 35.1 img/s (40.2) loss {loss} (4.1)", {"rate": ["2"]}),
        ("step {step} ips 35.1 (40.2) loss {loss} (4.1)", {"rate": ["2", "3"]}),
    ],
)
def test_the_number_in_brackets_after_the_speed_is_offered_beside_it(
    line: str, offered: dict[str, list[str]]
) -> None:
    fields = written(stamped(line, 1), "fields")
    speeds = re.findall(r"(rate|step_seconds): (\d)", fields)
    assert speeds == [(name, place) for name, places in offered.items() for place in places]


@pytest.mark.parametrize("name", [*NAMED, *ASKED])
def test_the_expression_reads_each_number_of_its_lines(name: str) -> None:
    form = (NAMED.get(name) or ASKED[name])[0]
    lines = stamped(form, 10)
    line = training(lines)
    if line.expression is None:
        return
    pattern = compile_expression(line.expression)
    for number, text in ((0, lines[0]), (-1, lines[-1])):
        match = pattern.search(text)
        assert match is not None
        read = {field.place: match[int(field.place)] for field in line.fields}
        assert all(
            read[field.place].startswith(field.number.texts[number]) for field in line.fields
        )


def test_two_numbers_before_one_unit_and_a_time_since_the_start_are_all_offered() -> None:
    lines = [
        f"Step {50 * n}/ 5000; acc: 20.18; {4466 + n}/{6179 + n % 3} tok/s; {30 * n:6d} sec"
        for n in range(1, 40)
    ]
    fields = written(lines, "fields")
    offered = re.findall(r"#   (\w+: \d)  # ([^,\n]*(?:, unit: \S+)?)", fields)
    assert [place for place, _ in offered] == ["rate: 3", "rate: 4", "elapsed: 5"]
    assert [text.split(", unit: ")[1].rstrip(",") for _, text in offered] == [
        *("tokens/s", "tokens/s", "s"),
    ]
    assert re.search(r"\n        total: 2 ", fields)


def test_the_unit_and_the_total_of_other_numbers_are_no_shared_unit() -> None:
    lines = stamped("step {step}/400 img/s 412.5 loss {loss} of 9/", 1)
    (speed,) = training(lines).speeds
    assert speed.number.texts[0] == "412.5"
    assert re.search(r"\n        total: 2 ", written(lines, "fields"))


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("08/31/2024 14:37:31 step {step} time 0.5", True),
        ("2024-08-31 14:37:31 [rank 0] step {step} time 0.5", True),
        ("{at} step {step} time 0.5", False),
        ("step {step} of runs/2024-08-31 time 0.5", False),
    ],
)
def test_a_stamp_that_is_not_read_is_named(line: str, is_told: bool) -> None:
    fields = written(stamped(line, 1), "fields")
    assert ("14:37:31 is not read" in fields) == is_told
    assert "stamp: " in fields or "{at}" not in line


def test_the_time_of_a_sample_is_offered_where_the_unit_of_a_time_is_asked() -> None:
    asked = written(stamped("iters {step} time: 0.5 loss {loss}", 1), "questions")
    assert "s/step, ms/step, s/sample or ms/sample" in asked
    assert "per: job  # card, if it is the time of a sample of one GPU" in asked
    known = written(stamped("iter {step} 0.5 s/iter loss {loss}", 1), "questions")
    assert re.search(r"unit: s/step\n.*\n? *per: job\n", known, re.DOTALL)


def test_a_long_log_takes_few_function_calls_a_line() -> None:
    """Each line was searched for all texts of all families, and for each form of a stamp."""
    head = [f"layer {n}.weight of conv {'x' * (n % 7)} [{n}]" for n in range(4000)]
    lines = [*head, *(f"iter {n} time 0.5 loss 2.5" for n in range(4000))]
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    earlier = sys.getprofile()
    sys.setprofile(count)
    try:
        assert reading.family_in(lines) is None
        assert format_template.fill(lines) is not None
    finally:
        sys.setprofile(earlier)
    assert calls < 100 * len(lines)


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("iter {step} step 5{step} time 0.5", {"iter", "step"}),
        ("micro_step={step}/global_step={step} time 0.5", {"/global_step"}),
        ("Epoch 1 [{step}/400] time 0.5", {""}),
        ("Epoch {step} [1/400] batch {step}: time 0.5", {"batch"}),
    ],
)
def test_the_iteration_is_named_by_one_label_or_asked(line: str, numbers: set[str]) -> None:
    lines = stamped(line, 1)
    assert {field.number.label for field in training(lines).iterations} == numbers
    assert ("iteration: ?" in written(lines, "fields")) == (len(numbers) > 1)


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        (stamped("step {step} time 0.5", 1, every=1), False),
        (stamped("step {step} time 0.5", 1, every=8), True),
    ],
)
def test_what_the_iteration_counts_is_asked_unless_each_one_is_printed(
    lines: list[str], asked: bool
) -> None:
    assert ("iteration_counts: ?" in written(lines, "questions")) == asked


@pytest.mark.parametrize(
    ("unit", "per", "asks_length"),
    [
        ("412.7 img/s", "?", False),
        ("412.7 tokens/s", "?", True),
        ("412.7 tokens/s/gpu", "card", True),
        ("throughput_per_gpu: 412.7 samples/s", "card", False),
        ("0.5 s/step", "job", False),
    ],
)
def test_the_scope_is_asked_where_neither_label_nor_unit_tells_it(
    unit: str, per: str, asks_length: bool
) -> None:
    questions = written(stamped(f"step {{step}} {unit} done", 1), "questions")
    assert f"\n      per: {per}" in questions
    assert ("sequence_length: ?" in questions) == asks_length


def test_three_lines_are_shown_with_the_number_of_each_group_under_it() -> None:
    examples = written(stamped("step {step} loss {loss} 412.7 img/s", 1), "examples").split("\n")
    assert examples[::2] == [
        "#   step 10 loss 3.9500 412.7 img/s",
        "#   step 20 loss 3.9000 412.7 img/s",
        "#   step 30 loss 3.8500 412.7 img/s",
    ]
    assert examples[1::2] == ["#        1       2      3"] * 3


def test_a_line_of_evaluations_is_asked_about_and_is_no_training_line() -> None:
    tests = ["Test: [   2/3]  Time: 0.145 (0.240)  Loss:   2.092 ( 2.083)"] * 90
    lines = [*stamped("step {step} loss {loss} time 0.5", 1), *tests]
    assert "step 10" in written(lines, "examples")
    question = written(lines, "evaluation")
    (pattern,) = re.findall(r"'([^']+)' matches", question)
    assert "evaluation: ?" in question
    assert [line for line in lines if compile_expression(pattern).search(line)] == tests


def test_a_word_of_an_evaluation_behind_the_first_number_changes_nothing() -> None:
    """LitGPT prints ``val: n/a`` in each training line."""
    lines = stamped("iter {step} | loss train: {loss}, val: n/a | iter time: 100.00 ms", 1)
    assert training(lines).similar == 40
    assert written(lines, "evaluation") == ""


def test_a_key_of_an_evaluation_tells_its_object_of_json() -> None:
    lines = stamped('{{"step": {step}, "loss": {loss}, "samples_per_second": 64.5}}', 1)
    evaluation = '{"step": 400, "eval_loss": 2.5, "eval_samples_per_second": 128.5}'
    assert written(lines, "evaluation") == ""
    question = written([*lines, evaluation], "evaluation")
    assert re.findall(r"'([^']+)' matches", question) == ['"eval_loss"']


def test_a_batch_that_the_head_names_is_quoted_beside_its_question() -> None:
    lines = ["train.py --batch-size 16 --lr 0.1", *stamped("step {step} time 0.5", 1)]
    assert written(lines, "batch_hint").strip() == "#   the log says: --batch-size 16"
    assert written(lines, "batch") == "?"
    values = format_template.fill(lines, batch=8)
    assert values is not None
    assert values["batch"] == 8


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("Namespace(batch_size=4, lr=0.1)", ["Namespace(batch_size=4"]),
        ('args: {"batch_size": 2}', ['{"batch_size": 2']),
        ("train_micro_batch_size_per_gpu ...... 16", ["train_micro_batch_size_per_gpu ...... 16"]),
        ("Batch: 0/312 epoch 0", []),
        ("Batch: 1/312 epoch 0", []),
        ("(bn): BatchNorm2d(64)", []),
        ("batches per epoch: 312", []),
    ],
)
def test_only_the_size_of_a_batch_is_quoted(line: str, quoted: list[str]) -> None:
    hints = written([line, *SHORT_DATE], "batch_hint")
    assert re.findall(r"the log says: (.*)", hints) == quoted


@pytest.mark.parametrize(
    ("head", "facts"),
    [
        (["micro_batch_size: 4"], {"batch_size"}),
        (["micro_batch_size: 4", "gradient_accumulation_steps: 8"], set()),
        (["micro_batch_size: 4", "global_batch_size: 256"], {"global_batch"}),
        (["micro_batch_size: 4", "rank 1: micro_batch_size: 8"], set()),
        (["world_size: 8", "dtype: bf16"], {"gpus", "precision"}),
        (["batch_size: 16"], set()),
        (["batch_size: 16", "world_size: 8"], {"gpus"}),
        (['args: {"batch_size": 2, "world_size": 1}'], {"gpus", "batch_size"}),
        (["--batch-size 16 --gpus 1"], {"gpus", "batch_size"}),
        (["batch_size: 2", "world_size: 1", "grad_accum: 4"], {"gpus"}),
        (["batch_size: 2", "world_size: 1", "batch_size: 4"], {"gpus"}),
        (
            ["Namespace(batch_size=4, devices=1, fp16=False, num_machines=1)"],
            {"batch_size", "gpus_per_node", "replicas", "precision"},
        ),
        (["visible devices=8"], set()),
        (["Namespace(fp16=False, bf16=True)"], set()),
        (['"fp16_opt_level": "O1", "fp16_scale": 128'], set()),
        (["NVIDIA H100 80GB HBM3"], {"gpu_model"}),
    ],
)
def test_facts_of_the_head_are_read_where_their_label_is_certain(
    head: list[str], facts: set[str]
) -> None:
    """A batch of one GPU may be a part of the step's."""
    assert set(re.findall(r"\?P<(\w+)>", written([*head, *SHORT_DATE], "facts"))) == facts


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("%Y-%m-%d %H:%M:%S,%f", "{at} step {step} 5.5 img/s"),
        ("%Y-%m-%d,%H:%M:%S", "{at} | INFO | step {step} 5.5 img/s"),
        ("%Y/%m/%d %H:%M:%S", "[{at}] step {step} 5.5 img/s"),
        ("%m/%d/%Y %H:%M:%S", "{at} - INFO - step {step} 5.5 img/s"),
        ("%m%d %H:%M:%S.%f", "I{at} 140 loop.py:145] step {step} 5.5 img/s"),
        ("%b %d %H:%M:%S", "{at} host train: step {step} 5.5 img/s"),
        ("%H:%M:%S", "[{at}] step {step} 5.5 img/s"),
        ("s", '{{"ts": 161800{step:0>4}.5, "step": {step}, "img_per_sec": 5.5}}'),
    ],
)
def test_stamps_of_many_forms_are_found(form: str, line: str) -> None:
    lines = stamped(line, 2, "%s" if form == "s" else form)
    assert f'stamp_format: "{form}"' in written(lines, "expression")
    assert "\n        stamp: " in written(lines, "fields")


@pytest.mark.parametrize(
    "line",
    [
        "nothing of the kind",
        "step {n} loss 2.5",
        "step {n} acc 0.{n} lr 0.1 data_time 0.2 ETA 10.{n} s",
        "step {n}: the train moves at {n} km/h",
        "Step {n}: the car goes 12 m/s now",
        "Step {n}: the shop sells 5 apples per hour",
        "Step {n}: he types 45 words per minute",
        "412.{n} img/s",
        "step {n} loss 1.5 time 0,5{n} s",
        "step {n} loss 1.5 time 1,{n} s",
        "step {n} loss 1,1234 speed 64,{n} samples/s",
        "eval step {n} 412.7 img/s",
        "epoch 1:  10%|█         | 1/10 [00:00<00:01,  8.{n}it/s]",
        "  1/90   4.03G   1.189   85   640: 10% ━╸──────── {n}/400 8.{n}it/s 0:05<0:45",
    ],
)
def test_a_log_without_a_speed_has_no_template(line: str) -> None:
    lines = [line.replace("{n}", str(n)) for n in range(10, 40)]
    assert format_template.fill(lines) is None


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
def test_any_lines_have_a_template_or_none(parts: list[str]) -> None:
    line = " ".join("".join(parts).split("\n"))
    found = training_line.find([line] * 5)
    if found is not None and found.expression is not None:
        text = line.encode(errors="replace").decode()
        assert compile_expression(found.expression).search(text)
