"""Several ranks on GPUs: NCCL on separate GPUs, gloo on a shared one."""

from __future__ import annotations

import pytest

from tests.gpu import LONG, needs
from tests.trainers.checks import SAMPLE, STEEP, computes_the_same, frozen, on_ranks, sums_up
from tests.trainers.runs import Event, only
from tests.trainers.torch_checks import TRAINING, TRAINING_TOLERANCE, meeting

pytestmark = pytest.mark.timeout(3 * LONG)

# A GPU sums up in an order that the size of a batch changes, and convolutions are chosen by the
# clock; a gradient that is summed instead of averaged is off by more than 1e-3.
FROZEN_TOLERANCE = 2e-4


@pytest.fixture(params=["gloo", "nccl"])
def backend(request: pytest.FixtureRequest) -> str:
    """Backend of the ranks' communication."""
    wanted: str = request.param
    if wanted == "nccl" and needs.count() < 2:
        pytest.skip("one GPU: NCCL takes no two ranks on the same")
    return wanted


def options(backend: str) -> tuple[str, ...]:
    return ("--share-gpu",) if backend == "gloo" else ()


@pytest.fixture(scope="module")
def one() -> list[list[Event]]:
    """Events of the jobs below on one rank, in order."""
    found = on_ranks([*frozen("pytorch"), TRAINING], 1, "cuda", timeout=LONG)
    return [each for (each,) in found]


def test_two_ranks_equal_one_with_twice_the_batch(one: list[list[Event]], backend: str) -> None:
    both = on_ranks(frozen("pytorch"), 2, "cuda", *options(backend), timeout=LONG)
    for (trainer, *_), alone, (first, second) in zip(frozen("pytorch"), one, both, strict=False):
        batch = 4 * SAMPLE.get(trainer, 1)
        assert (first[0]["world_size"], first[0]["global_batch"], second[0]["rank"]) == (
            2,
            batch,
            1,
        )
        assert only(first, "environment")[0]["backend"] == backend
        computes_the_same(alone, first, FROZEN_TOLERANCE)


@pytest.mark.parametrize("amp", ["none", "fp16"])
def test_ranks_that_share_a_models_state_compute_what_one_computes(amp: str) -> None:
    if needs.count() < 2:
        pytest.skip("one GPU: NCCL takes no two ranks on the same")
    whole = ("gpt", *STEEP["gpt"], "--frozen-norm", "--amp-dtype", amp)
    ((alone,),) = on_ranks([whole], 1, "cuda", timeout=LONG)
    ((first, _),) = on_ranks([(*whole, "--shard")], 2, "cuda", timeout=LONG)
    computes_the_same(alone, first, FROZEN_TOLERANCE if amp == "none" else 1e-2)


def test_synchronised_batch_norm_makes_two_ranks_one(one: list[list[Event]], backend: str) -> None:
    ((first, _),) = on_ranks([TRAINING], 2, "cuda", *options(backend), timeout=LONG)
    assert (one[-1][-1]["norm"], first[-1]["norm"]) == ("BatchNorm", "SyncBatchNorm")
    assert (one[-1][-1]["sync_bn"], first[-1]["sync_bn"]) == (False, True)
    computes_the_same(one[-1], first, TRAINING_TOLERANCE)


@pytest.mark.parametrize("level", ["", "WARN", "INFO"])
def test_nccl_of_one_rank_tells_its_network(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", level)
    (told,) = meeting("cuda", 1, timeout=LONG)
    assert told["backend"] == "nccl"
    assert told["transport"], "NCCL's log was not understood"
    assert told["sum"] == [1.0] * 8


def test_two_ranks_sum_up_and_agree(backend: str) -> None:
    for told in meeting("cuda", 2, *options(backend), timeout=LONG):
        assert (told["backend"], told["world_size"], told["agreed"]) == (backend, 2, 7)
        assert told["sum"] == [3.0] * 8
        assert told["transport"] == "socket" if backend == "gloo" else told["transport"]


def test_a_vector_is_summed_up_and_timed(backend: str) -> None:
    found = sums_up("pytorch", "cuda", *options(backend), timeout=LONG)
    assert only(found, "environment")[0]["backend"] == backend


def test_a_killed_rank_ends_the_job_and_is_named(backend: str) -> None:
    pytest.importorskip("msgspec", reason="k8sbench itself, which reads the end, needs msgspec")
    from tests.trainers.killed_ranks import a_killed_rank_ends_its_job

    a_killed_rank_ends_its_job("pytorch", "--device", "cuda", *options(backend))
