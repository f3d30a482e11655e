"""``k8sbench explain``: figures taken apart, published figures beside them, formats on a log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model.phase import Phase
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.imports import foreign
from tests.unit.measure import train_logs
from tests.unit.measure.support import FIXTURES, run
from tests.unit.store.examples import NOW, REJECTION, measurement, plan, step

EXAMPLES = ROOT / "docs" / "examples"


def imported(cli: Cli, *words: str) -> str:
    """Import logs, whatever becomes of them; returns the run."""
    return cli("import", *words, "--set", "s", "-o", "name", code=None).out.strip()


def explained(cli: Cli, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = cli.json("explain", *words, "-o", "json")
    return found


def formula(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = (each for each in found["formulas"] if each["estimator"] == name)
    return dict(one)


def computed(text: str) -> float:
    """What a formula's own numbers give: it must be what it says."""
    factors, _, rest = text.partition(" ÷ ")
    numerator = 1.0
    for factor in factors.split(" × "):
        number = re.match(r"[\d.]+", factor)
        assert number is not None, factor
        numerator *= float(number[0])
    divisor = re.match(r"[\d.]+", rest)
    assert divisor is not None, rest
    return numerator / float(divisor[0])


# A run


def test_a_run_names_the_lines_that_count(run_id: str, cli: Cli) -> None:
    found = explained(cli, run_id)
    measured = found["measurement"]
    lines = measured["lines"]
    assert (measured["training_lines"], measured["records"]) == (30, 29)
    assert (lines["first"]["file"], lines["first"]["line"]) == ("one.txt", 6)
    assert "(0, 210) total_ips" in lines["first"]["text"]
    assert lines["last"]["line"] == 34
    assert measured["window"]["first_iteration"] == 202
    assert (measured["warmup_iterations"], measured["iterations"]) == (200, 290)
    shown = text(cli, run_id)
    assert "Lines: 29 training lines count of 30\n" in shown
    assert "first: one.txt:6: " in shown


def test_what_the_steady_figure_leaves_out_is_listed(place: Path, cli: Cli) -> None:
    log = str(FIXTURES / "mmseg_evaluation.log")
    words = ["--format", "mmseg", "--gpus", "1", "--batch-size", "4", "--precision", "fp32"]
    name = imported(cli, log, *words)
    found = explained(cli, name)
    window, steady = found["measurement"]["window"], formula(found, "time_weighted_steady")
    assert window["left_out_count"] > 0
    assert steady["value"] > formula(found, "time_weighted")["value"]
    shown = text(cli, name)
    assert "left out of time_weighted_steady alone:" in shown
    assert f"mmseg_evaluation.log:{window['left_out'][0]['line']}:" in shown.replace("\n", " ")


FORMAT = ("--gpus", "2", "--batch-size", "4", "--precision", "fp32")


def test_of_many_lines_that_the_steady_figure_leaves_out_three_are_shown(
    place: Path, cli: Cli
) -> None:
    lines = run([0.5] * 12)
    for at in (10, 8, 6, 4):
        lines.insert(
            at, "2026-03-02 10:00:30,000 - mmseg - INFO - Saving checkpoint at 1 iterations"
        )
    (place / "many.log").write_text("\n".join(lines) + "\n")
    shown = text(cli, imported(cli, "many.log", "--format", "mmseg", *FORMAT))
    (what, _, _) = shown.partition("\ntime_weighted = ")
    assert "4 records with an evaluation, a checkpoint or a restart" in what
    assert what.count("many.log:") == 2 + 3


def test_iterations_that_no_line_covers_are_said_not_to_be_measured(place: Path, cli: Cli) -> None:
    """The line of iteration 60 is missing in the log."""
    log = str(FIXTURES / "mmseg_evaluation.log")
    words = ["--gpus", "2", "--batch-size", "4", "--precision", "fp32", "--warmup", "10"]
    assert (
        "Window: iterations 11 to 120: 100 measured, 62 s\n"
        "  not measured: 10 of these, which no line that counts covers\n"
        "  left out: the first 10 iterations, warm-up: 10\n"
    ) in text(cli, imported(cli, log, "--format", "auto", *words))


def test_a_training_names_the_lines_of_its_time_and_its_accuracy(place: Path, cli: Cli) -> None:
    lines = train_logs.texts(train_logs.attempt())
    (place / "train.log").write_text("\n".join(lines) + "\n")
    words = ["train.log", "--format", "k8sbench"]
    name = imported(cli, *words)
    found = explained(cli, name)["measurement"]
    took = found["time_to_train_s"]
    assert took == pytest.approx(train_logs.to_target(80), abs=0.01)
    stated = found["lines"]
    for at, words_there in (("began", "test_begin"), ("reached", '"value": 40.0')):
        assert stated[at]["line"] == 1 + next(n for n, x in enumerate(lines) if words_there in x)
    assert '"value": 50.0' in stated["best"]["text"]
    out = text(cli, name)
    assert f"time to train to 40 % = {took:.3f} s" in out
    assert f"began: train.log:{stated['began']['line']}: " in out


