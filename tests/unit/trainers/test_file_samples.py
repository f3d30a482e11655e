"""Samples of a rank's step, and broken samples."""

import itertools
import json
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.trainers.parts import samples, settings
from k8sbench.trainers.parts.events import Journal, RankPlace
from k8sbench.trainers.parts.samples import (
    ROUNDS,
    Array,
    At,
    BrokenSample,
    DataError,
    Files,
    Ledger,
    Reader,
    TrainingBatches,
    ValidationBatches,
    collate,
    opened,
    permuted,
)
from tests.unit.presence import present

DEFAULTS = settings.Defaults(benchmark="b", recipes=("v",), batch_size=2)


def read(*argv: str) -> settings.Settings:
    return settings.read("b", "", DEFAULTS, None, argv)[0]


def training(
    samples: int, batch: int, world: int, seed: int, steps: int, done: int = 0
) -> list[list[At]]:
    """The samples of each global batch, as the ranks have them together."""
    ranks = [
        TrainingBatches(samples, batch, RankPlace(rank, rank, world), seed, done)
        for rank in range(world)
    ]
    taken = [itertools.islice(iter(rank), steps) for rank in ranks]
    return [list(itertools.chain(*batches)) for batches in zip(*taken, strict=True)]


sizes = {
    "batch": st.integers(1, 3),
    "world": st.integers(1, 4),
    "extra": st.integers(0, 20),
    "seed": st.integers(0, 5),
}


@given(**sizes)
def test_an_epoch_has_each_sample_once(batch: int, world: int, extra: int, seed: int) -> None:
    samples = batch * world + extra
    steps = samples // (batch * world)
    found = training(samples, batch, world, seed, 2 * steps)
    for epoch in (0, 1):
        numbers = [at for each in found[epoch * steps : (epoch + 1) * steps] for at in each]
        assert {each for each, _ in numbers} == {epoch}
        assert len(set(numbers)) == len(numbers) == steps * batch * world > samples - batch * world
        assert {number for _, number in numbers} <= set(range(samples))


@given(**sizes, done=st.integers(0, 30))
def test_steps_decide_the_order(batch: int, world: int, extra: int, seed: int, done: int) -> None:
    samples = batch * world + extra
    whole = training(samples, batch, world, seed, done + 5)
    assert training(samples, batch, world, seed, 5, done) == whole[done:]
    assert training(samples, batch * world, 1, seed, done + 5) == whole


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [
        tuple(number for batch in found for _, number in batch)
        for found in (
            training(12, 2, 1, 7, 12)[:6],
            training(12, 2, 1, 7, 12)[6:],
            training(12, 2, 1, 8, 6),
        )
    ]
    assert len(set(orders)) == 3
    assert all(sorted(order) == list(range(12)) for order in orders)


@given(st.integers(1, 300), st.integers(0, 2**63))
def test_a_permutation_has_each_number_once(count: int, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)
    found = permuted(np.arange(count, dtype=np.uint64), count, keys)
    assert sorted(found.tolist()) == list(range(count))


def test_each_number_comes_equally_often_at_each_place() -> None:
    """By a chi-squared test: 49 degrees of freedom, p = 0.0001."""
    random, counts = np.random.default_rng(0), np.zeros((8, 8))
    for _ in range(2000):
        keys = random.integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)
        found = permuted(np.arange(8, dtype=np.uint64), 8, keys).astype(int)
        counts[np.arange(8), found] += 1
    assert ((counts - 250) ** 2 / 250).sum() < 93


