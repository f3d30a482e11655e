"""Checkpoints are whole or absent, however their process ended."""

import json
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from k8sbench.trainers.parts import checkpoints as parts
from k8sbench.trainers.parts.checkpoints import Checkpoints
from tests.harness import children
from tests.trainers.killed_saves import save_killed
from tests.trainers.runs import alone, refuse

SAME = {"world size": 1, "batch size": 4, "model": ["tsm", 8]}


def writes(text: str, name: str = "state") -> Callable[[pathlib.Path], None]:
    """A `write` of a save: one file, and one in a folder below."""

    def write(folder: pathlib.Path) -> None:
        (folder / name).write_text(text)
        (folder / "more").mkdir()
        (folder / "more" / "numbers").write_bytes(text.encode() * 100)

    return write


def saved(folder: pathlib.Path, *steps: int) -> Checkpoints:
    checkpoints = Checkpoints(folder, same=SAME)
    for step in steps:
        assert checkpoints.save(step, writes(f"at {step}"), {"best": 0.1 * step}) is None
    return checkpoints


def names(folder: pathlib.Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_what_was_saved_is_read_with_its_facts(tmp_path: pathlib.Path) -> None:
    assert Checkpoints(tmp_path / "runs" / "a").latest() is None
    facts = {"best": 0.1 + 0.2, "none": None}
    assert saved(tmp_path / "runs" / "a").save(1200, writes("x"), facts) is None
    found = Checkpoints(tmp_path / "runs" / "a", same=SAME).latest()
    assert found is not None
    assert (found.step, found.folder.name) == (1200, "step-0000001200")
    assert (found.facts["best"], found.facts["none"]) == (0.1 + 0.2, None)
    assert (found.rank_folder(0) / "state").read_text() == "x"


def test_the_newest_two_stay(tmp_path: pathlib.Path) -> None:
    saved(tmp_path, 5, 10, 15, 100, 2000)
    assert names(tmp_path) == ["step-0000000100", "step-0000002000"]


BROKEN = {"rank-0/state": b"AT 20", "rank-0/more/numbers": b"at 20" * 99, "manifest.json": b""}


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_after_damage_the_earlier_one_counts(name: str, lost: bool, tmp_path: pathlib.Path) -> None:
    saved(tmp_path, 10, 20)
    path = tmp_path / "step-0000000020" / name
    if lost:
        path.unlink()
    else:
        path.write_bytes(BROKEN[name])
    why = f"{path}: No such file or directory" if lost else f"{name}: not as it was written"
    again = Checkpoints(tmp_path, same=SAME)
    found = again.latest()
    assert found is not None
    assert found.step == 10
    told = f"step-0000000020 is damaged, and skipped: {why}"
    assert again.damaged == {"step-0000000020": told}
    # The next one counts whole ones only, and a damaged one of the same step makes room.
    again.save(15, writes("x"), {})
    assert names(tmp_path) == ["step-0000000010", "step-0000000015"]
    (tmp_path / "step-0000000015" / "rank-0" / "state").write_text("Y")
    again.latest()
    again.save(15, writes("y"), {})
    assert names(tmp_path) == ["step-0000000010", "step-0000000015"]
    newest = Checkpoints(tmp_path, same=SAME).latest()
    assert newest is not None
    assert (newest.rank_folder(0) / "state").read_text() == "y"


def damaged(folder: pathlib.Path) -> Iterator[str]:
    """Damage a checkpoint in one way after the other, and mend it each time."""
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        whole, name = path.read_bytes(), path.relative_to(folder)
        for bit in range(0, 8 * len(whole), 5):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            yield f"{name}: bit {bit}"
        for length in range(0, len(whole), 11):
            path.write_bytes(whole[:length])
            yield f"{name}: {length} bytes"
        for content in (b"5", b"[]", b"{}", b"null", whole + b"\n", bytes(len(whole))):
            path.write_bytes(content)
            yield f"{name}: {content[:9]!r}"
        path.unlink()
        yield f"{name}: gone"
        path.mkdir()
        yield f"{name}: a folder"
        path.rmdir()
        os.mkfifo(path)
        yield f"{name}: a pipe"
        path.unlink()
        path.write_bytes(whole)
    for path in sorted(each for each in (folder, *folder.rglob("*")) if each.is_dir()):
        aside = path.rename(folder.parent / "aside")
        path.write_bytes(b"")
        yield f"{path.name}: a file"
        path.unlink()
        if path != folder:
            yield f"{path.name}: gone"
        aside.rename(path)


def test_no_damage_is_taken_for_whole(tmp_path: pathlib.Path) -> None:
    saved(tmp_path, 10, 20)
    newest, kinds = tmp_path / "step-0000000020", 0
    for kinds, kind in enumerate(damaged(newest), 1):  # noqa: B007
        again = Checkpoints(tmp_path, same=SAME)
        found = again.latest()
        assert found is not None
        assert (found.step, list(again.damaged)) == (10, [newest.name]), kind
    assert kinds > 1000
    found = Checkpoints(tmp_path, same=SAME).latest()
    assert found is not None
    assert found.step == 20


def test_one_without_a_digest_is_refused_and_stays(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, 10)
    path = tmp_path / "step-0000000010" / "manifest.json"
    told = json.loads(path.read_bytes())
    del told["sha256"]
    path.write_text(json.dumps(told))
    monkeypatch.setattr(parts, "refuse", refuse)
    with pytest.raises(SystemExit, match=r"written by k8sbench 0\.3\.0 or earlier"):
        Checkpoints(tmp_path, same=SAME).latest()
    assert names(tmp_path) == ["step-0000000010"]


def test_one_of_other_settings_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, 10)
    other = Checkpoints(tmp_path, same={**SAME, "world size": 2, "amp": "bf16"})
    monkeypatch.setattr(parts, "refuse", refuse)
    with pytest.raises(SystemExit) as refused:
        other.latest()
    assert str(refused.value) == (
        f"{tmp_path}/step-0000000010 was written with amp None (now 'bf16'), world size 1 (now 2); "
        "start as before, or name an empty folder by --checkpoints"
    )
    assert names(tmp_path) == ["step-0000000010"]


