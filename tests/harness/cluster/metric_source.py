"""k8sbench as a program with one fake source of GPU metrics."""

PROGRAM = """
import os, runpy, sys, time
from k8sbench.app import metric_sources
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series

SAMPLES, EVERY = 30, 0.25

class Source:
    name = "prometheus"

    def settles_in(self, wanted):
        later = float(os.environ.get("SETTLES_IN", 0))
        return time.time() - wanted.end + later if later else 0.0

    def fetch(self, wanted):
        at = tuple(wanted.start + EVERY * i for i in range(SAMPLES))
        return Fetched(source="prometheus", missing=MISSING, series=tuple(
            Series(metric=metric, gpu=Gpu(pod=pod, node=node, index="0"), source="prometheus",
                   at=at, values=tuple(values), every=EVERY)
            for pod, node in wanted.nodes.items() for metric, values in metrics(node).items()))

metric_sources.found = lambda prometheus, *_: [Source()] if prometheus != "none" else []
runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
"""
"""To be followed by definitions of the source's data.

``metrics(node)`` returns its metrics with a value per ``SAMPLES``; ``MISSING`` names the absent. It
settles ``SETTLES_IN`` seconds after the window.
"""
