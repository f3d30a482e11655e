"""What runs share is given out here: places, requests at a time, and the room of a quota. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

REQUESTS = 4
"""Jobs that are created, and jobs that are deleted, at a time."""
PUT_OFF_SECONDS = 300.0
"""For which jobs that are over are not deleted while pods of others are created: the cluster has
nearly as much to do to delete a job as to create it."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to share."""

    parallel: float = math.inf
    """Runs that may go on at a time."""
    requests: int = REQUESTS
    """Requests of one kind at a time."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How the runs that one process follows stand; run ids, in the order in which they came."""

    going_on: int
    """Runs that take a place."""
    creating: int
    """Requests for jobs whose answers have not come."""
    deleting: int
    """Requests to delete jobs whose answers have not come."""
    to_create: Sequence[str] = ()
    """Runs whose jobs are to be asked for now."""
    to_delete: Sequence[str] = ()
    """Runs of whose jobs what is left is to be deleted."""
    are_starting: bool = False
    """Whether pods of any run are being created."""
    lack_room: bool = False
    """Whether a quota has no room for one of them: deleting makes some."""
    put_off_since: float = math.inf
    """Since when the first deletion waits, Unix seconds."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """Who goes on."""

    create: Sequence[str]
    """Runs whose jobs are asked for now."""
    delete: Sequence[str]
    """Runs whose jobs are deleted now."""
    has_room: bool
    """Whether a further run may begin."""


def admit(standing: Standing, limits: Limits, now: float) -> Admission:
    """Say which requests are sent now, and whether another run may begin; ``now`` in Unix seconds.

    First come, first served.
    """
    is_put_off = (
        standing.are_starting
        and not standing.lack_room
        and now < standing.put_off_since + PUT_OFF_SECONDS
    )
    create = standing.to_create[: max(0, limits.requests - standing.creating)]
    delete = standing.to_delete[: max(0, limits.requests - standing.deleting)]
    return Admission(
        create=create,
        delete=() if is_put_off else delete,
        has_room=standing.going_on < limits.parallel
        and standing.creating + len(create) < limits.requests,
    )
