"""Which commands the local backend runs: k8sbench's own trainers, and nothing else.

On a cluster a container's command runs inside its image, behind the pod's walls. Here it would run
as the user, on the user's machine. So the command must be Python with one of our trainers, started
directly or by a launcher that is named here; a benchmark's own command, the published program's or
a stranger's, never runs, whatever the catalog says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from k8sbench.adapters.local.manifest import Mount
from k8sbench.model.errors import UsageError
from k8sbench.model.planning import TRAINERS_MOUNT

_PYTHON = frozenset({"python", "python3"})
_MODULE = re.compile(r"k8sbench\.trainers\.[a-z_][a-z0-9_]*")
_FILE = re.compile(rf"{TRAINERS_MOUNT}/k8sbench/trainers/([a-z_][a-z0-9_]*)\.py")
_LAUNCHER = re.compile(r"[a-z0-9_]+_launch")
"""Trainers' files that start another one, which their first argument names."""
_TORCHRUN = "torch.distributed.run"
_TORCHRUN_OPTIONS = frozenset(
    {
        *("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "local-addr"),
        *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts", "role"),
        *("monitor-interval", "log-dir", "redirects", "tee", "local-ranks-filter"),
    }
)
"""Options of torchrun that do not change which program runs. ``--no-python`` is not one of them."""


_TORCHRUN_VARIABLES = "PET_"
"""torchrun takes every option from a variable of this prefix too."""
_LOADING = re.compile(
    r"LD_(?!LIBRARY_PATH$).*|PYTHON(HOME|STARTUP|INSPECT|BREAKPOINT|USERBASE|PLATLIBDIR)"
)
"""Variables that load other code into our program. LD_LIBRARY_PATH is the image's: left out."""


def check(command: Sequence[str], mounts: Iterable[Mount]) -> None:
    """Raise :class:`UsageError` unless ``command`` is one of our trainers, from our sources."""
    if not command or command[0] not in _PYTHON or not _is_trainer(list(command[1:])):
        raise UsageError(
            "The local backend runs k8sbench's own trainers alone, not this command: "
            f"{' '.join(command) or 'none'}",
            "Run it on a cluster, where it stays inside its image.",
        )
    for mount in mounts:
        path, root = f"{mount.path.rstrip('/')}/", f"{TRAINERS_MOUNT}/"
        if mount.kind != "files" and (path.startswith(root) or root.startswith(path)):
            raise UsageError(
                f"Volume {mount.volume} would stand in the place of k8sbench's trainers"
                f" ({mount.path}).",
                "Mount it elsewhere.",
            )


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` if a variable of the manifest would change which code runs."""
    for name, value in variables.items():
        option = name.removeprefix(_TORCHRUN_VARIABLES).lower().replace("_", "-")
        if (
            _LOADING.fullmatch(name)
            or (name.startswith(_TORCHRUN_VARIABLES) and option not in _TORCHRUN_OPTIONS)
            or (name == "PYTHONPATH" and value != TRAINERS_MOUNT)
        ):
            raise UsageError(
                f"The local backend runs k8sbench's own trainers alone, and {name} would load"
                " other code.",
                f"Leave {name} out of the benchmark's env, or run it on a cluster.",
            )


def _is_trainer(words: list[str]) -> bool:
    if words[:2] == ["-m", _TORCHRUN]:
        words = _without_torchrun_options(words[2:])
    if not words:
        return False
    if words[0] == "-m":
        return len(words) > 1 and _MODULE.fullmatch(words[1]) is not None
    file = _FILE.fullmatch(words[0])
    if file is not None and _LAUNCHER.fullmatch(file[1]):
        return _is_trainer(words[1:2])
    return file is not None


def _without_torchrun_options(words: list[str]) -> list[str]:
    while words and words[0].startswith("--"):
        name, equals, _ = words[0][2:].partition("=")
        # Full names alone: torchrun would take `--no-py` for `--no-python`.
        if name.replace("_", "-") not in _TORCHRUN_OPTIONS:
            return []
        words = words[1:] if equals else words[2:]
    return words
