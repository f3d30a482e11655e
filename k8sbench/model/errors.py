"""User-facing errors with their exit codes, and findings.

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
    │   ├── QueryRefused       2   the operator refuses a query, such as half an id
    │   ├── PlanUnreadable     2   a job of the cluster whose plan cannot be read
    │   └── OwnedElsewhere     2   another store owns the job, and alone acts on it
    ├── StoreError             1   the store cannot be opened, read or written
    │   └── RepeatTaken        1   (set, case, repeat) exists already: draw the next and try again
    ├── JobFailed              3   the job ran and failed, or can never start
    ├── TimedOut               4   the run outlived its --timeout
    ├── Unreachable            6   the cluster cannot be reached or is not ready
    │   ├── NamedNotThere      6   a kubeconfig or a context was named that does not exist
    │   └── CreationUnknown    6   the answer to a creation was lost: the object may exist
    └── Interrupted          130   Ctrl-C or SIGTERM
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from k8sbench import messages
from k8sbench.messages import Note, note, quoted
from k8sbench.model.masking import mask_fields, mask_note, masked
from k8sbench.model.plain_text import readable
from k8sbench.model.sample import Place

FEW = 5
"""Maximum names that an error lists before it counts the rest."""


class BenchError(Exception):
    """Base class of all user-facing errors.

    ``message`` says what is wrong, ``action`` what to do about it. Both are masked, because they
    may quote a log, an answer of a server or an option.
    """

    exit_code = 1
    cause_id: str | None = None
    """Stable id of the cause (``operator-down``); None without one."""

    def __init__(self, message: Note | str, action: str = "") -> None:
        self._note = mask_note(message) if isinstance(message, Note) else None
        self.message = masked(message if isinstance(message, str) else messages.text("en", message))
        self.action = masked(action)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.action}".rstrip()

    @property
    def note(self) -> Note:
        """The problem as a message."""
        return self._note or quoted(self.message)


class UsageError(BenchError):
    """The command cannot be carried out as typed."""

    exit_code = 2


FIRST_RUN = "Make the first: k8sbench submit BENCHMARK, or of existing logs k8sbench import LOG."
"""Action for a store without runs."""


class InputError(UsageError):
    """A given file cannot be read or understood.

    The message names the file, and the line if it is known.
    """

    def __init__(
        self,
        message: Note | str,
        action: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        file = None if file is None else readable(file)
        place = file if line is None else f"{file}:{line}"
        if place is not None and isinstance(message, Note):
            message = note("of-file", place=place, problem=message)
        elif place is not None:
            message = f"{place}: {message}"
        super().__init__(message, action)
        self.file = file
        self.line = line


class NotFound(UsageError):
    """No object has the given name.

    The action lists the nearest names.
    """


class NoSide(NotFound):
    """A side of a comparison names nothing in the store."""

    def __init__(self, message: str, action: str, side: str) -> None:
        super().__init__(message, action)
        self.side = side
        """All that the user wrote for the side."""


class QueryRefused(UsageError):
    """The operator refuses a query, such as an id that several runs begin with."""


class DoesNotFit(UsageError):
    """The pool or the machine is too small for the case."""


class NoRoom(UsageError):
    """A quota has no room for the job now.

    It has room once other jobs end. The job was not created.
    """


class EarlierAttempt(BenchError):
    """The next attempt waits until the previous one is gone."""


class PlanUnreadable(UsageError):
    """The plan in a job's annotation cannot be read."""

    def __init__(self, run_id: str, why: str, removal: str) -> None:
        """``removal`` is the command that deletes the job."""
        action = "Use the k8sbench that submitted it, or delete the job with:"
        super().__init__(why, f"{action} {removal}")
        self.run_id = run_id


class OwnedElsewhere(UsageError):
    """Another store owns the job.

    Only its owner changes and deletes a job.
    """

    def __init__(self, run_id: str, holder: str) -> None:
        super().__init__(
            f"The job of {run_id} belongs to {holder}.",
            f"Act there, or take it over with: k8sbench collect --take-over {run_id}",
        )


class StoreError(BenchError):
    """The store cannot be opened, read or written."""


class RepeatTaken(StoreError):
    """Another process has recorded this (set, case, repeat).

    The caller draws the next repeat.
    """


class JobFailed(BenchError):
    """The job ran and failed, or cannot ever start."""

    exit_code = 3


class TimedOut(BenchError):
    """The run outlived its time limit."""

    exit_code = 4


class Unreachable(BenchError):
    """The cluster does not answer or is not ready."""

    exit_code = 6


class OperatorLost(Unreachable):
    """The operator of a namespace does not answer, or not any more."""


class NamedNotThere(Unreachable):
    """The named kubeconfig or context does not exist.

    k8sbench does not fall back to another one.
    """


class CreationUnknown(Unreachable):
    """The outcome of a job's creation is unknown.

    The answer was lost, or objects created for the job remain.
    """


class Interrupted(BenchError):
    """The user or the system asked k8sbench to stop."""

    exit_code = 130


REJECTED_EXIT_CODE = 5
"""Measured, but rejected. Not an exception, because the program worked."""
REGRESSION_EXIT_CODE = 7
"""Measured, and slower than its reference: a node's pool, or a baseline."""
UNDECIDED_EXIT_CODE = 9
"""The runs of a comparison cannot show a change as large as its limit."""
NOT_REACHED_EXIT_CODE = 8
"""A training ended without reaching its target accuracy."""


