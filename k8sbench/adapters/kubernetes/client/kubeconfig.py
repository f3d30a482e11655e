"""Kubeconfigs: entries of one or several files, and their context.

The first file that has an entry or a value wins, and relative paths are relative to the file in
which they stand, as with kubectl. The official client's own merger takes the last file's current
context, and looks for a user's files beside the cluster's entry.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from k8sbench.model import yaml_text
from k8sbench.model.errors import NamedNotThere, Unreachable

REPAIR = "Repair it (`kubectl config view` shows the same), or name another with --kubeconfig."
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_TEXTS = ("server", "proxy-url", "token", "namespace", *_PATHS)


class KubeconfigFault(Unreachable):
    """A kubeconfig, or a file that it names, cannot be used."""


class Chosen(NamedTuple):
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

    def chosen(self, context: str | None) -> Chosen:
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
        return Chosen(name, contexts[name].get("namespace"), **found, whose=whose)


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
        line, problem = yaml_text.broken(error)
        why = f"is not YAML: {problem}"
        if isinstance(error, OSError):
            why = f"cannot be read: {str(error.strerror).lower()}"
        where = f"{path}" if line is None else f"{path}:{line}"
        raise KubeconfigFault(f"{where}: the kubeconfig {why}.", REPAIR) from error


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
