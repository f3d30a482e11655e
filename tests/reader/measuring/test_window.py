"""Records that count: entirely after the warm-up and within the plan."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reader.measuring.support import ids, measured, mmseg, plsc, run
from tests.unit.presence import present


def test_the_first_record_covers_what_lies_before_it() -> None:
    """A log of iteration 1 and then every tenth; its first record is one."""
    lines = [mmseg(1, 9.0, at=9), *run([0.5] * 6, first=1, at=9, total=1000)]
    found = measured(lines)
    assert (found.iterations, found.records) == (61, 7)
    assert present(found.throughput).time_weighted == pytest.approx(61 * 4 / (9 + 30))


# Epochs of 6 iterations with one line each: three of 1 s per iteration, all others of 0.5 s.
TIMES = "time: {time:.4f}, data_time: 0.0100, memory: 9, loss: 1.0"
MMCV = "Epoch [{epoch}][6/6]\tlr: 0.1, " + TIMES
MMENGINE = "Epoch(train)  [{epoch}][6/6]  lr: 0.1  " + TIMES.replace(", ", "  ") + "000"
PADDLE = (
    "[Train][Epoch {epoch}/{epochs}][Iter: 5/6]lr: 0.1, loss: 1.0, "
    "batch_cost: {time:.5f}s, reader_cost: 0.01, ips: {rate:.5f} images/s"
)
RATES = "Time: {time:.3f}s, {rate:.2f}/s  ({time:.3f}s, {rate:.2f}/s)  LR: 0.1  Data: 0.0 (0.0)"
SECONDS = "Time {time:.3f} ({time:.3f})\tData 0.0 (0.0)\tLoss 1.0 (1.0)"
BY_EPOCH = {
    "mmcv": ("mmseg", "workflow: [('train', 1)], max: {epochs} epochs", MMCV),
    "mmcv's configuration": ("mmseg", "runner = dict(max_epochs={epochs})", MMCV),
    "mmcv's JSON": (
        "mmseg",
        r'{{"env_info": "", "config": "total_epochs = {epochs}\ninterval=50, hooks=[1]\n"}}',
        '{{"mode": "train", "epoch": {epoch}, "iter": 6, "data_time": 0.01, "time": {time}}}',
    ),
    "mmengine": ("mmengine", "train_cfg = dict(max_epochs={epochs})", MMENGINE),
    "plsc 2.4": ("plsc", "", f"plsc INFO: {PADDLE}ec"),
    "PaddleClas": ("paddleclas", "", PADDLE),
    "timm": (
        "timm",
        "Scheduled epochs: {epochs}. LR stepped per epoch.",
        "Train: {epoch} [   5/6 (100%)]  Loss: 1.0 (1.0)  " + RATES,
    ),
    "TSM": ("tsm", "storing name: R50_e{epochs}", "Epoch: [{epoch}][5/6], lr: 0.1\t" + SECONDS),
}


@pytest.mark.parametrize(("epochs", "share"), [(400, None), (40, 60), (12, 18)])
@pytest.mark.parametrize("program", BY_EPOCH)
def test_the_default_warm_up_is_at_most_a_quarter_of_all_planned_epochs(
    program: str, epochs: int, share: int | None
) -> None:
    family, head, line = BY_EPOCH[program]
    first = 0 if family in {"timm", "tsm"} else 1
    lines = [head.format(epochs=epochs)]
    for epoch in range(first, first + 40):
        seconds = 1.0 if epoch < first + 3 else 0.5
        values = {"epoch": epoch, "epochs": epochs, "time": seconds, "rate": 4 / seconds}
        lines.append(line.format(**values))
    found = measured(lines, format=family, warmup=None)
    usual = {"tsm": 100, "plsc": 50}.get(family, 20)
    assert found.warmup_iterations == min(usual, share or usual)
    assert (present(found.throughput).median, ids(found, "reject")) == (8.0, [])


@pytest.mark.parametrize(("records", "verdict"), [(15, "valid"), (14, "rejected")])
def test_lines_across_the_windows_edges_are_not_missed(records: int, verdict: str) -> None:
    """Nine of the lines 1, 11, 21, … lie within 51–150."""
    lines = [plsc(batch, 400.0) for batch in range(0, 10 * records + 1, 10)]
    found = measured(lines, format="plsc", warmup=50, iterations=100, at_least=100)
    assert (found.verdict, ids(found, "reject")) == (
        verdict,
        [] if verdict == "valid" else ["too-few-iterations"],
    )
    assert found.iterations == 10 * (min(records, 14) - 5)


def test_what_the_windows_edges_cut_is_counted_exactly() -> None:
    """Lines at 1, 6, 11, … cover 22–56 of the iterations 21–60."""
    lines = run([0.5] * 14, interval=5, first=-4)
    found = measured(lines, warmup=20, iterations=40, at_least=40)
    assert (found.verdict, ids(found), found.iterations) == ("valid", [], 35)
    # A log that ends there has lost its last four iterations, and none across an edge.
    short = measured(lines[:12], warmup=20, iterations=40, at_least=40)
    assert ids(short, "reject") == ["too-few-iterations"]


@given(st.integers(0, 130), st.integers(1, 20), st.integers(5, 30))
def test_counted_iterations_are_not_in_the_warm_up(warmup: int, interval: int, count: int) -> None:
    found = measured(run([0.5] * count, interval=interval), warmup=warmup)
    skipped = -(-warmup // interval)
    assert found.records == max(count - skipped, 0)
    assert found.iterations == found.records * interval
    if found.window is not None:
        assert found.window.first_iteration > warmup


@pytest.mark.parametrize("records", [6, 256, 600])
def test_the_digest_is_of_all_records_as_printed(records: int) -> None:
    lines = run([0.5] * records)
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert measured(lines).log_digest == digest


@pytest.mark.parametrize(("total", "is_early"), [(400, False), (409, False), (410, True)])
def test_a_log_that_lacks_its_last_line_ends_early(total: int, is_early: bool) -> None:
    """It has a line every ten iterations, the last at 400."""
    assert ("ends-early" in ids(measured(run([0.5] * 40, total=total)))) is is_early


@pytest.mark.parametrize("first", [1, 14, 22])
def test_an_excerpt_that_lacks_nothing_since_its_first_line_lacks_nothing(first: int) -> None:
    lines = [
        f"[rank0]:[titan] 2026-10-05 09:00:{step:02},000 - root - INFO - step: {step:2}  "
        "loss:  7.86000  grad_norm:  1.0000  memory:  9.46GiB(64.99%)  tps: 8,192  "
        "tflops: 0.52  mfu: 0.17%"
        for step in range(first, first + 8)
    ]
    found = measured(lines, format="torchtitan", warmup=None, batch_size=None, by_user=True)
    assert ids(found, "reject") == []
    assert found.warmup_iterations == 2