def is_refused(error: BenchError) -> bool:
    """True if the cluster refused the request, so that a retry is useless."""
    return not isinstance(error, Unreachable) or error.cause_id == "forbidden"


OF_NAMESPACE = frozenset({"namespace-missing", "namespace-terminating"})
"""Cause ids of refusals of everything in a namespace."""
ADMISSION_DENIED = "admission-denied"
"""Cause id of a refusal by an admission rule, of one job or of all."""
JOB_DENIED = "job-denied"
"""Cause id of a refusal of one job, at a place that takes others."""
OF_ONE_JOB = frozenset({JOB_DENIED, "operator-missing"})
"""Cause ids of refusals of one job that may pass.

A rule may be changed, and an operator installed.
"""
OF_JOB_OR_PLACE = OF_ONE_JOB | {
    ADMISSION_DENIED,
    "webhook-down",
    "forbidden",
    "forbidden-to-all",
}
"""Cause ids of answers that refuse one job, or all: what else the place takes shows which."""


def is_of_place(error: BenchError) -> bool:
    """True if the place is to be repaired, not the job: other jobs would meet the error, too."""
    return isinstance(error, Unreachable) or error.cause_id in OF_NAMESPACE


def may_pass(error: BenchError) -> bool:
    """True if the same job may be created later."""
    return is_of_place(error) or error.cause_id in OF_JOB_OR_PLACE


def list_few(names: Sequence[str], most: int = FEW) -> str:
    """List the first names in English, and say how many more there are."""
    return messages.written("en", messages.few(names, most))


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Write ``Did you mean …? ``; empty if no known word is near."""
    alike = {candidate.lower().replace("-", "_"): candidate for candidate in words}
    near = difflib.get_close_matches(word.lower().replace("-", "_"), alike, n=1)
    return f"Did you mean {alike[near[0]]}? " if near else ""


# -- findings --------------------------------------------------------------------------------------
#
# A finding is a problem or a note, with an action and evidence. Integrity checks, the causes of a
# job's state, the preflight and the notes on a row all return it.


Severity = Literal["ok", "warn", "reject", "fail"]
"""Effect of a finding.

``ok``: checked, no problem. ``warn``: worth knowing, the result stands. ``reject``: the measurement
does not count. ``fail``: the run or the command cannot succeed.
"""

FORMER_IDS = {
    "batch-unknown": "batch-unverified",
    "below-median": "unsteady",
    "iterations-back": "two-runs",
    "job-changed": "gpu-count",
    "mixed-devices": "mixed-gpu-model",
    "parameters": "other-benchmark",
}
"""Id in an earlier version → id of the same reason now.

Stored runs hold the former ids, and users may type them after ``--accept``.
"""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found."""

    id: str
    """Stable: users type it after ``--accept``, and rows keep it."""
    severity: Severity
    """Severity: ``reject`` takes the figures out, ``fail`` ends the command."""
    sentence: str = msgspec.field(name="message", default="")
    """The problem in English, with names and numbers: that of ``note``, if it is given."""
    note: Note | None = None
    """The problem as a message; None if it has only a sentence, as in stores of 0.5."""
    evidence: tuple[Place, ...] = ()
    """Log lines that show it; empty if it does not come from a log."""
    action: str | None = None
    """The action to take; None without one."""
    accepted: bool = False
    """True where ``--accept ID`` overruled it; the tables mark it."""

    @property
    def kind(self) -> str:
        """``accepted``, or else the severity."""
        return "accepted" if self.accepted else self.severity

    def __post_init__(self) -> None:
        if self.id in FORMER_IDS:
            msgspec.structs.force_setattr(self, "id", FORMER_IDS[self.id])
        mask_fields(self, "sentence", "action")
        if self.note is not None:
            message = mask_note(self.note)
            if messages.can_write(message):
                message, sentence = _masked_whole(message)
                msgspec.structs.force_setattr(self, "sentence", sentence)
            msgspec.structs.force_setattr(self, "note", message)

    @property
    def said(self) -> Note:
        """The problem as a message; its sentence, quoted, if there is none that can be written."""
        otherwise = note("finding-quoted", id=self.id, text=self.sentence)
        return messages.stored(self.note, otherwise)


def _masked_whole(message: Note) -> tuple[Note, str]:
    """Return a message and its English text, without a credential that spans two arguments."""
    text = messages.text("en", message)
    shown = masked(text)
    return (message if shown == text else quoted(shown)), shown


# -- optional dependencies -------------------------------------------------------------------------
#
# k8sbench itself is on no package index, so that pip install 'k8sbench[torch]' finds nothing. A
# test holds these requirements equal to those of pyproject.toml.


REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "torch": ("torch==2.10.0", "numpy<2", "pillow>=10"),
    "paddle": ("paddlepaddle==2.6.2", "numpy<2", "pillow>=10", "setuptools<81"),
    "operator": (
        "starlette>=1.10,<2",
        "uvicorn>=0.54,<1",
    ),
}
"""Extra → its requirements."""


def how_to_install(extra: str) -> str:
    """Write the command that installs an extra for the running Python."""
    words = (sys.executable, "-m", "pip", "install", *REQUIREMENTS[extra])
    return f"Install it: {shlex.join(words)}"
