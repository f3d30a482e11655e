"""Choice of cluster and namespace, like kubectl's, and sign-in of its user.

``--kubeconfig``, else the files of ``KUBECONFIG``, else ``~/.kube/config``; of these ``--context``
or the current context; else, in a pod, its service account. Connecting sends no request.

The first kubeconfig that has an entry or a value wins, and relative paths are relative to the file
in which they stand, as with kubectl. The official client's own merger takes the last file's current
context, and looks for a user's files beside the cluster's entry.

The client is imported here, when the first request is sent. Credential plugins are run through its
``ExecProvider`` and not by its loader, which only logs that one failed, goes on without
credentials, and runs one for every request in the last five minutes of a token.
"""

from __future__ import annotations

import base64
import difflib
import ipaddress
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import urllib3
import yaml

from k8sbench import limits
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import REPAIR, SIGN_IN, KubeconfigFault
from k8sbench.adapters.kubernetes.client.transport import Login, Sender
from k8sbench.catalog import yaml_text
from k8sbench.model.errors import NamedNotThere, Unreachable
from k8sbench.model.plain_text import clean_lines
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

    def sign_in() -> Login:
        """Read everything again: also the kubeconfig may have changed."""
        return as_user(Kubeconfig(config.paths).chosen(chosen.context), server, proxy)

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
    sender = Sender(server, proxy, lambda: as_pod(folder, environ, proxy))
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


# -- kubeconfigs ----------------------------------------------------------------------------------

_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_TEXTS = ("server", "proxy-url", "token", "namespace", *_PATHS)
SIGN_IN_SECONDS = 120.0
"""Limit of a plugin at a terminal, for browser logins, seconds."""
_LIMITED = """
import subprocess, sys
try:
    code = subprocess.run(sys.argv[2:], timeout=float(sys.argv[1])).returncode
    sys.exit(code if code >= 0 else 128 - code)
except subprocess.TimeoutExpired:
    sys.exit(f"it did not end within {sys.argv[1]} s")
except KeyboardInterrupt:
    sys.exit(130)
"""
"""Program that limits a command's time; the official client does not."""


class ChosenContext(NamedTuple):
    """A context with its cluster and its user."""

    context: str
    namespace: str | None
    cluster: dict[str, Any]
    user: dict[str, Any]
    whose: str
    """The user with the kubeconfig: ``user ann of ~/.kube/config``."""


class Kubeconfig:
    """The contexts, clusters and users of one or several files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self.path = os.pathsep.join(map(str, paths))
        self.current: str | None = None
        kinds = ("context", "cluster", "user")
        self._entries: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in kinds}
        for path in paths:
            config = _read(path) or {}
            try:
                self.current = self.current or config.get("current-context")
                for kind, entries in self._entries.items():
                    for one in config.get(f"{kind}s") or ():
                        entries.setdefault(one["name"], _checked(one.get(kind) or {}, path))
            except (TypeError, KeyError, AttributeError) as error:
                raise KubeconfigFault(f"{path}: this is not a kubeconfig.", REPAIR) from error

    @property
    def is_empty(self) -> bool:
        """True without any cluster, for example after ``kubectl config``."""
        return not (self.current or self._entries["context"] or self._entries["cluster"])

    def chosen(self, context: str | None) -> ChosenContext:
        """Return the context that was named, or the current one.

        Raises :class:`NamedNotThere`, or :class:`KubeconfigFault` where it cannot be used.
        """
        contexts = self._entries["context"]
        name = context or self.current
        if not name:
            raise KubeconfigFault(
                f"{self.path} has no current context.",
                f"Choose one with --context: {_listed(contexts)}.",
            )
        if name not in contexts:
            near = difflib.get_close_matches(name, contexts, n=3) or list(contexts)
            which = "" if context else ", which is its current context"
            raise (NamedNotThere if context else KubeconfigFault)(
                f"{self.path} has no context {name}{which}.",
                f"It has: {_listed(near)}. Choose one with --context.",
            )
        found: dict[str, dict[str, Any]] = {"cluster": {}, "user": {}}
        for kind in found:
            # Without a user requests are anonymous.
            if (wanted := contexts[name].get(kind) or "") or kind == "cluster":
                if wanted not in self._entries[kind]:
                    what = f"context {name} names the {kind} {wanted!r}, which is not there"
                    raise KubeconfigFault(f"{self.path}: {what}.", REPAIR)
                found[kind] = self._entries[kind][wanted]
        if not found["cluster"].get("server"):
            what = f"the cluster {contexts[name]['cluster']} of context {name} has no server"
            raise KubeconfigFault(f"{self.path}: {what}.", REPAIR)
        whose = f"user {contexts[name].get('user')} of {self.path}"
        return ChosenContext(name, contexts[name].get("namespace"), **found, whose=whose)


def _checked(entry: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return an entry with absolute paths; reject values that are no text."""
    if wrong := [key for key in _TEXTS if not isinstance(entry.get(key) or "", str)]:
        raise KubeconfigFault(f"{path}: a {wrong[0]} is not a text.", REPAIR)
    found = entry | {key: str(path.parent / entry[key]) for key in _PATHS if entry.get(key)}
    if os.sep in (plugin := found.get("exec") or {}).get("command", ""):
        found["exec"] = plugin | {"command": str(path.parent / plugin["command"])}
    return found


