"""Log text to samples: cleaning, one table of families, streaming. Pure.

:mod:`k8sbench.parse.reading` is the entry point; :mod:`k8sbench.parse.families` is the table.
"""
