"""Real logs of mmengine's programs beside the corpus, of few iterations on CPUs."""

import datetime
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from k8sbench.cli.commands.measure import command
from tests.corpus.mmengine_logs import LOGS

LINE = re.compile(
    r"^(?P<stamp>\d\d/\d\d \d\d:\d\d:\d\d) - mmengine - INFO - (?:Iter|Epoch)\(train\) (?:\[\d\])?"
    r"\[ *(?P<iteration>\d+)/\d+\].*? time: (?P<time>[\d.]+) ",
    re.MULTILINE,
)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_a_log_gives_its_last_lines_mean_which_is_of_all_iterations(log: Path) -> None:
    """Batch and processes by hand: two a process in mmsegmentation's, one in MMAction2's."""
    lines = [match.groupdict() for match in LINE.finditer(log.read_text())]
    processes = int(log.stem[-2])
    samples = processes * (2 if log.stem.startswith("mmseg") else 1)
    first, last = (
        datetime.datetime.strptime(f"2026/{line['stamp']} +0000", "%Y/%m/%d %H:%M:%S %z")
        for line in (lines[0], lines[-1])
    )
    done, total = int(lines[0]["iteration"]), int(lines[-1]["iteration"])
    seconds = done * float(lines[0]["time"]) + (last - first).total_seconds()
    run = CliRunner().invoke(command, [str(log), "--format", "auto", "--warmup", "0", "-o", "json"])
    (found,) = json.loads(run.stdout)
    assert (found["format"], found["gpus"], found["iterations"]) == ("mmengine", processes, total)
    figures = found["throughput"] or found["unverified"]
    assert figures["time_weighted"] == pytest.approx(samples / float(lines[-1]["time"]))
    # The first line and the stamps come to the same, but for their whole seconds.
    assert figures["time_weighted"] == pytest.approx(samples * total / seconds, rel=1 / seconds)
    # Four lines of the run on two processes of MMAction2 are too few.
    rejected = [each["id"] for each in found["reasons"] if each["severity"] == "reject"]
    assert rejected == (["too-few-records"] if len(lines) < 5 else [])
