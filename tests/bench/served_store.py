"""An operator of a store as a process, and what its documents cost."""

import resource
import time
from concurrent.futures import ThreadPoolExecutor

import urllib3

from k8sbench.model.kube import TOKEN_HEADER
from k8sbench.operator import http
from k8sbench.operator.controller import OperatorSettings, OperatorState
from k8sbench.operator.metrics import Metrics


def serve(root: str, *paths: str) -> None:
    """Ask for documents; prints the processor seconds of each, and last the peak memory, MB.

    The last document is also asked for four times at once.
    """
    state = OperatorState(settings=OperatorSettings(store=root), looked_at=time.monotonic())
    app = http.application(state, Metrics().registry, lambda: "token")
    headers = {TOKEN_HEADER: "token"}
    with (
        http.Server("127.0.0.1:0", app) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, maxsize=4) as pool,
        ThreadPoolExecutor(4) as threads,
    ):

        def get(path: str) -> None:
            answer = pool.request("GET", path, headers=headers)
            assert answer.status == 200, answer.data

        for path in paths:
            get(path)
            before = _seconds()
            for _ in range(5):
                get(path)
            print((_seconds() - before) / 5)
        list(threads.map(get, paths[-1:] * 4))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
