"""Diagnosis: what the facts about a job or a cluster mean, in one sentence and one action. Pure."""
