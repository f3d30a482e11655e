"""The page on benchmark files says what the program does, and its examples work."""

import pathlib
import re
from typing import Any

import pytest

from k8sbench.adapters.files import catalog, pools
from k8sbench.model import pool, spec
from k8sbench.model.spec import LogFormat
from tests import struct_docs, tiers
from tests.unit.catalog import reference

EXAMPLES = sorted((tiers.ROOT / "docs" / "examples").glob("*.yaml"))
LINES = {
    "my-model": (
        "2026-03-02 11:20:31 step 120/250 loss 0.5312 412.7 img/s",
        {
            "stamp": "2026-03-02 11:20:31",
            "iteration": "120",
            "total": "250",
            "loss": "0.5312",
            "rate": "412.7",
        },
    ),
    "paddlenlp-bert": (
        "global step 40, epoch: 0, batch: 39, loss: 11.09, speed: 6.5, ips: 630.03 sequences/s",
        {"iteration": "40", "epoch": "0", "loss": "11.09", "rate": "630.03"},
    ),
    "paddlenlp-transformer": (
        "step_idx: 200, epoch: 0, batch: 200, avg loss: 7.52, ppl: 18.5, ips: 8886.61 words/sec",
        {"iteration": "200", "loss": "7.52", "rate": "8886.61"},
    ),
    "dle-transformer": (
        "Transformer | epoch 0 | step 20 |avg loss 15.408 |avg tokens 4684.9 |tokens/s 9046.781 |",
        {"epoch": "0", "iteration": "20", "loss": "15.408", "rate": "9046.781"},
    ),
    "dle-bert": (
        "DLL - e2e s training_sequences_per_second : 639.16 sequences/s final_loss : 8.557 None",
        {"rate": "639.16", "loss": "8.557"},
    ),
    "dle-tensorflow": (
        "DLL 2026-03-02 04:02:49.192609 - () train_throughput : 1219.65768 images/s",
        {"rate": "1219.65768"},
    ),
    "dle-mxnet": ("     1     |   1471.9  |", {"rate": "1471.9"}),
}


def blocks(kind: str) -> list[str]:
    text = reference.PAGE.read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_reference_is_what_the_program_says_of_itself() -> None:
    assert reference.PAGE.read_text() == reference.page(), (
        "write it anew: python -m tests.unit.catalog.reference"
    )


@pytest.mark.parametrize("struct", [struct for _, struct in reference.STRUCTS], ids=str)
def test_every_field_of_every_mapping_says_what_it_means(struct: type[Any]) -> None:
    told = struct_docs.descriptions(struct)
    assert set(told) == set(struct.__struct_fields__)
    assert [name for name, text in told.items() if not text] == []


def test_every_mapping_of_a_file_is_in_the_reference() -> None:
    structs = {
        value
        for module in (spec, pool)
        for value in vars(module).values()
        if isinstance(value, type) and hasattr(value, "__struct_fields__")
        if value.__module__ == module.__name__ and not value.__name__.startswith("_")
    }
    assert structs == {struct for _, struct in reference.STRUCTS}


def test_the_example_on_the_page_is_the_file_and_loads() -> None:
    assert blocks("yaml")[0] == (tiers.ROOT / "docs" / "examples" / "my-model.yaml").read_text()


def test_the_pools_on_the_page_load(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(blocks("yaml")[1])
    assert pools.load(str(path)).pool().gpu_model == "Tesla T4"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads_and_reads_its_own_log(path: pathlib.Path) -> None:
    found = catalog.find(str(path)).spec
    assert found.name == path.stem
    for variant in found.variants:
        assert variant.impl == "user"
        assert isinstance(variant.log, LogFormat)
        line, groups = LINES[variant.log.name]
        match = re.search(variant.log.record or variant.log.summary or "", line)
        assert match is not None
        assert match.groupdict() == groups
