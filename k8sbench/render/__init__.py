"""From a run plan to Kubernetes objects, as plain data and text.

``manifest`` is the entry. ``job`` decides the job's content, ``templates`` lays it out. Nothing
here reads a file: template texts and the trainers' sources come in as arguments.
"""
