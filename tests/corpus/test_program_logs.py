"""Real logs of published programs on CPUs, with figures computed by hand."""

import json
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from k8sbench.cli.commands.measure import command
from k8sbench.cli.main import main
from tests.corpus.index import PROGRAM_LOGS
from tests.corpus.mmengine_logs import LOGS as MMENGINE_LOGS


class Known(NamedTuple):
    """Known figures of a log: samples after the warm-up and their seconds."""

    family: str
    warmup: int
    samples: float
    seconds: float
    too_few: bool = False
    """True if it has fewer lines than a figure needs."""


KNOWN = {
    "mmseg011-1p": Known("mmseg", 2, 16, 42.568),
    "mmseg011-2p": Known("mmseg", 1, 20, 36.912),
    "seg030-1p": Known("mmseg", 2, 12, 31.266),
    "pseg21-1p": Known("paddleseg", 0, 20, 2 * (9.0692 + 36.1379)),
    "pseg21-2p": Known("paddleseg", 0, 24, 2 * (15.4079 + 14.7420 + 12.6470), too_few=True),
    "pseg280-1p": Known("paddleseg", 0, 20, 2 * 17.6652),
    "pseg280-2p": Known("paddleseg", 0, 24, 2 * (5.7534 + 5.7656 + 5.3222), too_few=True),
    "psegdrv-2p": Known("paddleseg", 1, 28, 26.1037),
    # Running means: 5.813 s of 16 steps without 5.192 s of the first two.
    "tsm-1p": Known("tsm", 2, 14, 16 * 5.813 - 2 * 5.192),
    "tsm2-2p": Known("tsm", 2, 12, 8 * 4.931 - 2 * 6.221),
    "dle-1p": Known("dle-resnet50", 2, 14, 2 * 7.2316),
    "dle-2p": Known("dle-resnet50", 2, 28, 34.26),
    # The rates of ten lines, of two decimals; and of nine lines of an interval each.
    "plsc18-1p": Known("plsc", 3, 20, 42.825),
    "plsc24-1p": Known("plsc", 0, 34, 7.32361 + 2 * 87.00175),
    # Running means since step 5.
    "clas-1p": Known("paddleclas", 5, 40, 10 * 1.46854),
    "clas-2p": Known("paddleclas", 0, 56, 5 * 1.53151 + 2 * 1.53309, too_few=True),
    # The rates of 15 and of 7 lines, each of two steps.
    "arc-1p": Known("arcface-torch", 0, 60, 26.085),
    "arc-2p": Known("arcface-torch", 0, 56, 43.199),
    # Running means.
    "timm-1p": Known("timm", 5, 40, 15 * 0.610 - 5 * 0.683),
    "timm-2p": Known("timm", 0, 56, 7 * 2.282, too_few=True),
    "hf-1p": Known("hf-trainer", 0, 40, 0.429),
}
"""By name, whose end is the number of processes."""
OF_NO_FAMILY = {"pl-1p"}
TIMM = {"timm-1p", "timm-2p"}
STATE_GPUS = TIMM | {"arc-1p", "arc-2p", "dle-1p", "dle-2p", "mmseg011-1p", "plsc18-1p"}
STATE_GPUS |= {"plsc24-1p"}
CPU = TIMM | {"clas-1p", "clas-2p", "mmseg011-1p", "mmseg011-2p", "seg030-1p", "plsc24-1p"}
"""Logs that say that they are of a CPU."""
HERE = [name for name in KNOWN if (PROGRAM_LOGS / f"{name}.log").is_file()]


def test_every_log_is_known() -> None:
    logs = {path.stem for path in PROGRAM_LOGS.glob("*.log")}
    mmengine = {path.stem for path in MMENGINE_LOGS}
    assert logs in (set(), KNOWN.keys() | OF_NO_FAMILY | mmengine)


@pytest.mark.parametrize("name", HERE)
def test_a_log_is_recognised_and_gives_the_figure_made_by_hand(name: str) -> None:
    known, processes = KNOWN[name], int(name[-2])
    gpus = [] if name in STATE_GPUS else ["--gpus", str(processes)]
    batch = ["--batch-size", "1"] if known.family == "tsm" else []
    words = [str(PROGRAM_LOGS / f"{name}.log"), "--format", "auto", *gpus, *batch]
    run = CliRunner().invoke(command, [*words, "--warmup", str(known.warmup), "-o", "json"])
    (found,) = json.loads(run.stdout)
    assert (found["format"], found["gpus"]) == (known.family, processes)
    assert (found["device"] == "cpu") == (name in CPU)
    rejected = [each["id"] for each in found["reasons"] if each["severity"] == "reject"]
    assert rejected == ["too-few-records"] * known.too_few
    figures = found["throughput"] or found["unverified"]
    assert figures["time_weighted"] == pytest.approx(known.samples / known.seconds, rel=2e-3)


@pytest.mark.parametrize("name", sorted(OF_NO_FAMILY))
def test_a_log_of_no_family_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if (path := PROGRAM_LOGS / f"{name}.log").is_file():
        assert main(["measure", str(path), "--gpus", name[-2]]) == 2
        assert "no training line" in capsys.readouterr().err
