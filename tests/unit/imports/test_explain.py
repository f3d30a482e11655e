"""``k8sbench explain``: figures taken apart, and declared formats on a log."""

import re
from pathlib import Path
from typing import get_args

import pytest

from k8sbench.app.finding_ids import DOCTORS
from k8sbench.diagnose.job.causes import CAUSES
from k8sbench.model import rules as run_rules
from k8sbench.model.compared import RateChange
from k8sbench.model.phase import Phase
from k8sbench.model.series import Kind
from k8sbench.results.groups import rejections as group_rules
from k8sbench.results.report.columns import COLUMNS
from tests.reader.measuring import train_logs
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.imports import foreign
from tests.unit.store.examples import NOW, plan, step


def imported(cli: Cli, *words: str) -> str:
    """Import logs, whatever becomes of them; returns the run."""
    return cli("import", *words, "--set", "s", "-o", "name", code=None).out.strip()


def text(cli: Cli, *words: str) -> str:
    return cli("explain", *words).out


# A run


def test_a_former_id_of_a_reason_can_be_accepted(run_id: str, cli: Cli) -> None:
    assert text(cli, run_id, "--accept", "below-median") == text(cli, run_id)


def test_a_run_names_the_lines_that_count_and_its_estimators(run_id: str, cli: Cli) -> None:
    shown = text(cli, run_id)
    assert "Lines: 29 training lines count of 30\n  first: one.txt:6: DLL " in shown
    assert "\n  last: one.txt:34: DLL " in shown
    assert "Window: iterations 202 to 491: 290 measured" in shown
    assert "\n  left out: the first 201 iterations, warm-up: 200\n" in shown
    assert re.search(r"\nEstimators: time_weighted_steady \S+ · median \S+ · arithmetic ", shown)
    assert "\nReasons: none\n" in shown


def test_a_training_names_the_lines_of_its_time_and_its_accuracy(place: Path, cli: Cli) -> None:
    lines = train_logs.texts(train_logs.attempt())
    (place / "train.log").write_text("\n".join(lines) + "\n")
    shown = text(cli, imported(cli, "train.log", "--format", "k8sbench"))
    took = train_logs.to_target(80)
    assert f"time to train to 40 % = {took:.3f} s from test_begin" in shown
    for name, words in (("began", "test_begin"), ("reached", '"value": 40.0')):
        number = 1 + next(n for n, line in enumerate(lines) if words in line)
        assert f"  {name}: train.log:{number}: " in shown
    assert "\n  best: train.log:" in shown


def test_a_run_is_explained_from_its_record_alone(run_id: str, place: Path, cli: Cli) -> None:
    before = text(cli, run_id)
    (log,) = (place / "store" / "runs" / run_id / "logs").iterdir()
    log.unlink()
    assert text(cli, run_id) == before


def test_a_rejected_run_says_why_with_evidence_and_what_to_do(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log(batch=64))
    name = imported(cli, "a.txt", *foreign.OF)
    out = text(cli, name)
    assert out.startswith(f"{name}: 1199.91 images/s does not count, rejected\n")
    assert "reject batch-size: " in out
    assert "a.txt:4: Per-GPU Batch Size 64" in out
    assert "what to do: Give the batch that the run really had with --batch-size." in out
    first, *_ = text(cli, name, "--accept", "batch-size").splitlines()
    assert first.endswith(" by time_weighted, valid")


def test_a_run_that_was_never_measured_has_no_estimators(place: Path, cli: Cli) -> None:
    from k8sbench.store.open_store import open_store

    with open_store() as store:
        store.record(plan("failed"), at=NOW, process=None)
        store.move("failed", step(Phase.FAILED, cause="It ran out of memory."))
    shown = text(cli, "failed")
    assert shown.startswith("failed: no figure, Failed\n")
    assert "It ran out of memory." in shown
    assert "Estimators" not in shown


# An id


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpu-count", "a reason (reject)\n  The logged number of GPUs differs from the plan's"),
        ("outlier", "a reason (reject)"),
        ("below-median", "unsteady: a reason (warn)"),
        ("too-few-nodes", "unrecoverable: no)\n  No node is left for REPLICAS: WHY.\n"),
        (
            "quota",
            "a check of doctor\n  fail: The quota does not let JOB in: SHORT.\n    what to do",
        ),
    ],
)
def test_an_id_says_what_it_means_and_what_to_do(name: str, words: str, cli: Cli) -> None:
    shown = text(cli, name)
    assert words in shown
    assert "what to do: " in shown


