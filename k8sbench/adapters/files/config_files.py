"""Configuration files: ``k8sbench.toml`` of the user and of the project.

What their keys mean is the command line's: here they are values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.model.errors import InputError

NAME = "k8sbench.toml"
OFF = "K8SBENCH_NO_CONFIG"
"""The variable with which no configuration file is read."""


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file that was read."""

    path: str
    values: dict[str, Any]

    def table(self, command: str | None) -> dict[str, Any]:
        """Return the values that are for one command; None: those that are for all."""
        if command is None:
            return {key: value for key, value in self.values.items() if not isinstance(value, dict)}
        # An option may have the name of a command: pools = "pools.yaml".
        table = self.values.get(command)
        return table if isinstance(table, dict) else {}


def load(environ: Mapping[str, str]) -> tuple[ConfigFile, ...]:
    """Read the project's and the user's file, as far as there are any; the first wins.

    Raises :class:`InputError` for one that cannot be read or understood.
    """
    return tuple(_read(path) for path in paths(environ))


def paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Find the files: the project's in the working folder or the nearest above, and the user's."""
    if environ.get(OFF):
        return ()
    paths = [path for path in (_project(), of_user(environ)) if path is not None]
    return tuple(dict.fromkeys(paths))


def _project() -> Path | None:
    try:
        here = Path.cwd()
    except OSError:  # the working folder is gone
        return None
    above = (folder / NAME for folder in (here, *here.parents))
    return next(filter(os.path.lexists, above), None)  # an unreadable one is an error


def of_user(environ: Mapping[str, str], name: str = NAME) -> Path | None:
    """Find a file of the user's configuration folder; None: there is none."""
    # The XDG specification says to ignore a path that is not absolute.
    folder = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        folder = Path(environ.get("HOME", ""), ".config")
    path = folder / "k8sbench" / name
    return path if path.is_absolute() and os.path.lexists(path) else None


def _read(path: Path) -> ConfigFile:
    import tomllib

    from k8sbench.adapters.files import strict_yaml

    try:
        return ConfigFile(path=str(path), values=tomllib.loads(strict_yaml.read_text(str(path))))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"It is not TOML: {error}.", "Correct it.", file=str(path)) from error
