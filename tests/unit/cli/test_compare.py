"""``compare``, ``baseline`` and ``history``: names, exit codes, what is printed where."""

import csv
import datetime
import io
import json
import pathlib
import re
import time

import pytest

from k8sbench.model.errors import UNDECIDED_EXIT_CODE
from k8sbench.model.phase import Phase
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from tests.results.groups.changed_sets import a_set
from tests.results.groups.histories import FLAT, dropped, sets
from tests.results.groups.nights import DAY
from tests.results.groups.sides import A, B, new, old
from tests.results.report import parsed
from tests.results.report.factory import START, repeats, run
from tests.unit.cli.conftest import Fill, Typed
from tests.unit.store import schemas

START_OF_N9 = datetime.datetime.fromtimestamp(START + 9e5, datetime.UTC).isoformat()


@pytest.mark.parametrize(
    ("b", "limit", "code"),
    [
        (new(B), "3%", 7),
        (new(B), "0.5 %", 7),
        (new(B), "12%", 0),
        (new(A), "3%", 0),
        (new(A), "0.5%", UNDECIDED_EXIT_CODE),  # less than the floor, and than these runs show
        (new((100.0, 80.0, 110.0)), "3%", UNDECIDED_EXIT_CODE),  # too noisy to show 3 %
        (new(B[:1]), "3%", UNDECIDED_EXIT_CODE),
        ([run(None, set_name="new", phase=Phase.FAILED)], "3%", 5),
        (new(B, batch_size=64), "3%", 2),
    ],
)
def test_the_exit_code_is_7_for_a_regression_and_never_0_for_nothing(
    fill: Fill, typed: Typed, b: list[Run], limit: str, code: int
) -> None:
    fill([*old(), *b])
    assert typed("compare", "old", "new")[0] == 0
    words = ("compare", "old", "new", "--fail-on-regression", limit)
    found, out, err = typed(*words, "--fail-on-undecided")
    assert found == code
    assert typed(*words)[0] == (0 if code == UNDECIDED_EXIT_CODE else code)
    assert out.startswith("A: old   B: new\n")
    assert ("1 of 1 case slower by more than" in out) == (code == 7)
    assert ("these runs cannot show a change of" in err) == (code == UNDECIDED_EXIT_CODE)


@pytest.mark.parametrize("text", ["3", "0%", "-3%", "100%", "three %", "0.03", "3%%"])
def test_a_limit_is_a_share_in_percent(typed: Typed, root: pathlib.Path, text: str) -> None:
    code, out, err = typed("compare", "old", "new", f"--fail-on-regression={text}")
    assert (code, out) == (2, "")
    assert "Write a share such as 3% or 0.5%, above 0% and below 100%." in err
    assert not root.exists()


def test_a_side_is_named_by_whatever_stands_for_its_runs(fill: Fill, typed: Typed) -> None:
    a, b = old(), new()
    fill([*a, *b])
    typed("baseline", "save", "base", "old")

    def medians(one: str, two: str) -> tuple[float, float]:
        code, out, err = typed("compare", one, two, "-o", "json")
        assert code == 0, err
        (case,) = json.loads(out)["cases"]
        return case["a"]["median"], case["b"]["median"]

    group = json.loads(typed("results", "--set=old", "-o", "json")[1])["rows"][0]["group"]
    for name in ("old", "set:old", "base", "baseline:base", group, group[:6], f"group:{group}"):
        assert medians(name, "new") == (101.0, 91.0)
    ids = [one.run_id for one in b]
    assert medians("old", ids[0]) == (101.0, 90.0)
    assert medians("old", f"{ids[0]},run:{ids[1]}") == (101.0, 90.5)
    assert medians("new", "old") == (91.0, 101.0)


def test_what_stands_for_several_things_or_for_none_is_an_error(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new()])
    typed("baseline", "save", "old", "new")
    code, _, err = typed("compare", "old", "new")
    assert code == 2
    assert "'old' stands for 2 things.\n  Write one of: baseline:old, set:old." in err
    assert typed("compare", "set:old", "new")[0] == 0
    code, _, err = typed("compare", "set:old", "odl")
    assert code == 2
    assert "There is no baseline or set or group or run 'odl'.\n  Did you mean old?" in err
    assert "There is no run 'new'." in typed("compare", "set:old", "run:new")[2]
    code, _, err = typed("compare", "set:old", "resnet50-")
    assert "'resnet50-' stands for 10 things." in err


