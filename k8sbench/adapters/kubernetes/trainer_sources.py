"""The ConfigMap with the trainers' sources: one per namespace and version, for all runs.

Whoever creates a job creates its ConfigMap first if it is absent. Nobody changes one, and no run
deletes it.
"""

from __future__ import annotations

from k8sbench.adapters.files import packaged
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import UsageError
from k8sbench.ports import Manifest
from k8sbench.render.trainer_sources import config_map, difference


class Trainers:
    """The ConfigMaps of one namespace. This process checks the content of each once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._checked: set[str] = set()
        """UIDs. A ConfigMap that is immutable and has the same UID has not changed."""

    def provide(self, name: str) -> None:
        """Create a ConfigMap if it is absent; any thread may call it.

        Raises :class:`UsageError` where its content is not what its name says, and where it is
        absent and this k8sbench has other trainers; :class:`ApiFault` where a request fails.
        """
        path = kinds.path("ConfigMap", self._api.place.namespace)
        while (head := self._api.find(f"{path}/{name}", brief=True)) is None:
            try:
                made = self._api.create(path, self._manifest(name))
            except ApiFault as fault:
                if fault.reason != "AlreadyExists":  # another process was faster
                    raise
            else:
                self._checked.add(made["metadata"]["uid"])
                return
        if head["metadata"]["uid"] not in self._checked:
            self._checked.add(check(self._api, name))

    def _manifest(self, name: str) -> Manifest:
        here = packaged.trainer_sources()
        if here.config_map_name != name:
            raise UsageError(
                f"The ConfigMap {name} in namespace {self._api.place.namespace} is gone, and this "
                f"k8sbench has other trainers ({here.digest[:12]}).",
                "Submit the run again, or continue it with the k8sbench that submitted it.",
            )
        return config_map(here)


def check(api: Api, name: str) -> str:
    """Return a ConfigMap's uid; :class:`UsageError` if its content is wrong."""
    namespace = api.place.namespace
    found = api.get(kinds.path("ConfigMap", namespace, name))
    if (why := difference(found)) is not None:
        raise UsageError(
            f"The ConfigMap {name} in namespace {namespace} is not k8sbench's: {why}.",
            f"If nobody needs it: 'kubectl -n {namespace} delete configmap {name}'; the next run "
            "creates the right one.",
        )
    return str(found["metadata"]["uid"])
