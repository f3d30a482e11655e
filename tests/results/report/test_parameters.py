"""Parameters of a published report's rows."""

from typing import Any

import pytest

from k8sbench.messages import Lang
from k8sbench.model.run import Run
from k8sbench.results.groups import grouping
from k8sbench.results.report import parameters
from k8sbench.results.report.account import Account
from k8sbench.results.report.environment import Given
from k8sbench.results.report.words import say
from tests.results.report.factory import run, smoke


def of(*runs: Run, lang: Lang = "en") -> parameters.Parameters:
    groups = grouping.groups(runs)
    names = {group.key.id: str(group.facts.precision) for group in groups}
    account = Account(groups, names, {one.run_id: one for one in runs}, Given())
    return parameters.of(groups, {}, names, lang, nccl="", account=account)


def test_batches_of_a_million_tokens_have_all_their_digits() -> None:
    runs = [
        run(900_000.0, unit="tokens", batch_size=1_048_576),
        run(900_000.0, unit="tokens", batch_size=8, precision="amp", amp_dtype="bf16"),
    ]
    found = of(*runs)
    rows = [dict(zip(found.titles, row, strict=True)) for row in found.rows]
    samples = {row["row"]: row["step_samples"] for row in rows}
    assert samples == {"fp32": "8388608", "amp": "64"}
    assert found.batches == [("FP32", "1048576"), ("AMP", "8")]


LOCAL: dict[str, Any] = {"backend": "local", "image": None, "replicas": 4}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("one", "columns", "counts", "several"),
    [
        # Four processes of a laptop.
        (
            smoke(5.0, replicas=4),
            {"nodes": "1", "cpu_processes": "4"},
            {"cpu_processes": "4"},
            ("no", "no"),
        ),
        # Four replicas of this machine, each with a GPU.
        (
            run(5.0, case="4x1", **LOCAL),
            {"nodes": "1", "gpus_per_node": "4"},
            {"gpus_of_rows": "4"},
            ("yes", "no"),
        ),
        (
            run(5.0, case="2x8"),
            {"nodes": "2", "gpus_per_node": "8"},
            {"gpus_of_rows": "16"},
            ("yes", "yes"),
        ),
        (run(5.0, case="2x1", pack=True), {}, {"gpus_of_rows": "2"}, ("yes", "no")),
    ],
)
def test_a_report_names_the_hardware_that_its_rows_ran_on(
    one: Run,
    columns: dict[str, str],
    counts: dict[str, str],
    several: tuple[str, str],
    lang: Lang,
) -> None:
    found = of(one, lang=lang)
    (row,) = (dict(zip(found.titles, row, strict=True)) for row in found.rows)
    hardware = ("nodes", "gpus_per_node", "cpu_processes")
    assert {name: row[name] for name in hardware if name in row} == columns
    features = {line[0]: line[1] for line in found.features}
    both = ("gpus_of_rows", "cpu_processes")
    shown = {name: features.get(say(lang, name)) for name in both}
    assert {name: text for name, text in shown.items() if text is not None} == counts
    names = ("several_gpus", "several_nodes")
    assert [features[say(lang, name)] for name in names] == [say(lang, one) for one in several]
