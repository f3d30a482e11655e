"""GPUs of a run: label styles, shared nodes, parts of GPUs."""

from collections.abc import Callable

import pytest

from k8sbench.model.gpu_metrics import Shared
from k8sbench.model.missing import written
from tests.harness.prometheus import Samples
from tests.prometheus.conftest import Start
from tests.prometheus.examples import (
    END,
    NAMESPACE,
    PODS,
    START,
    UUIDS,
    fetch,
    honored,
    labels,
    of,
    points,
    renamed,
    utilization,
    wanted,
)

Style = Callable[..., dict[str, str]]


def first_labels(pod: str, node: str = "node-0", namespace: str = NAMESPACE) -> dict[str, str]:
    """As the first exporters wrote them, beside those of the exporter's own pod."""
    return {**renamed("", node, ""), "pod_name": pod, "pod_namespace": namespace}


def half_renamed(pod: str, node: str = "node-0", namespace: str = NAMESPACE) -> dict[str, str]:
    """The namespace is renamed, because only its label is taken."""
    return {"namespace": "gpu-operator", "exported_namespace": namespace, "pod_name": pod}


def collected(pod: str, node: str = "node-0", namespace: str = NAMESPACE) -> dict[str, str]:
    """By a collector that keeps the namespace."""
    return {"namespace": namespace, "pod_name": pod}


def of_a_cloud(pod: str, node: str = "node-0", namespace: str = NAMESPACE) -> dict[str, str]:
    """As a cloud's exporter writes them."""
    return {"NamespaceName": namespace, "PodName": pod}


STYLES = (renamed, honored, first_labels, half_renamed, collected, of_a_cloud)
EXPORTER_ONLY = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x1"}


def gpus(*owners: str | None, style: Style = renamed, node: str = "node-0") -> list[Samples]:
    """Return a node's GPUs by owning pod; None: no pod label."""
    return [
        utilization(
            labels(
                f"GPU-{node}-{place}",
                node=node,
                **(EXPORTER_ONLY if pod is None else style(pod, node)),
            )
        )
        for place, pod in enumerate(owners)
    ]


def lower(given: Samples) -> Samples:
    """Return the series with all names in lower case."""
    named = {name.lower(): value for name, value in given.labels.items()}
    return given._replace(name=given.name.lower(), labels=named)


@pytest.mark.parametrize(
    ("style", "is_lower"),
    # A cloud's labels are told by their capitals.
    [(style, is_lower) for style in STYLES for is_lower in {False, style is not of_a_cloud}],
)
def test_only_the_runs_gpus_count_whatever_the_labels(
    start: Start, style: Style, is_lower: bool
) -> None:
    samples = [
        *gpus(PODS[0], PODS[0], "other-job-master-0", None, style=style),
        *gpus("other-job-worker-0", PODS[1], style=style, node="node-1"),
    ]
    server = start(*map(lower, samples) if is_lower else samples)
    found = fetch(server.url)
    assert {one.gpu.model for one in found.series} == {"Tesla V100-SXM2-32GB"}
    assert [(one.gpu.node, one.gpu.index, one.gpu.pod) for one in found.series] == [
        ("node-0", "0", PODS[0]),
        ("node-0", "1", PODS[0]),
        ("node-1", "1", PODS[1]),
    ]
    assert found.shared == ()
    assert found.warnings == ()


def test_pods_of_the_same_name_in_another_namespace_are_others(start: Start) -> None:
    server = start(
        *gpus(PODS[0]),
        utilization(labels("GPU-x", **renamed(PODS[0], namespace="other-team"))),
        utilization(labels("GPU-node-0-0", **renamed(PODS[0], namespace="other-team"))),
        up("dcgm", "node-0:9400", **EXPORTER_ONLY),
    )
    found = fetch(server.url)
    assert [one.gpu.uuid for one in found.series] == ["GPU-node-0-0"]
    assert [one.other for one in found.shared] == [f"other-team/{PODS[0]}"]


def test_a_pod_of_the_exporters_name_has_no_gpu(start: Start) -> None:
    server = start(*gpus(None, None))
    found = fetch(server.url, wanted({"dcgm-exporter-y": "node-0"}, namespace="gpu-operator"))
    assert found.series == ()


def mig(uuid: str, instance: str, pod: str) -> dict[str, str]:
    return labels(uuid, **renamed(pod), GPU_I_PROFILE="1g.5gb", GPU_I_ID=instance)


