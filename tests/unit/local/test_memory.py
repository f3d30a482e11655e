"""The memory that a local run may take."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from k8sbench.adapters.local import cluster

GIB = 2**30


@pytest.mark.parametrize(
    ("limit", "free"),
    [
        (None, 10.0),  # no cgroup of its own
        ("max", 10.0),
        (str(4 * GIB), 1.5),  # 3 GiB are used, and half a GiB of that are pages of files
        (str(64 * GIB), 10.0),
        (str(2 * GIB), 0.0),  # it was lowered
    ],
)
def test_free_memory_is_the_machines_or_what_the_cgroup_leaves(
    limit: str | None, free: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CGROUP", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10 * GIB))
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{3 * GIB}\n")
        (tmp_path / "memory.stat").write_text(f"anon {GIB}\ninactive_file {GIB // 2}\n")
    assert cluster.free_memory_gib() == free
    assert cluster.site()[0].memory_gib == free
