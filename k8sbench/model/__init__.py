"""Frozen values and their rules: benchmark, plan, record, measurement, group.

Nothing here reads a file, a clock, a database or a cluster. All other packages import this one; it
imports none of them.
"""
