"""Detection of a log's family, and the parsed items."""

import pytest

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.sample import Fact, Mark, Record
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.reading import FamilyLog
from tests.reader.family_logs import ALL, MMSEG
from tests.reader.support import ended


def read(lines: list[str], *families: str) -> tuple[FamilyLog, list[object]]:
    log = FamilyLog(ended(lines), [FAMILIES[name] for name in families])
    return log, list(log)


def test_the_table_has_every_family_that_the_model_names() -> None:
    assert tuple(FAMILIES) == FAMILY_NAMES


@pytest.mark.parametrize("family", ALL)
def test_the_first_record_decides_among_all_families(family: str) -> None:
    log, found = read(["noise", ALL[family]], *FAMILY_NAMES)
    assert log.family is FAMILIES[family]
    assert [type(item) for item in found] == [Record]


def test_facts_are_found_in_blocks_that_hold_little_else() -> None:
    noise = "warnings.warn(\n" * 50
    blocks = [noise] * 40
    blocks[30] += "model:\n  type: DeepLabV3P\n  backbone:\nval_dataset:\n  type: Cityscapes\n"
    blocks[35] = "\x1b[32mbatch_\x1b[0msize: 4\n"
    record = ALL["paddleseg"] + "\n"
    log = FamilyLog([*blocks, record], [FAMILIES["paddleseg"]])
    facts = {item.name: (item.value, item.line) for item in log if isinstance(item, Fact)}
    assert facts["model"] == ("DeepLabV3P", 1552)
    assert facts["batch_size"] == ("4", 1756)


def test_facts_of_the_head_come_before_the_first_record_and_carry_their_line() -> None:
    _, found = read(["", "    samples_per_gpu=4,", "PyTorch: 1.7.1", MMSEG], "mmseg")
    facts = [item for item in found if isinstance(item, Fact)]
    assert [(fact.name, fact.value, fact.line) for fact in facts] == [
        ("batch_size", "4", 2),
        ("framework_version", "1.7.1", 3),
    ]


def test_a_mark_is_of_the_piece_that_holds_it_alone() -> None:
    """A log is searched before its lines are taken apart."""
    glued = "[1,0]<stdout>:Test: [0/9][1,1]<stdout>:noise"
    _, found = read([ALL["tsm"], glued, "noise", "Test: [1/9]"], "tsm")
    marks = [(item.line, item.source) for item in found if isinstance(item, Mark)]
    assert marks == [(2, "0"), (4, "")]
