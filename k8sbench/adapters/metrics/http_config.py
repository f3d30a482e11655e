"""How a Prometheus is signed in to: a file in the format of Prometheus' own HTTP client.

``promtool --http.config.file`` takes the same file. It is read for each use, since tokens and
certificates in the files that it names are renewed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from k8sbench.adapters.kubernetes.client.credentials import Secrets
from k8sbench.model.errors import InputError

VARIABLE = "K8SBENCH_PROMETHEUS_CONFIG"
"""The environment variable that names the file."""


class ConfigFault(InputError):
    """The file cannot be used: one sentence that shows nothing of what stands in it."""


class BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A name and a password."""

    username: str
    password: str | None = None
    password_file: str | None = None


class Authorization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token."""

    type: str = "Bearer"
    credentials: str | None = None
    credentials_file: str | None = None


class Tls(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom to trust, and with which certificate to sign in."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file may hold."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: Tls = Tls()
    proxy_url: str | None = None

    def secrets(self, folder: Path) -> Secrets:
        """Read the files that are named, relative to the folder of this one."""
        tls, certificate = self.tls_config, None
        if tls.cert_file is not None:
            certificate = _read(folder, tls.cert_file) + b"\n"
            certificate += _read(folder, tls.key_file or tls.cert_file)
        return Secrets(
            authorization=self._authorization(folder),
            certificate=certificate,
            authority=None if tls.ca_file is None else _read(folder, tls.ca_file),
        )

    def _authorization(self, folder: Path) -> str | None:
        if (basic := self.basic_auth) is not None:
            password = _secret(folder, basic.password, basic.password_file)
            pair = base64.b64encode(f"{basic.username}:{password}".encode()).decode()
            return f"Basic {pair}"
        if (given := self.authorization) is not None:
            token = _secret(folder, given.credentials, given.credentials_file)
            if not (token.isascii() and token.isprintable() and token):
                raise ConfigFault(f"No header can hold the token that {VARIABLE} gives.")
            return f"{given.type} {token}"
        return None


class ConfiguredUser:
    """Who signs in: a source of secrets for :class:`~.credentials.Credentials`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def secrets(self) -> Secrets:
        """Read the file and what it names; raises :class:`ConfigFault`."""
        config, folder = read(self._environ)
        return config.secrets(folder)

    def end(self) -> None:
        """Do nothing: there is nothing to wait for."""


def read(environ: Mapping[str, str]) -> tuple[HttpConfig, Path]:
    """Read the file, and say in which folder it lies; raises :class:`ConfigFault`."""
    path = environ.get(VARIABLE)
    if not path:
        return HttpConfig(), Path()
    folder = Path(path).expanduser().absolute().parent
    # Parsers quote what they stumble over, which may be a password.
    try:
        given = yaml.safe_load(_read(Path(), path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}"
        raise ConfigFault(f"{path} ({VARIABLE}) is not YAML{where}.") from None
    try:
        config = msgspec.convert(given or {}, HttpConfig)
    except msgspec.ValidationError as error:
        raise ConfigFault(f"{path} ({VARIABLE}) is not an HTTP configuration: {error}.") from None
    return config, folder


def _secret(folder: Path, given: str | None, file: str | None) -> str:
    if file is not None:
        return _read(folder, file).decode(errors="replace").strip()
    return given or ""


def _read(folder: Path, file: str) -> bytes:
    path = folder / Path(file).expanduser()
    try:
        return path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigFault(f"{path} cannot be read: {why}; {VARIABLE} names it.") from error
