"""Kubeconfigs as typed values: contexts, clusters and users, of one file or several.

The first file that has an entry or a value wins, and relative paths are relative to the file in
which they stand, as with kubectl.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from k8sbench.model import yaml_text
from k8sbench.model.errors import NamedNotThere, Unreachable

T = TypeVar("T")
_REPAIR = "Repair it (`kubectl config view` shows the same), or name another with --kubeconfig."


class KubeconfigFault(Unreachable):
    """A kubeconfig was named or exists and cannot be used, or a file that it names."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, a user and a namespace by one name."""

    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An API server and how it is reached."""

    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None


class PluginVariable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable of a plugin's environment."""

    name: str
    value: str = ""


class Exec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A credential plugin."""

    command: str
    api_version: str
    args: list[str] | None = None
    env: list[PluginVariable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool | None = None


class UserEntry(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How a user signs in."""

    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: Exec | None = None
    auth_provider: dict[str, Any] | None = None
    as_user: str | None = msgspec.field(name="as", default=None)


class ChosenContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context with its cluster and its user."""

    context: str
    namespace: str | None
    cluster: ClusterEntry
    cluster_file: Path
    user: UserEntry
    user_file: Path
    user_name: str

    def authority(self) -> bytes | None:
        """Return the authority of the server's certificate, PEM."""
        return _material(self.cluster, "certificate-authority", self.cluster_file)

    def certificate(self) -> bytes | None:
        """Return the client's certificate and key, PEM."""
        keys = ("client-certificate", "client-key")
        parts = (_material(self.user, key, self.user_file) for key in keys)
        return b"\n".join(filter(None, parts)) or None


class Kubeconfig:
    """The contexts, clusters and users of one or several files."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = tuple(paths)
        self.path = os.pathsep.join(map(str, paths))
        self.current: str | None = None
        kinds = ("context", "cluster", "user")
        self._entries: dict[str, dict[str, tuple[Any, Path]]] = {kind: {} for kind in kinds}
        for path in paths:
            config = _read(path) or {}
            try:
                self.current = self.current or config.get("current-context")
                for kind, entries in self._entries.items():
                    for entry in config.get(f"{kind}s") or ():
                        entries.setdefault(entry["name"], (entry.get(kind) or {}, path))
            except (TypeError, KeyError, AttributeError) as error:
                raise KubeconfigFault(f"{path}: this is not a kubeconfig.", _REPAIR) from error

    @property
    def is_empty(self) -> bool:
        """Whether it names no cluster, as one that ``kubectl config`` has emptied."""
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
        entry, _ = self._entry("context", name, Context)
        cluster, cluster_file = self._of(name, "cluster", entry.cluster or "", ClusterEntry)
        if not cluster.server:
            raise KubeconfigFault(
                f"{cluster_file}: the cluster {entry.cluster} of context {name} has no server.",
                _REPAIR,
            )
        user, user_file = UserEntry(), cluster_file
        if entry.user:
            user, user_file = self._of(name, "user", entry.user, UserEntry)
        return ChosenContext(
            context=name,
            namespace=entry.namespace,
            cluster=cluster,
            cluster_file=cluster_file,
            user=user,
            user_file=user_file,
            user_name=entry.user or "",
        )

    def _of(self, context: str, kind: str, name: str, type_: type[T]) -> tuple[T, Path]:
        if name not in self._entries[kind]:
            raise KubeconfigFault(
                f"{self.path}: context {context} names the {kind} {name!r}, which is not there.",
                _REPAIR,
            )
        return self._entry(kind, name, type_)

    def _entry(self, kind: str, name: str, type_: type[T]) -> tuple[T, Path]:
        value, path = self._entries[kind][name]
        try:
            return msgspec.convert(value, type_), path
        except msgspec.ValidationError as error:
            raise KubeconfigFault(
                f"{path}: the {kind} {name} is not valid: {error}.", _REPAIR
            ) from error


def _material(entry: ClusterEntry | UserEntry, key: str, kubeconfig: Path) -> bytes | None:
    """Return what stands in a kubeconfig in base64, or in a file that it names; None: nothing."""
    name = key.replace("-", "_")
    data, file = getattr(entry, f"{name}_data"), getattr(entry, name)
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise KubeconfigFault(f"{kubeconfig}: {key}-data is not base64.", _REPAIR) from error
    return None if not file else read(kubeconfig.parent / file, f"the {key} of {kubeconfig}")


def read(path: Path, what: str) -> bytes:
    """Read a file that credentials come from."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigFault(
            f"{path}, {what}, cannot be read: {(error.strerror or str(error)).lower()}.",
            "Restore it, or sign in again; kubectl meets the same fault.",
        ) from error


def _read(path: Path) -> Any:
    try:
        return yaml_text.load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        why = str(error.strerror).lower() if isinstance(error, OSError) else "it is not text"
        raise KubeconfigFault(
            f"{path}: the kubeconfig cannot be read: {why}.",
            "Check its permissions, or name another with --kubeconfig.",
        ) from error
    except yaml.YAMLError as error:
        line, problem = yaml_text.broken(error)
        where = f"{path}" if line is None else f"{path}:{line}"
        raise KubeconfigFault(
            f"{where}: the kubeconfig is not YAML: {problem}.", _REPAIR
        ) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
