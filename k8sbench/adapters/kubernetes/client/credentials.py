"""Credentials of a kubeconfig's user or a pod's service account.

The files that they come from are read for each request, and a plugin is run again when what it
gave expires. When the API server rejects the credentials, or its certificate is not of the given
authority, everything is loaded once more, since the kubeconfig may have changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.adapters.kubernetes.client import kubeconfig
from k8sbench.adapters.kubernetes.client.kubeconfig import ChosenContext, KubeconfigFault

if TYPE_CHECKING:
    from k8sbench.adapters.kubernetes.client.exec_plugin import ExecPlugin


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is signed with, and the authority that it trusts."""

    authorization: str | None = None
    """The HTTP header."""
    certificate: bytes | None = None
    """Client certificate and key, PEM."""
    authority: bytes | None = None
    """Authority of the API server's certificate, PEM; None: the system's authorities."""


class Credentials:
    """The secrets of one user, renewed when they expire; any thread may call."""

    def __init__(self, load: Callable[[], Callable[[], Secrets]]) -> None:
        """``load`` reads where secrets come from, and returns what reads them."""
        self._load = load
        self._lock = threading.Lock()
        self._source: Callable[[], Secrets] | None = None

    def current(self) -> Secrets:
        """Return valid secrets; raises :class:`.Unreachable`."""
        with self._lock:
            return self._secrets()

    def renew(self, refused: Secrets) -> bool:
        """Load the secrets again after these were refused; return whether they have changed."""
        with self._lock:
            if self._secrets() == refused:
                self._source = None
            return self._secrets() != refused

    def _secrets(self) -> Secrets:
        if self._source is None:
            self._source = self._load()
        return self._source()


def pod_secrets(folder: Path) -> Secrets:
    """Read the token of a pod's service account, which the kubelet renews."""
    what = "of the pod's service account"
    token = _text(folder / "token", f"the token {what}")
    authority = kubeconfig.read(folder / "ca.crt", f"the authority {what}")
    if not token:
        raise KubeconfigFault(
            f"{folder / 'token'}, the token {what}, is empty.",
            "Have the pod made again; the kubelet writes it.",
        )
    return Secrets(authorization=_bearer(token, "the pod"), authority=authority)


class KubeconfigUser:
    """The user of a context: a token, a certificate, or a plugin."""

    def __init__(self, chosen: ChosenContext) -> None:
        self._chosen = chosen
        self._plugin: ExecPlugin | None = None
        user = chosen.user
        if user.auth_provider is not None or user.as_user:
            raise KubeconfigFault(
                f"{chosen.user_file}: user {chosen.user_name} has an entry that k8sbench does not"
                " know: auth-provider, or as.",
                "Use a credential plugin (`exec:`) instead; for oidc that is kubelogin.",
            )
        if user.exec is not None and not (user.token or user.token_file):
            from k8sbench.adapters.kubernetes.client.exec_plugin import ExecPlugin

            self._plugin = ExecPlugin(user.exec, chosen)

    def secrets(self) -> Secrets:
        """Read files, and run the plugin where what it gave has expired."""
        chosen = self._chosen
        given = None if self._plugin is None else self._plugin.credential()
        return Secrets(
            authorization=self._authorization(given.token if given else None),
            certificate=(given.certificate if given else None) or chosen.certificate(),
            authority=chosen.authority(),
        )

    def _authorization(self, token: str | None) -> str | None:
        user, file = self._chosen.user, self._chosen.user_file
        token = token or user.token
        if user.token_file:
            try:
                token = _text(file.parent / user.token_file, f"the tokenFile of {file}")
            except KubeconfigFault:
                if not token:
                    raise
        return _bearer(token, f"user {self._chosen.user_name} of {file}") if token else None


def _text(path: Path, what: str) -> str:
    return kubeconfig.read(path, what).decode(errors="replace").strip()


def _bearer(token: str, whose: str) -> str:
    """Return the header of a token; rejects one that no header can hold."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise KubeconfigFault(
            f"The token of {whose} is not a token: it has characters that no token has.",
            "Sign in again, or correct the user's entry.",
        )
    return f"Bearer {token}"
