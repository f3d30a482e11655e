"""Finds the collector of a namespace, and reads it through the API server's service proxy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError, Unreachable
from k8sbench.model.kube import name_of

LABELS = "app.kubernetes.io/name=dlperf,app.kubernetes.io/component=collector"
PORT = "http"


class CollectorProxy:
    """One namespace's collector, as far as there is one."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._base: str | None = None

    def is_there(self) -> bool:
        """Look for its service; raises :class:`BenchError` where that cannot be known."""
        namespace = self._api.place.namespace
        try:
            found, _ = self._api.list(kinds.path("Service", namespace), labels=LABELS, retry_s=0.0)
        except ApiFault as fault:
            raise self._api.explained(fault, "a collector be looked for") from fault
        if found:
            service = f"{name_of(found[0])}:{PORT}"
            self._base = kinds.path("Service", namespace, service, "proxy")
        return self._base is not None

    def read(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """Return a document; None where it has no such thing."""
        try:
            return b"".join(self.pieces(path, query))
        except ApiFault as fault:
            if fault.status == 404:
                return None
            raise self._explained(fault) from fault

    def pieces(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Yield a document as it arrives; raises :class:`ApiFault`."""
        yield from self._api.stream(self._at(path), silence_s=self._api.retry_s, **query).chunks()

    def file(self, path: str) -> Iterator[bytes]:
        """Yield a file as it arrives; raises :class:`ApiFault`."""
        yield from self._api.file(self._at(path), silence_s=self._api.retry_s).chunks()

    def _at(self, path: str) -> str:
        assert self._base is not None
        return f"{self._base}/api/v1/{quote(path)}"

    def _explained(self, fault: ApiFault) -> BenchError:
        if fault.status not in {401, 403}:
            return Unreachable(
                f"The collector does not answer ({fault.message.rstrip('.')}).",
                "See: kubectl get pods -l app.kubernetes.io/component=collector",
            )
        return self._api.explained(fault, "the collector be read")
