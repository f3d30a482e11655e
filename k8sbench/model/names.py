"""Names of runs and sets, and the labels and annotations of objects.

A *run id* names the job, its pods and its folder. A set's name is a value of a label.
"""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Sequence

from k8sbench.model.errors import FIRST_RUN, NotFound, UsageError, did_you_mean, list_few

LABEL_DOMAIN = "k8sbench.io"
OWN_LABELS = {
    "app.kubernetes.io/name": "k8sbench",
    "app.kubernetes.io/managed-by": "k8sbench",
    "app.kubernetes.io/part-of": "dlperf",
}
"""Labels of all objects that k8sbench creates for runs."""
PLAN_ANNOTATION = f"{LABEL_DOMAIN}/plan"
NONCE_ANNOTATION = f"{LABEL_DOMAIN}/nonce"
"""Annotation with a job's nonce.

A run finds its job by the nonce if the answer to the creation was lost.
"""
OWNER_ANNOTATION = f"{LABEL_DOMAIN}/owner"
WAITS_ANNOTATION = f"{LABEL_DOMAIN}/waits"
"""Annotation of a job that waits despite an unrecoverable cause.

Set by ``--wait``: no process that follows the job cancels it for that cause.
"""
LONGEST_SUFFIX = "-worker-9999"
"""Longest suffix that the operator appends to a job's name."""
NAME_LIMIT = 63 - len(LONGEST_SUFFIX)
"""Longest name of a job: the DNS-1035 label limit, less the suffix."""
RUN_ID = re.compile(r"^[a-z]([a-z0-9-]*[a-z0-9])?$")
SET_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
TOKEN_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
"""Letters of the random part.

Without vowels, so that no words appear, and without letters that read alike.
"""
TOKEN_LENGTH = 6


def draw_set_name(*, at: float, token: str) -> str:
    """Draw a set's name: ``261120-081500-x7k2qd``."""
    return f"{_stamp(at)}-{token}"


def draw_name(benchmark: str, longest: int, *, at: float, token: str) -> str:
    """Draw the name of a submit: ``deeplabv3p-1127-x7k2qd``, with the day in UTC.

    Nobody is asked whether it is free: of a thousand submits on each day of ten years two have one
    name with a probability of 1 %.
    """
    day = datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%m%d")
    end = f"-{day}-{token}"
    return benchmark[: longest - len(end)].rstrip("-") + end


def checked_run_id(text: str) -> str:
    """Return ``text`` if it can name a job, else raise :class:`UsageError`."""
    if len(text) > NAME_LIMIT or not RUN_ID.fullmatch(text):
        raise UsageError(
            f"--run-id {text!r} cannot name a job.",
            f"Use at most {NAME_LIMIT} lower-case letters, digits and '-', a letter first.",
        )
    return text


def checked_set_name(text: str, what: str = "set") -> str:
    """Return ``text`` if it is a valid set name, else raise.

    A set's name is a Kubernetes label value. ``what`` names the object in the error; a baseline's
    name has the same form.
    """
    if not SET_NAME.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot name a {what}.",
            "Use at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends.",
        )
    return text


def check_set(name: str, sets: Sequence[str]) -> None:
    """Reject a set that is not among those that there are, the latest first."""
    sets = list(dict.fromkeys(sets))
    if name not in sets:
        near = did_you_mean(name, sets) + f"Latest sets: {list_few(sets)}."
        raise NotFound(
            f"There is no set {name!r}.", near if sets else f"The store is empty. {FIRST_RUN}"
        )


def resolve(
    ids: Sequence[str], text: str, *, other_ids: Sequence[str] = (), where: str = "in the store"
) -> str:
    """The id that ``text`` is, or the only one that begins with it.

    The name of a Benchmark is its run, if it has one alone: ``night`` is ``night-1``, also beside
    ``night-b-1``.

    ``other_ids`` and ``where`` are for the error: ids that were searched before, and the places.
    """
    if text in ids:
        return text
    fitting = [run_id for run_id in ids if text and run_id.startswith(text)]
    # The digits that end an imported run's id are more.
    numbered = re.compile(rf"{re.escape(text)}-[1-9][0-9]{{0,5}}")
    fitting = [run_id for run_id in fitting if numbered.fullmatch(run_id)] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = list_few(fitting[::-1])
        raise UsageError(
            f"{len(fitting)} runs begin with {text!r}: {shown}.", "Type more of the id."
        )
    known = [*other_ids, *ids]
    near = difflib.get_close_matches(text, known, n=3)
    way = "k8sbench list shows the runs." if known else f"There are no runs. {FIRST_RUN}"
    raise NotFound(
        f"There is no run {text!r} {where}.", f"Nearest: {', '.join(near)}." if near else way
    )


def _stamp(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%y%m%d-%H%M%S")
