"""HTTP client of a Prometheus at its own address.

A part of promtool's configuration says whom to trust and what to send. Only GET is used. The
configuration and its files are read for each request, because tokens are renewed.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
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


class Authorization(_Part, frozen=True):
    """A bearer token, in a file."""

    credentials_file: str


class Tls(_Part, frozen=True):
    """Whom to trust."""

    ca_file: str


class Header(_Part, frozen=True):
    """Values of one header: literal, or from one file each."""

    values: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class HttpConfig(_Part, frozen=True):
    """Content of the file."""

    authorization: Authorization | None = None
    tls_config: Tls | None = None
    http_headers: dict[str, Header] = {}

    def headers(self, folder: Path) -> urllib3.HTTPHeaderDict:
        """Return the headers of a request; reads the files that they name."""
        headers = urllib3.HTTPHeaderDict({"User-Agent": "k8sbench"})
        for name, one in self.http_headers.items():
            for value in (*one.values, *(_read(folder, file) for file in one.files)):
                headers.add(name, value)
        if self.authorization is not None:
            token = _read(folder, self.authorization.credentials_file)
            headers["Authorization"] = f"Bearer {token}"
        return headers


class Server:
    """A Prometheus at an address; any thread may ask."""

    def __init__(self, url: str) -> None:
        """Raises :class:`ConfigFault`."""
        self.place = Location(server=url.rstrip("/"), namespace="")
        _read_config()

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
        config, folder = _read_config()
        tls, proxy = config.tls_config, proxy_for(url, os.environ)
        ca = None if tls is None else str(folder / Path(tls.ca_file).expanduser())
        connect_s = min(seconds, transport.QUICK_CONNECT_SECONDS)
        try:
            made = urllib3.ProxyManager(proxy, ca_certs=ca) if proxy else None
            with made or urllib3.PoolManager(ca_certs=ca) as pool:
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


def _read_config() -> tuple[HttpConfig, Path]:
    """Read the file and its folder; raises :class:`ConfigFault`."""
    path = os.environ.get(VARIABLE)
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


def _read(folder: Path, file: str) -> str:
    path = folder / Path(file).expanduser()
    try:
        return path.read_text(errors="replace").strip()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ConfigFault(f"{path} cannot be read: {why}; {VARIABLE} names it.") from error