WORDS = {
    *get_args(Kind),
    *get_args(RateChange),
    *(phase.lower() for phase in Phase),
    *(column.title for column in COLUMNS),
}


def test_a_pattern_lists_ids_and_a_mistyped_one_names_the_nearest(cli: Cli) -> None:
    found = {*re.findall(r"^(\S.*): a ", text(cli, "*"), re.MULTILINE)}
    ids = {*run_rules.ALL, *group_rules.ALL, *CAUSES, *(check.id for check in DOCTORS)}
    assert ids | WORDS <= found
    assert not re.search(r"[{}]", text(cli, "*"))
    assert {"gpu-count", "gpu-driver"} <= {
        *re.findall(r"^(\S+): a ", text(cli, "gpu-*"), re.MULTILINE)
    }
    assert "Did you mean gpu-count?" in cli("explain", "gpu-cout", code=2).err


@pytest.mark.parametrize("name", sorted(WORDS))
def test_each_word_of_the_results_is_explained_in_any_case(name: str, cli: Cli) -> None:
    for typed in (name, name.upper()):
        assert re.search(rf"^{re.escape(name)}: a .*\n  \S", text(cli, typed), re.MULTILINE)


def test_each_id_in_the_tables_of_the_page_on_results_is_explained(cli: Cli) -> None:
    page = (ROOT / "docs/results.md").read_text()
    named = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(named) > 15
    for name in named:
        cli("explain", name)


def test_a_run_counts_before_a_word(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log())
    assert text(cli, "power").startswith("power: a column")
    cli("import", "a.txt", *foreign.OF, "--set", "power", code=None)
    assert "images/s" in text(cli, "power")


# A group


def test_a_group_shows_its_runs_its_interval_and_its_speedup(logs: Path, cli: Cli) -> None:
    rows = cli.json("import", "logs", *foreign.OF, "--set", "s", "-o", "json", code=None)["rows"]
    (row,) = (r for r in rows if (r["case"], r["precision"]) == ("1x8", "amp"))
    shown = text(cli, row["group"][:6])
    assert shown.startswith(f"{row['group']}: {row['throughput']:.2f} images/s by time_weighted")
    assert all(f"  {each['repeat']}. {each['run_id']}: " in shown for each in row["members"])
    assert len(row["members"]) == 5
    assert re.search(r"\nMedian of 5 runs; 95 % interval \S+\n", shown)
    assert f"\nSpeedup: {row['speedup']:.2f}, against group {row['baseline']}" in shown
    assert f"\nEfficiency: {row['efficiency']:.2f}" in shown
    assert "'s' is a set, not a run." in cli("explain", "s", code=2).err


def test_the_name_of_a_set_of_one_run_is_that_run(run_id: str, cli: Cli) -> None:
    assert text(cli, "one") == text(cli, run_id)


# A declared format


def test_a_format_shows_what_each_expression_matches(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log())
    shown = text(cli, str(foreign.BENCHMARK), "a.txt")
    assert shown.startswith("a.txt: 35 lines\nrecord of pytorch/logs matches 30 lines: ")
    assert [f"\n  a.txt:{line}: DLL " in shown for line in (4, 5, 6, 7, 8)] == [0, 1, 1, 1, 0]
    assert "\n    gpus '1'\n" in shown


def test_an_expression_that_matches_no_line_is_named(place: Path, cli: Cli) -> None:
    (place / "a.txt").write_text(foreign.log())
    wrong = foreign.BENCHMARK.read_text().replace("total_ips :", "total_ips  :")
    (place / "wrong.yaml").write_text(wrong)
    assert "\nrecord of pytorch/logs matches no line: " in text(cli, "wrong.yaml", "a.txt")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nothing"], "There is no run, group or id 'nothing'"),
        (["g-nothing"], "There is no group 'g-nothing'"),
        ([str(foreign.BENCHMARK), "gone.log"], "gone.log: cannot be read"),
        (["nothing", "--accept", "batchsize"], "there is no such reason"),
    ],
)
def test_what_cannot_be_explained_is_a_sentence_and_exit_2(
    run_id: str, place: Path, cli: Cli, words: list[str], says: str
) -> None:
    (place / "a.log").write_text("x\n")
    out, err = cli("explain", *words, code=2)
    assert out == ""
    assert says in err


def test_hostile_lines_stay_text(place: Path, cli: Cli) -> None:
    (place / "a.log").write_text("\x1b]0;owned\x07Num GPUs 1 \x1b[31mred\n")
    out = text(cli, str(foreign.BENCHMARK), "a.log")
    assert "\x1b" not in out
    assert "\x07" not in out