def test_the_answer_comes_first_in_every_place(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new(), *old(case="1x1"), *new(A, case="1x1")])
    said = (
        "1 of 2 cases slower between these two sets: resnet50 pytorch fp32 1x8, −9.9 %"
        " (−11.2 to −8.6 %); 1 shows no change."
    )
    assert typed("compare", "old", "new")[1].splitlines()[1] == said
    assert said in typed("compare", "old", "new", "-o", "markdown")[1].splitlines()[0]
    assert json.loads(typed("compare", "old", "new", "-o", "json")[1])["summary"] == said
    assert typed("compare", "old", "new", "-o", "csv", "--fail-on-regression=20%")[2] == f"{said}\n"


def night(number: int, rate: float) -> list[Run]:
    """Make a set of three runs, a day after the one before."""
    rates = (0.999 * rate, rate, 1.001 * rate)
    at = START + 86400 * number
    return [
        run(one, set_name=f"night-{number}", repeat=n, at=at + n) for n, one in enumerate(rates, 1)
    ]


def test_a_regression_is_held_against_the_spread_between_sets(fill: Fill, typed: Typed) -> None:
    words = ("compare", "night-5", "night-6", "--fail-on-regression=2%", "--fail-on-undecided")
    for number, rate in enumerate((100.0, 102.0, 98.5, 101.0, 97.8)):
        fill(night(number, rate))
    fill([*night(5, 100.0), *night(6, 97.0)])
    code, out, err = typed(*words)
    assert (code, "1 of 1 case shows no change." in out) == (UNDECIDED_EXIT_CODE, True)
    assert "these runs cannot show a change of 2 % (resnet50 pytorch fp32 1x8: " in err
    # The same two sets alone are a regression between these two.
    for number in range(5):
        assert typed("store", "remove", f"night-{number}", "--yes")[0] == 0
    code, out, _ = typed(*words)
    assert (code, "slower by more than 2 % between these two sets" in out) == (7, True)


def test_what_can_be_shown_differs_from_the_limit_by_its_digits(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new(A)])
    words = ("compare", "old", "new")
    (case,) = json.loads(typed(*words, "-o", "json")[1])["cases"]
    least = 100 * case["least"]
    limit = f"{least - 0.001:.4f}%"
    assert f"{float(limit[:-1]):.1f}" == f"{least:.1f}"
    err = typed(*words, f"--fail-on-regression={limit}")[2]
    said = re.search(r"1x8: ([0-9.]+) %", err)
    assert said is not None
    assert float(said[1]) > float(limit[:-1])
    assert float(said[1]) == pytest.approx(least, abs=0.001)


@pytest.mark.parametrize(
    ("rate", "code"), [(94.0, 7), (97.6, 0), (100.1, 0)], ids=["slower", "within 3 %", "equal"]
)
def test_the_exit_code_does_not_change_with_the_number_of_earlier_sets(
    fill: Fill, typed: Typed, rate: float, code: int
) -> None:
    words = ("compare", "night-8", "night-9", "--fail-on-regression=3%")
    fill([*night(8, 100.0), *night(9, rate)])
    codes = [typed(*words)[0]]
    for number in reversed(range(8)):
        fill(night(number, (100.2, 99.9, 100.1)[number % 3]))
        codes.append(typed(*words)[0])
    assert codes == [code] * 9


@pytest.mark.parametrize("earlier", [0, 3, 4, 8])
def test_a_case_that_cannot_show_the_limit_is_judged_by_what_it_can_show(
    fill: Fill, typed: Typed, earlier: int
) -> None:
    """A line says so, also beside a case that is slower."""
    noisy = (100.0, 104.0, 97.0, 102.0, 96.0, 103.0, 99.0, 105.0, 98.0, 101.0)
    for number in range(8 - earlier, 10):
        fill(night(number, noisy[number])[:1])
    words = ("compare", "night-8", "night-9", "--fail-on-regression=1%")
    assert typed(*words)[0] == 0
    assert typed(*words, "--fail-on-undecided")[0] == UNDECIDED_EXIT_CODE
    assert "these runs cannot show a change of 1 %" in typed(*words)[2]
    slower = {"night-8": A, "night-9": B}
    for number, (name, rates) in enumerate(slower.items(), 8):
        fill(repeats(rates, set_name=name, case="4x8", at=START + 86400 * number))
    code, _, err = typed(*words)
    assert code == 7
    assert "these runs cannot show a change of 1 %" in err


