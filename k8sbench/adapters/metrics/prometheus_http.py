"""HTTP client of a Prometheus at its own address.

Configured like promtool. Only GET is used. The configuration and its files are read for each
request, because tokens and certificates are renewed.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3

from k8sbench.adapters.kubernetes.client import faults, transport
from k8sbench.adapters.kubernetes.client.connection import proxy_for
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import InputError
from k8sbench.model.run import Location

VARIABLE = "K8SBENCH_PROMETHEUS_CONFIG"
"""The environment variable that names the file."""


class ConfigFault(InputError):
    """Invalid configuration; the sentence shows none of its content."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the configuration."""


class BasicAuth(_Part, frozen=True):
    """A name and a password."""

    username: str
    password: str | None = None
    password_file: str | None = None


class Authorization(_Part, frozen=True):
    """A token."""

    type: str = "Bearer"
    credentials: str | None = None
    credentials_file: str | None = None


class Tls(_Part, frozen=True):
    """Whom to trust, and with which certificate to sign in."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


class Header(_Part, frozen=True):
    """Values of one header: literal, or from one file each."""

    values: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class HttpConfig(_Part, frozen=True):
    """Content of the file."""

    basic_auth: BasicAuth | None = None
    authorization: Authorization | None = None
    tls_config: Tls = Tls()
    proxy_url: str | None = None
    http_headers: dict[str, Header] = {}

    def headers(self, folder: Path) -> urllib3.HTTPHeaderDict:
        """Return the headers of a request; reads the files that they name."""
        headers = urllib3.HTTPHeaderDict({"User-Agent": "k8sbench"})
        for name, one in self.http_headers.items():
            for value in (*one.values, *one.secrets, *(_read(folder, file) for file in one.files)):
                headers.add(name, value)
        if (basic := self.basic_auth) is not None:
            password = _secret(folder, basic.password, basic.password_file)
            pair = base64.b64encode(f"{basic.username}:{password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        if (given := self.authorization) is not None:
            token = _secret(folder, given.credentials, given.credentials_file)
            headers["Authorization"] = f"{given.type} {token}"
        return headers

    def pool(self, folder: Path, proxy: str | None) -> urllib3.PoolManager:
        """Make connections with its certificates; raises urllib3's errors."""
        tls = self.tls_config
        files = {"ca_certs": tls.ca_file, "cert_file": tls.cert_file, "key_file": tls.key_file}
        options: dict[str, Any] = {
            name: str(folder / Path(file).expanduser()) for name, file in files.items() if file
        }
        if tls.server_name:
            options["server_hostname"] = tls.server_name
        if tls.insecure_skip_verify:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            options["cert_reqs"] = "CERT_NONE"
        if proxy is None:
            return urllib3.PoolManager(**options)
        return urllib3.ProxyManager(proxy, **options)


class Server:
    """A Prometheus at an address; any thread may ask."""

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        """Raises :class:`ConfigFault`."""
        self.place = Location(server=url.rstrip("/"), namespace="")
        self._environ = environ
        _read_config(environ)

    def read(self, path: str, seconds: float, *, retry_s: float, **query: str) -> bytes:
        """Return a whole answer, which must come in time; raises :class:`.ApiFault`.

        A server that starts or is busy is asked again for ``retry_s``.
        """
        until, pause = time.monotonic() + retry_s, 0.2
        while True:
            try:
                return self._get(f"{self.place.server}{path}?{urlencode(query)}", seconds)
            except ApiFault as fault:
                left = until - time.monotonic()
                if not fault.passes or left <= 0:
                    raise
                time.sleep(min(fault.retry_after or pause, left))
            pause *= 2

    def _get(self, url: str, seconds: float) -> bytes:
        config, folder = _read_config(self._environ)
        proxy = config.proxy_url or proxy_for(url, self._environ)
        connect_s = min(seconds, transport.QUICK_CONNECT_SECONDS)
        try:
            with config.pool(folder, proxy) as pool:
                transport.connect_within_limits(pool)
                response = pool.request(
                    "GET",
                    url,
                    headers=config.headers(folder),
                    timeout=urllib3.Timeout(connect=connect_s, read=seconds),
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
                if response.status >= 300:
                    raise transport.refusal(response, seconds)
                return transport.read(response, seconds, proxy)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise faults.from_transport(error, proxy) from error
        except ValueError:  # not shown: it quotes the header
            raise ConfigFault(
                f"No header can hold a token or value that {VARIABLE} gives."
            ) from None


def _read_config(environ: Mapping[str, str]) -> tuple[HttpConfig, Path]:
    """Read the file and its folder; raises :class:`ConfigFault`."""
    path = environ.get(VARIABLE)
    if not path:
        return HttpConfig(), Path()
    folder = Path(path).expanduser().absolute().parent
    try:
        text = _read(Path(), path)
        return msgspec.yaml.decode(text, type=HttpConfig | None) or HttpConfig(), folder
    except msgspec.ValidationError as error:
        why = str(error).replace(
            "Object contains unknown field", "k8sbench does not support the key"
        )
        raise ConfigFault(f"{path} ({VARIABLE}) cannot be used: {why}.") from None
    except msgspec.DecodeError:  # not shown: parsers quote what they stumble over, as a password
        raise ConfigFault(f"{path} ({VARIABLE}) is not YAML.") from None


def _secret(folder: Path, given: str | None, file: str | None) -> str:
    return _read(folder, file) if file is not None else given or ""


def _read(folder: Path, file: str) -> str:
    path = folder / Path(file).expanduser()
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigFault(f"{path} cannot be read: {why}; {VARIABLE} names it.") from error
