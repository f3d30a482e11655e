"""Which logs are read first where not all can be read at once: those that are lost first. Pure."""

from __future__ import annotations

import math

from k8sbench.diagnose.job.facts import Replica
from k8sbench.model.kube import KubeObject, conditions, moment

NEVER = math.inf
AT_ANY_MOMENT = 0.0


def lost_at(one: Replica, job: KubeObject | None) -> float:
    """Return when a replica's log goes with its pod, Unix seconds; ``NEVER``: nothing deletes it.

    - A pod that is being deleted stays until its grace period is over.
    - ``activeDeadlineSeconds`` after a job's start the operator deletes its pods; so it does where
      failures reach ``backoffLimit``, which a failed or restarted replica may do at any moment.
    - When a job has ended, ``cleanPodPolicy`` deletes its pods, those that run or all, and
      ``ttlSecondsAfterFinished`` the job with whatever is left.

    k8sbench's own jobs have none of these, for this reason; a user may have set them.
    """
    policy = ((job or {}).get("spec") or {}).get("runPolicy") or {}
    status = (job or {}).get("status") or {}
    known = [moment(one.meta.get("deletionTimestamp"))]
    ended_at = _ended_at(job or {})
    if ended_at is not None:
        if policy.get("cleanPodPolicy") == "All" or (
            policy.get("cleanPodPolicy") == "Running" and not one.ended
        ):
            known.append(ended_at)
        known.append(_after(ended_at, policy.get("ttlSecondsAfterFinished")))
    else:
        known.append(_after(moment(status.get("startTime")), policy.get("activeDeadlineSeconds")))
        restarts = int(one.main.get("restartCount", 0))
        if policy.get("backoffLimit") is not None and (one.phase == "Failed" or restarts):
            known.append(AT_ANY_MOMENT)
    return min((at for at in known if at is not None), default=NEVER)


def urgency(rank: int, *, failing: bool, lost_at: float) -> int:
    """Return the class of a log; the lowest is read first.

    0: it is known when it will be lost; 1: of rank 0, which the measurement needs; 2: of a replica
    that fails, which may say why; 3: all others.
    """
    if lost_at < NEVER:
        return 0
    return 1 if rank == 0 else 2 if failing else 3


def _ended_at(job: KubeObject) -> float | None:
    known = conditions(job)
    ends = [known[kind] for kind in ("Succeeded", "Failed") if kind in known]
    stamps = [one.get("lastTransitionTime") for one in ends if one.get("status") == "True"]
    return next(filter(None, map(moment, stamps)), None)


def _after(begun: float | None, seconds: float | None) -> float | None:
    return None if begun is None or seconds is None else begun + seconds