def test_a_run_is_explained_from_what_is_on_record_alone(
    run_id: str, place: Path, cli: Cli
) -> None:
    before = text(cli, run_id)
    (log,) = (place / "store" / "runs" / run_id / "logs").iterdir()
    log.unlink()
    assert text(cli, run_id) == before


def test_a_rejected_run_says_why_with_evidence_and_what_to_do(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log(batch=64))
    name = imported(cli, "a.txt", *foreign.OF)
    found = explained(cli, name)
    assert (found["state"], found["throughput"]) == ("rejected", None)
    assert found["unverified"] == pytest.approx(1200, rel=1e-3)
    (why,) = (each for each in found["reasons"] if each["severity"] == "reject")
    assert why["id"] == "batch-size"
    assert why["evidence"][0]["file"] == "a.txt"
    assert why["action"] == "Give the batch that the run really had with --batch-size."
    out = text(cli, name)
    assert "a.txt:4: Per-GPU Batch Size 64" in out
    assert "what to do: Give the batch" in out
    assert explained(cli, name, "--accept", "batch-size")["state"] == "valid"


def test_a_run_that_was_never_measured_has_no_formulas(place: Path, cli: Cli) -> None:
    from k8sbench.adapters.store.sql_store import open_store

    with open_store() as store:
        store.record(plan("failed"), at=NOW, owner=None)
        store.move("failed", step(Phase.FAILED, cause="It ran out of memory."))
        store.record(plan("measured", repeat=2), at=NOW, owner=None)
        store.move("measured", step(Phase.SUCCEEDED))
        store.measured("measured", measurement(verdict="rejected", reasons=(REJECTION,)))
    found = explained(cli, "failed")
    assert (found["formulas"], found["measurement"], found["state"]) == ([], None, "Failed")
    assert [why["message"] for why in found["reasons"]] == ["It ran out of memory."]
    assert "It ran out of memory" in text(cli, "failed")
    assert "too-few-records" in text(cli, "measured")


def text(cli: Cli, *words: str) -> str:
    return cli("explain", *words).out


# A group


def test_a_group_shows_its_runs_its_formulas_and_its_interval(logs: Path, cli: Cli) -> None:
    rows = cli.json("import", "logs", *foreign.OF, "--set", "s", "-o", "json", code=None)["rows"]
    (row,) = (r for r in rows if (r["case"], r["precision"]) == ("1x8", "amp"))
    found = explained(cli, row["group"])
    assert [each["repeat"] for each in found["members"]] == [1, 2, 3, 4, 5]
    assert found["throughput"] == row["throughput"]
    median = formula(found, "median")
    assert median["text"].startswith("the middle of 878")
    assert formula(found, "interval")["value"] == 0.9375
    assert formula(found, "interval")["text"].endswith(" of 5 runs, coverage 0.9375")
    speedup = formula(found, "speedup")
    assert computed(speedup["text"]) == pytest.approx(row["speedup"], rel=1e-4)
    assert row["baseline"] in speedup["text"]
    assert formula(found, "efficiency")["value"] == pytest.approx(row["speedup"] / 8)
    shown = text(cli, row["group"][:6])
    assert all(each["run_id"] in shown for each in found["members"])


def test_a_group_without_a_figure_says_why(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log(batch=64))
    (row,) = cli.json("import", "a.txt", *foreign.OF, "--set", "s", "-o", "json", code=None)["rows"]
    found = explained(cli, row["group"])
    assert found["formulas"] == [{"estimator": "median", "value": None, "text": "no run counts"}]
    assert "batch-size" in text(cli, row["group"])


# Published figures


def published(place: Path, figure: float, estimator: str = "unknown") -> list[str]:
    """The benchmark of the logs with a published figure; returns the words that import them."""
    path = place / "mine.yaml"
    path.write_text(
        foreign.BENCHMARK.read_text()
        + "    published:\n"
        + f"      - {{case: 1x1, precision: amp, batch_size: 256, gpu_model: {foreign.GPU},\n"
        + f"         source: report, throughput: {figure}, estimator: {estimator}}}\n"
        + "sources:\n  report: {title: A report}\n"
    )
    return ["--benchmark", str(path), "--gpu-model", foreign.GPU]


