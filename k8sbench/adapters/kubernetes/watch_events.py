"""Events of a watch: changed and deleted objects, complete lists, faults."""

from __future__ import annotations

from typing import NamedTuple

from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.kube import KubeObject


class ObjectChanged(NamedTuple):
    """An object is new, or not as it was."""

    kind: str
    object: KubeObject


class ObjectDeleted(NamedTuple):
    """An object is gone."""

    kind: str
    name: str
    uid: str
    object: KubeObject | None
    """Its last state; None where it was only missing from a list."""


class ObjectsListed(NamedTuple):
    """A list was received completely."""

    kind: str
    names: frozenset[str]
    """Names of the kept objects."""
    started_at: float
    """Time of the request, monotonic seconds."""


class WatchFailed(NamedTuple):
    """The list or the watch failed; reported at every attempt."""

    kind: str
    fault: ApiFault


class WatchWorks(NamedTuple):
    """The watch works again."""

    kind: str


WatchEvent = ObjectChanged | ObjectDeleted | ObjectsListed | WatchFailed | WatchWorks
