"""Every rule has an example that yields it; their sentences stand in ``findings.txt`` alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from k8sbench.lifecycle.measuring import measure_run
from k8sbench.measure.group import rules as group_rules
from k8sbench.measure.group.grouping import groups
from k8sbench.measure.run import expectation
from k8sbench.measure.run import rules as run_rules
from k8sbench.model import attempts
from k8sbench.model.finding import Finding
from k8sbench.model.gpu_metrics import Shared
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.model.spec import Fingerprint, LogFormat
from tests.unit import goldens
from tests.unit.lifecycle import test_incomplete_logs as incomplete
from tests.unit.measure import test_airank_and_accuracy as airank
from tests.unit.measure import test_gpu_metrics as metrics
from tests.unit.measure import test_group_members as members
from tests.unit.measure import test_integrity_reasons as integrity
from tests.unit.measure import test_own_runs as own
from tests.unit.measure import test_trained_groups as trained_groups
from tests.unit.measure import train_logs
from tests.unit.measure.support import Lines, fixture, lines_of, measured, mmseg, run, tsm
from tests.unit.report import factory

Found = Iterable[Finding]
GOLDEN = Path(__file__).with_name("findings.txt")
STEADY = run([0.5] * 8)
MASTER, WORKER = lines_of("k8sbench_master.log"), lines_of("k8sbench_worker.log")


def log(lines: Iterable[str], **expected: Any) -> Callable[[], Found]:
    """A log of mmsegmentation, or of the format that is expected."""
    return lambda: measured(lines, **expected).reasons


def ours(event: str, expected: Any = None, **changes: Any) -> Callable[[], Found]:
    """A log of our own trainers with fields of one kind of event changed."""
    return lambda: own.both(own.edited(MASTER, event, **changes), expected=expected).reasons


def declared(lines: Iterable[str], record: str | None = None) -> Callable[[], Found]:
    """A log of a declared format."""
    summary = r"done: (?P<rate>\S+)"
    form = LogFormat(name="mine", unit="images", per="job", record=record, summary=summary)
    return log(lines, format=form)


def gpus(*series: Any, count: int = 1, **more: Any) -> Callable[[], Found]:
    """GPU metrics of a run."""
    return lambda: metrics.completed(metrics.of(*series, **more), gpus=count).reasons


def group(*runs: Run) -> Callable[[], Found]:
    """Reasons of the groups of runs and of their members."""

    def found() -> Found:
        for each in groups(runs):
            yield from each.reasons
            for member in each.members:
                yield from member.reasons

    return found


def beside(**changes: Any) -> Callable[[], Found]:
    """A third run of a case that differs from the two others."""
    return group(*factory.repeats([100.0, 101.0]), factory.run(100.5, repeat=3, **changes))


def ended(phase: Phase) -> Callable[[], Found]:
    """A run that did not succeed."""
    return group(factory.run(None, phase=phase))


def archived(**of_run: Any) -> Callable[[], Found]:
    """A run of our own trainers, measured from its archive."""
    known = {"created_at": incomplete.START, "owner": None, "history": ()} | of_run
    logs = [Lines(MASTER, "logs/master-0.log"), Lines(WORKER, "logs/worker-0.log")]
    planned = Run(plan=own.PLAN, artifacts="file:///x", **known)
    return lambda: measure_run(planned, logs if "history" in of_run else []).reasons


JOB_CHANGED = Transition(
    phase=Phase.RUNNING, at=1.0, cause="The job was changed.", cause_id="job-changed"
)
CONTINUED = (
    Transition(phase=Phase.CANCELLED, at=1.0, cause="Cancelled."),
    attempts.continued(own.PLAN, 1, 61.0),
)
V100 = "Tesla V100-SXM2-16GB"
MODEL = Fingerprint(model="any", parameters=43_589_878, gmac=1000.0, input="any")
SILENT: dict[str, Any] = {"gpus": 8, "precision": "amp", "by_user": True}
SEG: dict[str, Any] = {"format": "paddleseg", "gpus": None, "batch_size": None}
RECORDS = [f"step {step} ips 64.0" for step in range(1, 9)]
PATTERN = r"step (?P<iteration>\d+) ips (?P<rate>\S+)"
BROKEN = train_logs.event("broken", train_logs.START, part="train", path="a.png", count=1)
TWO_NODES = {"transport": "Socket"}
BUSY, IDLE = (
    metrics.series("gpu_utilization", [value] * 10, of=metrics.gpu(index))
    for index, value in enumerate((0.9, 0.0))
)
PLANNED = expectation.from_plan(own.PLAN)
TRAINED = train_logs.texts(train_logs.attempt())


def of_two(
    event: str, master: dict[str, Any], worker: dict[str, Any], expected: Any = None
) -> Callable[[], Found]:
    """Two replicas that say different things."""
    logs = own.edited(MASTER, event, **master), own.edited(WORKER, event, **worker)
    return lambda: own.both(*logs, expected=expected).reasons


EXAMPLES: dict[str, Callable[[], Found]] = {
    **{name: beside(**changes) for name, changes in members.MIXED.items()},
    "above-peak": log([f"GPU 0: {V100}", *run([0.1] * 8)], fingerprint=MODEL),
    "airank-clock": log(
        [airank.airank(0, "test_begin"), *STEADY, airank.airank(-3, "eval_accuracy:60.0")]
    ),
    "below-median": log(run([90.0, *[0.5] * 19])),
    "batch-mismatch": log(
        [
            "- AI-Rank-log 1618109465.579 load_data, checksum:1700",
            *(tsm(0, step, 0.5, 0.5) for step in range(0, 100, 10)),
        ],
        format="tsm",
        batch_size=16,
    ),
    "batch-size": log(["    samples_per_gpu=8,", *STEADY]),
    "batch-unknown": log(
        [tsm(0, s, 0.5, 0.5) for s in range(0, 100, 10)], format="tsm", batch_size=None
    ),
    "batch-unverified": log(STEADY, **SILENT),
    "broken-samples": log([*TRAINED[:20], BROKEN, *TRAINED[20:]], format="k8sbench"),
    "checkpoint-failed": log(
        [
            *TRAINED,
            train_logs.event("checkpoint", train_logs.START, step=20, failed="No space left."),
        ],
        format="k8sbench",
    ),
    "clock-mismatch": log([line.replace("time: 0.500", "time: 0.250") for line in STEADY]),
    "clocks-apart": log(
        [
            *run([0.5] * 8, total=160),
            "2026-03-02 10:00:50,000 - mmseg - INFO - Epoch(val) [1][500]\tmIoU: 0.5000",
            *run([0.5] * 8, first=80, at=70, total=160),
        ],
        format="mmseg",
    ),
    "continued": archived(history=CONTINUED),
    "device": ours("start", replace(PLANNED, device="cuda")),
    "efficiency-above-limit": group(factory.run(100.0, case="1x1"), factory.run(850.0)),
    "ends-early": log(run([0.5] * 8, total=80_000)),
    "framework": log(STEADY, framework="paddle"),
    "gpu-clocks": gpus(
        *(metrics.series("sm_clock", [mhz] * 10, of=metrics.gpu(mhz)) for mhz in (1980, 1600)),
        count=2,
    ),
    "gpu-count": log(["Distributed training: False", "gpu_ids = range(0, 1)", *STEADY], gpus=8),
    "gpu-shared": gpus(BUSY, shared=(Shared(gpu=metrics.gpu(), other="team-b/train-0"),)),
    "gpu-throttled": gpus(metrics.series("throttled", [0x20] * 10)),
    "gpus-unverified": log(STEADY, **SILENT),
    "incomplete-log": lambda: incomplete.measured(incomplete.gap(10.5, 11.5)).reasons,
    "iterations-back": log([*STEADY, *run([0.5] * 8, at=1000)]),
    "iterations-missing": log([*STEADY[:4], *STEADY[5:]]),
    "job-changed": archived(history=(JOB_CHANGED,)),
    "loader-stall": log([mmseg(i * 10, at=5 * i, waiting=0.055, total=80) for i in range(1, 9)]),
    "log-counted-twice": group(
        *(factory.run(100.0, measured={"log_digest": "same"}, repeat=n) for n in (1, 2))
    ),
    "loss-not-finite": log([*STEADY[:-1], mmseg(80, at=40, loss="nan", total=80)]),
    "metrics-at-odds": gpus(BUSY, IDLE, count=2),
    "mixed-data": group(
        *(trained_groups.trained(repeat=n) for n in (1, 2)),
        trained_groups.trained(
            repeat=3, measured={"data_set": replace(trained_groups.FILES, digest="d2")}
        ),
    ),
    "mixed-devices": of_two("environment", {"gpu_model": "V100"}, {"gpu_model": "A100"}),
    "mixed-estimator": beside(
        measured={
            "throughput": factory.throughput(500.0, time_weighted=None),
            "estimator": "arithmetic",
        }
    ),
    "mixed-weights": group(
        *(trained_groups.trained(repeat=n) for n in (1, 2)),
        trained_groups.trained(repeat=3, measured={"weights": None}),
    ),
    "model-unverified": log(STEADY, benchmark="deeplabv3p", model="DeepLabV3+", by_user=True),
    "not-measured": group(factory.run(None)),
    "nothing-measured": archived(),
    "other-benchmark": ours("start", benchmark="tsm"),
    "outlier": group(*factory.repeats([100.0, 101.0, 40.0])),
    "parameters": lambda: (
        measured(
            fixture("paddleseg.log"),
            parameters=43_589_878,
            **(SEG | {"batch_size": 2, "warmup": 10}),
        ).reasons
    ),
    "precision": log(["fp16 = dict(loss_scale=512.)", *STEADY], precision="fp32"),
    "precision-unverified": log(STEADY, **SILENT),
    "precision-without-effect": ours("start", precision_effective="fp32"),
    "preset": ours("start", replace(PLANNED, smoke=False)),
    "printed-running-mean": log(
        integrity.printed_as_the_epochs_mean(30), format="paddleclas", batch_size=None
    ),
    "repeated-lines": log([*STEADY[:4], *STEADY[3:]]),
    "restarted": log(
        [
            *run([0.5] * 6, total=100),
            integrity.HEAD + "resumed from epoch: 0, iter 40",
            *run([0.5] * 6, first=40, at=500, total=100),
        ]
    ),
    "run-cancelled": ended(Phase.CANCELLED),
    "run-failed": ended(Phase.FAILED),
    "run-in-progress": ended(Phase.RUNNING),
    "run-lost": ended(Phase.LOST),
    "running-mean-coarse": log(
        [
            *(tsm(0, s, 0.3, 0.3, total=40000) for s in range(0, 20001, 5000)),
            tsm(0, 20020, 0.3, 0.299, total=40000),
        ],
        format="tsm",
        batch_size=16,
    ),
    "sampled-steps": log(
        integrity.paddlevideo(1, [0.1] * 8, 32.2), format="paddlevideo", batch_size=16, warmup=20
    ),
    "shared-node": of_two("environment", {"node": "a"}, {"node": "a"}, replace(PLANNED, nodes=2)),
    "short-warmup": ours("start", replace(PLANNED, warmup=5, window_by_catalog=True)),
    "sockets-between-nodes": of_two(
        "environment", TWO_NODES | {"node": "a"}, TWO_NODES | {"node": "b"}
    ),
    "summary-mismatch": log(integrity.dle("256.00"), format="dle-resnet50", batch_size=128),
    "summary-only": declared(["done: 64.0"]),
    "too-few-iterations": log(STEADY, at_least=200),
    "too-few-records": log(STEADY, warmup=50),
    "trainer-count": lambda: own.both(worker=["nothing here"]).reasons,
    "two-runs": of_two("start", {}, {"run_id": "another"}),
    "unread-number": declared([*RECORDS, "step 9 ips 1,064.5"], PATTERN),
    "unsteady": log(run([*[0.5] * 8, 0.76])),
    "unsteady-runs": group(*factory.repeats([100.0, 115.0, 135.0])),
    "wide-interval": group(*factory.repeats([100.0, 111.0])),
    "xid-error": gpus(metrics.series("xid", [0] * 5 + [48] * 5)),
}
"""Id → what has such a finding, and perhaps others."""


def test_every_rule_has_an_example_and_every_id_a_rule() -> None:
    assert {*EXAMPLES} == {*run_rules.ALL, *group_rules.ALL}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_yields_its_finding_with_the_action_of_its_rule(name: str) -> None:
    rule = (run_rules.ALL | group_rules.ALL)[name]
    findings = [finding for finding in EXAMPLES[name]() if finding.id == name]
    assert {(finding.severity, finding.action) for finding in findings} <= {
        (severity, rule.action) for severity in ("warn", "reject")
    }
    assert findings


def test_the_sentences_are_those_of_the_file_golden() -> None:
    made = "".join(
        f"{name} ({finding.severity}): {finding.sentence}\n"
        for name, example in sorted(EXAMPLES.items())
        for finding in [next(found for found in example() if found.id == name)]
    )
    # Runs are numbered in the order in which tests make them.
    made = re.sub(r"\b(resnet50)-\d+", r"\1-N", made)
    goldens.check(GOLDEN, made)
