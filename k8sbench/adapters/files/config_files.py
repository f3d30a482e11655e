"""Configuration files: ``k8sbench.toml`` of the user and of the project, and where a key stands.

What their keys mean is the command line's: here they are values with a place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.model.errors import InputError

NAME = "k8sbench.toml"
OFF = "K8SBENCH_NO_CONFIG"
"""The variable with which no configuration file is read."""
LARGEST = 1 << 20
"""Bytes; a larger file is something else."""


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was read."""

    path: str
    text: str
    values: dict[str, Any]

    def line_of(self, *keys: str) -> int | None:
        """Return the line on which a key begins: ``line_of("submit", "repeats")``."""
        import tomllib

        lines, begins = self.text.splitlines(), 1
        for number in range(1, len(lines) + 1):
            # What is cut in the middle of a value is no TOML; the key then begins further up.
            try:
                found: Any = tomllib.loads("\n".join(lines[:number]) + "\n")
            except tomllib.TOMLDecodeError:
                continue
            for key in keys:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                return begins
            begins = number + 1
        return None


def load(environ: Mapping[str, str]) -> tuple[ConfigFile, ...]:
    """Read the project's and the user's file, as far as there are any; the first wins.

    Raises :class:`InputError` for one that cannot be read or understood.
    """
    return tuple(_read(path) for path in paths(environ))


def paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Find the files: the project's in the working folder or the nearest above, and the user's."""
    if environ.get(OFF):
        return ()
    found = [path for path in (_project(), _user(environ)) if path is not None]
    return tuple(dict.fromkeys(found))


def _project() -> Path | None:
    try:
        here = Path.cwd()
    except OSError:  # the working folder is gone
        return None
    above = (folder / NAME for folder in (here, *here.parents))
    return next(filter(os.path.lexists, above), None)  # an unreadable one is an error


def _user(environ: Mapping[str, str]) -> Path | None:
    # The XDG specification says to ignore a path that is not absolute.
    folder = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        folder = Path(environ.get("HOME", ""), ".config")
    path = folder / "k8sbench" / NAME
    return path if path.is_absolute() and os.path.lexists(path) else None


def _read(path: Path) -> ConfigFile:
    import tomllib

    file = str(path)
    try:
        with path.open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise InputError("It is larger than 1 MiB.", "Is it a configuration file?", file=file)
        text = data.decode()
        return ConfigFile(path=file, text=text, values=tomllib.loads(text))
    except OSError as wrong:
        raise InputError(
            f"The configuration file cannot be read: {str(wrong.strerror).lower()}.",
            f"Make it readable, or set {OFF}=1.",
            file=file,
        ) from wrong
    except UnicodeDecodeError as wrong:
        raise InputError("It is not UTF-8.", "Save it as UTF-8.", file=file) from wrong
    except tomllib.TOMLDecodeError as wrong:
        what, line = next(_places(str(wrong)))
        raise InputError(f"It is not TOML: {what}.", "Correct it.", file=file, line=line) from wrong


def _places(message: str) -> Iterator[tuple[str, int | None]]:
    """Split what the parser says into the fault and its line."""
    found = re.fullmatch(r"(.*?) \(at line (\d+), column (\d+)\)", message)
    if found:
        yield f"{found[1]} (column {found[3]})", int(found[2])
    yield message.removesuffix(" (at end of document)"), None