def test_the_order_of_many_samples_takes_no_memory_of_its_own() -> None:
    many = 168_000_000
    tracemalloc.start()
    batch = next(iter(TrainingBatches(many, 512, RankPlace(), seed=1)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    numbers = [number for _, number in batch]
    assert len(set(numbers)) == 512
    assert max(numbers) > 0.9 * many > 9 * min(numbers)
    assert most < 1 << 20


@given(st.integers(0, 30), st.integers(1, 4), st.integers(1, 5))
def test_each_validation_sample_is_one_ranks_once(samples: int, batch: int, world: int) -> None:
    found = [
        number
        for rank in range(world)
        for numbers in ValidationBatches(samples, batch, RankPlace(rank, rank, world))
        for _, number in numbers
    ]
    assert sorted(found) == list(range(samples))


@dataclass(frozen=True)
class Numbers:
    """Samples that are their own number and a random one; some are broken."""

    samples: int
    broken: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.samples

    def sample(self, number: int, random: np.random.Generator) -> tuple[Array, Array]:
        if number in self.broken:
            raise BrokenSample(f"{number}.png", "it is empty")
        return np.array([number, random.integers(1 << 30)]), np.asarray(number)


def test_the_same_sample_is_augmented_alike_only_in_the_same_epoch_of_the_same_seed() -> None:
    def drawn(seed: int, at: tuple[int, int]) -> int:
        found = present(Reader(Numbers(5), seed)[at].pair)
        return int(found[0][1])

    assert drawn(3, (1, 2)) == drawn(3, (1, 2))
    assert len({drawn(3, (1, 2)), drawn(4, (1, 2)), drawn(3, (2, 2)), drawn(3, (1, 3))}) == 4


def test_the_next_number_takes_a_broken_ones_place() -> None:
    reader = Reader(Numbers(5, broken=(3, 4)), seed=1, tries=3)
    found = reader[0, 3]
    assert found.number == 0
    assert found.broken == ((3, "3.png", "it is empty"), (4, "4.png", "it is empty"))
    plain = Reader(Numbers(5), seed=1)[0, 0].pair
    assert np.array_equal(present(found.pair)[0], present(plain)[0])
    assert Reader(Numbers(5, broken=(3, 4)), seed=1)[0, 3].pair is None


def test_a_batch_leaves_out_what_cannot_be_read() -> None:
    reader = Reader(Numbers(5, broken=(1,)), seed=1)
    inputs, targets, note = collate([reader[0, number] for number in range(3)])
    assert inputs[:, 0].tolist() == targets.tolist() == [0, 2]
    assert json.loads(note) == [[0, 2], [[1, "1.png", "it is empty"]]]
    _, _, none = collate([reader[0, 1]])
    assert json.loads(none)[0] == []


class Ended(Exception):
    """In place of the end of the process."""


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is an exception."""

    def refuse(message: str, *, passing: bool = False) -> None:
        raise Ended(f"{'failed' if passing else 'error'}: {message}")

    monkeypatch.setattr(samples, "refuse", refuse)


def ledger(*argv: str) -> tuple[Ledger, list[str]]:
    """Return a ledger of ten training and ten other samples, with its lines."""
    written: list[str] = []
    place = RankPlace(1, 1, 2)
    journal = Journal(read(*argv), place, unit="images", write=written.append, now=lambda: 1.0)
    return Ledger(Files("set", Numbers(10), Numbers(10), "0" * 64), journal), written


def note(*broken: int, numbers: tuple[int, ...] = (0, 1)) -> str:
    return json.dumps([numbers, [(number, f"{number}.png", "why") for number in broken]])


def test_a_broken_sample_has_one_event_however_often_it_is_met() -> None:
    made, written = ledger("--broken-limit", "3")
    assert made.read("train", note(3, 3)) == [0, 1]
    made.read("train", note(3))
    made.read("val", note(3))
    told = [json.loads(line.removeprefix("K8SBENCH ")) for line in written]
    assert told[0] == {
        "event": "broken",
        "rank": 1,
        "part": "train",
        "path": "3.png",
        "why": "why",
        "count": 1,
        "time": 1.0,
    }
    assert [(each["part"], each["count"]) for each in told] == [("train", 1), ("val", 2)]
    made.read("val", json.dumps([[0], [(4, "caf\udce9.png", "why")]]))
    path = json.loads(written[-1].removeprefix("K8SBENCH "))["path"]
    assert path == "caf\\udce9.png"  # bytes that are no text, for who reads the log


@pytest.mark.parametrize(
    "argv", [("--broken-limit", "2"), ("--broken-limit", "14.9%"), ()]
)  # by default 10 %
def test_more_broken_samples_than_the_limit_end_the_run(argv: tuple[str, ...]) -> None:
    made, _ = ledger(*argv)
    made.read("train", note(1, 2, 1, 2))
    with pytest.raises(
        Ended, match="error: 3 of 20 samples cannot be read, more than the limit of 2"
    ):
        made.read("val", note(1))


def test_ranks_count_together_and_a_sample_once() -> None:
    (first, _), (second, _) = ledger("--broken-limit", "9"), ledger("--broken-limit", "2")
    first.read("train", note(1, 2))
    second.read("train", note(2))
    marks: list[Array] = []
    first.gather_numbers(lambda values: marks.append(values) or values)  # type: ignore[func-returns-value]
    assert second.gather_numbers(lambda values: values + marks.pop(0)) == [1, 2]
    first.read("train", note(4))
    marks = []
    first.gather_numbers(lambda values: marks.append(values) or values)  # type: ignore[func-returns-value]
    with pytest.raises(Ended, match="3 of 20 samples"):
        second.gather_numbers(lambda values: values + marks.pop(0))


def test_a_part_of_which_nothing_can_be_read_ends_the_run() -> None:
    made, _ = ledger()
    with pytest.raises(Ended, match="failed: no sample"):
        made.read("train", note(1, numbers=()), wanted=2)


def files(samples: int) -> Any:
    return lambda _: Files("set", Numbers(samples), Numbers(1), "0" * 64)


def test_real_data_must_be_there_and_fill_a_global_batch() -> None:
    def missing(folder: object) -> Files:
        raise DataError(f"{folder}/train has no pictures")

    real = read("--data", "/data/set", "--batch-size", "8")
    found = opened(files(8), real, RankPlace())
    assert found is not None
    assert len(found.training) == 8
    assert opened(None, read(), RankPlace()) is None
    with pytest.raises(Ended, match=r"7 samples to train on, fewer than the global batch of 8"):
        opened(files(7), real, RankPlace())
    with pytest.raises(Ended, match=r"error: --data /data/set: /data/set/train has no pictures"):
        opened(missing, real, RankPlace())
