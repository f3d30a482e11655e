"""Time limits that tests shorten, in one value; others stand beside what they limit."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of waits, retries and looks."""

    poll: float = 15.0
    """Polling interval for state without events.

    These are other processes' wishes, queue positions, and the operator's Lease.
    """
    list_jobs: float = 10.0
    """Interval between lists of a served namespace's jobs."""
    report_end: float = 0.3
    """Time after which a job's end is reported with incomplete logs."""
    replicas_end: float = 60.0
    """Longest wait for replicas that run on after their job's end.

    They have done the same steps, and only clean up, or are being ended.
    """
    pods_settle: float = 1.0
    """Wait for the watch to report the pods of an ended job.

    Then they are listed.
    """
    unread_logs: float = 300.0
    """Longest wait for unreadable logs after a job's end.

    After it the job and its pods are left on the cluster: the logs may still exist.
    """
    last_logs: float = 15.0
    """Longest wait for the logs of pods that are about to go.

    Their job is cancelled or deleted.
    """
    watch: float = 50.0
    """Timeout of one watch request."""
    watch_pause: float = 15.0
    """Longest pause before a watch that failed is opened again."""
    fault_note: float = 5.0
    """A watch or a log that fails for so long is reported to the user."""
    log_previous: float = 30.0
    """Time until an error in place of a previous log is final."""
    log_look: float = 0.5
    """Until a log that had nothing new is requested again."""
    log_place: float = 5.0
    """Limit until a stream reaches the mark, near its first lines, seconds."""
    create_job: float = 60.0
    """Time limit for retrying a creation while the API server is silent."""
    denied_job: float = 10.0
    """First pause before a job that its place refuses is tried again; it doubles each time."""
    clear_job: float = 15.0
    """Time limit for an attempt's objects to disappear.

    After it the remaining objects are reported.
    """
    request_short: float = 5.0
    """Retry limit of a request whose caller tries again, or does without."""
    change_job: float = 30.0
    """Time limit of a change with repeated conflicts.

    The operator changes a job's status again and again.
    """
    request_retry: float = 30.0
    """Default limit of retries, seconds, because API servers restart."""
    request_last: float = 1.0
    """Timeout of the last try, seconds."""
    request_absent: float = 1.0
    """Limit of retries where there is no server or host name."""
    request_note: float = 2.0
    """A longer wait before a request is sent again is logged."""
    plugin: float = 15.0
    """Limit of a credential plugin without a terminal."""
    lease_alive: float = 30.0
    """Age of a renewal up to which the operator counts as alive."""
    lease: int = 15
    """Duration of a Lease without renewal."""
    lease_renew: float = 4.0
    """Interval of renewals."""
    lease_held: float = 10.0
    """Seconds after a renewal until the operator stops.

    Another replica may take over 15 s after the renewal.
    """
    operator_token: float = 60.0
    """Interval of reading the token, which may be replaced."""
    prometheus: float = 30.0
    """Limit of all queries of a fetch, seconds."""
    prometheus_first: float = 4.0
    """Timeout of the first answer of a Prometheus, seconds."""
    prometheus_known: float = 60.0
    """Lifetime of the choice of a Prometheus, seconds."""
    store_busy: float = 30.0
    """Timeout for another process's transaction."""
    process_settle: float = 10.0
    """Wait for the cause if the first failure only lost a peer, seconds.

    The peer's last lines, written by its launcher, name the cause. They take a second, and several
    on busy cores.
    """
    api_look: float = 10.0
    """Timeout of each further answer to a single query."""
    api_answer: float = 8.0
    """Timeout of a first answer, so that commands fail early."""
    doctor_checks: float = 10.0
    """Time limit of all checks together, retries included."""
    object_silent: float = 300.0
    """Silence of the operator after which a command that follows an object ends."""
    operator_look: float = 0.25
    """Interval at which the operator looks at its leadership."""
    operator_read: float = 20.0
    """Longest wait of a request until the operator makes its document."""
    operator_answer: float = 2.0
    """Time limit of each answer of the operator."""
    operator_answers: float = 60.0
    """Time limit of all answers of the operator to one command."""
    operator_insist: float = 10.0
    """Time limit of each answer if no other data are shown."""
    read_before_cancel: float = 60.0
    """Longest wait for a job's present logs before its cancellation.

    Later lines are read until the job ends.
    """
    retry_run: float = 15.0
    """First retry interval of a failed collection; it doubles each time."""
    creation_settle: float = 90.0
    """Seconds after the last request until a job cannot appear any more.

    The API server gives up a request after 60 s.
    """
    retry_serving: float = 5.0
    """Pause after collecting has failed."""


now = Limits()
"""The limits of this process, which a test replaces."""
