"""What PostgreSQL's errors mean, and which of them pass by themselves.

A server restarts, fails over, or is cut off for a while. What was asked of one that has answered
before is therefore tried again for two minutes (:func:`made_again`).
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import sqlalchemy as sa

from k8sbench.model.errors import StoreError

P = ParamSpec("P")
R = TypeVar("R")

OUTAGE_SECONDS = 120.0
"""How long a server that has answered before is waited for: longer than a restart or a failover."""
PAUSE_SECONDS = 1.0
"""Between two tries to reach it."""
LOCK_SECONDS = 30.0
"""For another transaction to give a row or a table free."""
STATEMENT_SECONDS = 60.0
"""For one statement. The largest reads every row of the store."""
IDLE_SECONDS = 30.0
"""For a process within a transaction to say something: one that is suspended keeps others out."""

_MEANINGS: dict[str, tuple[str, str]] = {
    "55P03": ("is busy: what is asked for stays locked", "Try again."),
    "40P01": ("is busy: two processes wait for each other", "Try again."),
    "57014": ("did not answer in time", "Try again when it has less to do."),
    "53100": ("cannot be written: its disk is full", "Free some space there and try again."),
    "25006": ("can only be read", "Name the primary server in the URL, not a standby."),
    "42501": ("does not permit it", "Let the URL's user create tables and change them."),
}
"""SQLSTATE → what is wrong with the database, and what to do."""


class ConnectionLost(StoreError):
    """A server that has answered before is away: whether the transaction counts is not known."""


def explained(
    wrong: sa.exc.DBAPIError, shown: str, secret: str | None, *, was_reached: bool
) -> StoreError:
    """Say what an error of PostgreSQL means, never with the password."""
    state = getattr(wrong.orig, "sqlstate", None)
    # A server's refusal to connect comes after the names of all addresses that were tried.
    reason = " ".join(str(wrong.orig).split()).rpartition("FATAL: ")[2].strip().rstrip(".")
    if secret:
        reason = reason.replace(secret, "***")
    reason = reason[:300]
    if state in _MEANINGS:
        what, action = _MEANINGS[state]
        return StoreError(f"The database {shown} {what} ({reason}).", action)
    if wrong.connection_invalidated:
        return ConnectionLost(
            f"The database {shown} ended the connection: {reason}.", "Check that it runs."
        )
    # Of a failed connection the driver gives no code; the texts are in the server's language.
    if isinstance(wrong, sa.exc.OperationalError) and state is None:
        kind = ConnectionLost if was_reached else StoreError
        return kind(
            f"The database {shown} cannot be reached, or refused the connection: {reason}.",
            "Check that it runs, and the URL's host, port, user and password.",
        )
    return StoreError(
        f"The database {shown} refused: {reason}.",
        "Check that it runs, and that the URL's user may read and write it.",
    )


def wait(seconds: float) -> None:
    """Wait before the next try, not to the same moment as all others that wait."""
    time.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311


def made_again(change: Callable[P, R]) -> Callable[P, R]:
    """Repeat a change of a run, or a question, while a server that has answered before is away.

    Each change asks first what is on record, so one that counted the first time does nothing.
    """

    @functools.wraps(change)
    def change_or_repeat(*args: P.args, **kwargs: P.kwargs) -> R:
        give_up_at = time.monotonic() + OUTAGE_SECONDS
        while True:
            try:
                return change(*args, **kwargs)
            except ConnectionLost:
                if time.monotonic() >= give_up_at:
                    raise
            wait(PAUSE_SECONDS)

    return change_or_repeat
