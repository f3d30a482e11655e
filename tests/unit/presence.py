"""Narrows optional values that a test knows are present."""

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value; it fails where there is none."""
    assert value is not None
    return value
