"""JSON files of a store: encoding, decoding, and the version of a document."""

from __future__ import annotations

import contextlib
from typing import TypeVar

import msgspec

from k8sbench.json_decoders import decoder
from k8sbench.model.errors import StoreError
from k8sbench.model.measurement import SCHEMA

_T = TypeVar("_T")

DAMAGED_OR_OTHER = "It was damaged, or written by another version of k8sbench."


class _Version(msgspec.Struct, frozen=True):
    schema: int = SCHEMA


def decode_json(
    data: bytes | str, kind: type[_T], source: object, action: str = DAMAGED_OR_OTHER
) -> _T:
    """Decode JSON of k8sbench; raises :class:`StoreError` if damaged or of a newer version."""
    try:
        value = decoder(kind).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            _check_version(decoder(_Version).decode(data), source)
        raise StoreError(f"{source} cannot be read: {error}.", action) from error
    _check_version(value, source)
    return value


def _check_version(value: object, where: object) -> None:
    schema = getattr(value, "schema", SCHEMA)
    if schema > SCHEMA:
        raise StoreError(
            f"{where} has schema {schema}; this version of k8sbench reads up to {SCHEMA}.",
            "Upgrade k8sbench.",
        )


def encode_json(value: msgspec.Struct) -> bytes:
    """Encode as JSON; refuse values that cannot be read back.

    For example NaN for a required figure.
    """
    try:
        text = msgspec.json.encode(value)
        decoder(type(value)).decode(text)
    except (msgspec.MsgspecError, UnicodeError, OverflowError) as error:
        raise StoreError(
            f"A {type(value).__name__} holds what JSON cannot: {error}.",
            "This is a fault of k8sbench, or of a name that is no valid text.",
        ) from error
    return text


def encode_file(value: msgspec.Struct) -> bytes:
    """Encode a file of JSON."""
    return msgspec.json.format(encode_json(value), indent=2) + b"\n"
