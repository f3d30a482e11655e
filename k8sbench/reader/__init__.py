"""The reader: a log to a measurement. No Kubernetes, no store, no command line.

:mod:`k8sbench.reader.log_files` opens logs, :mod:`k8sbench.reader.reading` reads their lines by the
table of :mod:`k8sbench.reader.families` or by a declared format, and
:mod:`k8sbench.reader.measuring` measures what they state and says whether to believe it.
"""
