"""Frozen values and their rules: what a benchmark, a plan, a record, a measurement, a group *is*.

Nothing here reads a file, a clock, a database or a cluster. Every other room imports this one;
this one imports none of them.
"""
