"""What is taken of the official client, and what is left alone; each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

OURS = "from k8sbench.adapters.kubernetes.client import official"
MODELS = "kubernetes.client.models"


def said(*lines: str) -> str:
    program = "\n".join(("import sys", *lines))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_its_typed_models_are_not_imported() -> None:
    found = said(OURS, "official.load_kube_config", f"print({MODELS!r} in sys.modules)")
    assert found == "False"


@pytest.mark.parametrize(
    "order", [(OURS, "import kubernetes"), ("import kubernetes", OURS)], ids=["after", "before"]
)
@pytest.mark.slow
def test_whoever_wants_all_of_it_finds_it(order: tuple[str, str]) -> None:
    same = "print(official.Configuration is kubernetes.client.Configuration)"
    assert said(*order, "kubernetes.client.V1Pod", same) == "True"
