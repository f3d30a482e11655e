"""Diagnosis: from facts to one sentence and one action. Pure."""