def test_a_comment_for_a_pull_request_shows_the_changes_and_folds_the_rest(
    fill: Fill, typed: Typed
) -> None:
    fill([*old(), *new(), *old(case="1x1"), *new(A, case="1x1"), *old(case="4x8")])
    code, out, err = typed("compare", "old", "new", "-o", "github", "--fail-on-regression=3%")
    comment = parsed.tree(out)
    shown = comment.text or ""
    (folded,) = comment
    assert shown.startswith("**old → new**: 1 of 3 cases slower by more than 3 % between these")
    assert [line.split(" | ")[0] for line in shown.splitlines() if line.startswith("| r")] == [
        "| resnet50 pytorch fp32 1x8"
    ]
    assert "\n1 more case differs by ±0.0 %, within usual variation; below are all.\n" in shown
    (summary,) = folded
    assert (folded.tag, summary.tag, summary.text) == ("details", "summary", "3 cases")
    table = summary.tail or ""
    assert table.count("\n| resnet50") == 3
    # GitHub reads a table within HTML only between empty lines.
    assert table.startswith("\n\n| case |")
    assert table.endswith("\n\n")
    assert folded.tail == "\n"
    assert (code, "1 of 3 cases slower by more than 3 %" in err) == (7, True)


def test_causes_are_what_changed_between_the_sets_around_the_step(fill: Fill, typed: Typed) -> None:
    first, image = ({"driver": driver} for driver in ("535", "550"))
    for n, rate in enumerate((100.1, 99.9, 100.0, 100.1, 99.9)):
        fill(a_set(f"early-{n}", (n - 5) * DAY, (rate, first)))
    fill(a_set("old", 0, (100, first)) + a_set("mid", DAY, (100, image | {"cuda": "12.4"})))
    fill(a_set("new", 2 * DAY, (90, {"driver": "555", "cuda": "12.6"})))
    typed("baseline", "save", "base", "old")
    typed("store", "remove", "old", "--yes")
    (cause,) = json.loads(typed("compare", "base", "new", "-o", "json")[1])["causes"]
    assert cause["sets"] == ["mid", "new"]
    assert [(fact["name"], fact["a"], fact["b"]) for fact in cause["facts"]] == [
        ("driver", "550", "555")
    ], "A states no CUDA"


def test_only_the_cases_that_are_asked_for_are_compared(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new(), *old(A[:1], case="1x1"), *new(B[:1], case="1x1")])
    words = ("compare", "old", "new", "--fail-on-regression=20%", "--fail-on-undecided")
    code, _, err = typed(*words)
    assert code == UNDECIDED_EXIT_CODE
    assert "resnet50 pytorch fp32 1x1" in err
    assert typed(*words, "--case=1x8", "--benchmark=resnet50")[0] == 0
    code, out, err = typed(*words, "--framework=paddle")
    assert (code, out) == (2, "")
    assert "There is no run of framework paddle.\n  There are: pytorch." in err


def test_one_run_against_one_is_undecided_without_a_limit_too(fill: Fill, typed: Typed) -> None:
    fill([*old(A[:1]), *new(A[:1])])
    assert typed("compare", "old", "new")[0] == 0
    assert typed("compare", "old", "new", "--fail-on-undecided")[0] == UNDECIDED_EXIT_CODE


# Baselines


def test_a_baseline_stays_what_it_was_when_its_runs_are_gone(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new()])
    assert typed("baseline", "save", "base", "old")[0] == 0
    before = typed("compare", "base", "new", "-o", "json")
    code, _, err = typed("store", "remove", "old", "--yes")
    assert code == 0, err
    assert typed("compare", "base", "new", "-o", "json") == before
    (listed,) = json.loads(typed("baseline", "list", "-o", "json")[1])
    assert (listed["name"], listed["runs"], listed["sets"]) == ("base", 5, ["old"])
    assert typed("baseline", "list", "-o", "name")[1] == "base\n"