def _read(path: Path) -> Any:
    try:
        return yaml_text.load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        line, problem = yaml_text.describe_syntax_error(error)
        why = f"is not YAML: {problem}"
        if isinstance(error, OSError):
            why = f"cannot be read: {str(error.strerror).lower()}"
        where = f"{path}" if line is None else f"{path}:{line}"
        raise KubeconfigFault(f"{where}: the kubeconfig {why}.", REPAIR) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


# -- sign-in ------------------------------------------------------------------------------------


_UNSUPPORTED = {
    "auth-provider": "Use a credential plugin (`exec:`) instead; for oidc that is kubelogin.",
    "as": "Use a context whose user has the rights itself: nobody is impersonated.",
}
"""Key of a user's entry → action."""


def as_user(chosen: ChosenContext, server: str, proxy: str | None) -> Login:
    """Sign in as the user of a context; raises :class:`.Unreachable`."""

    def load(configuration: Any) -> None:
        from kubernetes.config import load_kube_config_from_dict

        user = dict(chosen.user)
        file = user.pop("tokenFile", None)
        plugin = user.pop("exec", None)
        if file:
            try:
                user["token"] = Path(file).read_text().strip()
            except OSError:
                if not user.get("token"):
                    raise
        elif plugin and not user.get("token"):
            user |= _from_plugin(plugin, chosen.cluster)
        entries = {
            "contexts": [{"name": "its", "context": {"cluster": "its", "user": "its"}}],
            "clusters": [{"name": "its", "cluster": chosen.cluster | {"server": server}}],
            "users": [{"name": "its", "user": user}],
        }
        load_kube_config_from_dict(entries, "its", configuration, persist_config=False)
        if user.get("token") == "":
            raise ValueError("its token is empty")

    for key, action in _UNSUPPORTED.items():
        if key in chosen.user:
            what = f"{chosen.whose} has {key!r}, which k8sbench does not support."
            raise KubeconfigFault(what, action)
    return _login(load, chosen.whose, proxy)


def as_pod(folder: Path, environ: Mapping[str, str], proxy: str | None) -> Login:
    """Sign in as a pod's service account; its token is reread each minute."""

    def load(configuration: Any) -> None:
        from kubernetes.config.incluster_config import InClusterConfigLoader

        files = str(folder / "token"), str(folder / "ca.crt")
        InClusterConfigLoader(*files, environ=environ).load_and_set(configuration)

    return _login(load, "the pod's service account", proxy)


def _login(load: Callable[[Any], None], whose: str, proxy: str | None) -> Login:
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration()
    try:
        load(configuration)
    except Unreachable:
        raise
    # The client raises many types for invalid values.
    except Exception as error:
        raise KubeconfigFault(f"{whose} cannot be used: {error}.", REPAIR) from error
    # Versions below 36 read neither proxy-url nor NO_PROXY.
    configuration.proxy, configuration.no_proxy = proxy, ""
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        pool = ApiClient(configuration).rest_client.pool_manager
    except (urllib3.exceptions.HTTPError, ImportError) as error:
        raise faults.from_transport(error, proxy) from error
    # Without an authority the system's are used, as by kubectl.
    pool.connection_pool_kw["ca_certs"] = configuration.ssl_ca_cert
    return Login(configuration, pool, whose)


def _from_plugin(plugin: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, str]:
    """Run a credential plugin; return its credentials as a user's entry."""
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    action = SIGN_IN
    cluster = ConfigNode("cluster", dict(entry))
    try:
        provider = ExecProvider(ConfigNode("exec", plugin), None, cluster)
        command = provider.args[0]
        if not (Path(command).exists() or shutil.which(command, path=provider.env.get("PATH"))):
            raise FileNotFoundError
        limit = SIGN_IN_SECONDS if sys.stdout.isatty() else limits.now.plugin
        provider.args[:0] = [sys.executable, "-I", "-S", "-c", _LIMITED, f"{limit:g}"]
        given = provider.run()
        if given.get("token"):
            return {"token": given["token"]}
        pair = {"certificate": given["clientCertificateData"], "key": given["clientKeyData"]}
        coded = {name: base64.b64encode(pair[name].encode()).decode() for name in pair}
        return {f"client-{name}-data": coded[name] for name in coded}
    except FileNotFoundError:
        what = "is not installed: there is no such command"
        action = plugin.get("installHint") or "Install it, and make sure that it is in PATH."
    except KeyError:
        what = "printed neither a token nor a client certificate with its key"
    # At a terminal the library raises AttributeError after the plugin's own message.
    except Exception as error:
        lines = clean_lines(str(error)).strip().splitlines()[-1:]
        what = f"failed: {(lines or [''])[0].removeprefix('exec: ').rstrip('.')[:300]}"
    whose = f"The credential plugin {plugin.get('command')} of the kubeconfig"
    fault = Unreachable(f"{whose} {what}.", action)
    fault.cause_id = "unauthorized"
    raise fault
