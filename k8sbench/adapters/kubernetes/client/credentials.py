"""How a user of a kubeconfig, or a pod's service account, signs in: the official client's loaders.

They know tokens, certificates, credential plugins and cloud providers, and take anew what
expires. What they say of a trouble they log, or raise in words of their own; here it becomes an
error of ours. When the API server refuses what they gave, or its certificate is not of the
authority that they name, everything is loaded once more: the kubeconfig may have been written anew.
Files that it names are read for each request.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from k8sbench.model.errors import Unreachable

if TYPE_CHECKING:
    from kubernetes.client import Configuration


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """What a request carries to say who asks, and whom it believes."""

    authorization: str | None = None
    """The header."""
    certificate: bytes | None = None
    """Client certificate and key, PEM."""
    authority: bytes | None = None
    """Who signs the API server's certificate, PEM; None: the system's authorities."""


class CredentialsFault(Unreachable):
    """There is nothing to sign in with: a file is missing, or a plugin failed."""


class Credentials:
    """The secrets of one user, kept fresh; any thread may ask."""

    def __init__(self, load: Callable[[], Configuration]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._configuration: Configuration | None = None

    def current(self) -> Secrets:
        """Return what to sign in with now; raises CredentialsFault."""
        with self._lock:
            return self._secrets()

    def renew(self, refused: Secrets) -> bool:
        """Take them anew after these were of no use; whether there are others now."""
        with self._lock:
            if self._secrets() == refused:
                self._configuration = None
            return self._secrets() != refused

    def _secrets(self) -> Secrets:
        with told():
            if self._configuration is None:
                self._configuration = self._load()
            found = self._configuration
            files = [Path(one) for one in (found.cert_file, found.key_file) if one]
            header = (found.get_api_key_with_prefix("authorization") or "").strip()
            return Secrets(
                authorization=header or None,
                certificate=b"\n".join(file.read_bytes() for file in files) or None,
                authority=Path(found.ssl_ca_cert).read_bytes() if found.ssl_ca_cert else None,
            )


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Turn what the official loaders raise, or only log, into :class:`CredentialsFault`."""
    from k8sbench.adapters.kubernetes.client.official import ConfigException

    heard = _Heard()
    # They use the root logger; without a handler of ours they would write to the terminal.
    logging.getLogger().addHandler(heard)
    try:
        yield
    except (ConfigException, OSError, ValueError) as wrong:
        raise _fault(str(wrong)) from wrong
    finally:
        logging.getLogger().removeHandler(heard)
    if heard.errors:
        raise _fault(heard.errors[-1])


class _Heard(logging.Handler):
    """Keeps the errors that were logged by this thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        if record.thread == self._thread:
            self.errors.append(record.getMessage())


def _fault(said: str) -> CredentialsFault:
    plugin = said.startswith("exec: ")
    what = "The credential plugin of the kubeconfig" if plugin else "The kubeconfig"
    fault = CredentialsFault(
        f"{what} gives nothing to sign in with: {said.removeprefix('exec: ').strip().rstrip('.')}.",
        "Sign in again, or mend the user's entry; kubectl shows the same fault.",
    )
    fault.cause_id = "unauthorized"
    return fault
