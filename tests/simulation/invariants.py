"""Invariants of a schedule, and the error that names the one that does not hold."""

from __future__ import annotations

import enum


class Invariant(enum.Enum):
    """A statement that holds whatever goes wrong."""

    ENDS = "Every schedule ends."
    RUNS_CLOSED = "Every run is closed in the end."
    NO_JOB_LEFT = "No job is left on the cluster in the end."
    RECORDED_FIRST = "A run is recorded before its job is created."
    ONE_PROCESS = "One process at a time acts on a run."
    NO_COPY = "A copy of a job is never taken for the job."
    ATTEMPTS_IN_ORDER = "An archived log never goes back to an earlier attempt."
    LINES_ONCE = "A line is archived once."
    NO_LINE_LOST = "No line is missing that could be read."
    OWN_JOBS = "A store measures only jobs that it owns."
    MEASURED_WHOLE = (
        "A run is measured from all lines that could be read, or its gaps are recorded."
    )
    MEASURED_ONCE = "A run is measured once."
    LOGS_FIRST = "The logs of a job are read before it is deleted."
    NOT_WHILE_RUNNING = "No job is deleted while it runs."
    CANCEL_KEPT = "A recorded request to cancel is carried out."
    CANCEL_REQUESTED = "A run is cancelled only on request."
    NO_JOB_AFTER_CANCEL = "Nothing begins for an object that was cancelled or deleted."
    NO_EXTRA_RUN = "No case has more runs than were requested."
    WAITS_FOR_PLACE = "A run of an operator ends without a job only if its own job is refused."
    LIMIT = "A set has no more active runs than its limit."
    TIME_LIMIT = "A run reaches its time limit only after that time, whatever a clock says."
    RETRY_LAST = "A retry by an operator counts after the runs before it have ended."
    COMPLETE_LAST = "An object is complete only after its runs are closed."
    STAYS_COMPLETE = "An object that is complete stays so."
    KEPT_IN_TIME = "An object is deleted only after its time."
    READY = "An operator that lists its jobs is ready, whatever its clock says."
    OBJECTS_COMPLETE = "Every object is complete in the end."
    ALL_RUNS = "Every object has the requested runs in the end."
    STATUS = "The status of an object agrees with the store in the end."


class Violation(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: Invariant, details: str) -> None:
        super().__init__(f"{invariant.name}: {details}")
        self.invariant = invariant
        self.details = details
