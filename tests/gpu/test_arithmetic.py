"""FP32 on hardware is FP32 unless TF32 was requested."""

from __future__ import annotations

import pytest

from tests.gpu import LONG
from tests.trainers.torch_checks import rounding

pytestmark = pytest.mark.timeout(2 * LONG)


@pytest.mark.parametrize("user", [None, "1"])
def test_fp32_is_not_tf32(user: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says: NVIDIA's own images ask for TF32 there."""
    for name in ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"):
        monkeypatch.delenv(name, raising=False)
        if user is not None:
            monkeypatch.setenv(name, user)
    found = rounding("cuda", timeout=LONG)
    assert found["matmul"] < 2e-5
    assert found["convolution"] < 2e-5


def test_tf32_is_what_one_gets_by_asking() -> None:
    found = rounding("cuda", "--tf32", timeout=LONG)
    if not found["tf32"]:
        pytest.skip("this GPU has no TF32")
    assert 5e-5 < found["matmul"] < 5e-3
