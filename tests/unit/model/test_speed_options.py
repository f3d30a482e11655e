"""``--speed-option``: what may be asked of k8sbench's trainers, and what each of them has."""

import importlib

import pytest

from k8sbench.catalog import spec_files
from k8sbench.model.errors import UsageError
from k8sbench.model.spec_values import Framework
from k8sbench.model.speed_options import (
    COUNTS,
    FAST_OPTIONS,
    SIZES,
    SWITCHES,
    TWO_WAY,
    Option,
    expand_fast,
    parse_speed_options,
    speed_options_of,
    trainer_arguments,
)
from k8sbench.trainers.parts.settings import Defaults
from tests import struct_docs
from tests.tiers import ROOT


def test_a_name_alone_switches_on_and_a_count_needs_its_number() -> None:
    assert parse_speed_options(["channels-last", "workers=8", "cudnn-benchmark=false"]) == {
        "channels-last": True,
        "workers": 8,
        "cudnn-benchmark": False,
    }
    assert parse_speed_options([]) == {}


@pytest.mark.parametrize(("text", "value"), [("on", True), ("YES", True), ("off", False)])
def test_a_switch_is_set_in_words(text: str, value: bool) -> None:
    assert parse_speed_options([f"tf32={text}"]) == {"tf32": value}


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["crop=64x64"], "benchmark file"),
        (["compil"], "Did you mean compile"),
        (["workers"], "needs a whole number"),
        (["workers=-1"], "not '-1'"),
        (["workers=٣"], "needs a whole number"),
        (["workers=100000"], "from 0 to 1024"),
        (["sequence-length=0"], "from 1 to 1024"),
        (["tf32=maybe"], "on or off, not 'maybe'"),
        (["workers=2", "workers=3"], "given twice"),
    ],
)
def test_what_is_none_is_refused_with_what_to_write(texts: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        parse_speed_options(texts)
    assert error.value.exit_code == 2


def test_off_is_said_only_where_a_trainer_may_have_it_on_by_itself() -> None:
    options: dict[str, Option] = {
        "compile": False,
        "channels-last": False,
        "tf32": True,
        "workers": 0,
        "crop": "8x8",
    }
    assert list(trainer_arguments(options)) == [
        *("--no-channels-last", "--tf32", "--workers", "0", "--crop", "8x8")
    ]


@pytest.mark.parametrize(
    ("framework", "trainer"),
    sorted(
        {
            (variant.framework, variant.trainer_module)
            for name in spec_files.names()
            for variant in spec_files.load_spec(name).spec.variants
            if variant.trainer_module is not None
        }
    ),
)
def test_what_is_offered_is_what_the_trainer_has(framework: Framework, trainer: str) -> None:
    defaults: Defaults = importlib.import_module(f"k8sbench.trainers.{trainer}").DEFAULTS
    has = {name.replace("_", "-") for name in defaults.speed_options} | {*COUNTS}
    only = {"gpt": {"sequence-length", "chunked-loss"}, "deeplabv3p_pytorch": {"broadcast-pool"}}
    has |= only.get(trainer, set())
    assert set(speed_options_of(framework, trainer)) == has


def test_fast_stands_for_options_that_each_trainer_has() -> None:
    trainers = {
        (variant.framework, variant.trainer_module)
        for name in spec_files.names()
        for variant in spec_files.load_spec(name).spec.variants
        if variant.trainer_module is not None
    }
    assert {trainer for _, trainer in trainers} == set(FAST_OPTIONS)
    for framework, trainer in trainers:
        assert set(FAST_OPTIONS[trainer]) <= set(speed_options_of(framework, trainer))


def test_an_option_that_is_named_counts_more_than_fast() -> None:
    asked = parse_speed_options(["fast", "compile=false", "workers=2"])
    assert expand_fast(asked, "gpt") == {
        "compile": False,
        "fused-optimizer": True,
        "chunked-loss": True,
        "workers": 2,
    }
    assert expand_fast(parse_speed_options(["fast=off"]), "gpt") == {}


def test_the_page_says_which_options_fast_stands_for_golden() -> None:
    lines = ["| trainer | `fast` |", "|---|---|"]
    for trainer, names in FAST_OPTIONS.items():
        lines.append(f"| {trainer} | {', '.join(f'`{name}`' for name in names) or '–'} |")
    page = ROOT / "docs" / "results.md"
    struct_docs.assert_generated(page, "fast-options", "\n".join(lines))


def test_the_page_has_a_line_for_each_option() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    lines = [f"{name}[=false]" for name in (*SWITCHES, *TWO_WAY)]
    lines += [f"{name}=N" for name in (*COUNTS, *SIZES)]
    assert [line for line in lines if f"\n| `{line}` | " not in text] == []
