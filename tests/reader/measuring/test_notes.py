"""Findings and reasons of the reader are messages, whole in each language."""

import re
from collections.abc import Iterator

import pytest

from k8sbench import messages
from k8sbench.model.measurement import Measurement
from tests.reader.measuring import test_figures_by_family as families
from tests.reader.measuring import test_findings as findings
from tests.reader.measuring.support import fixture, measured
from tests.unit.messages import parsed

FILES = ("findings_group.ftl", "findings_log.ftl", "findings_run.ftl", "no_figure.ftl")
NAMES = re.compile(
    r"`[^`]*`|--[a-z-]+|\b[A-Z]+(?:_[A-Z]+)+(?:=true)?\b|k8sbench collect"
    r"|\b(?:AI-Rank|NCCL|InfiniBand|RoCE|NVIDIA|ResNet|PyTorch|Prometheus|exporter|NVML|DCGM|UUID"
    r"|FP32|TF32|TFLOP|k8sbench|null|test_begin|token|rank|facts|samples/s|LitGPT|modded-nanogpt)\b"
)
"""Words that stay as they are in each language: names, options and units."""


def measurements() -> Iterator[Measurement]:
    for name, (family, known, _) in families.CASES.items():
        yield measured(fixture(name), format=family, **known)


def test_each_missing_figure_has_a_message() -> None:
    for one in measurements():
        assert one.missing_notes.keys() == one.missing.keys()


def test_each_finding_has_a_message() -> None:
    found = [each for make, _ in findings.CASES.values() for each in make()]
    assert found
    assert [each.id for each in found if each.note is None] == []


@pytest.mark.parametrize("name", FILES)
def test_a_chinese_text_has_no_english_words_but_names(name: str) -> None:
    for line in parsed.files("zh")[name].splitlines():
        head, _, text = re.sub(r"{[^}]*}", "", line).partition(" =")
        if not head.startswith("#"):
            assert not re.search(r"[A-Za-z]{4,}", NAMES.sub("", text)), line


def test_a_chinese_finding_has_its_names_and_figures() -> None:
    found = [each for make, _ in findings.CASES.values() for each in make()]
    said = {messages.text("zh", each.note) for each in found if each.note is not None}
    assert "日志计划 80000 次迭代，到第 80 次结束。" in said
    assert "node-1 的 GPU 0 有 100.0 % 的时间被降频，原因：温度过高（驱动限制）。" in said
