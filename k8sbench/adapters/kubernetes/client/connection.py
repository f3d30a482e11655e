"""Chooses the cluster and the namespace of a command as kubectl does, and states why.

``--kubeconfig``, else the files of ``KUBECONFIG``, else ``~/.kube/config``; of these ``--context``
or the current context; else, in a pod, its service account. Connecting sends no request.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import yaml

from k8sbench.adapters.kubernetes.client import credentials, official
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.official import Configuration
from k8sbench.adapters.kubernetes.client.transport import Transport
from k8sbench.model.errors import InputError, NotFound, Unreachable
from k8sbench.model.run import Location

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"
_REPAIR = "Repair it (`kubectl config view` shows the same), or name another with --kubeconfig."


class NoCluster(Unreachable):
    """No cluster is configured: there is no kubeconfig, and this is no pod."""


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Api:
    """Choose the cluster; no request is sent.

    Raises :class:`NoCluster` if none is configured, :class:`InputError` for a kubeconfig that
    cannot be read, :class:`NotFound` for a context that is not in it.
    """
    paths, source = _files(kubeconfig, environ)
    found = [path for path in paths if path.is_file()]
    if found:
        return _from_kubeconfig(found, source, kubeconfig, context, namespace, environ)
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
    """Request the API server's version once; raises :class:`Unreachable`."""
    fault = api.no_answer(seconds)
    if fault is not None:
        raise api.explained(fault, "its version be read")


def _files(kubeconfig: str | None, environ: Mapping[str, str]) -> tuple[list[Path], str]:
    """Return the files to read, and their name in messages."""
    if kubeconfig is not None:
        return [Path(kubeconfig).expanduser()], kubeconfig
    if listed := environ.get("KUBECONFIG"):
        paths = [Path(path) for path in listed.split(os.pathsep) if path]
        return paths, f"KUBECONFIG ({listed})"
    home = environ.get("HOME")
    folder = Path(home) if home else Path.home()
    return [folder / ".kube" / "config"], "~/.kube/config"


class _Kubeconfig:
    """The contexts and clusters of one or several kubeconfigs; the first file to set a value wins.

    The official client reads them once more, with the users; it does not report what is wrong with
    a file, nor which contexts there are.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self.path = os.pathsep.join(map(str, paths))
        self.current: str | None = None
        self.contexts: dict[str, Mapping[str, Any]] = {}
        self.clusters: dict[str, Mapping[str, Any]] = {}
        for path in paths:
            config = _read(path)
            try:
                self.current = self.current or config.get("current-context")
                for one in config.get("contexts") or ():
                    self.contexts.setdefault(one["name"], one.get("context") or {})
                for one in config.get("clusters") or ():
                    self.clusters.setdefault(one["name"], one.get("cluster") or {})
            except (TypeError, KeyError, AttributeError) as error:
                raise InputError("this is no kubeconfig.", _REPAIR, file=str(path)) from error

    def chosen(self, context: str | None) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
        """Return the context that was named, or the current one: its name, it, and its cluster."""
        name = context or self.current
        if not name:
            raise NotFound(
                f"{self.path} has no current context.",
                f"Choose one with --context: {_listed(self.contexts)}.",
            )
        if name not in self.contexts:
            near = difflib.get_close_matches(name, self.contexts, n=3) or list(self.contexts)
            raise NotFound(f"{self.path} has no context {name}.", f"It has: {_listed(near)}.")
        cluster = self.contexts[name].get("cluster", "")
        if not self.clusters.get(cluster, {}).get("server"):
            raise InputError(
                f"context {name} names the cluster {cluster!r}, which has no server.",
                _REPAIR,
                file=self.path,
            )
        return name, self.contexts[name], self.clusters[cluster]


def _read(path: Path) -> Any:
    try:
        return yaml.load(
            path.read_text(),
            Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),  # noqa: S506
        )
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(
            f"the kubeconfig cannot be read: {why}.", "Check its permissions.", file=str(path)
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(
            f"the kubeconfig is no YAML: {getattr(error, 'problem', None) or 'it is broken'}.",
            _REPAIR,
            file=str(path),
            line=None if mark is None else mark.line + 1,
        ) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _from_kubeconfig(
    paths: Sequence[Path],
    source: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    environ: Mapping[str, str],
) -> Api:
    config = _Kubeconfig(paths)
    name, entry, cluster = config.chosen(context)

    def load() -> Configuration:
        found = Configuration()
        official.load_kube_config(config.path, name, found, persist_config=False)
        return found

    return _api(
        load,
        f"{'' if context else 'current '}context {name} of {source}",
        environ,
        # The official client does not support proxy-url, and ignores NO_PROXY.
        proxy=cluster.get("proxy-url"),
        namespace=namespace or entry.get("namespace"),
        context=name,
        kubeconfig=None if kubeconfig is None else str(Path(kubeconfig).expanduser().resolve()),
    )


def _in_cluster(namespace: str | None, environ: Mapping[str, str], service_account: Path) -> Api:
    def load() -> Configuration:
        found = Configuration()
        official.InClusterConfigLoader(
            token_filename=str(service_account / "token"),
            cert_filename=str(service_account / "ca.crt"),
            environ=environ,
        ).load_and_set(found)
        return found

    own = service_account / "namespace"
    if namespace is None and own.is_file():
        namespace = own.read_text().strip()
    return _api(load, "in-cluster configuration", environ, namespace=namespace)


def _api(
    load: Callable[[], Configuration],
    why: str,
    environ: Mapping[str, str],
    *,
    proxy: str | None = None,
    namespace: str | None,
    context: str | None = None,
    kubeconfig: str | None = None,
) -> Api:
    with credentials.translated_errors():
        found = load()
    location = Location(
        server=found.host,
        namespace=namespace or DEFAULT_NAMESPACE,
        context=context,
        kubeconfig=kubeconfig,
    )
    transport = Transport(
        server=found.host,
        verify=found.verify_ssl,
        server_name=found.tls_server_name,
        proxy=proxy or proxy_for(found.host, environ),
    )
    return Api(location, why, transport, credentials.Credentials(load))


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the proxy that the environment sets for a server; None: no proxy.

    As Go programs read the variables, kubectl among them: ``NO_PROXY`` may hold networks
    (10.0.0.0/8), and this machine itself is never reached through a proxy.
    """
    parts = urlsplit(server)
    host = parts.hostname or ""
    names = (f"{parts.scheme.upper()}_PROXY", f"{parts.scheme}_proxy")
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    if proxy is None or host == "localhost" or _in(host, "127.0.0.0/8"):
        return None
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_in(host, one.strip()) for one in exceptions.split(",")):
        return None
    if proxy_bypass_environment(parts.netloc, {"no": exceptions}):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _in(host: str, network: str) -> bool:
    """Return whether a host is an address of a network; a name is none."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
