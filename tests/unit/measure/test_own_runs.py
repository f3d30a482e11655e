"""Our own trainers' logs, against the plan that ran them."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest

from k8sbench.adapters.files import catalog
from k8sbench.measure.run import expectation
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from k8sbench.model.measurement import Arithmetic, Measurement, arithmetic_digest
from k8sbench.model.plan import PlannedWindow
from k8sbench.model.pool import CPU_POOL
from tests.unit.measure.support import Lines, ids, lines_of
from tests.unit.presence import present
from tests.unit.render.plans import plan

PLAN = plan(
    "2x1-cpu",
    run_id="deeplabv3p-260302-100000-x7k2qd",
    set_name="s",
    benchmark="deeplabv3p",
    variant="mmseg",
    precision="amp",
    amp_dtype="bf16",
    batch_size=4,
    preset="smoke",
    window=PlannedWindow(
        warmup=4, iterations=8, log_interval=1, min_steady_seconds=0.0, rule="ours"
    ),
    log="mmseg",
    unit="samples",
    trainer="deeplabv3p_pytorch",
    options={},
    image=None,
    pool=CPU_POOL,
    backend="local",
)


def text(name: str) -> list[str]:
    return lines_of(name)


def edited(lines: list[str], event: str, **changes: Any) -> list[str]:
    """The lines with fields of one kind of event changed; None takes a field out."""
    found = []
    for line in lines:
        head, mark, body = line.partition("K8SBENCH ")
        if mark and (fields := json.loads(body))["event"] == event:
            fields = {k: v for k, v in (fields | changes).items() if v is not None}
            line = f"{head}{mark}{json.dumps(fields)}"  # noqa: PLW2901
        found.append(line)
    return found


def both(
    master: list[str] | None = None,
    worker: list[str] | None = None,
    expected: Expectation | None = None,
) -> Measurement:
    logs = [
        Lines(master or text("k8sbench_master.log"), "master-0.log"),
        Lines(worker or text("k8sbench_worker.log"), "worker-0.log"),
    ]
    return measure(logs, expected or expectation.from_plan(PLAN))


def test_all_replicas_logs_are_one_measurement_against_the_plan() -> None:
    found = both()
    assert (found.verdict, found.reasons) == ("valid", ())
    assert found.throughput is not None
    # Eight iterations of 2 × 4 samples in 4 s; what came after the window is not in it.
    assert found.throughput.time_weighted == pytest.approx(16.0)
    assert found.throughput.unit == "samples/s"
    assert (found.iterations, found.records, found.warmup_iterations) == (8, 8, 4)
    assert (found.format, found.impl, found.framework) == ("k8sbench", "k8sbench", "pytorch")
    assert (found.gpus, found.batch_size_per_gpu, found.device) == (2, 4, "cpu")
    assert (found.precision, found.precision_effective, found.amp_dtype) == ("amp", "amp", "bf16")
    assert (found.data, found.parameters) == ("synthetic", 1000)
    assert found.data_fraction == pytest.approx(0.05)
    assert found.files == ("master-0.log", "worker-0.log")


def test_a_step_of_an_all_reduce_counts_what_each_rank_sends_of_its_vector() -> None:
    plan = msgspec.structs.replace(PLAN, unit="GB")
    found = both(expected=expectation.from_plan(plan))
    # Eight steps in 4 s, each of 2 × 1/2 × 4 MB. The log's own summary counts samples.
    assert present(found.unverified).time_weighted == pytest.approx(0.008)
    assert ids(found) == ["summary-mismatch"]


@pytest.mark.parametrize("cut", [3, 14, 36], ids=["before its steps", "within", "at its end"])
def test_of_a_run_that_began_anew_the_last_attempt_is_measured_alone(cut: int) -> None:
    whole = both()
    before = edited(text("k8sbench_master.log"), "step", seconds=3.0)[:cut]
    found = both([*before, *text("k8sbench_master.log")])
    assert (found.verdict, ids(found), found.restarts) == ("valid", ["restarted"], 1)
    assert (found.throughput, found.window) == (whole.throughput, whole.window)
    assert (found.iterations, found.records) == (whole.iterations, whole.records)
    broken = both([*text("k8sbench_master.log"), *before])
    assert broken.verdict == "rejected"


TYPES = {"conv": "bfloat16", "loss": "float32", "resize": "2 bfloat16 + 2 float32"}


def stating(**changes: Any) -> Measurement:
    """The same run, whose first step states its arithmetic."""
    stated = {"by": "seen", "digest": arithmetic_digest(TYPES), "types": TYPES} | changes
    event = {"event": "environment", "rank": 0, "arithmetic": stated}
    lines = text("k8sbench_master.log")
    lines.insert(3, f"K8SBENCH {json.dumps(event)}")
    return both(lines)


@pytest.mark.parametrize("by", ["seen", "derived"])
def test_the_types_of_a_runs_operations_are_kept(by: Literal["seen", "derived"]) -> None:
    found = stating(by=by)
    assert found.arithmetic == Arithmetic(types=TYPES, digest=arithmetic_digest(TYPES), by=by)
    assert "arithmetic" not in found.missing
    assert not [name for name in found.environment if "arithmetic" in name]
    # Nothing else follows from the further line, which moves those after it.
    without = both()
    assert msgspec.structs.replace(
        found, arithmetic=None, missing={}, lines={}
    ) == msgspec.structs.replace(without, missing={}, lines={})
    assert without.arithmetic is None
    assert without.missing["arithmetic"] == (
        "The log does not state which operations computed in which type."
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"types": TYPES | {"resize": "float32"}},
        {"digest": "0" * 16},
        {"digest": None},
        {"by": "guessed"},
        {"by": None},
    ],
)
def test_types_that_do_not_match_their_digest_are_not_believed(changes: dict[str, Any]) -> None:
    found = stating(**changes)
    assert found.arithmetic is None
    assert found.missing["arithmetic"] == "What the log states of it does not match its digest."


@pytest.mark.parametrize("types", [None, "float16", [], {}, {"conv": None}])
def test_a_statement_without_types_is_none(types: object) -> None:
    found = stating(types=types)
    assert found.arithmetic is None
    assert found.missing["arithmetic"].startswith("The log does not state")


def test_another_world_size_than_the_plans_is_rejected() -> None:
    plan = msgspec.structs.replace(PLAN, replicas=4)
    assert ids(both(expected=expectation.from_plan(plan)), "reject") == [
        "gpu-count",
        "trainer-count",
    ]


def test_the_logs_of_two_runs_are_not_measured_as_one() -> None:
    for change in ({"run_id": "another"}, {"batch_size_per_gpu": 8}):
        found = both(worker=edited(text("k8sbench_worker.log"), "start", **change))
        assert ids(found, "reject") == ["two-runs"]
        assert [place.file for place in found.reasons[0].evidence] == [
            "master-0.log",
            "worker-0.log",
        ]


@pytest.mark.parametrize(("field", "value"), [("benchmark", "tsm"), ("variant", "paddleseg")])
def test_a_log_of_another_benchmark_or_variant_is_rejected(field: str, value: str) -> None:
    found = both(edited(text("k8sbench_master.log"), "start", **{field: value}))
    assert ids(found, "reject") == ["other-benchmark"]


@pytest.mark.parametrize(
    ("preset", "device", "severity"),
    [("smoke", "cpu", "warn"), ("full", "cpu", "reject"), ("smoke", "cuda", "reject")],
)
def test_amp_without_effect_is_rejected_but_for_a_smoke_run_on_a_cpu(
    preset: str, device: str, severity: str
) -> None:
    lines = text("k8sbench_master.log")
    lines = edited(lines, "start", precision_effective="fp32", preset=preset, device=device)
    lines = edited(lines, "summary", precision_effective="fp32")
    plan = msgspec.structs.replace(PLAN, preset=preset, device=device)
    known = expectation.from_plan(plan)
    for expected in (known, msgspec.structs.replace(known, device=None)):
        found = both(lines, expected=expected)
        assert ids(found, severity) == ["precision-without-effect"]
        assert (found.precision, found.precision_effective) == ("amp", "fp32")


@pytest.mark.parametrize(
    ("field", "value"), [("seconds", 3.9), ("samples", 80), ("samples_per_second", 16.2)]
)
def test_a_summary_that_its_lines_do_not_come_to_is_rejected(field: str, value: float) -> None:
    # Eight steps of 2 × 4 samples in 4 s.
    window = {
        "first_step": 5,
        "last_step": 12,
        "seconds": 4.0,
        "samples": 64,
        "samples_per_second": 16.0,
    }
    for size, expected in ((window[field], []), (value, ["summary-mismatch"])):
        changed = {"window": window | {field: size}}
        found = both(edited(text("k8sbench_master.log"), "summary", **changed))
        assert ids(found, "reject") == expected
    del window[field]  # what it does not say is not compared
    found = both(edited(text("k8sbench_master.log"), "summary", window=window))
    assert ids(found, "reject") == []


CLOCK = "clock-mismatch"


def taken(
    times: list[float], delays: list[float], zone: str = "Z", *, seconds: list[float] | None = None
) -> list[str]:
    """A log whose records end at these times and reach the node so much later."""
    head, *_ = edited(text("k8sbench_master.log"), "start", warmup=0, iterations=len(times))
    lines, before = [head], 0.0
    for step, (at, delay) in enumerate(zip(times, delays, strict=True), 1):
        minute, second = divmod(at + delay, 60)
        event = {
            "event": "step",
            "step": step,
            "of": len(times),
            "steps": 1,
            "seconds": seconds[step - 1] if seconds else at - before,
            "loss": 1.0,
            "time": 1772445600.0 + at,
        }
        before = at
        stamp = f"2026-03-02T10:{minute:02.0f}:{second:012.9f}{zone}"
        lines.append(f"{stamp} K8SBENCH {json.dumps(event)}")
    return lines


TIMES = [5.0 * step for step in range(1, 31)]


BUSY, SHORT = [9.0] * 9, [0.2 * step for step in range(1, 11)]
FASTER = taken([0.97 * at for at in TIMES], [0.03 * at for at in TIMES])
"""All times of the lines are 3 % shorter than they were, their seconds with them."""
TAKEN: dict[str, tuple[list[str], list[str]]] = {
    "at once": (taken(TIMES, [0.02] * 30), []),
    "later and later": (FASTER, [CLOCK]),
    "earlier and earlier": (
        taken([1.03 * at for at in TIMES], [-0.03 * at for at in TIMES]),
        [CLOCK],
    ),
    "without stamps": ([line.partition("Z ")[2] for line in FASTER], []),
    "late at the beginning": (taken(TIMES, [*BUSY, *[0.02] * 21]), []),
    "late in the middle": (taken(TIMES, [*[0.02] * 12, *BUSY, *[0.02] * 9]), []),
    "late at the end": (taken(TIMES, [*[0.02] * 20, *BUSY, 0.02]), []),
    "late in another zone": (taken(TIMES, [*BUSY, *[0.02] * 21], "+01:00"), []),
    "always late": (taken(TIMES, [30.0] * 30), []),
    "a second late from the middle on": (taken(TIMES, [*[0.02] * 15, *[1.4] * 15]), []),
    # Half of the window, but less than a node may take.
    "in a short window": (taken(SHORT, [0.1 * step for step in range(10)]), []),
    "four records": (taken(TIMES[:4], [0.0, 4.0, 8.0, 12.0]), []),
    "five records": (taken(TIMES[:5], [0.0, 4.0, 8.0, 12.0, 16.0]), [CLOCK]),
}


@pytest.mark.parametrize("case", TAKEN)
def test_times_that_the_nodes_stamps_contradict_are_rejected(case: str) -> None:
    """A node that is busy for a while takes lines late."""
    lines, expected = TAKEN[case]
    found = measure([Lines(lines)], Expectation(format="k8sbench", by_user=True))
    assert [each for each in ids(found, "reject") if each == CLOCK] == expected


def test_a_step_that_is_missing_behind_the_window_is_no_matter() -> None:
    lines = [line for line in text("k8sbench_master.log") if '"step": 14' not in line]
    assert both(lines).verdict == "valid"


def test_a_run_that_ended_before_its_first_step_is_rejected_and_has_no_figure() -> None:
    found = both(text("k8sbench_master.log")[:2])
    assert ids(found, "reject") == ["too-few-records", "too-few-iterations"]
    assert (found.throughput, found.unverified, found.records) == (None, None, 0)


@pytest.mark.parametrize(
    ("master", "worker", "is_slow"),
    [
        ({"transport": "Socket", "node": "a"}, {"transport": "Socket", "node": "b"}, True),
        ({"transport": "IB", "node": "a"}, {"transport": "Socket", "node": "b"}, True),
        ({"transport": "Socket"}, {"transport": "Socket"}, True),  # on two hosts, without pods
        ({"transport": "Socket", "node": "a"}, {"transport": "Socket", "node": "a"}, False),
        ({"transport": "IB", "node": "a"}, {"transport": "IB", "node": "b"}, False),
        ({"transport": "socket", "node": "a"}, {"transport": "socket", "node": "b"}, False),
        ({"node": "a"}, {"node": "b"}, False),  # nothing is known of it
    ],
)
def test_nccl_over_sockets_between_nodes_is_a_warning_in_the_row(
    master: dict[str, str], worker: dict[str, str], is_slow: bool
) -> None:
    """Two pods of one node have different hosts, too."""
    found = both(
        edited(text("k8sbench_master.log"), "environment", **master),
        edited(text("k8sbench_worker.log"), "environment", **worker),
    )
    assert found.verdict == "valid"
    assert [(one.id, one.severity) for one in found.reasons] == (
        [("sockets-between-nodes", "warn")] if is_slow else []
    )
    assert all('"transport": "Socket"' in one.evidence[0].text for one in found.reasons)
    assert found.environment.get("transport") == master.get("transport")


@pytest.mark.parametrize(
    ("found", "same"), [(100_100, True), (99_901, True), (100_101, False), (99_899, False)]
)
def test_a_thousandth_of_the_parameters_may_differ(found: int, same: bool) -> None:
    full = expectation.from_plan(PLAN)
    full = msgspec.structs.replace(full, parameters=100_000, smoke=False)
    lines = edited(text("k8sbench_master.log"), "start", preset="full")
    lines = edited(lines, "summary", parameters=found)
    assert ("parameters" in ids(both(lines, expected=full), "reject")) != same


def test_another_number_of_parameters_matters_at_full_size_only() -> None:
    known = expectation.from_plan(PLAN)
    full = msgspec.structs.replace(known, parameters=43_589_878, smoke=False)
    lines = edited(text("k8sbench_master.log"), "start", preset="full")
    assert "parameters" in ids(both(lines, expected=full), "reject")
    small = msgspec.structs.replace(known, parameters=43_589_878)
    assert ids(both(expected=small)) == []


def test_a_record_that_holds_an_evaluation_is_no_steady_one() -> None:
    lines = text("k8sbench_master.log")
    lines = [
        line.replace('"lr"', '"holds": ["evaluation"], "lr"') if '"step": 8' in line else line
        for line in lines
    ]
    assert present(both(lines).window).left_out_count == 1


def of_full_size(lines: list[str]) -> list[str]:
    return edited(lines, "start", preset="full", device="cuda")


def test_a_smoke_run_on_cpus_is_no_run_of_a_benchmark() -> None:
    spec = catalog.find("deeplabv3p").spec
    (chosen,) = (each for each in spec.variants if each.name == "mmseg")
    known = expectation.from_variant(spec, chosen)
    found = both(expected=known)
    assert ids(found, "reject") == ["device", "preset", "too-few-iterations", "short-warmup"]
    full = both(of_full_size(text("k8sbench_master.log")), expected=known)
    assert ids(full, "reject") == ["parameters", "too-few-iterations", "short-warmup"]
    small = of_full_size(edited(text("k8sbench_master.log"), "start", batch_size_per_gpu=3))
    assert "batch-size" in ids(both(small, expected=known), "reject")
    # With a format alone there is nothing to differ from, and the same run is what it is.
    alone = both(expected=Expectation(format="k8sbench", by_user=True))
    assert ids(alone) == []
    assert (alone.device, alone.environment["preset"]) == ("cpu", "smoke")


@pytest.mark.parametrize(
    ("warmup", "asked", "expected"),
    [
        (4, 8, []),
        (2, 8, []),
        (4, 80, ["too-few-iterations"]),
        (5, 8, ["short-warmup"]),
    ],
)
def test_the_catalogs_window_gives_way_to_one_that_was_planned_no_shorter(
    warmup: int, asked: int, expected: list[str]
) -> None:
    known = Expectation(
        format="mmseg",
        framework="pytorch",
        benchmark="deeplabv3p",
        variant="mmseg",
        warmup=warmup,
        at_least=asked,
        window_by_catalog=True,
        batch_sizes={"amp": 4, "fp32": 2},
    )
    master, worker = (of_full_size(text(f"k8sbench_{role}.log")) for role in ("master", "worker"))
    found = both(master, worker, known)
    assert (found.warmup_iterations, found.iterations, ids(found)) == (4, 8, expected)
    # What a user gives is no catalog's default.
    given = msgspec.structs.replace(known, window_by_catalog=False, at_least=8)
    assert (both(master, worker, given).warmup_iterations, given.warmup) == (warmup, warmup)
    assert "short-warmup" not in ids(both(master, worker, given))


def test_without_a_planned_window_the_catalogs_holds() -> None:
    known = Expectation(format="mmseg", warmup=6, window_by_catalog=True)
    found = both(edited(text("k8sbench_master.log"), "start", warmup=None), expected=known)
    assert found.warmup_iterations == 6


@pytest.mark.parametrize(
    ("nodes", "changes", "shared"),
    [
        (("a", "a"), {"backend": "kubernetes"}, True),
        (("a", "b"), {"backend": "kubernetes"}, False),
        # Rank 1 may have been on another one.
        (("a", None), {"backend": "kubernetes"}, False),
        (("a", "a"), {"backend": "kubernetes", "pack": True}, False),
        # All replicas of a local run are on this machine.
        (("a", "a"), {"backend": "local"}, False),
    ],
)
def test_a_run_is_rejected_whose_ranks_report_fewer_nodes_than_replicas(
    nodes: tuple[str | None, str | None], changes: dict[str, Any], shared: bool
) -> None:
    master = edited(text("k8sbench_master.log"), "environment", node=nodes[0])
    worker = edited(text("k8sbench_worker.log"), "environment", node=nodes[1])
    found = both(master, worker, expectation.from_plan(msgspec.structs.replace(PLAN, **changes)))
    assert ("shared-node" in ids(found)) is shared
    assert found.verdict == ("rejected" if shared else "valid")


def test_the_nodes_that_count_are_those_of_the_last_attempt() -> None:
    first, second = (
        edited(text("k8sbench_worker.log"), "environment", node=node) for node in ("b", "a")
    )
    master = edited(text("k8sbench_master.log"), "environment", node="a")
    plan = msgspec.structs.replace(PLAN, backend="kubernetes")
    found = both(master, [*first[:2], *second], expectation.from_plan(plan))
    assert "shared-node" in ids(found)
