"""Deviations from published figures: of equal things only, and what is not equal named."""

from typing import Any

import pytest

from k8sbench.catalog import spec_files
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.model.facts import Facts
from k8sbench.model.group import Deviation
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.ratios import DATA_UNSTATED
from k8sbench.results.groups.speedup import results
from k8sbench.results.report.columns import nearest
from tests.results.groups.rows import catalog
from tests.results.report.factory import V100_32, run, throughput
from tests.results.said import text, texts
from tests.unit.presence import present

TF32 = {"options": {"tf32": True}, "measured": {"gpu_model": "NVIDIA A100-SXM4-40GB"}}
OTHERS: dict[str, Any] = {"impl": "upstream", "trainer": None, "trainers_digest": None}
"""Fields of a program that does not state TF32."""


def deviation(*runs: Run, **figure: Any) -> Deviation:
    spec = catalog(**figure)
    (found,) = results(groups(runs), find=lambda _: spec, published=True)
    assert found.deviations is not None
    return next(d for d in found.deviations if d.source == "dlperf")


def test_a_deviation_is_by_the_published_estimator_and_names_what_differs() -> None:
    found = deviation(run(2900.0))
    assert found.ours == pytest.approx(2900.0 * 0.999)
    assert found.ratio == pytest.approx(2900.0 * 0.999 / 2802.14 - 1)
    assert texts(found.notes) == ("impl k8sbench", "data synthetic")
    assert found.not_comparable == ()


def test_loaders_and_speed_options_are_named_beside_a_deviation() -> None:
    quick = run(2900.0, data="synthetic-host", options={"compile": True})
    assert texts(deviation(quick).notes) == ("impl k8sbench", "data synthetic-host", "compile")
    # As ours, theirs is synthetic; what loading costs is in ours alone.
    assert "data synthetic-host" in texts(deviation(quick, data="synthetic").notes)


@pytest.mark.parametrize(
    ("environment", "note"),
    [
        ({"dataset": "imagenet"}, "data in the log: imagenet"),
        ({"data_md5": "37724b"}, "data in the log: MD5 37724b"),
        ({}, text(DATA_UNSTATED)),
    ],
)
def test_a_note_says_that_data_is_not_known_only_where_the_log_names_none(
    environment: dict[str, str], note: str
) -> None:
    one = run(2900.0, data="unknown", measured={"environment": environment}, **OTHERS)
    assert texts(deviation(one).notes) == (note,)


@pytest.mark.parametrize(
    ("fields", "figure", "ids"),
    [
        ({"preset": "smoke"}, {}, ("smoke",)),
        ({"case": "2x8"}, {}, ("case",)),
        ({"batch_size": 64}, {}, ("batch",)),
        ({"measured": {"gpu_model": V100_32}}, {}, ("gpu-model",)),
        ({"measured": {"gpu_model": None}}, {}, ("gpu-model",)),
        (OTHERS | {"measured": {"gpu_model": None}}, {}, ("gpu-model",)),
        (OTHERS | {"measured": {"gpu_model": "V100"}}, {}, ("gpu-model",)),
        ({"measured": {"precision_effective": None}}, {}, ("precision",)),
        ({"precision": "amp", "measured": {"precision_effective": "fp32"}}, {}, ("precision",)),
        (TF32, {}, ("precision", "gpu-model")),
        ({"options": {"sequence-length": 256}}, {}, ("settings",)),
        ({}, {"precision": "amp"}, ("precision",)),
        ({"precision": "amp", "amp_dtype": "bf16"}, {"precision": "amp"}, ("precision",)),
        ({"measured": {"throughput": throughput(2900.0, timestamps=None)}}, {}, ("estimator",)),
        ({"measured": {"verdict": "rejected", "throughput": None}}, {}, ("no-figure",)),
        ({"phase": Phase.FAILED, "batch_size": 64}, {}, ("no-figure", "batch")),
    ],
)
def test_what_does_not_match_leaves_no_deviation_and_its_id(
    fields: dict[str, Any], figure: dict[str, Any], ids: tuple[str, ...]
) -> None:
    found = deviation(run(2900.0, **fields), **figure)
    assert found.ratio is None
    assert found.not_comparable == ids


def test_an_unknown_averaging_rule_gives_the_range_over_all_rules() -> None:
    found = deviation(run(2900.0), estimator="unknown", throughput=2900.0)
    assert (found.ratio, found.not_comparable) == (None, ())
    # The factory's estimators are 0.1 % below to 0.3 % above the first.
    assert found.ratios == pytest.approx((-0.001, 0.003))


def test_what_is_special_of_a_published_figure_stands_beside_the_deviation() -> None:
    odd = deviation(run(2900.0), anomalous=True)
    assert "the published figure is odd by its own report" in texts(odd.notes)
    assert "published mean of runs, here the median" in texts(
        deviation(run(1.0), aggregate="mean").notes
    )
    assert deviation(run(2900.0), note="Wrong by its own logs.").remark == "Wrong by its own logs."


def test_of_two_sources_that_of_the_programs_version_comes_first() -> None:
    """A row names one published figure: that of the version which the logs state."""
    fields: dict[str, Any] = {
        "benchmark": "deeplabv3p",
        "variant": "mmseg",
        "case": "4x8",
        "batch_size": 4,
        "precision": "amp",
        "amp_dtype": "fp16",
        "impl": "upstream",
        "data": "unknown",
    }
    for version, figure in (("0.11.0+d0a71c1", 182.07), ("0.12.0+3e46c1b", 203.2)):
        measured = {"gpu_model": V100_32, "environment": {"program_version": version}}
        one = run(203.0, measured=measured, **fields)
        (found,) = results(groups([one]), find=find, published=True)
        assert present(nearest(found)).published == figure
        same = {d.published: d.same_version for d in found.deviations or ()}
        assert same == {182.07: figure == 182.07, 203.2: figure == 203.2}


def find(facts: Facts) -> BenchmarkSpec:
    return spec_files.load_spec(facts.benchmark).spec
