"""Benchmark objects of a store: ``benchmarks/NAME.json`` and ``benchmarks/NAME.status.json``.

Commands write the first file, and the process that reconciles an object writes the second. uid,
resourceVersion and generation follow the rules of the API server. ``benchmarks/open/NAME`` marks an
object that is not over, so that a store of thousands of ended objects is not read again and again.
The mark is written before the object and removed after its last status: after a kill, an object is
read once too often, never once too little.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.catalog import packaged
from k8sbench.model import benchmark_object, times
from k8sbench.model.benchmark_object import Benchmark, StatusEvent
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.names import RUN_ID
from k8sbench.model.plan import STORED
from k8sbench.model.stored_object import ObjectPlace, PrivateOptions, StoredObject, StoredStatus
from k8sbench.model.times import Clock
from k8sbench.store import disk, json_files

FOLDER = "benchmarks"
OPEN = "open"
"""Folder of the marks of objects that are not over; a mark holds the object's uid."""
SUFFIX, STATUS = ".json", ".status.json"
DAMAGED = "Bring the file back from a copy, or remove it; its runs stay in the store."


class StoredObjects:
    """Implements :class:`k8sbench.ports.objects.Objects` on a store's folder; any thread may call.

    With ``names`` it knows these objects alone. Several processes may change objects: each change
    is made under a lock on the folder.
    """

    def __init__(self, root: Path, clock: Clock, names: Collection[str] | None = None) -> None:
        self._folder = root / FOLDER
        self._clock, self._names = clock, names
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[str, Benchmark | None]] = {}
        """uid and object of each name, as it was last read."""
        self._is_listed = False
        self._unreadable: dict[str, str] = {}
        """Name → why the object cannot be read."""

    # -- the port ---------------------------------------------------------------------------------

    @property
    def problem(self) -> str:
        """Reason why an object cannot be read; empty without one."""
        with self._lock:
            return next(iter(self._unreadable.values()), "")

    def current(self) -> Mapping[str, Benchmark | None] | None:
        """Return all objects by uid; those that have ended are read only once.

        A damaged object is returned as it was read before, else as None. The result is None if the
        uid of a damaged object is unknown, so that nobody knows which runs are its own.
        """
        with self._lock:
            names = self._list_names()
            to_read = names & self._list_open() if self._is_listed else names
            for name in self._seen.keys() - names:
                del self._seen[name]
            for name in self._unreadable.keys() - names:
                del self._unreadable[name]
            for name in sorted(to_read | (names - self._seen.keys())):
                self._read_again(name)
            self._is_listed = True
            if self._unreadable.keys() - self._seen.keys():
                return None
            return dict(self._seen.values())

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:
        """Return the objects that are not over and not among ``names``; see the port.

        Damaged ones are left out.
        """
        open_objects = []
        for name in self._list_open().difference(self._names or ()):
            with contextlib.suppress(StoreError):
                benchmark = self.find(name) if is_live(name) else None
                if benchmark is not None and not benchmark.is_over:
                    open_objects.append(benchmark)
        return open_objects

    def write(
        self,
        known: Benchmark,
        status: Mapping[str, Any],
        events: Iterable[StatusEvent] = (),  # noqa: ARG002
    ) -> None:
        """Merge a patch into the status of an object, unless it is gone.

        Events are the API server's alone. Raises :class:`StoreError`.
        """
        with self._locked_folder():
            stored = self._read_object(known.name)
            if stored is None or _uid(stored) != known.uid:
                return
            merged = merge_patch(self._read_status(known.name, known.uid), status)
            record = StoredStatus(uid=known.uid, status=merged)
            disk.write_whole(self._file_path(known.name, STATUS), json_files.encode_file(record))
            if _is_closed(self._read_benchmark(stored, merged)):
                self._mark_path(known.name).unlink(missing_ok=True)

    def delete(self, known: Benchmark) -> None:
        """Delete an object; raises :class:`StoreError`."""
        with self._locked_folder():
            stored = self._read_object(known.name)
            if stored is None or _uid(stored) != known.uid:
                return
            self._file_path(known.name, SUFFIX).unlink()
            self._file_path(known.name, STATUS).unlink(missing_ok=True)
            self._mark_path(known.name).unlink(missing_ok=True)
            disk.sync_folder(self._folder)

    # -- for commands -----------------------------------------------------------------------------

    def create(
        self,
        manifest: Mapping[str, Any],
        place: ObjectPlace,
        private: PrivateOptions = PrivateOptions(),  # noqa: B008
    ) -> Benchmark:
        """Create an object; an equal one is returned as it is.

        Raises :class:`UsageError` where the API server would refuse it or the name is another
        object's, and :class:`StoreError`.
        """
        valid = packaged.object_schema().check(manifest)
        name = valid["metadata"]["name"]
        with self._locked_folder():
            existing = self.find(name)
            if existing is not None:
                if benchmark_object.asks_for_same(valid, existing):
                    return existing
                raise UsageError(
                    f"Benchmark {name} exists in the store, and asks for something else.",
                    "Choose another --run-id.",
                )
            metadata = {
                **valid["metadata"],
                "namespace": place.access.namespace or "default",
                "uid": f"{STORED}{uuid.uuid4()}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": times.utc(self._clock()),
            }
            stored = StoredObject(
                object={**valid, "metadata": metadata}, place=place, private=private
            )
            benchmark = self._read_benchmark(stored)
            self._save(stored)
            return benchmark

    def change(
        self, known: Benchmark, decide: Callable[[Benchmark], Mapping[str, Any]]
    ) -> Benchmark | None:
        """Change the spec of an object; None if it is gone.

        ``decide`` returns the fields to change, by their names in the object; none: nothing is
        written. Raises :class:`UsageError` where the API server would refuse the change, and
        :class:`StoreError`.
        """
        with self._locked_folder():
            stored = self._read_object(known.name)
            if stored is None or _uid(stored) != known.uid:
                return None
            status = self._read_status(known.name, known.uid)
            current = self._read_benchmark(stored, status)
            spec = merge_patch(stored.object["spec"], decide(current))
            if spec == stored.object["spec"]:
                return current
            packaged.object_schema().check({**stored.object, "spec": spec}, stored.object["spec"])
            changed = msgspec.structs.replace(stored, object=_next_version(stored.object, spec))
            benchmark = self._read_benchmark(changed, status)
            self._save(changed)
            return benchmark

    def place(
        self, known: Benchmark, place: ObjectPlace, *, before: ObjectPlace
    ) -> StoredObject | None:
        """Hand an object over to another process; None unless ``before`` is its place now."""
        with self._locked_folder():
            stored = self._read_object(known.name)
            if stored is None or _uid(stored) != known.uid or stored.place != before:
                return None
            moved = _next_version(stored.object, stored.object["spec"])
            changed = msgspec.structs.replace(stored, object=moved, place=place)
            self._save(changed)
            return changed

    def find(self, name: str) -> Benchmark | None:
        """Return the object of a name; None without one. Raises :class:`StoreError`."""
        stored = self._read_object(name)
        if stored is None:
            return None
        return self._read_benchmark(stored, self._read_status(name, _uid(stored)))

    def read_stored(self, known: Benchmark) -> StoredObject | None:
        """Return an object with its place and private options; None if it is gone."""
        stored = self._read_object(known.name)
        return None if stored is None or _uid(stored) != known.uid else stored

    def list_all(self, *, is_open: bool = False) -> list[Benchmark]:
        """Return all objects that can be read, oldest first; see also :attr:`problem`.

        With ``is_open`` only those that are not over.
        """
        with self._lock:
            benchmarks = []
            names = self._list_names()
            for name in names & self._list_open() if is_open else names:
                with self._noting_damage(name):
                    benchmark = self.find(name)
                    if benchmark is not None and not (is_open and _is_closed(benchmark)):
                        benchmarks.append(benchmark)
        return sorted(benchmarks, key=lambda benchmark: (benchmark.created_at, benchmark.name))

    def mark_open(self) -> dict[str, str]:
        """Write the marks of open objects again.

        Returns the reasons why objects cannot be read, by name.
        """
        with self._lock:
            names = self._list_names()
            if names:
                with self._locked_folder():
                    for name in names:
                        self._update_mark(name)
            return dict(self._unreadable)

    def _update_mark(self, name: str) -> None:
        with self._noting_damage(name):
            benchmark = self.find(name)
            if benchmark is None or _is_closed(benchmark):
                self._mark_path(name).unlink(missing_ok=True)
            else:
                disk.write_whole(self._mark_path(name), f"{benchmark.uid}\n".encode())

    # -- files ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked_folder(self) -> Iterator[None]:
        """Hold the lock of the folder, so that no other process or thread changes objects."""
        doing = f"change {self._folder}"
        with disk.translate_errors(doing):
            disk.make_folder(self._folder)
            with disk.lock_folder(self._folder):
                yield

    def _list_names(self) -> set[str]:
        """List the names of the objects, damaged ones included."""
        with disk.translate_errors(f"read {self._folder}"):
            files = (path.name for path in self._folder.glob(f"[!.]*{SUFFIX}"))
            names = {name.removesuffix(SUFFIX) for name in files if not name.endswith(STATUS)}
        return names if self._names is None else names & set(self._names)

    def _list_open(self) -> set[str]:
        with disk.translate_errors(f"read {self._folder / OPEN}"):
            return {path.name for path in (self._folder / OPEN).glob("[!.]*")}

    def _file_path(self, name: str, suffix: str) -> Path:
        return self._folder / f"{name}{suffix}"

    def _mark_path(self, name: str) -> Path:
        return self._folder / OPEN / name

    def _read_object(self, name: str) -> StoredObject | None:
        if not RUN_ID.fullmatch(name):
            return None
        path = self._file_path(name, SUFFIX)
        data = disk.read(path)
        if data is None:
            return None
        stored = json_files.decode_json(data, StoredObject, path, DAMAGED)
        if stored.object.get("metadata", {}).get("name") != name:
            raise StoreError(f"{path} does not hold Benchmark {name}.", DAMAGED)
        return stored

    def _read_status(self, name: str, uid: str) -> dict[str, Any]:
        """Read the status of an object; empty without one.

        A damaged one counts as none, because it follows from the store's runs.
        """
        with contextlib.suppress(StoreError):
            path = self._file_path(name, STATUS)
            data = disk.read(path)
            if data is not None:
                record = json_files.decode_json(data, StoredStatus, path)
                return record.status if record.uid == uid else {}
        return {}

    def _read_benchmark(
        self, stored: StoredObject, status: Mapping[str, Any] | None = None
    ) -> Benchmark:
        try:
            return stored.benchmark(status)
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            name = stored.object.get("metadata", {}).get("name")
            raise StoreError(f"Benchmark {name} cannot be read: {error}.", DAMAGED) from error

    def _save(self, stored: StoredObject) -> None:
        name = stored.object["metadata"]["name"]
        disk.write_whole(self._mark_path(name), f"{_uid(stored)}\n".encode())
        disk.write_whole(self._file_path(name, SUFFIX), json_files.encode_file(stored))

    def _read_again(self, name: str) -> None:
        """Read an object for :meth:`current`; a damaged one stays as it was."""
        with self._noting_damage(name):
            benchmark = self.find(name)
            if benchmark is not None:
                self._seen[name] = (benchmark.uid, benchmark)
            return
        if name not in self._seen and (uid := self._last_uid(name)):
            self._seen[name] = (uid, None)

    @contextlib.contextmanager
    def _noting_damage(self, name: str) -> Iterator[None]:
        self._unreadable.pop(name, None)
        try:
            yield
        except StoreError as error:
            self._unreadable[name] = str(error)

    def _last_uid(self, name: str) -> str:
        """Return the uid of a damaged object by its mark; empty if nothing says it."""
        return (disk.read(self._mark_path(name)) or b"").decode(errors="replace").strip()


def _uid(stored: StoredObject) -> str:
    return str(stored.object["metadata"].get("uid", ""))


def _is_closed(benchmark: Benchmark) -> bool:
    """Return True if an object needs no more work unless it is changed."""
    is_answered = benchmark.status.get("observedGeneration") == benchmark.generation
    is_to_expire = benchmark.spec.ttl_seconds_after_finished is not None
    return benchmark.is_over and is_answered and not is_to_expire


def _next_version(current: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's next version; a changed spec is another generation."""
    metadata = dict(current["metadata"])
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
    if spec != current["spec"]:
        metadata["generation"] += 1
    return {**current, "metadata": metadata, "spec": dict(spec)}


def merge_patch(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a patch into JSON as RFC 7396 says: None removes a field."""
    merged = dict(document)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            inner = merged.get(name)
            merged[name] = merge_patch(inner if isinstance(inner, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged
