"""A store on a disk that can only be read, and an index that several processes need at once.

Also versions of k8sbench that use a store in turn, as an upgrade, a rollback and an upgrade do.
"""

import pathlib
import subprocess

import pytest

from k8sbench.model.errors import StoreError
from k8sbench.store import database
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from tests.harness import children, disks, other_version
from tests.processes import programs
from tests.unit.store.examples import NOW, fill, plan

RUNS = ["seg-1", "seg-2", "seg-3"]


@pytest.mark.parametrize("left", ["by a closed process", "by a killed process", "without an index"])
def test_a_store_on_a_disk_that_can_only_be_read(tmp_path: pathlib.Path, left: str) -> None:
    with disks.small(tmp_path / "disk", "10m") as disk:
        root = disk / "store"
        if left == "by a killed process":
            subprocess.run(children.command(programs.fill_and_die, root, *RUNS), check=False)
            assert (root / f"{database.DATABASE}-wal").stat().st_size > 0
        else:
            with open_store(str(root)) as store:
                fill(store, *RUNS)
        if left == "without an index":
            (root / database.DATABASE).unlink()
        with disks.only_read(disk), open_store(str(root)) as store:
            assert [run.run_id for run in store.runs(RunFilter())] == RUNS
            assert store.next_repeat("nightly", store.run("seg-1").case_key) == 4
            with pytest.raises(StoreError, match="can only be read"):
                store.record(plan("seg-4", repeat=4), at=NOW, process=None)


def test_one_of_several_processes_builds_the_index_and_the_others_wait(
    tmp_path: pathlib.Path,
) -> None:
    root = tmp_path / "store"
    with open_store(str(root)) as store:
        fill(store, *(f"seg-{number}" for number in range(40)))
    (root / database.DATABASE).unlink()
    processes = [children.ready(programs.open_at_once, root) for _ in range(3)]
    children.begin(*processes)
    ends = [process.communicate(timeout=300) for process in processes]
    assert [err for _, err in ends] == ["", "", ""]
    found = sorted(tuple(map(int, out.split())) for out, _ in ends)
    assert found == [(40, 0), (40, 0), (40, 40)]
    assert not list(root.glob("*.new*"))


VERSIONS = {
    "0.5.0": {
        'DATABASE = f"index-{LAYOUT}.db"': "DATABASE = FORMER = " + repr(database.FORMER),
        '"index-[0-9]+': '"of no other version',
    },
    "next": {f"LAYOUT = {database.LAYOUT}": f"LAYOUT = {database.LAYOUT + 1}"},
}
"""Changes that make another version: its tables lie in another file."""


@pytest.mark.parametrize("name", VERSIONS)
def test_versions_of_k8sbench_with_other_tables_use_a_store_in_turn(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each sees in its index what the others have changed of runs that had ended."""
    other = other_version.make(tmp_path / name, database, VERSIONS[name])
    root = str(tmp_path / "store")

    def here(rate: float) -> str:
        programs.measure_anew(root, rate)
        return capsys.readouterr().out

    assert here(10.0) == "[12.5]\n"
    assert other_version.call(other, programs.measure_anew, root, 20.0) == "[10.0]\n"
    assert here(30.0) == "[20.0]\n"
    assert [path.name for path in pathlib.Path(root).glob("*.db")] == [database.DATABASE]
    assert other_version.call(other, programs.measure_anew, root, 40.0) == "[30.0]\n"
    assert here(50.0) == "[40.0]\n"
