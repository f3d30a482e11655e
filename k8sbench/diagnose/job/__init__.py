"""Diagnosis: from what was seen of a job to one sentence, one action and a stable id. Pure.

``causes`` is the table, ``facts`` sorts what was seen by replica; ``admission``, ``scheduling``,
``starting`` and ``endings`` read the stages of a job's life in their order; ``waiting`` chooses
among what they find of a job that does not run yet.
"""

from k8sbench.diagnose.job.causes import CAUSES, Cause, Diagnosis, found
from k8sbench.diagnose.job.facts import Facts, Replica, Seen, look

__all__ = ["CAUSES", "Cause", "Diagnosis", "Facts", "Replica", "Seen", "found", "look"]