def test_of_a_divided_gpu_only_the_runs_parts_count(start: Start) -> None:
    parts = [mig(UUIDS[0], "7", PODS[0]), mig(UUIDS[0], "8", "other"), mig(UUIDS[1], "7", PODS[0])]
    names = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_POWER_USAGE")
    server = start(*(Samples(name, part, points(0.5)) for name in names for part in parts))
    found = fetch(server.url)
    assert [(one.metric, one.gpu.uuid, one.gpu.mig) for one in found.series] == [
        ("gr_engine_active", UUIDS[0], "7 (1g.5gb)"),
        ("gr_engine_active", UUIDS[1], "7 (1g.5gb)"),
    ]
    assert found.shared == ()
    assert "parts of divided ones (MIG)" in written(found.missing)["power"]


def test_another_pod_on_a_gpu_of_ours_is_found_and_so_is_a_second_of_the_run(start: Start) -> None:
    server = start(
        *gpus(PODS[0], PODS[0], PODS[0]),
        utilization(labels("GPU-node-0-1", **renamed("notebook-0", namespace="dave"))),
        utilization(labels("GPU-node-0-2", **renamed(PODS[1]))),
    )
    found = fetch(server.url)
    assert [one.gpu.index for one in found.series] == ["0", "1", "2"]
    assert found.shared == (
        Shared(gpu=found.series[1].gpu, other="dave/notebook-0"),
        Shared(gpu=found.series[2].gpu, other=f"{NAMESPACE}/{PODS[1]}"),
    )


def test_another_part_of_a_divided_gpu_is_no_sharing_and_the_same_part_is(start: Start) -> None:
    name = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    server = start(
        Samples(name, mig(UUIDS[0], "7", PODS[0]), points(0.5)),
        Samples(name, mig(UUIDS[0], "8", "neighbour"), points(0.5)),
        Samples(name, mig(UUIDS[0], "7", "intruder"), points(0.5)),
    )
    assert [one.other for one in fetch(server.url).shared] == [f"{NAMESPACE}/intruder"]


def test_a_pod_that_had_the_gpu_before_or_after_does_not_share_it(start: Start) -> None:
    gpu = labels(UUIDS[0])
    before = points(97.0, end=START)
    after = points(97.0, start=END)
    server = start(
        utilization({**gpu, **renamed(PODS[0])}),
        Samples("DCGM_FI_DEV_GPU_UTIL", {**gpu, **renamed("before")}, before),
        Samples("DCGM_FI_DEV_GPU_UTIL", {**gpu, **renamed("after")}, after),
    )
    assert fetch(server.url).shared == ()


def test_a_gpu_counts_for_the_time_in_which_the_runs_pods_had_it(start: Start) -> None:
    """The pod was created anew on another GPU, and the first one is free, then another pod's."""
    moved, free, name = START + 195, START + 390, "DCGM_FI_DEV_POWER_USAGE"
    before, after = labels(UUIDS[0]), labels(UUIDS[1])
    server = start(
        Samples(name, {**before, **renamed(PODS[0])}, points(250.0, end=moved)),
        Samples(name, before, points(60.0, start=moved + 15, end=free)),
        Samples(name, {**before, **renamed("other")}, points(300.0, start=free + 15)),
        Samples(name, after, points(60.0, end=moved)),
        Samples(name, {**after, **renamed(PODS[0])}, points(250.0, start=moved + 15)),
    )
    found = fetch(server.url)
    assert [{*one.values} for one in found.series] == [{250.0}, {250.0}]
    assert [(one.at[0], one.at[-1]) for one in found.series] == [
        (START, moved),
        (moved + 15, END),
    ]
    assert found.shared == ()


def test_two_pods_of_the_run_may_have_a_gpu_one_after_the_other(start: Start) -> None:
    gpu = labels(UUIDS[0])
    server = start(
        utilization({**gpu, **renamed(PODS[0])})._replace(points=points(end=START + 300)),
        utilization({**gpu, **renamed(PODS[1])})._replace(points=points(start=START + 315)),
    )
    found = fetch(server.url)
    assert [len(one.at) for one in found.series] == [41]
    assert found.shared == ()


def second(uuid: str) -> dict[str, str]:
    """Labels of an exporter outside of Kubernetes, which knows no pods but its own."""
    return labels(uuid, job="host", instance="10.0.0.9:9400", namespace="mon", pod="exporter-z")


def up(job: str, instance: str, **more: str) -> Samples:
    return Samples("up", {"job": job, "instance": instance, **more}, points(1.0))


def test_of_two_exporters_one_counts(start: Start) -> None:
    server = start(
        *gpus(PODS[0]),
        Samples("DCGM_FI_DEV_GPU_UTIL", second("GPU-node-0-0"), points(11.0, every=5)),
        Samples("DCGM_FI_DEV_FB_USED", second("GPU-node-0-0"), points(900.0, every=5)),
        up("host", "10.0.0.9:9400", namespace="mon", pod="exporter-z"),
    )
    found = fetch(server.url)
    (busy,) = of(found, "gpu_utilization")
    assert {*busy.values} == {0.97, 0.96}
    assert found.shared == (), "the other exporter's own pod is no user of the GPU"
    assert {*of(found, "memory_used")[0].values} == {900.0}


