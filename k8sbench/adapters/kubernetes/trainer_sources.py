"""The ConfigMaps with the trainers' sources: one for each version in a namespace, for all runs.

Whoever creates a job sees to it that its ConfigMap exists. Nobody changes one, and no run deletes
it: the collector does, when nothing has referred to it for a month. What a version of k8sbench last
ran is on no other record of the cluster: so a ConfigMap has an annotation with the time at which a
job or a pod was last seen to refer to it.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec

from k8sbench.adapters.files import packaged
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.store import disk
from k8sbench.diagnose.job.state import JobState
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import MANAGED, KubeObject, annotations_of, moment, name_of
from k8sbench.ports import Manifest
from k8sbench.render.trainer_sources import CONFIG_MAP, SELECTOR, config_map, difference, mounted_by

MOUNT_SECONDS = 150.0
"""For a pod to mount a ConfigMap that was created again: its kubelet tries every two minutes."""
AGAIN_SECONDS = 10.0
"""After which it is asked for again."""
LAST_USED = f"{LABEL_DOMAIN}/last-used"
"""Annotation: when something was last seen to refer to the ConfigMap, to the day."""
NOTED_SECONDS = 86400.0
"""After which that is noted again."""
KEPT_SECONDS = 30 * 86400.0
"""For which a ConfigMap stays that nothing refers to."""
_NAME = re.compile(re.escape(CONFIG_MAP) + "[0-9a-f]{64}")


class Trainers:
    """The ConfigMaps of one namespace.

    ``verified`` is a file with those whose content is known, one a line: what is immutable and has
    the same uid has not changed since. None: they are known as long as this process runs.
    """

    def __init__(self, api: Api, verified: Path | None = None) -> None:
        self._api, self._file = api, verified
        self._known: set[str] = set()
        """``uid name`` of those that were verified."""
        if verified is not None:
            with contextlib.suppress(OSError):  # then they are verified again
                self._known.update(verified.read_text(errors="replace").splitlines())

    def provide(self, name: str) -> None:
        """Have a ConfigMap exist; any thread may call it.

        Raises :class:`UsageError` where it is another one's, and where it is not there and this
        k8sbench has other trainers; :class:`ApiFault` where a request fails.
        """
        path = kinds.path("ConfigMap", self._api.place.namespace)
        while (head := self._api.find(f"{path}/{name}", brief=True)) is None:
            try:
                made = self._api.create(path, self._manifest(name))
            except ApiFault as fault:
                if fault.reason != "AlreadyExists":  # somebody was faster
                    raise
            else:
                self._remember(made["metadata"]["uid"], name)
                return
        if f"{head['metadata']['uid']} {name}" not in self._known:
            self._remember(check(self._api, name), name)

    def _manifest(self, name: str) -> Manifest:
        here = packaged.trainer_sources()
        if here.config_map_name != name:
            raise UsageError(
                f"The ConfigMap {name} in namespace {self._api.place.namespace} is gone, and this "
                f"k8sbench has other trainers ({here.digest[:12]}).",
                "Submit the run anew, or continue it with the k8sbench that submitted it.",
            )
        return config_map(here)

    def _remember(self, uid: str, name: str) -> None:
        line = f"{uid} {name}"
        self._known.add(line)
        if self._file is not None:
            # In one write, as other processes add to it, too.
            with contextlib.suppress(OSError), disk.create(self._file, "ab", buffering=0) as file:
                file.write(f"{line}\n".encode())


def check(api: Api, name: str) -> str:
    """Return the uid of a ConfigMap; raises :class:`UsageError` unless it is what its name says."""
    namespace = api.place.namespace
    found = api.get(kinds.path("ConfigMap", namespace, name))
    if (why := difference(found)) is not None:
        raise UsageError(
            f"The ConfigMap {name} in namespace {namespace} is not k8sbench's: {why}.",
            f"If nobody needs it: 'kubectl -n {namespace} delete configmap {name}'; the next run "
            "creates the right one.",
        )
    return str(found["metadata"]["uid"])


class Awaited:
    """ConfigMaps that pods wait for because somebody has deleted them: they are created again.

    ``start`` makes a request on another thread.
    """

    def __init__(self, trainers: Trainers, start: Callable[[Callable[[], None]], None]) -> None:
        self._trainers, self._start = trainers, start
        self._since: dict[str, float] = {}
        """By run: since when its pods wait, monotonic seconds."""
        self._asked_at: dict[str, float] = {}
        """When it was asked for last."""

    def see(self, run_id: str, state: JobState) -> JobState:
        """Take in a job's state; one that waits for its trainers is given time to mount them."""
        name = _NAME.search(state.cause) if state.cause_id == "config-missing" else None
        if name is None:
            self.forget(run_id)
            return state
        now = time.monotonic()
        since = self._since.setdefault(run_id, now)
        if now - since >= MOUNT_SECONDS:
            return state
        if now - self._asked_at.get(run_id, -math.inf) >= AGAIN_SECONDS:
            self._asked_at[run_id] = now
            self._start(partial(self._provide, name[0]))
        return msgspec.structs.replace(state, unrecoverable=False, look_again_s=AGAIN_SECONDS)

    def forget(self, run_id: str) -> None:
        """Forget a run."""
        self._since.pop(run_id, None)
        self._asked_at.pop(run_id, None)

    def _provide(self, name: str) -> None:
        with contextlib.suppress(ApiFault, BenchError):  # it is asked for again
            self._trainers.provide(name)


# -- pruning, the task of a collector -------------------------------------------------------------


def prune(api: Api) -> list[str]:
    """Delete the ConfigMaps of a namespace that are no longer used; returns their names.

    Raises :class:`ApiFault`. One that is deleted and needed after all is created again by whoever
    follows its run.
    """
    path = kinds.path("ConfigMap", api.place.namespace)
    shared, _ = api.list(path, labels=SELECTOR, keep=_metadata)
    if not shared:
        return []
    used, now, pruned = set(_used(api)), api.time(), []
    for found in shared:
        name = name_of(found)
        last = _last_used(found)
        if not name.startswith(CONFIG_MAP):
            continue  # somebody else's, with our label
        if last is None or (name in used and now - last >= NOTED_SECONDS):
            at = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="seconds")
            api.patch(f"{path}/{name}", {"metadata": {"annotations": {LAST_USED: at}}})
        elif now - last >= KEPT_SECONDS + NOTED_SECONDS:
            version = found["metadata"]["resourceVersion"]
            api.delete(f"{path}/{name}", version=version)
            pruned.append(name)
    return pruned


def _metadata(found: KubeObject) -> KubeObject:
    return {"metadata": found["metadata"]}


def _last_used(found: KubeObject) -> float | None:
    """Return when something was last seen to refer to it; None: that is not noted yet."""
    try:
        return moment(annotations_of(found).get(LAST_USED))
    except ValueError:  # somebody has changed it
        return None


def _used(api: Api) -> Iterator[str]:
    """Yield the names of the ConfigMaps that jobs, and pods beside them, refer to."""
    for kind in (*KINDS, "Pod"):
        try:
            path = kinds.path(kind, api.place.namespace)
            listed, _ = api.list(path, labels=MANAGED, keep=_metadata)
        except ApiFault as fault:
            if fault.status != 404:  # a kind that is not installed has no jobs
                raise
            continue
        yield from filter(None, map(mounted_by, listed))