def test_a_run_counts_once_whatever_names_it(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new()])
    typed("baseline", "save", "base", "old")
    alone = json.loads(typed("compare", "base", "new", "-o", "json")[1])
    for twice in ("base,base", "old,base", "base,old", "old,old"):
        found = json.loads(typed("compare", twice, "new", "-o", "json")[1])
        assert found["cases"] == alone["cases"], twice


def test_a_damaged_run_is_an_error_that_names_the_way_out(
    fill: Fill, typed: Typed, root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    runs = old()
    first = runs[0].run_id
    fill([*runs, *new()])
    typed("results")
    (root / "runs" / first / "run.json").write_text("{")
    report = ("report", "old", "-o", str(tmp_path / "report"))
    for words in (
        *(("compare", "old", "new"), ("explain", first), report),
        ("baseline", "save", "base", "old"),
    ):
        code, _, err = typed(*words)
        assert (code, "k8sbench store reindex" in err) == (1, True), err
    assert typed("explain", runs[1].run_id)[0] == 0


def test_only_runs_that_count_are_kept(fill: Fill, typed: Typed) -> None:
    fill([*old(), run(None, set_name="old", repeat=6, phase=Phase.FAILED)])
    fill([run(None, set_name="bad", case="1x1", phase=Phase.FAILED)])
    code, _, err = typed("baseline", "save", "base", "old")
    assert code == 0
    assert "1 of 6 runs does not" in err
    code, _, err = typed("baseline", "save", "other", "bad")
    assert code == 2
    assert "No run of bad counts" in err


def test_the_second_side_is_held_against_the_newest_baseline_too(fill: Fill, typed: Typed) -> None:
    environment = dict[str, str]()
    sets = {
        name: a_set(name, n * DAY, (rate, environment), (100, environment))
        for n, (name, rate) in enumerate([("base", 100), ("a", 97), ("b", 96)])
    }
    fill([one for runs in sets.values() for one in runs])
    typed("baseline", "save", "release", "base")
    _, out, _ = typed("compare", "a", "b")
    lines = [line for line in out.splitlines() if line.startswith("Since baseline release: ")]
    assert len(lines) == 1
    assert "1x1 −4.0 % (" in lines[0]
    one, other = json.loads(typed("compare", "a", "b", "-o", "json")[1])["cases"]
    assert one["since_baseline"]["name"] == "release"
    assert one["since_baseline"]["ratio"] == pytest.approx(0.96)
    assert [case["since_baseline"]["finding"] for case in (one, other)] == [
        "slower",
        "no-difference",
    ]
    rows = list(csv.DictReader(io.StringIO(typed("compare", "a", "b", "-o", "csv")[1])))
    assert [row["since_baseline_name"] for row in rows] == ["release", "release"]
    # With the baseline as a side there is nothing to add.
    for name in ("release", "base"):
        assert "Since baseline" not in typed("compare", name, "b")[1]


def test_names_of_baselines_are_checked(fill: Fill, typed: Typed) -> None:
    fill(old())
    assert typed("baseline", "save", "a/b", "old")[0] == 2
    assert typed("baseline", "save", "base", "old")[0] == 0
    code, _, err = typed("baseline", "save", "base", "old")
    assert (code, "--replace" in err) == (2, True)
    assert typed("baseline", "save", "base", "old", "--replace")[0] == 0
    assert typed("baseline", "remove", "base")[0] == 0
    code, _, err = typed("baseline", "remove", "base")
    assert (code, "There is no baseline 'base'" in err) == (2, True)
    code, out, err = typed("baseline", "list")
    assert (code, out) == (0, "")
    assert "k8sbench baseline save NAME SET" in err


# History


def test_a_history_shows_sixty_sets_and_names_the_option_that_shows_all(
    fill: Fill, typed: Typed
) -> None:
    fill([run(100.0, set_name=f"n{n:02}", at=START + n * DAY) for n in range(62)])

    def shown(*words: str) -> tuple[list[str], str]:
        _, out, err = typed("history", "resnet50", "-o", "json", *words)
        (series,) = json.loads(out)["series"]
        return [point["set"] for point in series["points"]], err

    newest, err = shown()
    assert (len(newest), newest[0], newest[-1]) == (60, "n02", "n61")
    first = datetime.datetime.fromtimestamp(START, datetime.UTC)
    option = f"--since {first:%Y-%m-%d}"
    assert err.splitlines()[-1] == f"2 older sets are not shown; {option} shows all sets."
    every, err = shown(*option.split())
    assert (len(every), every[0], err) == (62, "n00", "")


def test_a_history_marks_the_change(fill: Fill, typed: Typed) -> None:
    fill(sets([*FLAT, *dropped(0.05, 6)]))
    code, out, _ = typed("history", "resnet50")
    assert code == 0
    title, *lines = out.splitlines()
    assert title.endswith("samples/s, time_weighted; 95 % intervals")
    assert len(lines) == 17, "a line for each set, and the columns' titles"
    assert max(map(len, lines)) <= 80
    (marked,) = [line for line in lines if "◀" in line]
    assert marked.startswith("n10 ")
    assert marked.endswith("◀ −4.9 %")
    (series,) = json.loads(typed("history", "resnet50", "-o", "json")[1])["series"]
    assert [p["set"] for p in series["points"] if p["change"] is not None] == ["n10"]
    rows = list(csv.DictReader(io.StringIO(typed("history", "resnet50", "-o", "csv")[1])))
    assert [row["set"] for row in rows if row["change"]] == ["n10"]
    assert len(rows) == 16


@pytest.mark.parametrize("odd", [96.0, 104.0])
def test_every_answer_says_that_a_case_is_back_after_one_night(
    fill: Fill, typed: Typed, odd: float
) -> None:
    fill(sets([*FLAT, odd, 100.1]))
    words = ("compare", "n10", "n11", "--fail-on-regression=2%")
    code, out, _ = typed(*words)
    assert (code, " is back after one night." in out) == (0, True)
    (case,) = json.loads(typed(*words, "-o", "json")[1])["cases"]
    assert (case["finding"], case["odd"]["since"]) == ("back", "n10")
    (series,) = json.loads(typed("history", "resnet50", "-o", "json")[1])["series"]
    marks = {p["set"]: (p["mark"], p["since"]) for p in series["points"] if p["mark"]}
    assert marks == {"n10": ("once", "n10"), "n11": ("back", "n10")}
    last = typed("history", "resnet50")[1].splitlines()[-1]
    assert "back after one night" in last
    assert json.loads(typed("history", "-o", "json")[1])["changes"] == []
    (row,) = json.loads(typed("results", "-o", "json")[1])["rows"]
    assert (row["changed"]["kind"], row["changed"]["since"]) == ("back", "n10")
    assert "valid; back after one night" in typed("results")[1]


def test_a_history_is_of_what_is_asked_for(fill: Fill, typed: Typed) -> None:
    fill([*sets(FLAT[:2], case="1x1"), *sets(FLAT[:3], case="1x8")])
    cases = json.loads(typed("history", "resnet50", "--case=1x8", "-o", "json")[1])["series"]
    assert [one["case"] for one in cases] == ["1x8"]
    fill(sets([*FLAT, *dropped(0.05, 6)], case="1x4"))
    late = typed("history", "resnet50", "--case=1x4", f"--since={START_OF_N9}", "-o", "json")[1]
    (series,) = json.loads(late)["series"]
    # The sets before are not shown, and are what the change is told by.
    assert [(p["set"], p["change"] is not None) for p in series["points"]][:3] == [
        *(("n09", False), ("n10", True), ("n11", False))
    ]
    code, _, err = typed("history", "resnet")
    assert (code, "Did you mean resnet50?" in err) == (2, True)
    code, _, err = typed("history", "resnet50", "--case=9x9")
    assert (code, "There is no run of case 9x9.\n  There are: 1x1, 1x4, 1x8." in err) == (2, True)


def test_what_changed_anywhere_is_listed_and_a_level_can_be_accepted(
    fill: Fill, typed: Typed
) -> None:
    fill([*sets([*FLAT, *dropped(0.05, 6)], case="1x1"), *sets(FLAT, case="1x8")])
    code, out, _ = typed("history")
    _, _, listed = out.partition("Changes of all cases")
    assert (code, max(map(len, listed.splitlines())) <= 80) == (0, True)
    (change,) = json.loads(typed("history", "-o", "json")[1])["changes"]
    assert (change["case"], change["mark"], change["open"]) == ("1x1", "step", True)
    assert typed("history", "--accept-level")[0] == 2
    assert (
        "No change of these cases is open."
        in typed("history", "resnet50", "--case=1x8", "--accept-level")[2]
    )
    before = time.time()
    code, _, err = typed("history", "resnet50", "--accept-level")
    assert (code, "accepted: resnet50 pytorch fp32 1x1" in err) == (0, True)
    (change,) = json.loads(typed("history", "-o", "json")[1])["changes"]
    assert (change["open"], change["closed_by"]) == (False, "person")
    assert before <= change["closed_at"] <= time.time()
    # The next set does not change it.
    later = repeats((95.0,) * 3, case="1x1", set_name="n16", at=START + 1.6e6)
    fill(later)
    (after,) = json.loads(typed("history", "-o", "json")[1])["changes"]
    assert after == change
    assert json.loads(typed("results", "-o", "json")[1])["rows"][0]["changed"] is None


def test_an_accepted_level_names_the_gpu_model_of_a_case_on_several(
    fill: Fill, typed: Typed
) -> None:
    one, two = (NodePool(name=name, gpus_per_node=8, gpu_model=name) for name in ("a", "b"))
    fill([*sets([*FLAT, *dropped(0.05, 6)], pool=one), *sets(FLAT, pool=two)])
    code, _, err = typed("history", "resnet50", "--accept-level")
    (line,) = (line for line in err.splitlines() if line.startswith("accepted"))
    name = "resnet50 pytorch fp32 1x8 batch 128 a"
    assert (code, line) == (0, f"accepted: {name}, the level of n15.")


def test_a_baseline_accepts_the_level_of_its_newest_sets(fill: Fill, typed: Typed) -> None:
    fill(sets([*FLAT, *dropped(0.05, 6)]))
    assert "is accepted" not in typed("baseline", "save", "before", "n08")[2]
    assert "is accepted" in typed("baseline", "save", "after", "n15")[2]
    (change,) = json.loads(typed("history", "-o", "json")[1])["changes"]
    assert change["open"] is False


def test_runs_of_a_side_that_have_no_figure_yet_are_noted(fill: Fill, typed: Typed) -> None:
    fill([*old(), run(None, set_name="new", phase=Phase.RUNNING), *new(B, case="1x1")])
    assert "note: new: 1 run is open" in typed("compare", "old", "new")[2]


def test_the_documents_keep_to_their_schemas(fill: Fill, typed: Typed) -> None:
    fill([*old(), *new()])
    fill(sets([*FLAT, *dropped(0.05, 6)]))
    for words in (("compare", "old", "new"), ("history", "resnet50"), ("history",)):
        schemas.validate(words[0], json.loads(typed(*words, "-o", "json")[1]))


def test_a_case_that_the_new_side_lacks_fails_only_where_that_was_asked_for(
    fill: Fill, typed: Typed
) -> None:
    fill([*old(), *new(A), *old(case="1x1")])
    words = ("compare", "old", "new", "--fail-on-regression=5%")
    assert typed(*words)[0] == 0
    code, _, err = typed(*words, "--fail-on-missing")
    assert code == 7
    assert "missing in B: resnet50 pytorch fp32 1x1." in err
    assert typed("compare", "new", "old", "--fail-on-missing")[0] == 0
    assert typed("compare", "old", "tonight", "--fail-on-missing")[0] == 7
    assert typed("compare", "old", "tonight")[0] == 2
    assert typed("compare", "tonight", "old", "--fail-on-missing")[0] == 2
    # Nobody has a figure of it.
    fill([run(None, set_name="old", case="2x8", phase=Phase.FAILED)])
    _, _, err = typed(*words, "--fail-on-missing")
    assert "missing in B: resnet50 pytorch fp32 1x1." in err
