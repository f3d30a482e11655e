"""k8sbench as a program with one fake source of GPU metrics."""

PROGRAM = """
import os, runpy, time
from k8sbench.app import connections
from k8sbench.model.gpu_metrics import Fetched, Gpu, Series

class Source:
    name = "prometheus"

    def settles_in(self, wanted):
        return 0.0

    def fetch(self, wanted):
        while not os.path.exists(os.environ.get("ANSWERS", "/")):
            time.sleep(0.02)
        at = tuple(wanted.start + 0.25 * i for i in range(30))
        return Fetched(source="prometheus", missing=MISSING, series=tuple(
            Series(metric=metric, gpu=Gpu(pod=pod, node=node, index="0"), source="prometheus",
                   at=at, values=tuple(values), every=0.25)
            for pod, node in wanted.nodes.items() for metric, values in metrics(node).items()))

connections.metric_sources = lambda prometheus, *_: [Source()] if prometheus != "none" else []
runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
"""
"""To follow definitions of the source's data.

``metrics(node)`` returns its metrics with 30 values; ``MISSING`` names the absent. The source
answers once the file that ``ANSWERS`` names exists.
"""
