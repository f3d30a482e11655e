"""Batch norm over all ranks is PyTorch's own, without what makes the host wait."""

from __future__ import annotations

import json

import pytest

from tests.trainers.torch_checks import sync_norm_differs
from tests.trainers.torch_runs import END, ranks

pytestmark = pytest.mark.tier("frameworks")


@pytest.mark.parametrize(
    ("dtype", "of_torch", "of_one"),
    [("float64", 1e-15, 1e-14), ("float32", 1e-6, 1e-6), ("float16", 1e-3, 2e-3)],
)
def test_two_ranks_normalise_as_pytorchs_own_and_as_one_rank_does(
    dtype: str, of_torch: float, of_one: float
) -> None:
    found = sync_norm_differs(dtype, "cpu")
    assert max(found["torch"].values()) <= of_torch, found
    assert max(found["one rank"].values()) <= of_one, found


UNEQUAL = (
    """
import json, sys
import torch
import tests.trainers.sync_norm_on_cpu
from k8sbench.trainers.parts import settings, torch_session
from k8sbench.trainers.parts.torch_sync_norm import synchronise

defaults = settings.Defaults(benchmark="b", recipes=("v",), batch_size=1)
here = torch_session.open_session(settings.read("b", "", defaults, None, ["--device", "cpu"])[0])
here.connect()
told = []
for first, second in ((2 + here.place.rank, None), (2, 3)):
    norm = synchronise(torch.nn.Sequential(torch.nn.BatchNorm2d(4)))
    try:
        for batch in (first, second):
            norm(torch.zeros(batch, 4, 5, 5))
    except ValueError as refused:
        told.append(str(refused))
print(json.dumps(told))
"""
    + END
)


def test_unequal_batches_are_refused_and_not_averaged() -> None:
    """Between ranks, and from step to step."""
    for text in ranks(["-c", UNEQUAL], 2):
        assert json.loads(text.splitlines()[-1]) == [
            "ranks with unequal batches, of [50, 75] samples in batch norm",
            "batch norm began with 50 samples per rank, now 75",
        ]


def test_layers_keep_their_parameters_and_evaluate_as_batch_norm_does() -> None:
    """No rank is asked in evaluation, so that the checks with frozen batch norm need none."""
    torch = pytest.importorskip("torch")
    from k8sbench.trainers.parts.torch_sync_norm import SyncNorm, synchronise

    plain = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 1), torch.nn.Sequential(torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    )
    plain(torch.randn(5, 3, 2, 2))  # running statistics other than at the start
    kept, before = list(plain.parameters()), plain.eval()(torch.ones(1, 3, 2, 2))
    synced = synchronise(plain)
    assert isinstance(synced[1][0], SyncNorm)
    assert all(one is other for one, other in zip(synced.parameters(), kept, strict=True))
    assert torch.equal(synced.eval()(torch.ones(1, 3, 2, 2)), before)
