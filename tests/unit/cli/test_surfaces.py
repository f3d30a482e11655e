"""Golden output of commands on a store with runs."""

import pathlib

import pytest

from tests.unit.cli.conftest import Told

TYPED = (
    *("list", "list --set=weekly -o name", "list --benchmark=arcface -o name"),
    *("list --since=36h -o name", "list --since=1990-01-01 --set=weekly -o name"),
    *("list --benchmark=seg --set=nightly -o name", "list --set=nightly -o csv"),
    *("status seg-1", "status seg-2", "status arc-1", "status far-1"),
    *("results", "logs seg-1", "logs seg-1 --replica=worker-0 -f", "logs seg-1 --since=0s"),
    *("logs seg-1 --since=2026-11-20T07:33:22Z", "logs seg-1 --replica=master-0 --timestamps"),
    *("logs seg-2", "logs arc-1 --replica=worker-1", "store info", "store reindex"),
    *("pools", "data list"),
)
STORY = (
    *("store export all.tar.gz", "store export seg-1 weekly runs.tar.gz"),
    *("store import runs.tar.gz --store=other", "list -o name --store=other"),
    *("logs seg-1 --replica=worker-0 --store=other",),
    *("store prune --keep-logs-for=2d --dry-run", "logs seg-1 --replica=worker-0"),
    *("store prune --keep-logs-for=2d", "store reindex", "logs seg-1", "logs arc-1"),
    *("store remove weekly --yes", "store remove seg-2 far-2 --yes", "list -o name"),
)
"""Lines that change the store, one after the other."""


DAMAGED = (
    *("store info", "store info --store=none", "cancel arc-1", "store reindex"),
    *("store remove seg-1 weekly --yes", "list -o name"),
)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("lines", "name"), [(TYPED, "surfaces"), (STORY, "story")])
def test_what_is_printed_is_the_golden_text(lines: tuple[str, ...], name: str, told: Told) -> None:
    told(name, lines)


@pytest.mark.usefixtures("runs")
def test_commands_on_a_damaged_store_are_golden(root: pathlib.Path, told: Told) -> None:
    (root / "store.id").write_text("\x1b]0;\n")
    for run_id in ("seg-1", "arc-1"):
        (root / "runs" / run_id / "run.json").write_text("{")
    told("damaged", DAMAGED)
    assert not (root / "runs" / "seg-1").exists()
