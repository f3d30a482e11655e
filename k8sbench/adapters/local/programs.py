"""Which programs the local backend runs: k8sbench's own trainers, and what a user has confirmed.

On a cluster a container's command runs inside its image, behind the pod's walls. Here it would run
as the user, on the user's machine. So a plan must be of one of our trainers, from which planning
alone makes the command, and no variable may make that command load other code; or it is of the
user's own file, and the user has agreed to run its command here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import TRAINERS_MOUNT

_LOADING = re.compile(
    r"LD_(?!LIBRARY_PATH$).*|PYTHON(HOME|STARTUP|INSPECT|BREAKPOINT|USERBASE|PLATLIBDIR)"
    # torchrun takes every option from a variable, too; these change neither program nor job.
    r"|PET_(?!(MAX_RESTARTS|MONITOR_INTERVAL|RDZV_CONF|ROLE|LOG_DIR|REDIRECTS|TEE)$).*"
)
"""Variables that load other code into our program. LD_LIBRARY_PATH is the image's: left out."""


def check(plan: RunPlan, command: Sequence[str]) -> None:
    """Raise :class:`UsageError` unless ``command`` starts the trainer of ``plan`` with Python."""
    ours = {
        f"k8sbench.trainers.{plan.trainer}",
        f"{TRAINERS_MOUNT}/k8sbench/trainers/{plan.trainer}.py",
    }
    if plan.trainer is None or command[0] != "python3" or ours.isdisjoint(command):
        raise UsageError(
            "The local backend runs k8sbench's own trainers alone, not this command of"
            f" {plan.benchmark} ({plan.impl}): {' '.join(command)}",
            "Run it on a cluster, where it stays inside its image.",
        )


def is_own(plan: RunPlan) -> bool:
    """Whether the command is one of the user's own file, which the user must confirm."""
    return plan.impl == "user"


def home(plan: RunPlan) -> str | None:
    """Return where a command of the user's own starts: beside its file; None for our trainers."""
    return str(Path(plan.spec_source).absolute().parent) if is_own(plan) else None


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` if a variable of the manifest would change which code runs."""
    for name, value in variables.items():
        if _LOADING.fullmatch(name) or (name == "PYTHONPATH" and value != TRAINERS_MOUNT):
            raise UsageError(
                f"The local backend runs k8sbench's own trainers alone, and {name} would load"
                " other code.",
                f"Leave {name} out of the benchmark's env, or run it on a cluster.",
            )