def test_what_cannot_be_written_is_told_and_the_older_ones_stay(tmp_path: pathlib.Path) -> None:
    checkpoints = saved(tmp_path, 10, 20)

    def full(folder: pathlib.Path) -> None:
        (folder / "half").write_bytes(b"half")
        with pathlib.Path("/dev/full").open("wb", buffering=0) as disk:
            disk.write(b"other half")

    done = checkpoints.save(30, full, {})
    assert done == f"{tmp_path}: No space left on device"
    assert names(tmp_path) == ["step-0000000010", "step-0000000020"]
    # Once there is space again, all is well.
    assert checkpoints.save(40, writes("x"), {}) is None
    assert names(tmp_path) == ["step-0000000020", "step-0000000040"]


def test_the_name_comes_last(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted(held: int) -> None:
        told.append(os.path.relpath(pathlib.Path(f"/proc/self/fd/{held}").readlink(), tmp_path))
        fsync(held)

    def renamed(old: str, new: str, **more: int) -> None:
        told.append(f"{pathlib.Path(old).name} -> {pathlib.Path(new).name}")
        rename(old, new, **more)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "rename", renamed)
    saved(tmp_path, 7)
    part = ".step-0000000007.part"
    *before, name, after = told
    assert sorted(before) == [
        part,
        f"{part}/manifest.json",
        f"{part}/rank-0",
        f"{part}/rank-0/more",
        f"{part}/rank-0/more/numbers",
        f"{part}/rank-0/state",
    ]
    assert (name, after) == (f"{part} -> step-0000000007", ".")


def test_a_process_killed_at_any_moment_leaves_whole_ones(tmp_path: pathlib.Path) -> None:
    """The next attempt's first look removes the killed attempt's remains."""
    before = Checkpoints(tmp_path / "before")
    for step in (10, 20):
        before.save(step, writes("before"), {})
    total, found = json.loads(alone(["-c", children.calling(save_killed, tmp_path)]))
    assert total > 100
    assert all(text == ("at 30 " * 5 if step == 30 else "before") for _, step, text in found)
    newest = {at: step for at, step, _ in reversed(found)}
    assert len(newest) == total
    assert sorted(newest.values()) == [newest[at] for at in range(1, total + 1)]
    assert set(newest.values()) == {20, 30}
    older = [step for at, step, _ in found if step != newest[at]]
    assert total <= len(older) <= 2 * total


def test_one_failure_fails_all(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path, 10)
    barrier, fine = threading.Barrier(3, timeout=100), [True] * 3

    def save(rank: int) -> str | None:
        def all_fine(mine: bool) -> bool:
            """As the sessions of a job agree."""
            fine[rank] = mine
            barrier.wait()
            found = all(fine)
            barrier.wait()
            return found

        def fails(_: pathlib.Path) -> None:
            raise OSError(28, "No space left on device")

        checkpoints = Checkpoints(tmp_path, same=SAME, rank=rank, all_fine=all_fine)
        return checkpoints.save(20, fails if rank == 1 else writes("x"), {})

    with ThreadPoolExecutor(3) as threads:
        done = list(threads.map(save, range(3)))
    assert done == [
        "another rank could not write its part; its output says why",
        f"{tmp_path}: No space left on device",
        "another rank could not write its part; its output says why",
    ]
    assert f"checkpoint of step 20: {tmp_path}: No space left on device" in capfd.readouterr().err
    assert names(tmp_path) == ["step-0000000010"]
