"""Finding a benchmark by its name or in a user's file."""

import hashlib
import pathlib

import pytest

from k8sbench.catalog import benchmarks, spec_files
from k8sbench.model.errors import InputError, NotFound

MINE = """\
name: {name}
title: Mine
task: Anything
unit: images
default_framework: pytorch
variants:
- name: base
  framework: pytorch
  title: Base
  log: mmseg
  batch_size: {{fp32: 1}}
  window: {{warmup: 1, iterations: 10, rule: ours, log_interval: {{one_gpu: 1, many_gpus: 1}}}}
  cases: [1x1]
  trainer: resnet50
"""


def mine(folder: pathlib.Path, file: str = "mine.yaml", name: str = "mine") -> str:
    path = folder / file
    path.write_text(MINE.format(name=name))
    return str(path)


def test_a_name_is_a_built_in_file_whose_text_the_digest_is_of() -> None:
    found = spec_files.load_spec("resnet50")
    text = (pathlib.Path(benchmarks.__path__[0]) / "resnet50.yaml").read_bytes()
    assert found.spec.name == "resnet50"
    assert found.source == "built-in"
    assert found.digest == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("name", "near"), [("resnet5", "resnet50"), ("deeplab", "deeplabv3p"), ("arcfaces", "arcface")]
)
def test_an_unknown_name_is_answered_with_the_nearest_and_the_list(name: str, near: str) -> None:
    with pytest.raises(NotFound) as caught:
        spec_files.load_spec(name)
    assert repr(name) in caught.value.message
    assert f"Did you mean {near}?" in caught.value.action
    assert "arcface, deeplabv3p, gpt, resnet50, tsm" in caught.value.action


@pytest.mark.parametrize("path", ["./no/such.yaml", "no-such.yml", "/", "a\0b.yaml"])
def test_a_path_without_a_file_is_an_input_error(path: str) -> None:
    with pytest.raises(InputError):
        spec_files.load_spec(path)


def test_adding_a_benchmark_is_adding_a_file(tmp_path: pathlib.Path) -> None:
    mine(tmp_path, "new.yaml", "new")
    (tmp_path / "README.md").write_text("no benchmark")
    assert spec_files.names(tmp_path) == ["new"]
    assert [found.spec.name for found in spec_files.load_all(tmp_path)] == ["new"]


def test_an_unknown_trainer_is_reported_with_its_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.format(name="mine").replace("trainer: resnet50", "trainer: resnet51"))
    with pytest.raises(InputError) as caught:
        spec_files.load_spec(str(path))
    assert caught.value.line == 14
    assert "Did you mean resnet50?" in caught.value.message
