"""Diagnosis of a job: one sentence, one action and a stable id. Pure.

``causes`` has the tables of causes and of Kubernetes' states and reasons, and ``facts`` sorts the
observed objects by replica. ``refusals``, ``scheduling``, ``placing`` and ``endings`` read the
stages of a job's life in their order; ``placing`` chooses among the causes of a job that does not
run yet. ``state`` decides the phase of the job and of each replica.
"""
