"""GPU samples of trainers, with a fake NVML library."""

import json
import pathlib
import threading
import time

import pytest

from k8sbench.trainers.parts import nvml
from k8sbench.trainers.parts.events import Journal, RankPlace
from tests.harness import children
from tests.trainers import runs, stand_in
from tests.trainers.checks import read
from tests.trainers.conftest import Nvml
from tests.trainers.runs import Event, events, only, together

GPU = (stand_in.ADDRESS, None)
LISTS = {*nvml.METRICS, nvml.PROCESSES}


class Written(list[Event]):
    """The events of a journal; `after` waits until there are so many."""

    def __init__(self) -> None:
        self.came = threading.Condition()

    def write(self, line: str) -> None:
        with self.came:
            self.append(json.loads(line.removeprefix("K8SBENCH ")))
            self.came.notify_all()

    def after(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self) >= count, timeout=100)


def sampler(written: Written, last_s: float = 100.0) -> nvml.Sampler:
    """Takes samples a hundred times as fast."""
    place = RankPlace(rank=3, local_rank=1, world_size=8)
    journal = Journal(read(), place, unit="samples", write=written.write)
    return nvml.Sampler(journal, every=0.01, last_s=last_s)


def sampled(events_: int = 2) -> list[Event]:
    written = Written()
    one = sampler(written)
    one.start(GPU)
    written.after(events_)
    one.stop()
    return written


def test_a_gpu_is_sampled_until_the_end_and_written_in_events_of_ten(driver: Nvml) -> None:
    began = time.time()
    driver(SM_CLOCK=1380)
    found = sampled()
    ended = time.time()
    assert {(event["event"], event["rank"], event["every"]) for event in found} == {
        ("gpu", 3, 0.01)
    }
    assert [len(event["at"]) for event in found[:2]] == [10, 10]
    for event in found:
        assert event.keys() == {"event", "rank", "every", "at", *LISTS}
        assert {len(event[name]) for name in LISTS} == {len(event["at"])}
    at = [when for event in found for when in event["at"]]
    assert at == sorted(at)
    assert began - 0.001 <= at[0] <= at[-1] <= ended + 0.001
    first = found[0]
    assert set(first["gpu_utilization"]) == {0.8, 1.0}
    assert first["memory_used"] == [3001.0 + n for n in range(10)]
    assert (set(first["power"]), set(first["sm_clock"])) == ({200.0}, {1380})
    assert (set(first["temperature"]), set(first["processes"])) == ({61}, {1})
    assert set(first["throttled"]) == {1 << 40 | 4}
    energy = [value for event in found for value in event["energy"]]
    assert energy[-1] - energy[0] == pytest.approx(200 * (at[-1] - at[0]), abs=1.0)


@pytest.mark.parametrize(
    ("given", "absent"),
    [
        ({"SM_CLOCK": 1380}, set()),
        ({}, {"sm_clock"}),
        ({"SM_CLOCK": 1380, "HAS_ENERGY": 0}, {"energy"}),
        ({"SM_CLOCK": 1380, "MEMORY_V2": "no_such_call"}, {"memory_used"}),
        ({"SM_CLOCK": 1380, "REASONS": "no_such_call"}, {"throttled"}),
        ({"SM_CLOCK": 1380, "DIVIDED": 1}, LISTS - set(nvml.OF_EACH_PART)),
    ],
    ids=["all", "refused", "not-supported", "old-driver", "no-such-call", "divided"],
)
def test_what_a_gpu_or_its_driver_does_not_have_is_not_there(
    given: dict[str, object], absent: set[str], driver: Nvml
) -> None:
    driver(**given)
    for event in sampled(1):
        assert LISTS - event.keys() == absent


def test_a_hung_driver_does_not_block_an_end(driver: Nvml) -> None:
    library = driver(SM_CLOCK=1380, HANGS=1)
    written = Written()
    one = sampler(written, last_s=0.3)
    one.start(GPU)
    while not library.hanging():
        time.sleep(0.001)
    one.stop()
    assert library.hanging()
    (event,) = written
    assert event["power"] == [200.0, 200.0]
    library.wake()  # so that it ends as all do
    assert one.thread is not None
    one.thread.join(100)
    assert len(written) == 1


@pytest.mark.parametrize(
    ("given", "names"),
    [({}, None), ({}, (None, None)), ({"DRIVER_LOADED": 0}, GPU), ({"KNOWS_ADDRESS": 0}, GPU)],
)
def test_without_a_gpu_or_its_driver_nothing_is_sampled(
    given: dict[str, object], names: tuple[str | None, str | None] | None, driver: Nvml
) -> None:
    driver(**given)
    written, threads = Written(), threading.active_count()
    one = sampler(written)
    one.start(names)
    assert threading.active_count() == threads
    one.stop()
    assert written == []


@pytest.mark.tier("frameworks")
@pytest.mark.timeout(240)
def test_a_log_of_a_trainer_alone_gives_the_metrics_of_its_gpu(tmp_path: pathlib.Path) -> None:
    """A real trainer process finds the fake library by its name."""
    pytest.importorskip("msgspec", reason="k8sbench itself, which measures, needs msgspec")
    from k8sbench.app.imports import measure
    from k8sbench.catalog.measure_options import MeasureOptions

    stand_in.built(tmp_path / stand_in.NAME, SM_CLOCK=1380)
    length = "--warmup 2 --iterations 30 --log-interval 1 --batch-size 2 --min-steady-seconds 2"
    job = ("resnet50", "--input-size", "32", "--classes", "10")
    words = (*job, "--device", "cpu", *length.split())
    arguments = runs.program([words], before=children.calling(stand_in.assign, 0.05))
    (text,) = together(arguments, [{"LD_LIBRARY_PATH": str(tmp_path)}])
    found = events(text)
    assert [found[0]["event"], found[-1]["event"]] == ["start", "summary"]
    samples = only(found, "gpu")
    steps = only(found, "step")
    # Samples are stamped to the millisecond.
    assert samples[0]["at"][0] <= steps[0]["time"] + 0.001
    assert samples[-1]["at"][-1] >= steps[-1]["time"] - 0.001

    log = tmp_path / "train.log"
    log.write_text(text)
    ((measured, *_),), _ = measure([str(log)], MeasureOptions(family="k8sbench"))
    assert "two-runs" not in [reason.id for reason in measured.reasons]
    assert measured.gpu_metrics is not None
    figures = measured.gpu_metrics.figures
    assert figures.keys() == LISTS
    assert {figure.source for figure in figures.values()} == {"trainer"}
    assert figures["gpu_utilization"].value == pytest.approx(0.9, abs=0.05)
    assert figures["power"].value == pytest.approx(200)
    assert figures["gpu_utilization"].coverage > 0.8
    (gpu,) = measured.gpu_metrics.gpus
    assert (gpu.gpu.uuid, gpu.gpu.model) == (stand_in.UUID, "Tesla V100-SXM2-32GB")
    assert measured.steady is not None
    seconds = measured.steady.ended_at - measured.steady.started_at
    assert figures["energy"].value == pytest.approx(200 * seconds, rel=0.02)
