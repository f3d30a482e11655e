"""Repeating imported rows: versions of the program, and options of its commands."""

import re
from pathlib import Path

import pytest

from k8sbench.catalog import spec_files
from k8sbench.cli.main import main
from k8sbench.results.report.words import say
from tests.reader.measuring.support import FIXTURES
from tests.unit.reports import published_logs as logs

CASE = ("--case", "1x8", "--precision", "amp", "--batch-size", "16", "--benchmark", "tsm")


def repeat(text: str, options: tuple[str, ...], place: Path, given: str = "") -> str:
    """Import a log and return the report's chapter on repeating it."""
    (place / "a.log").write_text(text)
    (place / "given.yaml").write_text(given)
    store = ("--store", str(place / "store"))
    log, folder = str(place / "a.log"), str(place / "report")
    assert main(["import", log, "--set", "s", *options, *store]) in (0, 5)
    assert main(["report", "s", "-o", folder, "--environment", f"{place}/given.yaml", *store]) == 0
    written = (place / "report" / "README.md").read_text("utf-8")
    return written.partition(f"## {say('en', 'repeat')}")[2].partition("\n## ")[0]


def test_a_log_of_another_generation_is_told_from_the_commit_of_the_commands(
    tmp_path: Path,
) -> None:
    log = (FIXTURES / "plsc_v2.log").read_text()
    chapter = repeat(log, ("--benchmark", "arcface"), tmp_path)
    (stated,) = re.findall(r"PLSC \d", chapter.partition("```")[0])
    assert stated == "PLSC 2"
    assert "commit 9bba9c90" in chapter.partition("```")[0]
    assert "93431" in (tmp_path / "report" / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("program", "is_told"),
    [
        ("", True),
        ("a fork of temporal-shift-module", True),
        ("temporal-shift-module, 0123456", True),
        ("temporal-shift-module {commit}", False),
    ],
)
def test_a_row_is_of_the_commit_only_if_somebody_states_it(
    tmp_path: Path, program: str, is_told: bool
) -> None:
    upstream = spec_files.load_spec("tsm").spec.variants[0].upstream
    assert upstream is not None
    stated = program.format(commit=upstream.commit[:8])
    given = f"program: {stated}\n" if program else ""
    chapter = repeat(logs.tsm(8, 386.707), CASE, tmp_path, given)
    head = chapter.partition("```")[0]
    assert (f"commit {upstream.commit[:8]}" in head) == is_told


def test_a_version_with_the_commits_hash_is_the_commits(tmp_path: Path) -> None:
    options = ("--benchmark", "deeplabv3p", "--precision", "fp32")
    assert "commit d0a71c15" not in repeat(logs.mmseg(1, 4.073, 2), options, tmp_path)
    other = logs.mmseg(1, 4.073, 2).replace("0.11.0+d0a71c1", "0.12.0+3e46c1b")
    (tmp_path / "other").mkdir()
    assert "commit d0a71c15" in repeat(other, options, tmp_path / "other")


def test_options_that_the_published_command_has_not_are_named(tmp_path: Path) -> None:
    options = ("--benchmark", "deeplabv3p", "--precision", "fp32")
    chapter = repeat(logs.mmseg(1, 4.073, 2), options, tmp_path)
    upstream = spec_files.load_spec("deeplabv3p").spec.variant("pytorch", "mmseg").upstream  # type: ignore[union-attr]
    assert upstream is not None
    published = " ".join(upstream.command_one_gpu["fp32"])
    listed = re.findall(r"^\| `([\w.-]+)` \|", chapter, re.MULTILINE)
    own = [name for name in listed if name not in published]
    (line,) = (
        line for line in chapter.splitlines() if "`runner.max_iters`" in line and line[0] != "|"
    )
    without = ["NUM_GPUS", "NUM_NODES", "configs/deeplabv3plus"]  # run.sh has none of them
    assert [*without, *own] == re.findall(r"`([\w./-]+)`", line)
    assert "runner.max_iters" in own


@pytest.mark.parametrize(
    ("program", "differs"),
    [("PaddleSeg, branch benchmark", True), ("mmsegmentation, a fork", False)],
)
def test_a_program_that_the_log_contradicts_is_named(
    tmp_path: Path, program: str, differs: bool
) -> None:
    options = ("--benchmark", "deeplabv3p", "--precision", "fp32")
    repeat(logs.mmseg(1, 4.073, 2), options, tmp_path, f"program: {program}\n")
    written = (tmp_path / "report" / "README.md").read_text("utf-8")
    assert (say("en", "at_odds", names="program") in written) == differs


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("NVIDIA/DeepLearningExamples 5cc03caa", "NVIDIA/DeepLearningExamples 5cc03caa"),
        (
            "https://github.com/NVIDIA/DeepLearningExamples.git 5cc03caa",
            "https://github.com/NVIDIA/DeepLearningExamples.git 5cc03caa",
        ),
        ("DeepLearningExamples, a fork", "DeepLearningExamples, a fork"),
        ("our own fork", "our own fork, DeepLearningExamples"),
    ],
)
def test_a_program_that_file_and_log_name_is_named_once(
    tmp_path: Path, given: str, shown: str
) -> None:
    options = ("--benchmark", "resnet50", "--gpu-model", "Tesla V100-SXM2-16GB")
    repeat(logs.dle(1, 366.14), options, tmp_path, f"program: {given}\n")
    written = (tmp_path / "report" / "README.md").read_text("utf-8")
    chapter = written.partition(f"## {say('en', 'programs')}")[2].partition("\n## ")[0]
    (line,) = (one for one in chapter.splitlines() if one.startswith("| resnet50 "))
    assert line.split(" | ")[2] == shown


def test_generated_data_are_not_those_of_a_folder_that_the_log_names(tmp_path: Path) -> None:
    log = logs.dle(1, 366.14).replace("dali-cpu", "syntetic")
    options = ("--benchmark", "resnet50", "--gpu-model", "Tesla V100-SXM2-16GB")
    repeat(log, options, tmp_path)
    written = (tmp_path / "report" / "README.md").read_text("utf-8")
    (used,) = re.findall(r"^\| resnet50 pytorch \| ([^|]*) \| ImageNet", written, re.MULTILINE)
    assert "imagenet" not in used
