"""Records that count: entirely after the warm-up and within the plan."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.measure.support import ids, measured, mmseg, plsc, run
from tests.unit.presence import present


def test_a_record_that_reaches_over_the_planned_window_does_not_count() -> None:
    assert measured(run([0.5] * 10), warmup=20, iterations=55).iterations == 50


def test_the_first_record_covers_what_lies_before_it() -> None:
    """A log of iteration 1 and then every tenth; its first record is one."""
    lines = [mmseg(1, 9.0, at=9), *run([0.5] * 6, first=1, at=9, total=1000)]
    found = measured(lines)
    assert (found.iterations, found.records) == (61, 7)
    assert present(found.throughput).time_weighted == pytest.approx(61 * 4 / (9 + 30))


@pytest.mark.parametrize(
    ("given", "planned", "warmup"), [(None, 1000, 20), (None, 40, 10), (0, 1000, 0), (30, 40, 30)]
)
def test_the_default_warm_up_is_the_formats(given: int | None, planned: int, warmup: int) -> None:
    found = measured(run([0.5] * 10, total=planned), warmup=given)
    assert (found.warmup_iterations, found.iterations) == (warmup, 100 - warmup)


def test_a_window_that_the_log_never_reaches_has_no_figure() -> None:
    found = measured(run([0.5] * 6), warmup=1000)
    assert (found.throughput, found.unverified, found.window) == (None, None, None)
    assert found.missing["throughput"] == "No training line lies in the window."
    assert (found.records, found.iterations) == (0, 0)


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
