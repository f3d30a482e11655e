"""From a real Prometheus to the figures of a run, and where ``--prometheus`` leads."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from k8sbench.app import metric_sources
from k8sbench.model.errors import UsageError


def test_without_a_cluster_nothing_is_looked_for() -> None:
    for place in ("auto", "none"):
        with metric_sources.opened(place, None, Mock()) as sources:
            assert [one.name for one in sources] == ["trainer"]


@pytest.mark.parametrize("url", ["http://ada:secret@p.test", "secret", "ftp://secret"])
def test_an_address_that_cannot_be_used_is_refused_at_once_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as wrong:
        metric_sources.checked(url)
    assert "secret" not in str(wrong.value)
