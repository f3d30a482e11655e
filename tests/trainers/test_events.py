"""The machine lines: their fields, their order, and what JSON cannot say."""

import dataclasses
import json
import math
import os
import subprocess

import pytest

from k8sbench.trainers.parts import events, settings
from k8sbench.trainers.parts.steps import RankWindow, StepPlan, StepRecord
from tests.harness import children
from tests.trainers.runs import refuse

SETTINGS = settings.read(
    "deeplabv3p",
    "",
    settings.Defaults(benchmark="deeplabv3p", recipes=("mmseg",), batch_size=2, batch_size_amp=4),
    None,
    ["--amp-dtype", "bf16", "--run-id", "r1", "--preset", "smoke", "--seed", "7"],
)[0]
RECORD = StepRecord(
    step=30,
    of=100,
    steps=10,
    seconds=4.0,
    data_seconds=0.5,
)


class Written(list[str]):
    """Parsed lines of a journal."""

    @property
    def last(self) -> dict[str, object]:
        text = self[-1]
        assert text.startswith("K8SBENCH {")
        assert "\n" not in text
        found = json.loads(text.removeprefix("K8SBENCH "), parse_constant=pytest.fail)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def journal(written: Written) -> events.Journal:
    place = events.RankPlace(rank=1, local_rank=1, world_size=2)
    return events.Journal(
        SETTINGS, place, unit="samples", write=written.append, now=lambda: 1795163237.25
    )


def test_the_start_line_says_who_runs_what(journal: events.Journal, written: Written) -> None:
    journal.start(
        framework="pytorch",
        framework_version="2.10.0",
        device="cpu",
        precision_effective="amp",
        options={"crop": "64x64"},
    )
    told = written.last
    assert (told["event"], told["schema"], told["impl"]) == ("start", 1, "k8sbench")
    assert [
        told[name] for name in ("benchmark", "variant", "run_id", "preset", "mode", "seed")
    ] == [*("deeplabv3p", "mmseg", "r1", "smoke", "throughput", 7)]
    assert [told[name] for name in ("rank", "local_rank", "world_size")] == [1, 1, 2]
    assert (told["batch_size_per_gpu"], told["global_batch"], told["unit"]) == (4, 8, "samples")
    precision = [told[name] for name in ("precision", "amp_dtype", "precision_effective")]
    assert precision == ["amp", "bf16", "amp"]
    assert [told[name] for name in ("warmup", "iterations", "log_interval")] == [20, 100, 10]
    assert (told["device"], told["data"], told["time"]) == ("cpu", "synthetic", 1795163237.25)
    own = {"workers": 1, "threads": 0, "crop": "64x64"}
    assert told["options"] == {**SETTINGS.speed_options(), **own}


def test_the_arithmetic_is_a_further_environment(journal: events.Journal, written: Written) -> None:
    journal.arithmetic({"conv": "{half}"}, "fp16")
    stated = events.statement({"conv": "{half}"}, "fp16")
    assert written.last == {"event": "environment", "rank": 1, "arithmetic": stated}


def test_step_lines_give_the_jobs_rate(journal: events.Journal, written: Written) -> None:
    journal.step(RECORD, loss=1.5, lr=0.01, memory_mib=None)
    assert written.last == {
        "event": "step",
        "step": 30,
        "of": 100,
        "steps": 10,
        "seconds": 4.0,
        "data_seconds": 0.5,
        "loss": 1.5,
        "samples_per_second": 10 * 4 * 2 / 4.0,
        "lr": 0.01,
        "memory_mib": None,
        "time": 1795163237.25,
    }


@pytest.mark.parametrize(
    ("loss", "told"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_what_json_has_no_word_for_is_a_string(
    journal: events.Journal, written: Written, loss: float, told: str
) -> None:
    """Nor is there a rate where the clock stood still."""
    journal.step(dataclasses.replace(RECORD, seconds=0.0), loss=loss, lr=0.01, memory_mib=None)
    assert (written.last["loss"], written.last["samples_per_second"]) == (told, None)


def test_a_rank_tells_its_own_times(journal: events.Journal, written: Written) -> None:
    times = [0.1] * 18 + [0.2, 0.9]
    journal.rank(times)
    told = written.last
    assert (told["event"], told["rank"], told["steps"]) == ("rank", 1, 20)
    spread = {"median": 0.1, "p95": 0.2, "max": 0.9}
    assert told["step_seconds"] == {"mean": pytest.approx(0.145), **spread}


def test_the_summary_states_the_window(journal: events.Journal, written: Written) -> None:
    journal.summary(
        StepPlan(warmup=20, iterations=80, log_interval=10),
        RankWindow(first_step=21, last_step=100, seconds=32.0),
        steps=300,
        parameters=43_589_878,
        precision_effective="amp",
        sync_bn=True,
        norm="SyncBatchNorm",
        final_loss=math.nan,
        max_memory_mib=123.5,
        machine={"driver": "570.1", "ecc": None},
    )
    told = written.last
    assert told["window"] == {
        "first_step": 21,
        "last_step": 100,
        "seconds": 32.0,
        "samples": 640,
        "samples_per_second": 20.0,
    }
    assert [told[name] for name in ("event", "status", "steps")] == ["summary", "finished", 300]
    assert (told["sync_bn"], told["norm"], told["final_loss"]) == (True, "SyncBatchNorm", "nan")
    assert (told["parameters"], told["max_memory_mib"]) == (43_589_878, 123.5)
    assert told["machine"] == {"driver": "570.1", "ecc": None}


def write_lines(letter: str) -> None:
    for _ in range(300):
        events.write_line(letter * 3000)


def test_lines_of_several_ranks_never_interleave() -> None:
    """Four processes write long lines into one pipe at the same time."""
    reader, writer = os.pipe()
    started = [
        subprocess.Popen(children.command(write_lines, letter), stdout=writer) for letter in "abcd"
    ]
    os.close(writer)
    with os.fdopen(reader, encoding="ascii") as stream:
        lines = stream.read().splitlines()
    assert [process.wait() for process in started] == [0] * 4
    assert len(lines) == 1200
    assert set(lines) == {letter * 3000 for letter in "abcd"}


@pytest.mark.parametrize(
    "given",
    [
        {"RANK": "x", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "two"},
        {"RANK": "3", "WORLD_SIZE": "2"},
        {"RANK": "1"},
        {"RANK": "0", "LOCAL_RANK": "5", "WORLD_SIZE": "2"},
        {"WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "0"},
    ],
)
def test_contradictions_are_refused(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a rank would wait for peers without end, or train beside nobody."""
    monkeypatch.setattr(events, "refuse", refuse)
    with pytest.raises(SystemExit, match=f"^RANK={given.get('RANK')}, LOCAL_RANK="):
        events.RankPlace.from_environment(given)
