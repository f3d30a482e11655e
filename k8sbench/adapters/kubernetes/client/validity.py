"""From when until when a certificate is valid.

The ssl module decodes no certificate but one that was verified, so that the two times are read from
its DER: RFC 5280, 4.1.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import NamedTuple

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


class Validity(NamedTuple):
    """The first and the last moment, Unix seconds."""

    begins: float
    ends: float

    def wrong(self, now: float) -> str | None:
        """Say what is wrong with a certificate at ``now``; None: it is valid."""
        clock = f"this machine's clock shows {shown(now)}"
        if now < self.begins:
            return f"is valid only from {shown(self.begins)}, and {clock}"
        return f"expired at {shown(self.ends)}, and {clock}" if now > self.ends else None


def of(certificate: bytes | None) -> Validity | None:
    """Return the validity of a certificate, of several in PEM the first; None: it is none."""
    if certificate is None:
        return None
    try:
        if (pem := _PEM.search(certificate)) is not None:
            certificate = base64.b64decode(pem[1])
        body = _inside(_inside(certificate, _SEQUENCE), _SEQUENCE)
        if body[0] == _VERSION:
            body = _after(body)
        for _ in ("serialNumber", "signature", "issuer"):
            body = _after(body)
        times = _inside(body, _SEQUENCE)
        return Validity(_moment(times), _moment(_after(times)))
    except (IndexError, ValueError):
        return None


def shown(at: float) -> str:
    """Write a time as messages have it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _bounds(der: bytes) -> tuple[int, int]:
    """Return where the contents of the first element begin and end."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start], "big")
    if start + length > len(der):
        raise ValueError("the element is not whole")
    return start, start + length


def _inside(der: bytes, tag: int) -> bytes:
    if der[0] != tag:
        raise ValueError(f"an element of {der[0]:#x} instead of {tag:#x}")
    start, end = _bounds(der)
    return der[start:end]


def _after(der: bytes) -> bytes:
    return der[_bounds(der)[1] :]


def _moment(der: bytes) -> float:
    text = _inside(der, der[0]).decode("ascii")
    if der[0] == _UTC_TIME:
        # Two digits of the year: 50 to 99 are of the last century.
        text = ("19" if text >= "50" else "20") + text
    elif der[0] != _GENERALIZED_TIME:
        raise ValueError(f"an element of {der[0]:#x} instead of a time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
