"""Credentials of a kubeconfig's user or a pod's service account.

The official client's loaders support tokens, certificates, credential plugins and cloud providers,
and renew what expires. Their errors, which they log or raise, become :class:`CredentialsFault`.
When the API server rejects the credentials, or its certificate is not of the given authority,
everything is loaded once more, since the kubeconfig may have changed. The files that it names are
read for each request.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from k8sbench.adapters.kubernetes.client.official import ConfigException, Configuration
from k8sbench.model.errors import Unreachable


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is signed with, and the authority that it trusts."""

    authorization: str | None = None
    """The HTTP header."""
    certificate: bytes | None = None
    """Client certificate and key, PEM."""
    authority: bytes | None = None
    """Authority of the API server's certificate, PEM; None: the system's authorities."""


class CredentialsFault(Unreachable):
    """There are no credentials: a file is missing, or a plugin failed."""


class Credentials:
    """The secrets of one user, renewed when they expire; any thread may call."""

    def __init__(self, load: Callable[[], Configuration]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._configuration: Configuration | None = None

    def current(self) -> Secrets:
        """Return valid secrets; raises CredentialsFault."""
        with self._lock:
            return self._secrets()

    def renew(self, refused: Secrets) -> bool:
        """Load the secrets again after these were refused; return whether they have changed."""
        with self._lock:
            if self._secrets() == refused:
                self._configuration = None
            return self._secrets() != refused

    def _secrets(self) -> Secrets:
        with translated_errors():
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
def translated_errors() -> Iterator[None]:
    """Raise what the official loaders raise, or only log, as :class:`CredentialsFault`."""
    log = _ErrorLog()
    # They use the root logger; without a handler it would write to the terminal.
    logging.getLogger().addHandler(log)
    try:
        yield
    except (ConfigException, OSError, ValueError) as error:
        raise _fault(str(error)) from error
    finally:
        logging.getLogger().removeHandler(log)
    if log.errors:
        raise _fault(log.errors[-1])


class _ErrorLog(logging.Handler):
    """Keeps the errors that this thread logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error."""
        if record.thread == self._thread:
            self.errors.append(record.getMessage())


def _fault(message: str) -> CredentialsFault:
    plugin = message.startswith("exec: ")
    what = "The credential plugin of the kubeconfig" if plugin else "The kubeconfig"
    fault = CredentialsFault(
        f"{what} gives no credentials: {message.removeprefix('exec: ').strip().rstrip('.')}.",
        "Sign in again, or mend the user's entry; kubectl shows the same fault.",
    )
    fault.cause_id = "unauthorized"
    return fault
