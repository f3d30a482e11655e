"""A run's folder: whole files or none, lines that survive a kill."""

from __future__ import annotations

import errno
import os
import pathlib

import pytest

from k8sbench.adapters.store import artifacts
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.unit.store.examples import NOW, OWNER, append, plan, step


def new_run(at: float = NOW) -> Run:
    return Run(
        plan=plan(), created_at=at, owner=OWNER, history=(artifacts.created(at),), artifacts=None
    )


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "seg-1")
    made.save(new_run())
    return made


@pytest.mark.parametrize("wrong", ['{"phase": "Dancing", "at": 1, "cause": ""}', "{", "\0", "\xff"])
def test_a_damaged_event_is_an_error_that_names_it(folder: RunFolder, wrong: str) -> None:
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(wrong.encode("latin-1") + b"\n")
    append(folder.path, step(Phase.RUNNING))
    with pytest.raises(StoreError, match=r"events\.jsonl:2 cannot be read"):
        folder.run()


def test_a_folder_without_events_is_damaged(folder: RunFolder) -> None:
    (folder.path / "events.jsonl").unlink()
    with pytest.raises(StoreError, match=r"events\.jsonl holds no event"):
        folder.run()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"plan": 1}', "\0", "[" * 100_000, '{"schema": 2, "plan": {}}']
)
def test_a_run_file_that_is_none_is_an_error_that_names_it(folder: RunFolder, text: str) -> None:
    (folder.path / "run.json").write_text(text)
    with pytest.raises(StoreError, match=r"run\.json"):
        folder.run()


def test_what_was_killed_before_it_was_recorded_is_taken_over(folder: RunFolder) -> None:
    (folder.path / "run.json").rename(folder.path / ".run.json.1234.tmp")
    folder.save(new_run(NOW + 9))
    run = folder.run()
    assert run.created_at == run.history[0].at == NOW + 9
    assert len(run.history) == 1


@pytest.mark.parametrize("wrong", [OSError(errno.ENOSPC, "No space"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_written_leaves_the_old_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    folder.write("manifest.yaml", b"old")

    def full(_: int) -> None:
        raise wrong

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((StoreError, KeyboardInterrupt), match=r"disk is full|^$"):
        folder.write("manifest.yaml", b"new")
    assert (folder.path / "manifest.yaml").read_bytes() == b"old"
    assert not list(folder.path.glob(".*"))
