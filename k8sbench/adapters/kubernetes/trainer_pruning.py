"""Deletes trainers' sources that nothing has referred to for a month: the collector's task.

What a version of k8sbench last ran is on no other record of the cluster's: so a ConfigMap has an
annotation with the time at which a job or a pod was last seen to refer to it.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import MANAGED, KubeObject, annotations_of, moment, name_of
from k8sbench.render.trainer_sources import CONFIG_MAP, SELECTOR, mounted_by

LAST_USED = f"{LABEL_DOMAIN}/last-used"
"""Annotation: when something was last seen to refer to the ConfigMap, to the day."""
NOTED_SECONDS = 86400.0
"""After which that is noted again."""
KEPT_SECONDS = 30 * 86400.0
"""For which a ConfigMap stays that nothing refers to."""


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
