"""Measurements to groups, and whether to believe them. Pure.

:mod:`k8sbench.measure.group.grouping` turns a set's runs into groups.
"""