def uneven(place: Path) -> list[str]:
    """Three repeats whose records differ, so that each rule gives another figure."""
    names = []
    for repeat in range(3):
        lines = foreign.log(rate=1200 + 10 * repeat * repeat).splitlines()
        lines[8] = re.sub(r"[\d.]+ $", f"{600 + repeat} ", lines[8])
        name = f"{repeat}.txt"
        (place / name).write_text("\n".join(lines) + "\n")
        names.append(name)
    return names


THREE = ["time_weighted", "arithmetic", "median"]
WITHOUT_CLOCK = ["--accept", "clock-mismatch", "--accept", "unsteady"]


@pytest.mark.parametrize("rule", THREE)
def test_the_rule_that_gives_the_published_figure_is_named(
    place: Path, cli: Cli, rule: str
) -> None:
    words = published(place, 1000.0)
    (name, *_) = uneven(place)
    run_id = imported(cli, name, *words, *WITHOUT_CLOCK)
    figure = formula(explained(cli, run_id), rule)["value"]
    published(place, round(figure, 2))
    (found,) = explained(cli, run_id)["published"]
    stated = found["figure"]
    assert (stated["published"], stated["estimator"]) == (round(figure, 2), "unknown")
    nearest, *others = found["rules"]
    assert (nearest["name"], nearest["deviation"]) == (rule, pytest.approx(0, abs=1e-5))
    assert all(abs(other["deviation"]) > 1e-4 for other in others if other["name"] in THREE)
    assert f" {rule} (+0.00 %)" in text(cli, run_id).replace("−", "+")


def test_the_nearest_rule_comes_first(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log())
    name = imported(cli, "a.txt", *published(place, 1300.0, "median"))
    (found,) = explained(cli, name)["published"]
    assert found["figure"]["estimator"] == "median"
    deviations = [abs(rule["deviation"]) for rule in found["rules"]]
    assert deviations == sorted(deviations)


def test_what_differs_besides_the_rule_is_said(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log(gpus=8, rate=8800.0))
    name = imported(cli, "a.txt", *published(place, 1200.0))
    (found,) = explained(cli, name)["published"]
    assert found["not_comparable"] == ["case"]
    # No ratio of unequal things.
    assert {rule["deviation"] for rule in found["rules"]} == {None}
    shown = text(cli, name)
    assert "not comparable: case" in shown
    assert "(+" not in shown


# A declared format


def test_a_format_shows_what_each_expression_matches(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log())
    found = explained(cli, str(foreign.BENCHMARK), "a.txt")
    assert (found["log"], found["read"]) == ("a.txt", 35)
    shown = {each["name"]: each for each in found["expressions"]}
    assert list(shown) == ["record", "facts[0]", "facts[1]", "facts[2]"]
    assert shown["record"]["matched"] == 30
    assert [line["place"]["line"] for line in shown["record"]["lines"]] == [5, 6, 7]
    assert shown["facts[0]"]["lines"][0]["groups"] == {"gpus": "1"}


def test_an_expression_that_matches_nothing_says_so(place: Path, cli: Cli) -> None:
    log = (EXAMPLES / "my-model.log").read_text().replace("loss ", "loss=")
    (place / "a.log").write_text(log)
    out = text(cli, str(EXAMPLES / "my-model.yaml"), "a.log")
    assert "record of pytorch/base matches no line" in out
    assert "summary of pytorch/base matches 1 line" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "There is no run 'nothing'"),
        (["one"], "'one' is a set, not a run or a group."),
        (["g-nothing"], "There is no group 'g-nothing'"),
        (["resnet50", "a.log"], "declares no log format: its variants name families"),
        (["mine.yaml"], "a log is needed beside it"),
        ([str(foreign.BENCHMARK), "gone.log"], "gone.log: does not exist"),
        ([str(foreign.BENCHMARK), "empty.log"], "empty.log: is empty"),
        (["nothing", "--accept", "batchsize"], "there is no such reason"),
    ],
)
def test_what_cannot_be_explained_is_a_sentence_and_exit_2(
    run_id: str, place: Path, cli: Cli, words: list[str], says: str
) -> None:
    (place / "a.log").write_text("x\n")
    (place / "empty.log").write_text("")
    out, err = cli("explain", *words, code=2)
    assert out == ""
    assert says in err


def test_hostile_lines_stay_text(place: Path, cli: Cli) -> None:
    (place / "a.log").write_text("\x1b]0;owned\x07Num GPUs 1 \x1b[31mred\n")
    out = text(cli, str(foreign.BENCHMARK), "a.log")
    assert "\x1b" not in out
    assert "\x07" not in out
