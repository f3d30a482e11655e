"""What PostgreSQL's errors mean, and which of them pass by themselves.

A server restarts, fails over, or is cut off for a while. A connection is therefore waited for once
the server has answered (:class:`~k8sbench.adapters.store.database.Database`), and a change whose
transaction was ended from outside is made again (:func:`made_again`).
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
    """The server ended a connection, or it broke: whether the transaction counts is not known."""


def explained(wrong: sa.exc.DBAPIError, shown: str, secret: str | None) -> StoreError:
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
    if passes(wrong):
        return StoreError(
            f"The database {shown} cannot be reached, or refused the connection: {reason}.",
            "Check that it runs, and the URL's host, port, user and password.",
        )
    return StoreError(
        f"The database {shown} refused: {reason}.",
        "Check that it runs, and that the URL's user may read and write it.",
    )


def passes(wrong: sa.exc.DBAPIError) -> bool:
    """Whether a connection that could not be made may be made later, to a server that was there.

    Of a failed connection the driver gives no code; the texts are in the server's language.
    """
    is_refusal = isinstance(wrong, sa.exc.OperationalError)
    return is_refusal and getattr(wrong.orig, "sqlstate", None) is None


def wait(seconds: float) -> None:
    """Wait before the next try, not to the same moment as all others that wait."""
    time.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311


def made_again(change: Callable[P, R]) -> Callable[P, R]:
    """Repeat a change of a run, or a question, whose connection was lost, once.

    Each change asks first what is on record, so one that counted the first time does nothing.
    """

    @functools.wraps(change)
    def change_or_repeat(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return change(*args, **kwargs)
        except ConnectionLost:
            return change(*args, **kwargs)

    return change_or_repeat
