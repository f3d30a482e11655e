"""Drawn sample sets: reproducible, in the form of the real ones.

Completeness: tests/unit/cli/test_data.py. Training on them:
tests/trainers/test_training_on_files.py.
"""

from pathlib import Path

import pytest

from k8sbench.trainers.data import sample_sets


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", sample_sets.SETS)
def test_equal_seeds_draw_equal_pictures_and_others_do_not(name: str, tmp_path: Path) -> None:
    write = sample_sets.SETS[name]
    for folder, seed in (("one", 3), ("two", 3), ("other", 4)):
        write(tmp_path / folder, pictures=4, size=(32, 48), seed=seed)
    one, two, other = (contents(tmp_path / each) for each in ("one", "two", "other"))
    assert one == two
    assert one.keys() == other.keys()
    assert one != other
    # A set of the usual size is a few small files.
    write(tmp_path / "usual")
    written = contents(tmp_path / "usual")
    assert len(written) < 300
    assert sum(map(len, written.values())) < 3_000_000