def test_a_label_of_another_style_that_names_the_exporter_does_not_count(start: Start) -> None:
    server = start(*gpus(PODS[0], style=lambda *of: {**honored(*of), "pod_name": "dcgm-exporter"}))
    found = fetch(server.url)
    assert [one.gpu.pod for one in found.series] == [PODS[0]]
    assert found.shared == ()


def test_parts_of_gpus_are_told_apart_by_names_in_lower_case(start: Start) -> None:
    name = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    parts = [mig(UUIDS[0], "7", PODS[0]), mig(UUIDS[0], "8", "other")]
    found = fetch(start(*(lower(Samples(name, part, points(0.5))) for part in parts)).url)
    assert [one.gpu.mig for one in found.series] == ["7 (1g.5gb)"]
    assert found.shared == ()


def test_a_pod_that_is_scraped_itself_still_shares_a_gpu(start: Start) -> None:
    server = start(
        *gpus(PODS[0], style=honored),
        utilization(labels("GPU-node-0-0", **honored("notebook-0"))),
        up("dcgm", "node-0:9400", **EXPORTER_ONLY),
        up("notebooks", "10.0.0.7:8888", namespace=NAMESPACE, pod="notebook-0"),
    )
    assert [one.other for one in fetch(server.url).shared] == [f"{NAMESPACE}/notebook-0"]


def test_series_of_two_prometheus_and_of_an_exporter_that_moved_count_once(start: Start) -> None:
    gpu, middle = labels(UUIDS[0], **renamed(PODS[0])), START + 300
    moved = {**gpu, "instance": "10.1.1.1:9400", "pod": "dcgm-exporter-new"}
    server = start(
        *(
            Samples("DCGM_FI_DEV_GPU_UTIL", {**one, "prometheus_replica": replica}, stored)
            for replica in ("a", "b")
            for one, stored in (
                (gpu, points(97.0, end=middle)),
                (moved, points(97.0, start=middle + 15)),
            )
        )
    )
    found = fetch(server.url)
    assert [len(one.at) for one in found.series] == [41]
    assert found.warnings == ()


# -- without labels of pods -----------------------------------------------------------------------


def unlabelled(uuid: str, node: str = "node-0") -> Samples:
    return utilization(labels(uuid, node=node, **EXPORTER_ONLY))


def test_without_labels_of_pods_the_log_says_which_gpus_are_ours(start: Start) -> None:
    server = start(
        *(unlabelled(uuid) for uuid in UUIDS[:2]),
        unlabelled(UUIDS[2], "node-1"),
        *(up("dcgm", f"node-{number}:9400", **EXPORTER_ONLY) for number in range(2)),
    )
    found = fetch(server.url, wanted(uuids=(UUIDS[0], UUIDS[2])))
    assert [(one.gpu.uuid, one.gpu.node, one.gpu.pod) for one in found.series] == [
        (UUIDS[0], "node-0", PODS[0]),
        (UUIDS[2], "node-1", PODS[1]),
    ]
    assert found.shared == ()


def test_without_labels_and_without_a_log_there_is_a_reason(start: Start) -> None:
    server = start(*(unlabelled(uuid) for uuid in UUIDS[:2]))
    assert written(fetch(server.url).missing) == {
        "*": f"Prometheus at {server.url} has no GPU metrics that name the run's pods, or a UUID of"
        " its log: it scrapes no DCGM exporter on its nodes, or one that was started without"
        " DCGM_EXPORTER_KUBERNETES=true."
    }


def test_a_gpu_of_the_log_that_the_exporter_gives_to_another_pod_is_shared(start: Start) -> None:
    """The exporter names only one of several pods on a GPU."""
    server = start(*gpus("notebook-0"))
    found = fetch(server.url, wanted(uuids=["GPU-node-0-0"]))
    assert [(one.gpu.uuid, one.gpu.pod) for one in found.series] == [("GPU-node-0-0", PODS[0])]
    assert [one.other for one in found.shared] == [f"{NAMESPACE}/notebook-0"]


@pytest.mark.parametrize("written", [lambda samples: samples, lower], ids=["", "lower"])
def test_a_local_run_has_the_gpus_that_its_log_names(
    start: Start, written: Callable[[Samples], Samples]
) -> None:
    server = start(written(unlabelled(UUIDS[0])), written(unlabelled(UUIDS[1])))
    found = fetch(server.url, wanted({"master-0": None}, uuids=UUIDS[:1], namespace=None))
    assert [one.gpu.uuid for one in found.series] == [UUIDS[0]]
