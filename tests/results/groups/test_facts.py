"""Facts of runs that differ between two sets."""

from typing import Any

from k8sbench.results.groups import facts
from tests.results.groups.sides import new, old
from tests.results.report.factory import gpu_metrics


def differing(a: dict[str, Any], b: dict[str, Any], **fields: Any) -> dict[str, tuple[Any, ...]]:
    found = [one.difference for one in facts.changes(old(measured=a), new(measured=b, **fields))]
    return {d.name: (d.a, d.b, *([] if d.change is None else [round(d.change, 3)])) for d in found}


def test_what_runs_report_differs_if_it_is_new() -> None:
    one = {"driver": "535.54", "cuda": "12.1", "pod": "a", "clock_sm_mhz": 1500, "node": "n1"}
    two = {"driver": "550.90", "cuda": "12.1", "pod": "b", "clock_sm_mhz": 900, "node": "n1"}
    assert differing({"environment": one}, {"environment": two}) == {"driver": ("535.54", "550.90")}
    own = ({"run_id": "r-1", "host": "r-1-master-0"}, {"run_id": "r-2", "host": "r-2-master-0"})
    assert not differing({"environment": own[0]}, {"environment": own[1]}), "each run has its own"
    results = ({"mfu_by_program": 0.4, "aAcc (final)": 1}, {"mfu_by_program": 0.3})
    assert not differing({"environment": results[0]}, {"environment": results[1]})


def test_what_both_sides_have_and_what_one_does_not_state_differs_not() -> None:
    first, second = ({"driver": driver} for driver in ("535.54", "550.90"))
    before = [*old(measured={"environment": first}), *old(measured={"environment": second})]
    assert not facts.changes(before, new(measured={"environment": second}))
    (change,) = facts.changes(new(measured={"environment": second}), before)
    assert change.difference.b == "535.54 + 550.90"
    assert change.new == {"535.54"}
    assert not differing({"environment": first}, {"environment": {}})
    assert not differing({"environment": {}}, {"environment": first})


def test_another_image_program_and_plan_differ_by_their_parts() -> None:
    found = differing(
        {}, {}, image="registry.example/pytorch:2", trainers_digest="f" * 64, env={"NCCL_ALGO": "x"}
    )
    assert found == {
        "image": ("registry.example/pytorch:1", "registry.example/pytorch:2"),
        "program": ("e" * 12, "f" * 12),
        "env NCCL_ALGO": (None, "x"),
    }
    words = ("python3", "-m", "k8sbench.trainers.resnet50", "--no-fuse")
    assert differing({}, {}, workdir="/opt/resnet", options={"fuse": False}, command=words) == {
        "workdir": (None, "/opt/resnet"),
        "options fuse": (None, "false"),
        "command": (None, "--no-fuse"),
    }


def test_digests_of_images_are_held_against_digests() -> None:
    same, other = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    assert [c.fact[1] for c in facts.changes(old(image_digest=same), new(image_digest=other))] == [
        "image"
    ]
    assert not facts.changes(old(image_digest=None), new(image_digest=other)), "both of one name"


def test_gpu_metrics_differ_from_a_change_of_2_percent_on_limits_first() -> None:
    one = gpu_metrics(sm_clock=1530.0, power=250.0, gpu_utilization=0.40, throttled=0.0)
    two = gpu_metrics(
        sm_clock=1380.0, power=252.0, gpu_utilization=0.31, throttled=0.10, temperature=88.0
    )
    waits = ({"data_fraction": 0.01}, {"data_fraction": 0.2})
    found = differing({"gpu_metrics": one, **waits[0]}, {"gpu_metrics": two, **waits[1]})
    assert [*found.items()] == [
        ("wait for data", ("1.0 %", "20.0 %")),
        ("SM clock", ("1,530 MHz", "1,380 MHz", -0.098)),
        ("Throttled", ("0.0 %", "10.0 %")),
        ("GPU utilization", ("40.0 %", "31.0 %")),
    ]


def test_nodes_are_those_of_all_replicas() -> None:
    runs = [*old(measured={"environment": {"node": "n1, n2"}}), *old(node="n3")]
    assert facts.nodes(runs) == {"n1", "n2", "n3"}
