"""Every query that Prometheus is sent, as reviewed text. Renewed by ``make golden``."""

import pathlib
from collections.abc import Callable
from functools import partial

from k8sbench.adapters.metrics import prometheus_api
from tests.unit import goldens

GOLDEN = pathlib.Path(__file__).parent / "golden" / "queries.promql"
PODS, UUIDS = ("r50-master-0", "r50-worker-0"), ("GPU-0", "GPU-1")
QUERIES: dict[str, Callable[[], str]] = {
    "owned: on Kubernetes": lambda: prometheus_api.owned("team", PODS, (), 600),
    "owned: the log names GPUs": lambda: prometheus_api.owned("team", PODS, UUIDS, 600),
    "owned: a local run": lambda: prometheus_api.owned(None, PODS, UUIDS[:1], 600),
    **{
        f"owned: lookup {number}": partial(
            prometheus_api.owned, "team", PODS, UUIDS[:1], 600, lookup
        )
        for number, lookup in enumerate(prometheus_api.LOOKUPS[1:], 2)
    },
    "samples: in lower case": lambda: prometheus_api.samples(UUIDS, 600.001, "uuid"),
    "samples": lambda: prometheus_api.samples(UUIDS, 600.001),
    "samples: one GPU": lambda: prometheus_api.samples(UUIDS[:1], 600.001),
    "known_nodes": lambda: prometheus_api.known_nodes(300),
    "fields": prometheus_api.fields,
}
"""The function that writes it, with what is particular → the query."""


def test_the_queries_are_the_golden_ones() -> None:
    text = "\n\n".join(f"# {name}\n{query()}" for name, query in QUERIES.items()) + "\n"
    goldens.check(GOLDEN, text)


def test_text_in_a_query_ends_neither_its_quotes_nor_its_pattern() -> None:
    assert prometheus_api.samples(['a"}\\\n'], 1).endswith(r'UUID="a\"}\\\n"}[1000ms]')
    assert r'UUID=~"a\\.b|c\\+"' in prometheus_api.samples(("a.b", "c+"), 1)


def test_the_url_of_a_query_stays_below_8_kib() -> None:
    uuids = [f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(1000)]
    (first, *_) = prometheus_api.batches(uuids)
    assert len(prometheus_api.samples(first, 600).replace('"', "%22")) < 6000
