"""Credentials of a kubeconfig's user or a pod's service account.

The files that they come from are read for each request, and a plugin is run again when what it
gave expires. When the API server rejects the credentials, or its certificate is not of the given
authority, everything is loaded once more, since the kubeconfig may have changed.

Plugins are programs that a kubeconfig names, which print a token or a certificate:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import base64
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes.client import kubeconfig
from k8sbench.adapters.kubernetes.client.kubeconfig import ChosenContext, Exec, KubeconfigFault
from k8sbench.model.errors import Unreachable
from k8sbench.model.kube import moment
from k8sbench.model.plain_text import clean

LIMIT_SECONDS, SIGN_IN_SECONDS = 15.0, 120.0
"""After which a plugin is ended; at a terminal a user may have to sign in in a browser."""
EARLY_SECONDS = 10.0
"""So long before its end a credential counts as expired."""
_SIGN_IN = "Sign in again, or correct the user's entry; kubectl meets the same fault."


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
    if not (token and token.isascii() and token.isprintable()) or " " in token:
        raise KubeconfigFault(
            f"The token of {whose} is not a token: empty, or with characters that no token has.",
            "Sign in again, or correct the user's entry.",
        )
    return f"Bearer {token}"


# -- plugins -------------------------------------------------------------------------------------


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """What a plugin gives."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate and key, PEM."""
        if self.client_certificate_data is None:
            return None
        return f"{self.client_certificate_data}\n{self.client_key_data}".encode()


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: Credential


class ExecPlugin:
    """The credential plugin of a user, which is run again when what it gave expires."""

    def __init__(self, plugin: Exec, chosen: ChosenContext) -> None:
        self._plugin, self._chosen = plugin, chosen
        self._credential: Credential | None = None
        self._until: float | None = None

    def credential(self) -> Credential:
        """Return what the plugin gives; raises :class:`.Unreachable`."""
        expired = self._until is not None and time.time() >= self._until - EARLY_SECONDS
        if self._credential is None or expired:
            credential = self._checked(self._run())
            self._until = moment(credential.expiration_timestamp)
            self._credential = credential
        return self._credential

    def _fault(self, what: str, action: str = _SIGN_IN) -> Unreachable:
        command = self._plugin.command
        error = Unreachable(f"The credential plugin {command} of the kubeconfig {what}.", action)
        error.cause_id = "unauthorized"
        return error

    def _checked(self, printed: bytes) -> Credential:
        try:
            answer = msgspec.json.decode(printed, type=_Answer)
            moment(answer.status.expiration_timestamp)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._fault(f"printed no ExecCredential: {error}") from error
        version, given = self._plugin.api_version, answer.status
        if answer.api_version != version:
            raise self._fault(f"printed apiVersion {answer.api_version} instead of {version}")
        if given.token is None and not (given.client_certificate_data and given.client_key_data):
            raise self._fault("printed neither a token nor a client certificate with its key")
        return given

    def _run(self) -> bytes:
        """Run the plugin; returns what it printed."""
        plugin, command = self._plugin, self._plugin.command
        mode = plugin.interactive_mode or "IfAvailable"
        interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not interactive:
            raise self._fault("needs a terminal, and standard input is none")
        if os.sep in command:
            command = str(self._chosen.user_file.parent / command)
        environ = {variable.name: variable.value for variable in plugin.env or ()}
        info = {"KUBERNETES_EXEC_INFO": self._info(interactive=interactive)}
        import subprocess  # few need it, and it takes a while

        limit = SIGN_IN_SECONDS if interactive else LIMIT_SECONDS
        try:
            # In our process group: Ctrl-C ends it, too, as it does with kubectl.
            ended = subprocess.run(
                [command, *(plugin.args or ())],
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                env={**os.environ, **environ, **info},
                timeout=limit,
                check=False,
            )
        except FileNotFoundError as error:
            action = plugin.install_hint or "Install it, and make sure that it is in PATH."
            raise self._fault("is not installed: there is no such command", action) from error
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise self._fault(f"cannot be run: {why}") from error
        except subprocess.TimeoutExpired as error:
            raise self._fault(f"has not answered within {limit:.0f} s, and was ended") from error
        if (code := ended.returncode) != 0:
            how = f"failed with exit code {code}" if code > 0 else f"ended by signal {-code}"
            # Without what a terminal would not print.
            lines = (ended.stderr or b"").decode(errors="replace").strip().splitlines() or [""]
            said = clean(lines[-1]).strip()[:300]
            raise self._fault(f"{how}: {said.rstrip('.')}" if said else how)
        return ended.stdout

    def _info(self, *, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            cluster, authority = self._chosen.cluster, self._chosen.authority()
            entries = {
                "server": cluster.server,
                "tls-server-name": cluster.tls_server_name,
                "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
                "certificate-authority-data": authority and base64.b64encode(authority).decode(),
                "proxy-url": cluster.proxy_url,
            }
            spec["cluster"] = {key: value for key, value in entries.items() if value is not None}
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()
