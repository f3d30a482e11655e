"""Logs of fairseq in each of their forms: words of an interval, and of an epoch so far."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.errors import InputError
from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import ids, lines_of, measured


def of(lines: Sequence[str], **known: Any) -> Measurement:
    given: dict[str, Any] = {"gpus": None, "batch_size": None, "warmup": None}
    return measured(lines, format="fairseq", **given | known)


RATES = {name: of(lines_of(name)).rate for name in ("fairseq.log", "fairseq_2019.log")}


def test_a_file_of_log_file_has_the_same_lines_without_a_logger() -> None:
    lines = [line.split(" | ", 3)[-1] for line in lines_of("fairseq.log")]
    assert of(lines).rate == pytest.approx(RATES["fairseq.log"])
    bare = [line[line.index("{") :] for line in lines_of("fairseq_json.log") if '"wps"' in line]
    assert of(bare, gpus=8).rate == pytest.approx(RATES["fairseq.log"])


def test_large_numbers_are_rounded_to_six_digits() -> None:
    lines = lines_of("fairseq_json.log")
    large = [re.sub(r'"(wps|wpb)": "(\d+)"', r'"\1": "\g<2>e+01"', line) for line in lines]
    assert of(large).rate == pytest.approx(10 * (RATES["fairseq.log"] or 0.0))


def test_a_line_of_the_end_of_an_epoch_is_no_training_line() -> None:
    assert of(lines_of("fairseq.log")).training_lines == 20


@pytest.mark.parametrize("name", ["fairseq.log", "fairseq_json.log"])
def test_two_rates_that_contradict_each_other_are_refused(name: str) -> None:
    twice = [re.sub(r'(wps"?[=:] ?"?)\d+', r"\g<1>240000", line) for line in lines_of(name)]
    assert "batch-mismatch" in ids(of(twice), "reject")


def test_rates_that_the_stamps_contradict_are_refused() -> None:
    def half(match: re.Match[str]) -> str:
        return f"{match[1]}={float(match[2]) / 2:g},"

    lines = [re.sub(r"\b(wps|ups)=([\d.]+),", half, line) for line in lines_of("fairseq.log")]
    assert "clock-mismatch" in ids(of(lines), "reject")


def test_lines_of_early_2020_are_not_taken_for_those_of_an_interval() -> None:
    """For some weeks the means of the epoch so far had the logger of the epoch."""
    lines = [line.replace("| train_inner |", "| train |") for line in lines_of("fairseq.log")]
    with pytest.raises(InputError, match="no training line"):
        of(lines)


@pytest.mark.parametrize("name", ["fairseq_2019.log", "fairseq_2019_json.log"])
def test_the_words_of_an_update_are_whole_numbers_in_still_older_versions(name: str) -> None:
    lines = [re.sub(r"(wpb\W+\d+)\.\d{3}", r"\1", line) for line in lines_of(name)]
    lines = [re.sub(r"(oom\W+\d)\.\d{3}", r"\1", line) for line in lines]
    assert of(lines).rate == pytest.approx(RATES["fairseq_2019.log"], rel=1e-3)


def resumed() -> list[str]:
    """The older program from update 660 on, in the middle of an epoch, whose means begin anew."""
    head, epoch = lines_of("fairseq_2019.log")[:7], []
    for update in range(700, 1001, 50):
        # 20,000 words in a second, and the updates before 750 take twice as long.
        count = update - 660
        seconds = min(count, 90) * 0.5 + max(count - 90, 0) * 0.25
        wps, words = round(count * 5000 / seconds), 5000.0
        epoch.append(
            f"| epoch 002:  {update - 461:5d} / 560 loss=9.000, wps={wps}, ups=3, wpb={words:.3f},"
            f" bsz=80.000, num_updates={update}, lr=2.5e-05, oom=0, wall=100, train_wall=90"
        )
    loaded = "| loaded checkpoint checkpoints/checkpoint_last.pt (epoch 2 @ 660 updates)"
    return [*head, loaded, *epoch]


def test_means_begin_anew_where_a_checkpoint_is_loaded() -> None:
    found = of(resumed(), warmup=700)
    assert found.iterations == 300
    assert found.rate == pytest.approx(300 * 5000 / (50 * 0.5 + 250 * 0.25), rel=1e-3)


def test_an_epoch_whose_begin_nothing_tells_is_left_out() -> None:
    """An excerpt in JSON: only the end of the epoch before tells the updates of this one."""
    lines = lines_of("fairseq_2019_json.log")
    ends = [n for n, line in enumerate(lines) if "train_wps" in line]
    found = of(lines[ends[0] - 3 :], gpus=8, warmup=0)
    records = [json.loads(x) for x in lines[ends[0] :] if x.startswith('{"epoch": 2')]
    assert found.window is not None
    assert found.window.last_iteration == int(records[-1].get("valid_num_updates", 0))
