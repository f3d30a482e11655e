"""What can go wrong, as the user meets it.

Each error carries one sentence on what is wrong and one on what to do, and the exit code of the
command that meets it. Adapters translate foreign errors into these and chain the cause.

::

    BenchError                 1   an internal error, or one of its kinds below
    ├── EarlierAttempt         1   the next attempt of a run waits for the one before to be gone
    ├── UsageError             2   the command, a flag or an option is wrong
    │   ├── InputError         2   a file that was given cannot be read or understood
    │   ├── NotFound           2   no such benchmark, run, set or pool
    │   ├── DoesNotFit         2   the pool or the machine is too small for the case
    │   ├── NoRoom             2   a quota that other jobs fill has no room for the job now
    │   ├── PlanUnreadable     2   a job of the cluster whose plan cannot be read
    │   └── OwnedElsewhere     2   another store owns the job, and alone acts on it
    ├── StoreError             1   the store cannot be opened, read or written
    │   ├── RepeatTaken        1   (set, case, repeat) exists already: draw the next and try again
    │   └── FilesElsewhere     1   the run is recorded, its files lie in another place
    ├── JobFailed              3   the job ran and failed, or can never start
    ├── TimedOut               4   the run outlived its --timeout
    ├── Unreachable            6   the cluster cannot be reached or is not ready
    │   ├── NamedNotThere      6   a kubeconfig or a context was named that does not exist
    │   └── CreationUnknown    6   the answer to a creation was lost: the object may exist
    └── Interrupted          130   Ctrl-C or SIGTERM
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BenchError(Exception):
    """Base of all our errors: ``message`` says what is wrong, ``action`` what to do about it."""

    exit_code = 1
    cause_id: str | None = None
    """Stable identifier of what is wrong (``operator-down``), where it has one."""

    def __init__(self, message: str, action: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.action = action

    def __str__(self) -> str:
        return f"{self.message} {self.action}".rstrip()


class UsageError(BenchError):
    """The command cannot be carried out as typed."""

    exit_code = 2


class InputError(UsageError):
    """A file was given that cannot be read or understood; names the file, and the line if known."""

    def __init__(
        self, message: str, action: str = "", *, file: str | None = None, line: int | None = None
    ) -> None:
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + message, action)
        self.file = file
        self.line = line


class NotFound(UsageError):
    """A name was given that stands for nothing; the action lists the nearest names."""


class DoesNotFit(UsageError):
    """The pool or the machine cannot hold the case, also when nothing else runs there."""


class NoRoom(UsageError):
    """The job was not created because a quota has no room for it now; it has when others end."""


class EarlierAttempt(BenchError):
    """Something of a run's earlier attempt is still on the cluster; the next one waits for it."""


class PlanUnreadable(UsageError):
    """A run is known from its job alone, and the plan in the job's annotation cannot be read."""

    def __init__(self, run_id: str, why: str, removal: str) -> None:
        """``removal`` is the command that deletes the job."""
        action = "Use the k8sbench that submitted it, or delete the job with:"
        super().__init__(why, f"{action} {removal}")
        self.run_id = run_id


class OwnedElsewhere(UsageError):
    """Another store owns a job: only that one changes and deletes it."""

    def __init__(self, run_id: str, holder: str, what: str = "collects it") -> None:
        action = f"Follow it with: k8sbench watch {run_id}; take it over with:"
        super().__init__(
            f"The job of {run_id} is {holder}'s, which {what}.",
            f"{action} k8sbench collect --adopt {run_id}",
        )


class StoreError(BenchError):
    """The store or the artifacts folder cannot be opened, read or written."""


class RepeatTaken(StoreError):
    """Another process recorded this (set, case, repeat) first; the caller draws the next repeat."""


class FilesElsewhere(StoreError):
    """What was asked needs a run's files, and they do not lie under this store's root."""


class JobFailed(BenchError):
    """The job ran and failed, or cannot ever start."""

    exit_code = 3


class TimedOut(BenchError):
    """The run outlived its time limit."""

    exit_code = 4


class Unreachable(BenchError):
    """The cluster does not answer, or is not ready for the job."""

    exit_code = 6


class NamedNotThere(Unreachable):
    """A kubeconfig or a context was named that does not exist; nothing runs elsewhere instead."""


class CreationUnknown(Unreachable):
    """The cluster did not say whether a job was created, or what was created for it is left."""


class Interrupted(BenchError):
    """The user or the system asked k8sbench to stop."""

    exit_code = 130


REJECTED_EXIT_CODE = 5
"""Measured, but rejected: not an error of the program, so not an exception."""
REGRESSION_EXIT_CODE = 7
"""Measured, and slower than it should be: a node than its pool, or a figure than its baseline."""
UNDECIDED_EXIT_CODE = 9
"""A comparison with a limit has too few runs to ever show a regression."""
NOT_REACHED_EXIT_CODE = 8
"""A training that ended well, and has not reached its target accuracy."""


def is_refused(error: BenchError) -> bool:
    """Whether a cluster answered that it does not do what was asked: asking again is no use."""
    return not isinstance(error, Unreachable) or error.cause_id == "forbidden"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Write ``Did you mean …? `` for the beginning of an action; empty where nothing is near."""
    alike = {candidate.lower().replace("-", "_"): candidate for candidate in known}
    near = difflib.get_close_matches(word.lower().replace("-", "_"), alike, n=1)
    return f"Did you mean {alike[near[0]]}? " if near else ""
