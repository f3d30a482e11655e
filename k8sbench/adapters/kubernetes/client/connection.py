"""Which cluster and namespace a command means, as kubectl would have it, and why.

``--kubeconfig``, else the files of ``KUBECONFIG``, else ``~/.kube/config``; of these ``--context``
or the current context; else, in a pod, its service account. Only when asked for is anything sent.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from k8sbench.adapters.kubernetes.client import credentials
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.transport import Transport
from k8sbench.model.errors import InputError, NotFound, Unreachable
from k8sbench.model.run import Location

if TYPE_CHECKING:
    from kubernetes.client import Configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"


class NoCluster(Unreachable):
    """Nothing names a cluster: no kubeconfig, and this is no pod."""


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Api:
    """Find the cluster; nothing is sent yet, so whether it answers is not known.

    Raises :class:`NoCluster` if nothing names one, :class:`InputError` for a kubeconfig that
    cannot be read, :class:`NotFound` for a context that is not in it.
    """
    paths, source = _files(kubeconfig, environ)
    found = [path for path in paths if path.is_file()]
    if found:
        config = _Kubeconfig(found)
        return _from_kubeconfig(config, source, kubeconfig, context, namespace, environ)
    if kubeconfig is not None:
        raise InputError("there is no such kubeconfig.", "Check --kubeconfig.", file=kubeconfig)
    if context is not None:
        raise NotFound(
            f"There is no context {context}: {source} does not exist.",
            "Name the file with --kubeconfig.",
        )
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").is_file():
        return _in_cluster(namespace, environ, service_account)
    raise NoCluster(
        f"No cluster is configured: {source} does not exist, and this is no pod of a cluster.",
        "Name a kubeconfig with --kubeconfig or KUBECONFIG, or use --backend local.",
    )


def check_answers(api: Api, *, seconds: float = 2.0) -> None:
    """Ask the API server's version, once and quickly; raises :class:`Unreachable`."""
    fault = api.no_answer(seconds)
    if fault is not None:
        raise api.explained(fault, "its version be read")


def _files(kubeconfig: str | None, environ: Mapping[str, str]) -> tuple[list[Path], str]:
    """Return the files to read, and how to call them."""
    if kubeconfig is not None:
        return [Path(kubeconfig).expanduser()], kubeconfig
    if listed := environ.get("KUBECONFIG"):
        paths = [Path(path) for path in listed.split(os.pathsep) if path]
        return paths, f"KUBECONFIG ({listed})"
    home = environ.get("HOME")
    folder = Path(home) if home else Path.home()
    return [folder / ".kube" / "config"], "~/.kube/config"


