"""Samples to measurements to groups, and whether to believe them. Pure.

:mod:`k8sbench.measure.run.measuring` turns one run's logs into a measurement,
:mod:`k8sbench.measure.group.grouping` turns a set's runs into groups. What both need stands beside
them.
"""
