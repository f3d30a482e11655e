"""How a user of a kubeconfig, or a pod's service account, signs in.

What is on disk or comes from a plugin is taken again when it expires, or when the API server
refuses it: tokens in files are replaced while we run, and a plugin's live for minutes. No secret
is logged, and none is written to disk but a client's key for the moment in which it is loaded.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.model.errors import Unreachable

FILE_SECONDS = 60.0
"""A token from a file is read again after so long; the kubelet replaces them well before they
expire."""
SKEW_SECONDS = 10.0
"""A plugin is asked again so long before what it gave expires."""


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """What a request carries to say who asks."""

    authorization: str | None = None
    """The header."""
    certificate: bytes | None = None
    """Client certificate and key, PEM."""
    good_until: float | None = None
    """When to take it again, Unix seconds; None: when it is refused."""


class CredentialsFault(Unreachable):
    """There is nothing to sign in with: a file is missing, or a plugin failed."""


class Credentials:
    """The secrets of one user, kept fresh; any thread may ask."""

    def __init__(
        self, name: str, user: Mapping[str, Any], folder: Path, cluster: Mapping[str, Any]
    ) -> None:
        self.name = name
        self._user = user
        self._folder = folder
        self._cluster = cluster
        self._lock = threading.Lock()
        self._secrets: Secrets | None = None

    def current(self) -> Secrets:
        """Return what to sign in with now; raises CredentialsFault."""
        with self._lock:
            known = self._secrets
            if known is None or (known.good_until is not None and time.time() > known.good_until):
                self._secrets = known = self._load()
            return known

    def renew(self, refused: Secrets) -> bool:
        """Take them anew after the API server refused these; whether there are others now."""
        with self._lock:
            if self._secrets is refused:
                self._secrets = self._load()
            return self._secrets != refused

    def _load(self) -> Secrets:
        user = self._user
        if "auth-provider" in user and "exec" not in user:
            provider = user["auth-provider"].get("name", "")
            raise CredentialsFault(
                f"User {self.name} of the kubeconfig signs in by auth-provider {provider!r},"
                " which k8sbench does not know.",
                "Use a credential plugin (exec) instead, as kubectl wants since version 1.26.",
            )
        certificate = self._certificate()
        if user.get("token"):
            return Secrets(authorization=f"Bearer {user['token']}", certificate=certificate)
        if user.get("tokenFile"):
            return Secrets(
                authorization=f"Bearer {self._read(user['tokenFile']).decode().strip()}",
                certificate=certificate,
                good_until=time.time() + FILE_SECONDS,
            )
        if "exec" in user:
            return self._from_plugin(user["exec"], certificate)
        if user.get("username"):
            pair = f"{user['username']}:{user.get('password', '')}".encode()
            basic = base64.b64encode(pair).decode()
            return Secrets(authorization=f"Basic {basic}", certificate=certificate)
        return Secrets(certificate=certificate)

    def _certificate(self) -> bytes | None:
        parts = [self._pem(name) for name in ("client-certificate", "client-key")]
        return b"\n".join(part for part in parts if part) if all(parts) else None

    def _pem(self, name: str) -> bytes | None:
        inline, file = self._user.get(f"{name}-data"), self._user.get(name)
        if inline:
            return decoded(inline, f"{name}-data of user {self.name}")
        return self._read(file) if file else None

    def _read(self, file: str) -> bytes:
        path = self._folder / Path(file).expanduser()
        try:
            return path.read_bytes()
        except OSError as wrong:
            raise CredentialsFault(
                f"{path}, with which user {self.name} signs in, cannot be read: {wrong.strerror}.",
                "Sign in again, or mend the user's entry in the kubeconfig.",
            ) from wrong

    def _from_plugin(self, plugin: Mapping[str, Any], certificate: bytes | None) -> Secrets:
        """Run a credential plugin, as client.authentication.k8s.io has it."""
        status = self._run(plugin)
        if "clientCertificateData" in status:
            pair = (status["clientCertificateData"], status.get("clientKeyData", ""))
            certificate = "\n".join(pair).encode()
        token, expires = status.get("token"), status.get("expirationTimestamp")
        return Secrets(
            authorization=f"Bearer {token}" if token else None,
            certificate=certificate,
            good_until=None if expires is None else _unix(expires) - SKEW_SECONDS,
        )

    def _run(self, plugin: Mapping[str, Any]) -> Mapping[str, Any]:
        command, version = str(plugin["command"]), plugin.get("apiVersion", "")
        # As kubectl: a name without a slash is looked for on PATH, others beside the kubeconfig.
        program = str(self._folder / command) if os.sep in command else command
        may_ask = plugin.get("interactiveMode") != "Never" and sys.stdin is not None
        interactive = may_ask and sys.stdin.isatty()
        spec: dict[str, Any] = {"interactive": interactive}
        if plugin.get("provideClusterInfo"):
            spec["cluster"] = self._cluster
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
        given = {one["name"]: one["value"] for one in plugin.get("env") or ()}
        try:
            done = subprocess.run(
                [program, *map(str, plugin.get("args") or ())],
                env={**os.environ, **given, "KUBERNETES_EXEC_INFO": _json(info)},
                stdin=None if interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if interactive else subprocess.PIPE,
                check=False,
            )
        except OSError as wrong:
            raise self._plugin_fault(plugin, f"cannot be run: {wrong.strerror}") from wrong
        if done.returncode != 0:
            said = (done.stderr or b"").decode(errors="replace").strip().splitlines()
            why = f": {said[-1]}" if said else ""
            raise self._plugin_fault(plugin, f"ended with code {done.returncode}{why}")
        try:
            answer = msgspec.json.decode(done.stdout)
            status: Mapping[str, Any] = answer["status"]
        except (msgspec.DecodeError, LookupError, TypeError) as wrong:
            raise self._plugin_fault(plugin, "did not answer with an ExecCredential") from wrong
        if answer.get("apiVersion") != version:
            raise self._plugin_fault(
                plugin, f"answered as {answer.get('apiVersion')}, and the kubeconfig says {version}"
            )
        if not status.get("token") and not status.get("clientCertificateData"):
            raise self._plugin_fault(plugin, "gave neither a token nor a certificate")
        return status

    def _plugin_fault(self, plugin: Mapping[str, Any], what: str) -> CredentialsFault:
        hint = str(plugin.get("installHint") or "").strip()
        return CredentialsFault(
            f"The credential plugin {plugin['command']} of user {self.name} {what}.",
            hint or "Sign in with it by hand; kubectl shows the same fault.",
        )


def decoded(text: str, what: str) -> bytes:
    """Decode inline data of a kubeconfig."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as wrong:
        raise CredentialsFault(
            f"{what[0].upper()}{what[1:]} is not base64.", "Mend the kubeconfig."
        ) from wrong


def _unix(stamp: str) -> float:
    return datetime.datetime.fromisoformat(stamp).timestamp()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
