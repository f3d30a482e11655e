"""The file of ``--plot``: checked before anything is computed, written at the end."""

from __future__ import annotations

from pathlib import Path

from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError


def format_of(plot: str) -> str:
    """Return the format that a file's name asks for."""
    from k8sbench.report.plot import FORMATS

    picture_format = Path(plot).suffix.removeprefix(".").lower()
    if picture_format not in FORMATS:
        raise UsageError(
            f"--plot {plot!r} has no known ending.", f"End it in .{', .'.join(FORMATS)}."
        )
    return picture_format


def write(plot: str, data: bytes) -> None:
    """Write a picture, and say so."""
    try:
        Path(plot).write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"Cannot write {plot}: {error.strerror}.", "Give a file in a folder that exists."
        ) from error
    output.note(f"plot: {plot}")
