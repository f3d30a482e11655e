"""The language model's steps, by a plain implementation, and its files."""

import functools
import math
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from k8sbench.catalog import spec_files
from k8sbench.trainers import check_data, gpt
from k8sbench.trainers.data import sample_sets, tokens
from k8sbench.trainers.parts.samples import BrokenSample, DataError
from tests.harness import children
from tests.trainers import noted_steps
from tests.trainers.checks import SIZES, run
from tests.trainers.runs import Captured, Event, Job, in_turn, losses, only, refusal

pytestmark = [pytest.mark.tier("frameworks"), pytest.mark.filterwarnings("ignore::UserWarning")]
Tensors = dict[str, Any]

LAYERS, HEADS, LENGTH, VOCABULARY, STEPS = 2, 12, 16, 64, 3
OPTIONS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "clipped": ("--clip", "0.1"),
    "added up": ("--accumulate", "2", "--data", "synthetic-host", "--workers", "0"),
    "fp16": ("--amp-dtype", "fp16", "--clip", "0.1"),
    "bf16": ("--amp-dtype", "bf16", "--clip", "0.1"),
    "overflow": ("--amp-dtype", "fp16"),
}
# Of a tensor's gradient, relative to the largest one in it; measured: 4e-6, 3e-3 and 4e-2.
TOLERANCE = {"fp16": 1e-2, "bf16": 0.1}
PLACES = ((1, False), (2, False), (2, True))
CASES = [(ranks, shard, name) for ranks, shard in PLACES for name in OPTIONS]

Ran = dict[tuple[bool, str], tuple[list[Event], list[Tensors]]]
"""By shard and case: events, and weights and gradients by step."""


@functools.cache
def ran(ranks: int) -> Ran:
    with tempfile.TemporaryDirectory(prefix="k8sbench-gpt-") as folder:
        return _ran(ranks, pathlib.Path(folder))


