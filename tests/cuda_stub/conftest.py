"""Every program that these tests start has the stub."""

import os
from collections.abc import Iterator
from unittest import mock

import pytest

from tests.harness import cuda_stub


@pytest.fixture(scope="module", autouse=True)
def stub() -> Iterator[None]:
    """Put the stub into the environment."""
    with mock.patch.dict(os.environ, cuda_stub.variables()):
        yield