class _Kubeconfig:
    """The contexts and clusters of one or several kubeconfigs: the first to say something wins.

    The official client reads them once more, with the users; it does not say what is wrong with a
    file, nor which contexts there are.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths
        self.current: str | None = None
        self.contexts: dict[str, Mapping[str, Any]] = {}
        self.clusters: dict[str, Mapping[str, Any]] = {}
        for path in paths:
            config = _read(path)
            self.current = self.current or config.get("current-context") or None
            for name, entry in _entries(config, "contexts", "context", path):
                self.contexts.setdefault(name, entry)
            for name, entry in _entries(config, "clusters", "cluster", path):
                self.clusters.setdefault(name, entry)

    def chosen(self, context: str | None) -> tuple[str, Mapping[str, Any]]:
        """Return the context that was asked for, or the current one."""
        name = context or self.current
        if name is None:
            raise NotFound(
                f"{self} has no current context.",
                f"Choose one with --context: {_listed(self.contexts)}.",
            )
        if name not in self.contexts:
            near = difflib.get_close_matches(name, self.contexts, n=3) or list(self.contexts)
            raise NotFound(f"{self} has no context {name}.", f"It has: {_listed(near)}.")
        return name, self.contexts[name]

    def cluster(self, context: str, name: str) -> Mapping[str, Any]:
        """Return the cluster of a context."""
        if not self.clusters.get(name, {}).get("server"):
            raise InputError(
                f"context {context} names the cluster {name!r}, of which it knows no server.",
                "Mend the kubeconfig, or choose another --context.",
                file=str(self),
            )
        return self.clusters[name]

    def __str__(self) -> str:
        return os.pathsep.join(map(str, self.paths))


def _read(path: Path) -> Mapping[str, Any]:
    import yaml

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else "it is no text"
        raise InputError(
            f"the kubeconfig cannot be read: {why}.", "Check its permissions.", file=str(path)
        ) from wrong
    try:
        config = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        raise InputError(
            f"the kubeconfig is no YAML: {getattr(wrong, 'problem', None) or 'it is broken'}.",
            "Mend it; `kubectl config view` shows the same.",
            file=str(path),
            line=None if mark is None else mark.line + 1,
        ) from wrong
    if not isinstance(config, dict):
        raise InputError("this is no kubeconfig.", "Check the path.", file=str(path))
    return config


def _entries(
    config: Mapping[str, Any], key: str, inner: str, path: Path
) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        return [(str(one["name"]), one.get(inner) or {}) for one in config.get(key) or ()]
    except (TypeError, KeyError, AttributeError) as wrong:
        raise InputError(
            f"{key} of the kubeconfig is no list of names with a {inner} each.",
            "Mend it; `kubectl config view` shows the same.",
            file=str(path),
        ) from wrong


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(sorted(names)) or "none"


def _from_kubeconfig(
    config: _Kubeconfig,
    source: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    environ: Mapping[str, str],
) -> Api:
    name, entry = config.chosen(context)
    cluster = config.cluster(name, str(entry.get("cluster", "")))

    def load() -> Configuration:
        from k8sbench.adapters.kubernetes.client.official import Configuration, load_kube_config

        found = Configuration()
        load_kube_config(str(config), name, found, persist_config=False)
        return found

    with credentials.told():
        found = load()
    said = "" if context else "current "
    return _api(
        load,
        found,
        Location(
            server=found.host,
            namespace=namespace or entry.get("namespace") or DEFAULT_NAMESPACE,
            context=name,
            kubeconfig=None if kubeconfig is None else str(Path(kubeconfig).expanduser().resolve()),
        ),
        why=f"{said}context {name} of {source}",
        # The official client knows no proxy-url, and forgets NO_PROXY.
        proxy=cluster.get("proxy-url") or proxy_for(found.host, environ),
    )


def _in_cluster(namespace: str | None, environ: Mapping[str, str], service_account: Path) -> Api:
    def load() -> Configuration:
        from k8sbench.adapters.kubernetes.client.official import (
            Configuration,
            InClusterConfigLoader,
        )

        found = Configuration()
        InClusterConfigLoader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=environ,
        ).load_and_set(found)
        return found

    with credentials.told():
        found = load()
    own = service_account / "namespace"
    home = own.read_text().strip() if own.is_file() else ""
    return _api(
        load,
        found,
        Location(server=found.host, namespace=namespace or home or DEFAULT_NAMESPACE),
        why="in-cluster configuration",
        proxy=proxy_for(found.host, environ),
    )


def _api(
    load: Callable[[], Configuration],
    found: Configuration,
    location: Location,
    *,
    why: str,
    proxy: str | None,
) -> Api:
    transport = Transport(
        server=location.server,
        verify=found.verify_ssl,
        server_name=found.tls_server_name,
        proxy=proxy,
    )
    return Api(location, why, transport, credentials.Credentials(load))


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment wants for a server; None: straight on.

    As Go programs read the variables, kubectl among them: networks (10.0.0.0/8) count in
    ``NO_PROXY``, and this machine itself is never reached through a proxy.
    """
    parts = urlsplit(server)
    host = parts.hostname or ""
    names = [f"{parts.scheme.upper()}_PROXY", f"{parts.scheme.lower()}_proxy"]
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    if proxy is None or host == "localhost" or _in(host, "127.0.0.0/8"):
        return None
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(host, parts.port, one.strip().lower()) for one in exceptions.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches(host: str, port: int | None, pattern: str) -> bool:
    if pattern == "*":
        return True
    if not pattern:
        return False
    if "/" in pattern:
        return _in(host, pattern)
    name, _, wanted_port = pattern.partition(":")
    if wanted_port and wanted_port != str(port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return host == name or host.endswith(f".{name}")


def _in(host: str, network: str) -> bool:
    """Return whether a host is an address of a network; a name is none."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
