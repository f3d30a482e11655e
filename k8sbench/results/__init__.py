"""The results: stored runs to rows, comparisons, series, pages and reports. No cluster, no log.

:mod:`k8sbench.results.groups` says what runs mean, and :mod:`k8sbench.results.report` writes that;
both are pure. Modules beside them read groups from a store, and keep them there.
"""
