"""Benchmark objects of a store: versions, marks of open ones, damage, and several processes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters import processes
from k8sbench.model import stored_object
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.stored_object import ObjectPlace, PrivateOptions
from k8sbench.ports.objects import Objects
from k8sbench.store import disk
from k8sbench.store.benchmark_objects import StoredObjects, merge_patch
from k8sbench.store.open_store import reindex

NOW = 1_796_000_000.0
PLACE = ObjectPlace(
    backend="kubernetes",
    access=ClusterAccess(namespace="team-a", context="big"),
    process=processes.this_process(),
)
DONE = {"phase": "Succeeded", "observedGeneration": 1}


def asked(name: str = "night", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "k8sbench.io/v1alpha1", "kind": "Benchmark"}
    return {**head, "metadata": {"name": name}, "spec": {"benchmark": "resnet50", **spec}}


@pytest.fixture
def objects(tmp_path: Path) -> StoredObjects:
    return reopened(tmp_path)


def reopened(root: Path, names: tuple[str, ...] | None = None) -> StoredObjects:
    return StoredObjects(root, lambda: NOW, names)


def file(root: Path, name: str) -> Path:
    return root / "benchmarks" / name


def test_it_is_the_port_of_the_reconciler(objects: StoredObjects) -> None:
    port: Objects = objects
    assert port.current() == {}
    assert not port.problem


def test_a_created_object_has_what_the_api_server_gives(
    objects: StoredObjects, tmp_path: Path
) -> None:
    made = objects.create(asked(repeats=3), PLACE)
    assert (made.name, made.generation, made.created_at) == ("night", 1, NOW)
    assert reopened(tmp_path).current() == {made.uid: made}
    stored = objects.read_stored(made)
    assert stored is not None
    about = stored.object["metadata"]
    assert about["resourceVersion"] == "1"
    assert about["namespace"] == "team-a"
    assert objects.create(asked(repeats=3, parallel=2), PLACE) == made
    with pytest.raises(UsageError):
        objects.create(asked(repeats=4), PLACE)


def test_beside_an_object_are_the_open_ones_of_living_processes(
    objects: StoredObjects, tmp_path: Path
) -> None:
    made = {name: objects.create(asked(name), PLACE) for name in ("mine", "a", "b", "c", "d")}
    objects.write(made["b"], DONE)
    file(tmp_path, "c.json").write_text("{")
    asked_for = set[str]()

    def is_live(name: str) -> bool:
        asked_for.add(name)
        return name != "d"

    assert reopened(tmp_path, ("mine",)).beside(is_live) == [made["a"]]
    assert asked_for == {"a", "c", "d"}, "one that has ended is not read"


def test_a_change_of_the_spec_is_another_generation(objects: StoredObjects) -> None:
    made = objects.create(asked(), PLACE)
    assert objects.change(made, lambda _: {}) == made
    changed = objects.change(made, lambda current: {"retry": current.spec.retry + 1})
    assert changed is not None
    assert (changed.generation, changed.spec.retry) == (2, 1)
    stored = objects.read_stored(made)
    assert stored is not None
    assert stored.object["metadata"]["resourceVersion"] == "2"


def test_what_the_api_server_would_refuse_changes_nothing(
    objects: StoredObjects, tmp_path: Path
) -> None:
    with pytest.raises(UsageError):
        objects.create(asked(repeats=0), PLACE)
    made = objects.create(asked(), PLACE)
    for patch in ({"repeats": 2}, {"retry": -1}, {"colour": "red"}):
        with pytest.raises(UsageError):
            objects.change(made, lambda _, patch=patch: patch)  # type: ignore[misc]
    assert reopened(tmp_path).current() == {made.uid: made}


def test_a_status_is_merged_and_changes_no_generation(objects: StoredObjects) -> None:
    made = objects.create(asked(), PLACE)
    objects.write(made, {"phase": "Running", "summary": {"runs": "0/1"}, "rows": [1]})
    objects.write(made, {"summary": {"verdict": "valid"}, "rows": None})
    (found,) = objects.list_all()
    assert found.generation == 1
    assert found.status == {"phase": "Running", "summary": {"runs": "0/1", "verdict": "valid"}}


def test_what_is_gone_or_created_again_is_left(objects: StoredObjects) -> None:
    made = objects.create(asked(), PLACE)
    objects.delete(made)
    assert objects.current() == {}
    again = objects.create(asked(), PLACE)
    assert again.uid != made.uid
    objects.write(made, DONE)
    objects.delete(made)
    assert objects.change(made, lambda _: {"cancel": True}) is None
    assert objects.current() == {again.uid: again}


def test_the_status_that_a_killed_deletion_left_is_no_new_objects(
    objects: StoredObjects, tmp_path: Path
) -> None:
    objects.write(objects.create(asked(), PLACE), DONE)
    file(tmp_path, "night.json").unlink()
    assert objects.create(asked(), PLACE).status == {}
    assert [one.status for one in objects.list_all()] == [{}]


def test_an_ended_object_stays_known_and_is_not_read_again(
    objects: StoredObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = objects.create(asked(), PLACE)
    other = objects.create(asked("day"), PLACE)
    objects.write(made, DONE)
    assert [one.name for one in objects.list_all(is_open=True)] == ["day"]
    fresh = reopened(tmp_path)
    assert set(fresh.current() or ()) == {made.uid, other.uid}
    read: list[str] = []
    real = disk.read

    def noted(path: Path) -> bytes | None:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(disk, "read", noted)
    known = fresh.current() or {}
    assert known[made.uid] is not None
    assert {name.partition(".")[0] for name in read} == {"day"}
    assert objects.change(made, lambda _: {"retry": 1}) is not None
    again = (fresh.current() or {})[made.uid]
    assert again is not None
    assert (again.spec.retry, again.is_over) == (1, False)


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"ttlSecondsAfterFinished": 10}, DONE),
        ({}, {**DONE, "observedGeneration": 0}),
        ({"retry": 1}, DONE),
        ({}, {"phase": "Running", "observedGeneration": 1}),
    ],
)
def test_an_object_is_open_while_something_is_left_to_do(
    objects: StoredObjects, spec: dict[str, Any], status: dict[str, Any]
) -> None:
    made = objects.create(asked(**spec), PLACE)
    objects.write(made, status)
    assert [one.name for one in objects.list_all(is_open=True)] == ["night"]


def test_a_damaged_object_is_one_error_and_nothing_is_concluded(
    objects: StoredObjects, tmp_path: Path
) -> None:
    made = objects.create(asked(), PLACE)
    other = objects.create(asked("day"), PLACE)
    file(tmp_path, "night.json").write_bytes(b"{")
    fresh = reopened(tmp_path)
    assert fresh.current() == {made.uid: None, other.uid: other}
    assert "night.json" in fresh.problem
    with pytest.raises(StoreError):
        fresh.find("night")
    assert fresh.list_all() == [other]
    file(tmp_path, "open/night").unlink()
    assert reopened(tmp_path).current() is None, "its runs are not known"
    file(tmp_path, "night.json").unlink()
    assert fresh.current() == {other.uid: other}
    assert not fresh.problem


def test_a_reindexing_marks_the_open_objects_and_names_the_damaged(
    objects: StoredObjects, tmp_path: Path
) -> None:
    objects.create(asked(), PLACE)
    ended = objects.create(asked("day"), PLACE)
    objects.write(ended, DONE)
    objects.create(asked("noon"), PLACE)
    file(tmp_path, "noon.json").write_bytes(b"{")
    file(tmp_path, "open/night").unlink()
    file(tmp_path, "open/day").touch()
    with pytest.raises(UsageError):
        reindex(str(tmp_path))
    (tmp_path / "runs").mkdir()
    _, _, damaged = reindex(str(tmp_path))
    assert list(damaged) == ["noon"]
    assert {path.name for path in file(tmp_path, "open").iterdir()} == {"night", "noon"}


def test_a_damaged_status_is_as_good_as_none(objects: StoredObjects, tmp_path: Path) -> None:
    made = objects.create(asked(), PLACE)
    objects.write(made, {"phase": "Running"})
    file(tmp_path, "night.status.json").write_bytes(b"\xff")
    assert objects.find("night") == made


def test_changes_of_several_processes_are_made_one_after_the_other(tmp_path: Path) -> None:
    made = reopened(tmp_path).create(asked(), PLACE)

    def grow(current: Benchmark) -> Mapping[str, Any]:
        return {"retry": current.spec.retry + 1}

    def process(_: int) -> None:
        own = reopened(tmp_path)
        for _ in range(5):
            own.change(made, grow)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(process, range(4)))
    found = reopened(tmp_path).find("night")
    assert found is not None
    assert (found.spec.retry, found.generation) == (20, 21)


def test_another_process_takes_an_object_over_once(objects: StoredObjects) -> None:
    made = objects.create(asked(), PLACE)
    other = ObjectPlace(backend="kubernetes", access=PLACE.access, process=processes.describe(1))
    assert objects.place(made, other, before=PLACE) is not None
    assert objects.place(made, other, before=PLACE) is None
    stored = objects.read_stored(made)
    assert stored is not None
    assert stored.place == other
    assert stored.benchmark().generation == 1


def test_a_process_sees_its_own_objects_alone(objects: StoredObjects, tmp_path: Path) -> None:
    made = objects.create(asked(), PLACE)
    objects.create(asked("day"), PLACE)
    assert reopened(tmp_path, ("night",)).current() == {made.uid: made}


def test_what_this_machine_alone_understands_stands_beside_the_object(
    objects: StoredObjects, tmp_path: Path
) -> None:
    request = SubmitRequest(
        benchmark="resnet50",
        data="/data/imagenet",
        checkpoints="pvc:team/a",
        pools_file="/etc/pools.yaml",
        prometheus="http://user:secret@metrics",
        set_name="night",
    )
    fits, private = stored_object.split_request(request)
    assert (fits.data, fits.checkpoints) == ("synthetic", "pvc:team/a")
    assert (private.data, private.prometheus) == ("/data/imagenet", None)
    made = objects.create(asked(checkpoints="pvc:team/a"), PLACE, private)
    assert "secret" not in file(tmp_path, "night.json").read_text()
    stored = objects.read_stored(made)
    assert stored is not None
    assert (stored.private, stored.place) == (private, PLACE)
    assert PrivateOptions() == stored_object.split_request(SubmitRequest(benchmark="a"))[1]


def test_a_patch_is_merged_as_the_api_server_does() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2]}) == {
        "a": {"c": 2},
        "d": [2],
    }
    assert merge_patch({"a": 1}, {"a": {"b": None}}) == {"a": {}}
