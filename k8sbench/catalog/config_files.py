"""Configuration files: ``k8sbench.toml`` of the user and of the project.

The keys are plain values here; the command line gives them their meaning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k8sbench.model.errors import InputError

NAME = "k8sbench.toml"
OFF = "K8SBENCH_NO_CONFIG"
"""The variable with which no configuration file is read."""


def load(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Read the project's and the user's configuration, by path.

    Raises :class:`InputError` for a file that cannot be read or understood.
    """
    return {str(path): _read(str(path)) for path in paths(environ)}


def paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the paths of the existing configuration files.

    The project's is in the working folder or the nearest one above; then comes the user's.
    """
    if environ.get(OFF):
        return ()
    return tuple(
        path for path in (_find_project_file(), find_user_file(environ)) if path is not None
    )


def _find_project_file() -> Path | None:
    try:
        working_folder = Path.cwd()
    except OSError:  # the working folder is gone
        return None
    above = (folder / NAME for folder in (working_folder, *working_folder.parents))
    return next(filter(os.path.lexists, above), None)  # an unreadable one is an error


def find_user_file(environ: Mapping[str, str], name: str = NAME) -> Path | None:
    """Return a file of the user's configuration folder; None without one."""
    # The XDG specification says to ignore a path that is not absolute.
    folder = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        folder = Path(environ.get("HOME", ""), ".config")
    path = folder / "k8sbench" / name
    return path if path.is_absolute() and os.path.lexists(path) else None


def _read(path: str) -> dict[str, Any]:
    import tomllib

    from k8sbench.catalog import strict_yaml

    try:
        return tomllib.loads(strict_yaml.read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"It is not TOML: {error}.", "Correct it.", file=path) from error
