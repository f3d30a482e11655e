"""A full disk is one clear error and keeps earlier records."""

import pathlib
import subprocess

import pytest

from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from tests.harness import children, disks
from tests.processes import programs
from tests.unit.store.index_checks import differences, reindexed


def fill(root: pathlib.Path) -> tuple[int, str]:
    done = subprocess.run(
        children.command(programs.fill_disk, root),
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    count, message = done.stdout.splitlines()
    return int(count), message


def check(root: pathlib.Path, recorded: int) -> None:
    with open_store(str(root)) as store:
        runs = store.runs(RunFilter())
        assert len(runs) == recorded
        assert all(run.measurement is not None for run in runs[:-1])
        # The last change may have stood in its folder alone: it was read from there.
        reindexed(store)
        assert store.runs(RunFilter()) == runs
        assert differences(store) == []


@pytest.mark.parametrize("size", ["64k", "300k", "1m"])
def test_a_small_disk(tmp_path: pathlib.Path, size: str) -> None:
    with disks.small(tmp_path / "disk", size) as disk:
        recorded, message = fill(disk / "store")
        assert "full" in message
        if recorded:
            with open_store(str(disk / "store")) as store:
                assert len(store.ids()) >= recorded, "what is there can be read"
            disks.grow(disk, "10m")
            check(disk / "store", recorded)
