"""Diagnosis of a job: one sentence, one action and a stable id. Pure.

``causes`` is the table of causes, ``reasons`` the tables of Kubernetes' states and reasons, and
``facts`` sorts the observed objects by replica. ``admission``, ``scheduling``, ``starting`` and
``endings`` read the stages of a job's life in their order. ``waiting`` chooses among the causes of
a job that does not run yet, and ``state`` decides the phase of the job and of each replica.
"""
