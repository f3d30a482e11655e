"""Choice of cluster and namespace, like kubectl's.

``--kubeconfig``, else the files of ``KUBECONFIG``, else ``~/.kube/config``; of these ``--context``
or the current context; else, in a pod, its service account. Connecting sends no request.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from k8sbench.adapters.kubernetes.client import login
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.login import Kubeconfig, KubeconfigFault
from k8sbench.adapters.kubernetes.client.transport import Sender
from k8sbench.model.errors import NamedNotThere, Unreachable
from k8sbench.model.run import Location

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"


class NoCluster(Unreachable):
    """No cluster is configured: no kubeconfig, and not in a pod."""


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Api:
    """Choose the cluster; sends no request and reads no credential.

    Raises :class:`NoCluster` if none is configured, :class:`NamedNotThere` for a kubeconfig or a
    context that was named and does not exist, :class:`KubeconfigFault` where it cannot be used.
    """
    paths, source = _files(kubeconfig, environ)
    # lexists: a dangling link was meant, too.
    existing = [path for path in paths if os.path.lexists(path)]
    config = Kubeconfig(existing)
    if not config.is_empty:
        return _from_kubeconfig(config, source, kubeconfig, context, namespace, environ)
    missing = f"{source} names no cluster" if existing else f"{source} does not exist"
    if context is not None:
        raise NamedNotThere(
            f"There is no context {context}: {missing}.", "Name the file with --kubeconfig."
        )
    is_pod = bool(environ.get("KUBERNETES_SERVICE_HOST"))
    if kubeconfig is None and is_pod and service_account.is_dir():
        return _in_cluster(namespace, environ, service_account)
    if existing or kubeconfig is not None or environ.get("KUBECONFIG"):
        # A cluster was meant, so this is an error, not a machine without one.
        raise (KubeconfigFault if existing else NamedNotThere)(
            f"The kubeconfig {missing}.",
            "Correct its path or its content, or name another with --kubeconfig or KUBECONFIG.",
        )
    where = "pod has no service account" if is_pod else "is not a pod of a cluster"
    raise NoCluster(
        f"No cluster is configured: {missing}, and this {where}.",
        "Name a kubeconfig with --kubeconfig or KUBECONFIG.",
    )


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


def _from_kubeconfig(
    config: Kubeconfig,
    source: str,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    environ: Mapping[str, str],
) -> Api:
    chosen = config.chosen(context)
    cluster = chosen.cluster
    scheme, _, rest = cluster["server"].rstrip("/").rpartition("://")
    # User and password in the URL are unused, and must not be shown or recorded.
    host, slash, path = rest.partition("/")
    server = f"{scheme or 'https'}://{host.rpartition('@')[2]}{slash}{path}"
    place = Location(
        server=server,
        namespace=namespace or chosen.namespace or DEFAULT_NAMESPACE,
        context=chosen.context,
        kubeconfig=None if kubeconfig is None else str(Path(kubeconfig).expanduser().resolve()),
    )
    proxy = cluster.get("proxy-url") or proxy_for(server, environ)

    def sign_in() -> login.Login:
        """Read everything again: also the kubeconfig may have changed."""
        return login.as_user(Kubeconfig(config.paths).chosen(chosen.context), server, proxy)

    why = f"{'' if context else 'current '}context {chosen.context} of {source}"
    is_verified = not (cluster.get("insecure-skip-tls-verify") and server.startswith("https"))
    return Api(place, why, Sender(server, proxy, sign_in), is_verified=is_verified)


def _in_cluster(namespace: str | None, environ: Mapping[str, str], folder: Path) -> Api:
    environ = {"KUBERNETES_SERVICE_PORT": "443", **environ}
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    own = folder / "namespace"
    if namespace is None and own.is_file():
        namespace = own.read_text().strip()
    place = Location(server=server, namespace=namespace or DEFAULT_NAMESPACE)
    proxy = proxy_for(server, environ)
    sender = Sender(server, proxy, lambda: login.as_pod(folder, environ, proxy))
    return Api(place, "in-cluster configuration", sender)


def proxy_for(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the environment's proxy for a server; None without one.

    As Go programs read the variables, kubectl among them: ``NO_PROXY`` may hold networks
    (10.0.0.0/8), and this machine itself is never reached through a proxy.
    """
    parts = urlsplit(server)
    host = parts.hostname or ""
    names = (f"{parts.scheme.upper()}_PROXY", f"{parts.scheme}_proxy")
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    is_own = host == "localhost" or _in(host, "127.0.0.0/8") or _in(host, "::1")
    if proxy is None or is_own:
        return None
    # Imported on use, because it is slow.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if proxy_bypass_environment(parts.netloc, {"no": exceptions}) or any(
        _in(host, network.strip()) for network in exceptions.split(",")
    ):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _in(host: str, network: str) -> bool:
    """Return True if a host is an address of a network."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
