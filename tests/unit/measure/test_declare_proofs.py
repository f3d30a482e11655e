"""``k8sbench measure LOG --declare`` proposes what a log proves, and no figure counts before it is
confirmed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.reader.declarable import moments
from tests.unit.command_line import Cli
from tests.unit.measure.declaring import confirmed

COUNT = 120
"""Lines of a log."""


def lines_of(form: str, seconds: float = 0.0, every: int = 10, **columns: Any) -> list[str]:
    """Return the lines of a form; a column is a function of the line's number."""
    stamps = moments(COUNT, seconds or 1.0)
    return [
        form.format(at=at, step=every * n, **{name: of(n) for name, of in columns.items()})
        for n, at in enumerate(stamps, 1)
    ]


def clock(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def passed(n: int) -> float:
    """Seconds up to a line: steps take 0.5 s, from the half of the log on 1 s."""
    half = COUNT // 2
    return 5.0 * n if n <= half else 5.0 * half + 10.0 * (n - half)


def json_lines(**columns: Any) -> list[str]:
    """Return lines of JSON objects, one a line."""
    return [json.dumps({name: of(n) for name, of in columns.items()}) for n in range(1, COUNT + 1)]


MEGATRON = (
    " iteration {step:>8}/    5000 | consumed samples: {seen:>12} | elapsed time per iteration "
    "(ms): 8000.0 | learning rate: 1.0E-04 | global batch size:   256 | lm loss: 2.5E+00 |"
)
NEMO = (
    "Training epoch 0, iteration {step}/4999 | global_batch_size: 128 | global_step: {step} | "
    "train_step_timing in s: 4.0 | consumed_samples: {seen}"
)
TORCHVISION = (
    "Epoch: [0]  [{step:>4}/5000]  eta: 0:08:20  lr: 0.5  img/s: 128.000  loss: 6.9 (6.9)  "
    "time: 0.5000  data: 0.2500  max mem: 4000"
)
LEROBOT = "step:{step} smpl:{seen} ep:1 epch:0.03 loss:0.100 lr:1.0e-05 updt_s:0.500 data_s:0.500"
PADDLENLP = (
    "[{at},000] loss: 1.1, global_step: {step}, interval_runtime: 5.0000, "
    "interval_samples_per_second: 12.800, interval_steps_per_second: 2.000, epoch: 0.01"
)
HEAD_64 = [
    "Instantaneous batch size per device = 64",
    "Total train batch size (w. parallel, distributed & accumulation) = 64",
]
SPREAD = ["world size: 16", "global_batch_size ..... 256", "micro_batch_size ....... 1"]
ONE_OF_8 = "--gpus 1 --batch-size 8"
CASES: dict[str, tuple[list[str], str, float, str]] = {
    "the job's batch in each line, beside a replica's in the head": (
        [*SPREAD, *lines_of(MEGATRON, seen=lambda n: 2560 * n)],
        *("", 32.0, "step_samples"),
    ),
    "the job's batch in each line": (
        lines_of(NEMO, every=1, seen=lambda n: 128 * n),
        *("--gpus 8", 32.0, "step_samples"),
    ),
    "samples so far": (
        lines_of(
            "step {step} | consumed_samples: {seen} | step_time: 4.0", seen=lambda n: 1280 * n
        ),
        *("--gpus 8", 32.0, "all_samples"),
    ),
    "tokens so far, beside a batch of the head that tensor parallelism divides": (
        [
            *("world_size=16", "micro_batch_size: 1", "seq_len: 4096", "grad_accum: 16"),
            *lines_of(
                "step: {step} | loss: 2.31 | consumed tokens: {seen:,} | iter time: 4000.0 ms",
                seen=lambda n: 1_310_720 * n,
            ),
        ],
        *("--gpus 16", 131_072 / 4.0, "all_samples"),
    ),
    "samples so far by their name alone, beside a micro batch": (
        [
            *("using world size: 16", "micro_batch_size 1"),
            *lines_of(
                "iter {step}/2000 | samples {seen} | time per iteration (s): 8.00 | loss 2.5",
                seen=lambda n: 2560 * n,
            ),
        ],
        *("--gpus 16", 32.0, "all_samples"),
    ),
    "fewer samples than GPUs": (
        lines_of(MEGATRON.replace("  256", "   32"), seen=lambda n: 320 * n),
        *("--gpus 64", 4.0, "step_samples"),
    ),
    "steps printed as floats": (
        lines_of(
            "global_step={step}.000, step_time=0.5, consumed_samples={n}.0", n=lambda n: 40 * n
        ),
        *("--gpus 1", 8.0, "all_samples"),
    ),
    "a count in the label": (
        lines_of("Iter: {step} Time(100 iters): 0.500000s Loss: 0.125", every=100),
        *(ONE_OF_8, 1600.0, "steps"),
    ),
    "a count before the time": (
        lines_of("[step {step}] loss 0.1, 100 steps in 12.5s", every=100),
        *(ONE_OF_8, 64.0, "steps"),
    ),
    "a count after the time": (
        lines_of("iter {step} loss 0.1 took 6250 ms for 50 iters", every=50),
        *(ONE_OF_8, 64.0, "steps"),
    ),
    **{
        f"a mean over a count: {form}": (
            lines_of(form, every=20),
            *(ONE_OF_8, 32.0, "step_seconds"),
        )
        for form in (
            "step {step} loss 2.31 avg time over last 20 steps: 0.250 s",
            "[{step}/9000] loss: 2.31, time (avg of 20 iters): 0.250s",
            "iter {step}: average over 20 iters: 250.0 ms/iter, loss 2.31",
            "it={step} loss=2.31 step_time(mean of 20 steps)=0.250s",
            "it={step} loss=2.31 took 0.250s (mean over 20 steps)",
            "it={step} loss=2.31 20 steps, each step 0.250 s",
            "step {step} loss 2.31 avg loss over last 20 steps: 2.31, time 0.25 s",
        )
    },
    **{
        f"a total of a count: {form}": (
            lines_of(form, every=20),
            *(ONE_OF_8, 64.0, "steps"),
        )
        for form in (
            "step {step} | last 20 steps 2.5s | loss 2.31",
            "Train Epoch 0 [{step}/9000] 20 batches took 2.5 s, loss 2.31",
            "I0302 10:00:00 solver.cpp:239] Iteration {step} (8 iter/s, 2.5s/20 iters), loss = 6",
        )
    },
    **{
        f"a rate by the hour: {form}": (lines_of(form), ONE_OF_8, 64.0, form.split()[-1])
        for form in (
            "step {step} loss 1.1 speed 230.4k samples/h",
            "step {step} loss 1.1 throughput 5.5296M samples/day",
            "step {step} loss 1.1 throughput 3.84 Ksamples/min",
            "step {step} loss 1.1 throughput 5529600 samples/day",
        )
    },
    "minutes of a step": (
        lines_of("step {step} loss 1.1 step time 1.5 min", every=1),
        *(ONE_OF_8, 8 / 90, "min/step"),
    ),
    "the least of a time beside it": (
        lines_of("step {step} loss 1.1 step time 0.25 min 0.20 max 0.75", every=1),
        *(ONE_OF_8, 32.0, "s/step"),
    ),
    "a mean over more steps than a line": (
        lines_of("step {step} loss 2.31 avg time over last 100 steps: 0.250 s"),
        *(ONE_OF_8, 32.0, "last: 100"),
    ),
    "a mean by its words, a total by its stamps": (
        lines_of("{at} step {step} loss 2.31 avg time over 20 steps: 5.0 s", 5, every=20),
        *(ONE_OF_8, 32.0, "steps"),
    ),
    "a total by its words, a mean by its stamps": (
        lines_of("{at} step {step} loss 2.31 last 20 steps: 0.25 s", 5, every=20),
        *(ONE_OF_8, 32.0, "step_seconds"),
    ),
    "a running mean and its total": (
        lines_of(
            "step:{step}/1200 train_time:{total:.0f}ms step_avg:{mean:.2f}ms",
            total=lambda n: 1000 * passed(n),
            mean=lambda n: 100 * passed(n) / n,
        ),
        *(f"{ONE_OF_8} --warmup 0", 8 * 1190 / (passed(COUNT) - 5), "elapsed"),
    ),
    "a running rate, and the clock since the start": (
        lines_of(
            "step {step} | throughput {rate:.2f} samples/s | elapsed {took}",
            rate=lambda n: 80 * n / passed(n),
            took=lambda n: clock(passed(n)),
        ),
        *(f"{ONE_OF_8} --warmup 0", 8 * 1190 / (passed(COUNT) - 5), "elapsed"),
    ),
    "tokens since the start": (
        json_lines(
            current_steps=lambda n: 10 * n,
            elapsed_time=lambda n: clock(4 * passed(n)),
            remaining_time=lambda _: "0:19:40",
            throughput=lambda n: round(327680 * n / passed(n) / 2, 2),
            total_tokens=lambda n: 655360 * n,
        ),
        *(
            "--gpus 1 --batch-size 64 --warmup 0",
            655360 * 119 / 4 / (passed(COUNT) - 5),
            "all_samples",
        ),
    ),
    "the time since the start alone": (
        json_lines(step=lambda n: 10 * n, elapsed_time=lambda n: clock(20 * n)),
        *(ONE_OF_8, 4.0, "elapsed"),
    ),
    **{
        f"a time that each epoch begins anew: {form}": (
            [
                form.format(epoch=epoch, step=step, took=step / 2)
                for epoch in range(4)
                for step in range(10, 210, 10)
            ],
            *("--gpus 1 --batch-size 32", 64.0, "elapsed>"),
        )
        for form in (
            "Epoch {epoch} step {step}/200 loss 2.31 elapsed {took:.1f}s",
            "| epoch {epoch} | {step:>5}/  200 batches | lr 20.00 | time {took:>6.1f}s | loss 2.31",
        )
    },
    **{
        f"a training beside more lines of another kind: {form}": (
            [*[form.format(n=n) for n in range(1, 201)], *lines_of("step {step} loss 2 time 0.5")],
            *(ONE_OF_8, 16.0, "step_seconds"),
        )
        for form in (
            "Map: batch {n}/200 1200.0 examples/s",
            "Tokenizing: batch {n}/200 1200.0 examples/s",
            "read batch {n}/200 1200.0 examples/s",
            "Infer step {n}/200 loss 0.3 time 0.100",
            "predict step {n}/200 loss 0.3 time 0.100",
        )
    },
    "a rate of one process without its loader": (
        ["Namespace(batch_size=32, world_size=8, gpu=0)", *lines_of(TORCHVISION)],
        *("--gpus 8 --batch-size 32", 512.0, "step_seconds"),
    ),
    **{
        f"a rate of one GPU by its label: {form}": (
            lines_of(form),
            *("--gpus 8 --batch-size 32", 512.0, f"per: {per} "),
        )
        for form, per in (
            ("step {step} per-device throughput: 64.0 samples/s, total: 512.0 samples/s", "job"),
            ("step {step} loss 2.3 throughput per-GPU: 64.0 samples/s", "card"),
            ("step {step} loss 2.3 throughput_per_rank 64.0 samples/s", "card"),
            (
                "step {step} local throughput 64.0 samples/s, global throughput 512.0 samples/s",
                "job",
            ),
        )
    },
    "a rate of one GPU by the time beside it": (
        lines_of("step {step} loss 6.9 64.0 samples/s 0.5 s/it"),
        *("--gpus 8 --batch-size 32", 512.0, "rate"),
    ),
    "a smoothed rate beside milliseconds": (
        [
            "| total_batch_size        | 524288 |",
            *lines_of(
                "step {step:>4}/2000 | loss 3.2 | lr 3.00e-04 | {ms}.00 ms | {rate:.0f} tok/s",
                every=1,
                ms=lambda n: 11000 if n % 20 == 0 else 1000,
                rate=lambda n: 524288 * (1 - 0.3 * 0.9 ** (n % 20)),
            ),
        ],
        *("--gpus 8 --warmup 0", 524288 / 1.5, "step_seconds"),
    ),
    "two times whose sum the stamps prove": (
        lines_of("{at} step {step} loss 0.1 time 0.75 data 0.25", 10),
        *("--gpus 1 --batch-size 32", 32.0, "added_seconds"),
    ),
    "LeRobot's two times": (
        lines_of(LEROBOT, seen=lambda n: 320 * n),
        *("--gpus 1 --batch-size 32", 32.0, "added_seconds"),
    ),
    "a step number that counts samples": (
        lines_of("{at} step {step} throughput 80.0", 10, every=800),
        *(ONE_OF_8, 80.0, "rate"),
    ),
    "a rate that the stamps contradict": (
        [*HEAD_64, *lines_of(PADDLENLP, 5)],
        *("--gpus 1", 128.0, "rate"),
    ),
    "epochs that differ by one step": (
        [
            f"Epoch: [{epoch}]  [{step:>4}/{total}]  lr: 0.01  loss: 1.2 (1.2)  time: 0.1000"
            for epoch, total in enumerate((201, 200, 201, 200))
            for step in [*range(0, total - 1, 20), total - 1]
        ],
        *(ONE_OF_8, 80.0, "step_seconds"),
    ),
    "the first line of an epoch with the number of the one before": (
        [
            f"Epoch: {max((step - 2) // 99, 0) + 1}/10, iter: {(step - 1) % 99 + 1}/99 "
            "batch_cost: 0.50000 sec ips: 8.00000 images/s"
            for step in range(10, 991, 10)
        ],
        *("--gpus 1 --batch-size 4", 8.0, "rate"),
    ),
}
"""Lines, options, the right figure, and the group that the draft names."""


@pytest.mark.parametrize("name", CASES)
def test_a_draft_measures_right_once_it_is_confirmed_and_nothing_before(
    name: str, tmp_path: Path, cli: Cli
) -> None:
    lines, options, rate, group = CASES[name]
    log, file = tmp_path / "train.log", tmp_path / "mine.yaml"
    log.write_text("\n".join(lines) + "\n")
    known = re.sub(r"--warmup \S+", "", options).split()
    text = cli("measure", str(log), "--declare", *known).out
    given = re.sub(r"--batch-size \S+", "", options).split()
    words = ("measure", str(log), "--benchmark", str(file), "-o", "json", *given)
    file.write_text(text)
    (draft,) = json.loads(cli(*words, code=5).out)
    assert (draft["verdict"], draft["throughput"]) == ("rejected", None)
    rejected = [each for each in draft["reasons"] if each["severity"] == "reject"]
    assert [each["id"] for each in rejected] == ["format-unconfirmed"]
    assert str(file) in rejected[0]["message"]
    assert f"questions in {file}, and set `confirmed: true`" in rejected[0]["action"]
    (accepted,) = json.loads(cli(*words, "--accept", "format-unconfirmed").out)
    file.write_text(confirmed(text, {}))
    (found,) = json.loads(cli(*words).out)
    assert found["verdict"] == "valid"
    figures = [each["throughput"]["time_weighted"] for each in (found, accepted)]
    assert figures == [pytest.approx(rate, rel=0.002)] * 2
    assert group in text


def test_a_draft_of_steps_that_count_samples_has_a_window_whatever_the_batch(
    tmp_path: Path, cli: Cli
) -> None:
    lines, _, rate, _ = CASES["a step number that counts samples"]
    log, file = tmp_path / "train.log", tmp_path / "mine.yaml"
    log.write_text("\n".join(lines) + "\n")
    file.write_text(confirmed(cli("measure", str(log), "--declare").out, {}))
    words = ("measure", str(log), "--benchmark", str(file), "-o", "json", "--gpus", "1")
    for batch in ("8", "800"):
        (found,) = json.loads(cli(*words, "--batch-size", batch).out)
        assert found["verdict"] == "valid"
        assert found["throughput"]["time_weighted"] == pytest.approx(rate)


def test_a_time_that_a_resumed_run_begins_anew_is_no_step_s(tmp_path: Path, cli: Cli) -> None:
    log, file = tmp_path / "a.log", tmp_path / "mine.yaml"
    lines = [
        f"step {step}/1200 loss 2.31 elapsed {(step - begin) / 2:.1f}s"
        for begin in (0, 400, 800)
        for step in range(begin + 10, begin + 410, 10)
    ]
    log.write_text("\n".join(lines))
    text = cli("measure", str(log), "--declare", "--batch-size", "32").out
    assert "elapsed grows with the steps, and begins anew in 2 of 120 lines" in text
    file.write_text(confirmed(text, {}))
    words = ("measure", str(log), "--benchmark", str(file), "--gpus", "1", "-o", "json")
    (found,) = json.loads(cli(*words, code=5).out)
    assert found["unverified"]["time_weighted"] == pytest.approx(64)


QUESTIONS = ("Averaged over what?", "Per whom?", "Whose batch", "Which unit?")


def test_the_questions_stand_in_the_draft_with_what_proves_each(tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join([*HEAD_64, *lines_of(PADDLENLP, 5)]))
    text = cli("measure", str(log), "--declare").out
    assert [text.count(f"      # {question}") for question in QUESTIONS] == [1, 1, 1, 1]
    assert "time stamps prove it: 595 s by the lines, 595 s by the stamps" in text
    assert "The log states 64 per step of the job" in text
    form = "{at} step {step} loss 2.31 elapsed {took}.0s"
    log.write_text("\n".join(lines_of(form, 5, took=lambda n: 5 * n)))
    assert "the time stamps prove it" in cli("measure", str(log), "--declare").out
    log.write_text("\n".join(["grad_accum_steps: 8", *lines_of("step {step} time 0.5 s")]))
    text = cli("measure", str(log), "--declare", "--batch-size", "4").out
    assert "The log accumulates 8 batches" in text
    log.write_text("\n".join(lines_of("step {step} time 0.5 s")))
    text = cli("measure", str(log), "--declare").out
    assert "UNKNOWN: nothing in the log states it" in text
    assert "Nothing in the log proves it" in text


def test_an_unknown_batch_never_counts_as_known(tmp_path: Path, cli: Cli) -> None:
    log, file = tmp_path / "a.log", tmp_path / "mine.yaml"
    for form in ("step {step} time 0.5 s", "step {step} 64.0 samples/s"):
        log.write_text("\n".join(lines_of(form)))
        file.write_text(confirmed(cli("measure", str(log), "--declare").out, {}))
        words = ("measure", str(log), "--benchmark", str(file), "--gpus", "4", "-o", "json")
        (found,) = json.loads(cli(*words).out)
        ids = [each["id"] for each in found["reasons"]]
        assert ids == ["gpus-unverified", "batch-unverified"]


def test_a_log_of_a_family_is_named(tmp_path: Path, cli: Cli) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(lines_of(MEGATRON, seen=lambda n: 2560 * n)))
    out, err = cli("measure", str(log), "--declare")
    assert err == f"k8sbench measure {log} reads it as megatron without a file.\n"
    assert "confirmed: false" in out
