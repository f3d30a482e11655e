"""From a run plan to the Kubernetes objects that run it: values in, plain data and text out.

``manifest`` is the door. Behind it, in the order of the data: ``job`` decides what goes into the
job, ``templates`` lays it out. Nothing here reads a file: template texts and the trainers' sources
come in as arguments.
"""

from k8sbench.render.manifest import manifests, of_job, to_yaml

__all__ = ["manifests", "of_job", "to_yaml"]
