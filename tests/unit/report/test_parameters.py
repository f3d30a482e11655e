"""Parameters of a published report's rows."""

from k8sbench.measure.group import grouping
from k8sbench.report import parameters
from tests.unit.report.factory import run


def test_batches_of_a_million_tokens_have_all_their_digits() -> None:
    runs = [
        run(900_000.0, unit="tokens", batch_size=1_048_576),
        run(900_000.0, unit="tokens", batch_size=8, precision="amp", amp_dtype="bf16"),
    ]
    groups = grouping.groups(runs)
    names = {group.key.id: group.plan.precision for group in groups}
    found = parameters.of(groups, {}, names, "en", nccl="", given=lambda _: {})
    rows = [dict(zip(found.titles, row, strict=True)) for row in found.rows]
    samples = {row["row"]: row["step_samples"] for row in rows}
    assert samples == {"fp32": "8388608", "amp": "64"}
    assert found.batches == [("FP32", "1048576"), ("AMP", "8")]
