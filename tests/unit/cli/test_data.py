"""``k8sbench data`` as typed: listing, drawing, checking and refusals."""

import importlib
from pathlib import Path

import pytest

from k8sbench.catalog.training import DATA_SETS, KnownDataSet
from k8sbench.trainers import data
from tests.unit.command_line import Cli


@pytest.mark.parametrize("one", DATA_SETS, ids=lambda one: one.name)
def test_a_drawn_set_is_whole(one: KnownDataSet, tmp_path: Path, cli: Cli) -> None:
    module = importlib.import_module(f"{data.__name__}.{one.name}")
    assert {"train": one.training, "val": one.validation} == module.SAMPLES
    listed = {each["name"]: each for each in cli.json("data", "list", "-o", "json")["data_sets"]}
    assert listed[one.name]["training"] == one.training
    folder = tmp_path / "set"
    err = cli("data", "make-sample", one.name, str(folder), "--pictures=8", "--size=32x32").err
    assert "those of the validation among them" in err
    err = cli("data", "check", one.name, f"--data={folder}", "--deep").err
    assert f"{one.name}: all is there, in {folder}." in err
    pictures = [path for path in folder.rglob("*") if path.suffix in {".png", ".jpg", ".JPEG"}]
    lost = max(pictures, default=folder / "train.bin")
    lost.unlink()
    out, err = cli("data", "check", one.name, f"--data={folder}", code=2)
    assert (" files" if pictures else str(lost)) in out.splitlines()[-1]
    assert "something is missing or broken" in err
