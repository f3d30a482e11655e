"""Runs to rows: groups, comparisons, series, pages and reports. Pure.

:mod:`k8sbench.results.groups.grouping` turns a set's runs into groups;
:mod:`k8sbench.results.report` writes them.
"""
