"""An operator's store, served at the address of an API server's proxy."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from k8sbench import __version__
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.operator_proxy import OperatorProxy
from k8sbench.model.errors import Unreachable
from k8sbench.model.kube import ServingOperator
from k8sbench.model.request import ClusterAccess
from k8sbench.operator import http
from k8sbench.operator.controller import OperatorSettings, OperatorState
from k8sbench.operator.metrics import Metrics
from k8sbench.store.sql_store import SqlStore
from tests.unit.kubernetes import servers

HERE = ClusterAccess(namespace="team")
TOKEN = "sesame"


class Operator:
    """An operator that answers, or does not."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.asked: list[str] = []
        """Paths of the documents that it was asked for."""
        self.connected = 0
        """Number of times that it was looked for."""
        self.is_away = False
        """True if it is not found."""
        self.breaks_at = ""
        """Beginning of the paths to which it does not answer."""
        self.lacks = ""
        """Beginning of the paths that its version does not have."""
        self.says: bytes | None = None
        """Its answer to everything, instead of documents."""

    @contextmanager
    def opened(self, access: ClusterAccess, seconds: float = 0.0) -> Iterator[OperatorProxy]:
        """Replace ``opened_operator`` of the stores."""
        del seconds
        assert access in {HERE, ClusterAccess()}
        self.connected += 1
        if self.is_away:
            raise Unreachable("The operator does not answer.", "See: kubectl get pods")
        state = OperatorState(
            settings=OperatorSettings(store=str(self.store.root)), looked_at=time.monotonic()
        )
        app = http.application(state, Metrics().registry, lambda: TOKEN)
        with (
            http.Server("127.0.0.1:0", app) as server,
            servers.reached(self.store.root, f"http://127.0.0.1:{server.port}") as api,
        ):
            yield _Proxy(api, self)


class _Proxy(OperatorProxy):
    def __init__(self, api: Api, operator: Operator) -> None:
        found = ServingOperator(
            namespace="ops", name="k8sbench", version=__version__, age_s=0.0, is_alive=True
        )
        super().__init__(api, found, TOKEN)
        self._base = ""
        self._asked = operator

    def read(self, path: str, query: Mapping[str, str]) -> bytes | None:
        asked = self._asked
        asked.asked.append(path)
        if asked.breaks_at and path.startswith(asked.breaks_at):
            raise Unreachable("The operator does not answer.")
        if asked.lacks and path.startswith(asked.lacks):
            return None
        return super().read(path, query) if asked.says is None else asked.says
