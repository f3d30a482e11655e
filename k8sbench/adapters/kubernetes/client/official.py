"""What is used of the official client: its configuration, and what loads it.

``import kubernetes`` imports 700 typed models that k8sbench does not use: 0.2 s of 0.8 s on a slow
machine, more than anything else that ``submit --detach`` does. The client offers no import of its
loaders alone: ``kubernetes.config`` imports ``kubernetes.client``, whose package imports every
model. So the loaders are imported while empty packages stand in for those around them. Where the
client is imported already, or a later version is laid out otherwise, it is imported as it is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["ConfigException", "Configuration", "InClusterConfigLoader", "load_kube_config"]

_PACKAGE, _CLIENT = "kubernetes", "kubernetes.client"


def _import_without_models() -> None:
    found = importlib.util.find_spec(_PACKAGE)
    if _PACKAGE in sys.modules or found is None or not found.submodule_search_locations:
        return
    package, client = ModuleType(_PACKAGE), ModuleType(_CLIENT)
    package.__path__ = list(found.submodule_search_locations)
    client.__path__ = [str(Path(one) / "client") for one in package.__path__]
    sys.modules |= {_PACKAGE: package, _CLIENT: client}
    try:
        with contextlib.suppress(ImportError, AttributeError):
            configuration = importlib.import_module(f"{_CLIENT}.configuration")
            # The second only builds clients for those who ask for one.
            vars(client).update(Configuration=configuration.Configuration, ApiClient=None)
            importlib.import_module(f"{_PACKAGE}.config")
    finally:
        # Who wants the whole of it finds it.
        del sys.modules[_CLIENT], sys.modules[_PACKAGE]


_import_without_models()

# From the modules, not from their packages, which would be imported.
from kubernetes.client.configuration import Configuration  # noqa: E402
from kubernetes.config.config_exception import ConfigException  # noqa: E402
from kubernetes.config.incluster_config import InClusterConfigLoader  # noqa: E402
from kubernetes.config.kube_config import load_kube_config  # noqa: E402