def _ran(ranks: int, folder: pathlib.Path) -> Ran:
    import torch

    cases = [(shard, name) for count, shard, name in CASES if count == ranks]
    jobs: list[Job] = []
    for shard, name in cases:
        steps = STEPS * (2 if name == "added up" else 1)
        length = ("--warmup", "0", "--iterations", str(steps), "--log-interval", "1")
        shared = ("--device", "cpu", "--threads", "1", "--batch-size", str(4 // ranks), "--lr", "4")
        path = str(folder / f"{name}-{shard}".replace(" ", "-"))
        own = (*OPTIONS[name], *(("--shard",) if shard else ()), "--run-id", path, "--frozen-norm")
        jobs.append(("gpt", *SIZES["gpt"], *length, *shared, *("--clip", "0"), *own))
    told = in_turn(jobs, ranks, before=children.calling(noted_steps.note), timeout=200.0)
    return {
        case: (found[0], torch.load(job[job.index("--run-id") + 1]))
        for case, found, job in zip(cases, told, jobs, strict=True)
    }


def normed(x: Any, weights: Tensors, name: str) -> Any:
    """Layer norm."""
    apart = x - x.mean(-1, keepdim=True)
    scale = (apart.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()
    return apart * scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def loss(weights: Tensors, numbers: Sequence[int]) -> Any:
    """Mean cross entropy of synthetic sequences, one after another, head by head."""
    import torch

    def product(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    drawn, found = tokens.Drawn(LENGTH, VOCABULARY, seed=0), []
    later = torch.ones(LENGTH, LENGTH).triu(1).bool()
    for inputs, targets in map(drawn.ready, numbers):
        x = weights["tokens.weight"][inputs] + weights["positions.weight"][:LENGTH]
        for layer in range(LAYERS):
            at = f"blocks.{layer}"
            parts = product(normed(x, weights, f"{at}.norm_1"), f"{at}.attend").chunk(3, dim=1)
            heads = []
            for query, key, value in zip(*(part.chunk(HEADS, 1) for part in parts), strict=True):
                scores = (query @ key.T / math.sqrt(query.shape[1])).exp().masked_fill(later, 0.0)
                heads.append(scores / scores.sum(1, keepdim=True) @ value)
            x = x + product(torch.cat(heads, dim=1), f"{at}.attended")
            wide = product(normed(x, weights, f"{at}.norm_2"), f"{at}.widen")
            bent = (math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)).tanh()
            x = x + product(0.5 * wide * (1 + bent), f"{at}.narrow")
        logits = normed(x, weights, "norm") @ weights["tokens.weight"].T
        chances = logits.exp() / logits.exp().sum(1, keepdim=True)
        found += [-chances[place, token].log() for place, token in enumerate(targets)]
    return sum(found) / len(found)


def by_hand(weights: Tensors, numbers: Sequence[int], clip: float) -> tuple[float, Tensors]:
    """Loss and gradients of samples, in double precision."""
    import torch

    leaves = {key: each.double().requires_grad_() for key, each in weights.items()}
    found = loss(leaves, numbers)
    slopes = dict(zip(leaves, torch.autograd.grad(found, list(leaves.values())), strict=True))
    norm = math.sqrt(sum(float(each.pow(2).sum()) for each in slopes.values()))
    assert norm > clip
    shrunk = {key: each * clip / norm if clip else each for key, each in slopes.items()}
    return float(found), shrunk


def moved(noted: Sequence[Tensors], key: str, rate: float) -> Any:
    """A tensor after the last of these steps, by AdamW's paper."""
    first: Any = 0.0
    second: Any = 0.0
    for step in noted:
        slope = step[key][1].double()
        first, second = 0.9 * first + 0.1 * slope, 0.95 * second + 0.05 * slope**2
    mean, square = first / (1 - 0.9 ** len(noted)), second / (1 - 0.95 ** len(noted))
    weight = noted[-1][key][0].double()
    decay = rate * 0.1 if weight.dim() == 2 else 0.0
    return weight * (1 - decay) - rate * mean / (square.sqrt() + 1e-8)


@pytest.mark.parametrize(
    ("ranks", "shard", "name"), [case for case in CASES if case[2] != "overflow"]
)
def test_losses_and_gradients_are_those_of_a_plain_implementation(
    ranks: int, shard: bool, name: str
) -> None:
    """Each rank has other tokens.

    AdamW would hide a wrong scale, so gradients are compared.
    """
    found, noted = ran(ranks)[shard, name]
    assert len(noted) == STEPS
    tolerance, clip = TOLERANCE.get(name, 1e-5), 0.1 if "--clip" in OPTIONS[name] else 0.0
    each = 2 if name == "added up" else 1
    for step, tensors in enumerate(noted):
        numbers = range(8 * step, 8 * step + 8) if name == "added up" else range(4)
        told, slopes = by_hand({key: weight for key, (weight, _) in tensors.items()}, numbers, clip)
        printed = losses(found)[each * step : each * (step + 1)]
        assert sum(printed) / each == pytest.approx(told, rel=tolerance)
        for key, slope in slopes.items():
            apart = float((tensors[key][1].double() - slope).norm() / slope.norm())
            assert apart < tolerance, (step, key)
            if step + 1 < STEPS:
                rate = 4 * (step + 1) / 2000
                after = moved(noted[: step + 1], key, rate)
                assert float((noted[step + 1][key][0] - after).abs().max()) < 1e-4 * rate


def test_the_summary_counts_changes_of_the_weights() -> None:
    plain, added_up = (ran(1)[False, name][0][-1] for name in ("plain", "added up"))
    assert (plain["steps"], plain["updates"]) == (STEPS, STEPS)
    assert (added_up["steps"], added_up["updates"]) == (2 * STEPS, STEPS)


@pytest.mark.parametrize(
    ("length", "says"),
    [
        (("--warmup", "2", "--iterations", "6"), "as --warmup 4 and --iterations 8 are"),
        (("--warmup", "5", "--iterations", "8"), "as --warmup 8 and --iterations 8 are"),
    ],
)
def test_a_window_that_ends_between_changes_of_the_weights_is_refused(
    length: tuple[str, ...], says: str
) -> None:
    words = (*SIZES["gpt"], *length, "--accumulate", "4", "--device", "cpu")
    assert says in refusal("pytorch", ["-m", "k8sbench.trainers.gpt", *words])


@pytest.mark.parametrize("shard", [False, True])
def test_an_overflow_on_one_rank_leaves_the_step_out_on_all(shard: bool) -> None:
    found, noted = ran(2)[shard, "overflow"]
    assert len(noted) == STEPS - 1
    before, _, after = losses(found)
    assert after < before


@pytest.mark.parametrize(
    ("name", "variant", "parameters"),
    [("gpt2", "gpt2", 124_439_808), ("gpt2-xl", "gpt2-xl", 1_557_611_200)],
)
def test_the_models_size_is_the_published_one_and_the_catalogs(
    name: str, variant: str, parameters: int
) -> None:
    """N leaves out the positions; attention adds 2 L d per position."""
    import torch

    from k8sbench.trainers.models.gpt_torch import GPT2

    layers, heads = gpt.SIZES[name]
    with torch.device("meta"):
        model = GPT2(layers, heads)
    counts = {key: each.numel() for key, each in model.named_parameters()}
    known = next(
        v for v in spec_files.load_spec("gpt").spec.variants if v.name == variant
    ).fingerprint
    assert known is not None
    assert known.position_gmac is not None
    assert (sum(counts.values()), known.parameters) == (parameters, parameters)
    assert known.gmac * 1e9 == pytest.approx(parameters - counts["positions.weight"], abs=0.5)
    assert known.position_gmac * 1e9 == pytest.approx(2 * layers * 64 * heads, abs=0.5)


def test_a_token_sees_none_that_follow_it() -> None:
    import torch

    from k8sbench.trainers.models.gpt_torch import Block

    torch.manual_seed(0)
    block, x = Block(24, 3), torch.randn(1, 8, 24)
    other = x.clone()
    other[:, 5:] = 0.0
    before, after = block(x), block(other)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


# -- files of tokens -------------------------------------------------------------------------------


def written(folder: pathlib.Path, **streams: Sequence[int]) -> pathlib.Path:
    """Write files of tokens."""
    for name, stream in streams.items():
        (folder / f"{name}.bin").write_bytes(np.array(stream, "<u2").tobytes())
    return folder


def test_sequences_lie_side_by_side_and_targets_are_one_further(tmp_path: pathlib.Path) -> None:
    files = tokens.open_set(written(tmp_path, train=range(14), val=range(5)), length=4)
    assert (len(files.training), len(files.validation)) == (3, 1)
    pairs = [files.training.sample(number, np.random.default_rng()) for number in range(3)]
    assert [inputs.tolist() for inputs, _ in pairs] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert [targets.tolist()[-1] for _, targets in pairs] == [4, 8, 12]


def test_files_that_are_no_tokens_are_refused_and_a_token_too_large_is_named(
    tmp_path: pathlib.Path,
) -> None:
    with pytest.raises(DataError, match=r"train\.bin: No such file"):
        tokens.open_set(tmp_path, length=4)
    written(tmp_path, train=[*range(9), 64], val=range(4))
    with pytest.raises(DataError, match=r"val\.bin: 8 bytes"):
        tokens.open_set(tmp_path, length=4)
    written(tmp_path, val=range(5))
    (tmp_path / "train.bin").write_bytes(b"x" * 21)
    with pytest.raises(DataError, match=r"train\.bin: 21 bytes"):
        tokens.open_set(tmp_path, length=4)
    written(tmp_path, train=[1, 2, 3, 4, 64])
    files = tokens.open_set(tmp_path, length=4, vocabulary=64)
    with pytest.raises(BrokenSample, match="token 64 in sequence 0"):
        files.training.sample(0, np.random.default_rng())


def test_validation_tokens_may_be_missing(tmp_path: pathlib.Path) -> None:
    files = tokens.open_set(written(tmp_path, train=range(14)), length=4)
    assert (len(files.training), len(files.validation)) == (3, 0)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "train.bin").mkdir()
    with pytest.raises(DataError, match=r"train\.bin: "):
        tokens.open_set(tmp_path, length=4)


@pytest.mark.parametrize("high", [0, 3])
def test_tokens_of_four_bytes_are_refused(high: int, tmp_path: pathlib.Path) -> None:
    stream = np.arange(100, dtype="<u4") + high * 65_536
    (tmp_path / "train.bin").write_bytes(stream.tobytes())
    with pytest.raises(DataError, match=r"each second token is next to 0.*as uint16"):
        tokens.open_set(tmp_path, length=4)
    files = tokens.open_set(written(tmp_path, train=range(100)), length=4)
    assert len(files.training) == 24


def test_a_file_that_is_cut_while_it_is_read_is_named(tmp_path: pathlib.Path) -> None:
    files, random = tokens.open_set(written(tmp_path, train=range(14)), length=4), np.random
    before, _ = files.training.sample(2, random.default_rng())
    assert before.tolist() == [8, 9, 10, 11]
    written(tmp_path, train=range(9))
    assert files.training.sample(1, random.default_rng())[0].tolist() == [4, 5, 6, 7]
    with pytest.raises(BrokenSample, match="ends before sequence 2"):
        files.training.sample(2, random.default_rng())


def test_a_run_reads_files_of_tokens_and_a_drawn_set_passes_its_check(
    tmp_path: pathlib.Path, capfd: Captured
) -> None:
    sample_sets.tokens(tmp_path, pictures=16)
    assert check_data.main(["check", "tokens", str(tmp_path)]) == 0
    options = ("--vocabulary", "256", "--sequence-length", "32", "--layers", "1", "--lr", "0.5")
    length = ("--warmup", "1", "--iterations", "30", "--log-interval", "1", "--batch-size", "8")
    data = ("--data", str(tmp_path), "--workers", "1")
    found = run(capfd, "gpt", *options, *length, *data)
    (read,) = only(found, "data")
    assert (read["name"], read["train"], read["val"]) == ("tokens", 512, 128)
    assert found[0]["unit"] == "tokens"
    assert losses(found)[-1] < 0.7 * losses(found)[0]
    assert found[-1]["broken_samples"] == 0


def test_a_rank_alone_is_told_that_it_shares_nothing(capfd: Captured) -> None:
    small = (*SIZES["gpt"], "--warmup", "0", "--iterations", "1", "--device", "cpu")
    gpt.main([*small, "--shard"])
    assert "k8sbench: note: --shard: one rank alone shares nothing\n" in capfd.readouterr().err


def test_training_to_an_accuracy_is_refused(tmp_path: pathlib.Path) -> None:
    words = ("--mode", "train", "--length", "1", "--data", str(tmp_path))
    assert "speed" in refusal("pytorch", ["-m", "k8sbench.trainers.gpt", *words])
