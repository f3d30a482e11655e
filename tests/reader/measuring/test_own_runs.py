"""Our own trainers' logs, against the plan that ran them."""

import json
from typing import Any, Literal

import msgspec
import pytest

from k8sbench.model.measurement import Arithmetic, Measurement, arithmetic_digest
from k8sbench.reader.measuring import expectation
from tests.reader.measuring.own_runs import MASTER, PLAN, WORKER, both, edited
from tests.reader.measuring.support import ids
from tests.unit.presence import present


def test_the_rate_by_the_stamps_has_the_windows_first_step() -> None:
    """It ends a second late, and so does all that follows."""
    lines = []
    for line in MASTER:
        head, mark, body = line.partition("K8SBENCH ")
        fields = json.loads(body) if mark else {}
        if fields.get("event") == "step" and fields["step"] > 4:
            fields["time"] += 1.0
            fields["seconds"] += 1.0 if fields["step"] == 5 else 0.0
            line = f"{head}{mark}{json.dumps(fields)}"  # noqa: PLW2901
        lines.append(line)
    figures = both(lines)
    found = present(figures.throughput or figures.unverified)
    assert found.time_weighted == pytest.approx(64 / 5)
    assert found.timestamps == pytest.approx(64 / 5, rel=0.01)


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


TYPES = {"conv": "bfloat16", "loss": "float32", "resize": "2 bfloat16 + 2 float32"}


def stating(**changes: Any) -> Measurement:
    """The same run, whose first step states its arithmetic."""
    stated = {"by": "seen", "digest": arithmetic_digest(TYPES), "types": TYPES} | changes
    event = {"event": "environment", "rank": 0, "arithmetic": stated}
    return both([*MASTER[:3], f"K8SBENCH {json.dumps(event)}", *MASTER[3:]])


@pytest.mark.parametrize("by", ["seen", "derived"])
def test_the_types_of_a_runs_operations_are_kept(by: Literal["seen", "derived"]) -> None:
    found = stating(by=by)
    assert found.arithmetic == Arithmetic(types=TYPES, digest=arithmetic_digest(TYPES), by=by)
    assert "arithmetic" not in found.missing
    assert not [name for name in found.environment if "arithmetic" in name]
    # Nothing else follows from the further line, which moves those after it.
    bare: dict[str, Any] = {"arithmetic": None, "missing": {}, "missing_notes": {}, "lines": {}}
    assert msgspec.structs.replace(found, **bare) == msgspec.structs.replace(both(), **bare)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"types": TYPES | {"resize": "float32"}}, "does not match its digest."),
        ({"digest": "0" * 16}, "does not match its digest."),
        ({"by": "guessed"}, "does not match its digest."),
        ({"types": None}, "does not state"),
        ({"types": {"a": None}}, "does not state"),
    ],
)
def test_types_that_cannot_be_believed_are_none(changes: dict[str, Any], said: str) -> None:
    found = stating(**changes)
    assert found.arithmetic is None
    assert said in found.missing["arithmetic"]


def test_a_record_that_holds_an_evaluation_is_no_steady_one() -> None:
    lines = [
        line.replace('"lr"', '"holds": ["evaluation"], "lr"') if '"step": 8' in line else line
        for line in MASTER
    ]
    assert present(both(lines).window).left_out_count == 1


def test_a_step_of_sequences_counts_their_tokens() -> None:
    """By the log's own length, which a plan repeats."""
    planned = msgspec.structs.replace(PLAN, unit="tokens", options={"sequence-length": 64})
    start, summary = (
        next(json.loads(line.partition("K8SBENCH ")[2]) for line in MASTER if f'"{event}"' in line)
        for event in ("start", "summary")
    )
    options = start["options"] | {"sequence_length": 64}
    master = edited(MASTER, "start", unit="tokens", options=options)
    window = {name: summary["window"][name] * 64 for name in ("samples", "samples_per_second")}
    master = edited(master, "summary", window=summary["window"] | window)
    worker = edited(WORKER, "start", unit="tokens", options=options)
    found = both(master, worker, expectation.from_plan(planned))
    assert present(found.throughput).unit == "tokens/s"
    assert present(found.throughput).time_weighted == pytest.approx(64 * 16.0)
    assert (found.batch_size_per_gpu, ids(found)) == (4, ids(both()))
