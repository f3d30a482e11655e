"""``compare`` and ``history`` without arguments: the newest night against the one before."""

import csv
import io
import json
import pathlib
import xml.etree.ElementTree as ET

import pytest

from k8sbench.client import Client
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from tests.results.groups.changed_sets import a_set
from tests.results.groups.histories import FLAT, dropped, sets
from tests.results.groups.nights import DAY
from tests.results.report.factory import START, repeats, run, smoke
from tests.unit.cli.conftest import Fill, Typed
from tests.unit.store import schemas

EARLY = START // DAY * DAY + 3600
"""An hour after midnight (UTC)."""


def a_night(number: int, *levels: float, driver: str = "550", jobs: bool = False) -> list[Run]:
    """Return a night of the cases 1x1, 1x2, …: one set, or with ``jobs`` a set for each."""
    return [
        one
        for n, level in enumerate(levels, 1)
        for one in repeats(
            [level, level * 1.001, level * 0.999],
            case=f"1x{n}",
            set_name=f"job-{number}-{n}" if jobs else f"night-{number}",
            at=EARLY + number * DAY + 60 * n,
            measured={"environment": {"driver": driver}},
        )
    ]


def test_the_newest_night_is_held_against_the_one_before(fill: Fill, typed: Typed) -> None:
    fill([*a_night(0, 70, 70), *a_night(1, 100, 100), *a_night(2, 90, 100, driver="570")])
    code, out, _ = typed("compare")
    head, answer, *_ = out.splitlines()
    assert (code, head) == (
        0,
        "A: night-1 of 2026-11-19 (UTC)   B: night-2 of 2026-11-20 (UTC)",
    )
    assert answer.startswith(
        "1 of 2 cases slower between these two sets: resnet50 pytorch fp32 1x1"
    )
    assert "1. driver 550 → 570: in the slower case" in out
    # With sides that are named it is the same, but for the days and what to do next.
    named = typed("compare", "night-1", "night-2")[1].splitlines()
    assert named[1:] == out.splitlines()[1 : len(named)]


def test_the_next_commands_can_be_typed_as_they_are_printed(fill: Fill, typed: Typed) -> None:
    fill([*sets([*FLAT, *dropped(0.05, 6)]), *sets(FLAT + [100.0] * 5 + [90.0], case="1x1")])
    document = json.loads(typed("compare", "-o", "json")[1])
    schemas.validate("compare", document)
    commands = [one["command"] for one in document["next"]]
    chosen = "--framework pytorch --precision fp32"
    assert commands == [
        f"k8sbench history resnet50 {chosen} --case 1x1",
        commands[1],
        f"k8sbench history resnet50 {chosen} --case 1x8 --accept-level",
    ]
    assert commands[1].startswith("k8sbench submit resnet50 ")
    out = typed("compare")[1]
    for one in document["next"]:
        assert f"\n  {one['command']}\n" in out
    for command in (commands[0], commands[2]):
        assert typed(*command.split()[1:])[0] == 0
    # What was accepted is to be done no more.
    assert "--accept-level" not in typed("compare")[1]
    markdown = typed("compare", "-o", "markdown")[1]
    assert f"`{commands[0]}`" in markdown
    comment = typed("compare", "-o", "github")[1]
    assert comment.startswith("**n14 of 2026-12-04 (UTC) → n15 of 2026-12-05 (UTC)**: ")
    assert f"`{commands[0]}`" in comment


def test_what_is_missing_or_failed_in_the_newest_night_has_a_next_command(
    fill: Fill, typed: Typed
) -> None:
    fill(a_night(0, 100, 100, 100))
    failed = run(None, set_name="night-1", case="1x2", phase=Phase.FAILED, at=EARLY + DAY)
    fill([*a_night(1, 100), failed])
    document = json.loads(typed("compare", "-o", "json")[1])
    purposes = {one["command"].split()[1]: one for one in document["next"]}
    assert purposes["explain"]["command"] == f"k8sbench explain {failed.run_id}"
    assert "1x3, which night-1 lacks" in purposes["submit"]["purpose"]
    assert typed("compare", "--fail-on-missing")[0] == 7


def test_a_case_that_both_nights_lack_is_named_as_long_as_results_call_it_missing(
    fill: Fill, typed: Typed
) -> None:
    for night in range(6):
        fill(a_night(night, 100, 100, 100))
    for night in range(6, 12):
        fill(a_night(night, 100, 100))
        document = json.loads(typed("compare", "-o", "json")[1])
        schemas.validate("compare", document)
        rows = json.loads(typed("results", "-o", "json")[1])["rows"]
        called = [row["missing_in"] for row in rows if row["missing_in"] is not None]
        missing = [(one["set"], one["since"], one["sets"]) for one in document["missing"]]
        if night == 6:  # the night before has it
            assert (len(called), missing) == (1, [])
            continue
        assert missing == [("night-5", one["since"], one["sets"]) for one in called]
        said = "resnet50 pytorch fp32 1x3 since night-6" in typed("compare")[1]
        assert said == bool(missing) == (night < 10)


def test_a_night_is_the_newest_with_a_run_that_has_ended(fill: Fill, typed: Typed) -> None:
    fill([*a_night(0, 100), *a_night(1, 100)])
    fill([run(None, set_name="n2", case="1x1", phase=Phase.RUNNING, at=EARLY + 2 * DAY)])
    assert json.loads(typed("compare", "-o", "json")[1])["b"] == "night-1"
    failed = run(None, set_name="n3", case="1x1", phase=Phase.FAILED, at=EARLY + 3 * DAY)
    fill([failed])
    document = json.loads(typed("compare", "-o", "json")[1])
    assert (document["a"], document["b"]) == ("night-1", "n3"), "the last night with a figure"
    assert document["next"][0]["command"] == f"k8sbench explain {failed.run_id}"


def test_the_newest_night_is_the_newer_side_also_if_the_one_before_has_later_runs(
    fill: Fill, typed: Typed
) -> None:
    fill(sets([*FLAT, *dropped(0.05, 6)]))
    fill([run(95.2, set_name="n14", repeat=4, at=START + 1e5 * 17)])
    out = typed("compare")[1]
    assert out.startswith("A: n14 of 2026-12-04 (UTC)   B: n15 of 2026-12-05 (UTC)")
    assert "still open with B" in out
    assert "still open with A" in typed("compare", "n14", "n15")[1], "it has the newest run"


def test_jobs_that_are_sets_of_their_own_are_one_night(fill: Fill, typed: Typed) -> None:
    for number in range(3):
        fill(a_night(number, 100, 100, 80 if number == 2 else 100, jobs=True))
    document = json.loads(typed("compare", "-o", "json")[1])
    assert document["nights"] == ["2026-11-19", "2026-11-20"]
    assert (document["a"], document["b"]) == (
        "3 sets of 2026-11-19 (UTC)",
        "3 sets of 2026-11-20 (UTC)",
    )
    assert [case["finding"] for case in document["cases"]] == [
        *("no-difference", "no-difference", "slower")
    ]
    assert typed("compare")[1].startswith("A: 3 sets of 2026-11-19 (UTC)   B: 3 sets")


@pytest.mark.parametrize(
    ("jobs", "nights"),
    [
        (False, "From night-1 (2026-11-19 01:01 UTC) to night-2 (2026-11-20 01:01 UTC): "),
        (True, "From 2026-11-19 UTC to 2026-11-20 UTC: "),
    ],
)
def test_the_page_compares_the_nights_that_compare_does(
    fill: Fill, typed: Typed, nights: str, *, jobs: bool
) -> None:
    for number in range(3):
        fill(a_night(number, 100, 95 if number == 2 else 100, jobs=jobs))
    fill([run(None, set_name="n3", case="1x1", phase=Phase.RUNNING, at=EARLY + 3 * DAY)])
    compared = json.loads(typed("compare", "-o", "json")[1])
    assert compared["summary"].startswith("1 of 2 cases slower")
    assert compared["nights"] == ["2026-11-19", "2026-11-20"]
    assert f"<p>{nights}1 slower" in typed("results", "-o", "html")[1]


def test_the_page_of_a_store_with_one_night_compares_nothing(fill: Fill, typed: Typed) -> None:
    fill([*a_night(0, 100, 100), *a_night(0, 90, 90, jobs=True)])
    assert "no two nights" in typed("results", "-o", "html")[1]


def test_a_store_with_one_night_says_so_in_one_sentence(fill: Fill, typed: Typed) -> None:
    fill(a_night(0, 100, 100))
    said = "The store has one night, 2026-11-18 (UTC): there is none before to compare it with.\n"
    code, out, err = typed("compare")
    assert (code, " ".join(out.split()), err) == (0, said.strip(), "")
    words = ("compare", "--fail-on-regression=3%", "--fail-on-missing", "--fail-on-undecided")
    assert typed(*words)[0] == 0
    for form in ("markdown", "github"):
        assert typed("compare", "-o", form)[:2] == (0, said)
    document = json.loads(typed("compare", "-o", "json")[1])
    schemas.validate("compare", document)
    assert (document["a"], document["b"], document["nights"]) == (
        *(None, "night-0"),
        ["2026-11-18"],
    )
    assert [case["b"]["n"] for case in document["cases"]] == [3, 3]
    suite = ET.fromstring(typed("compare", "-o", "junit")[1])
    assert (suite.get("name"), suite.get("tests"), suite.get("skipped")) == (
        *("k8sbench compare", "2", "2"),
    )
    rows = list(csv.DictReader(io.StringIO(typed("compare", "-o", "csv")[1])))
    assert [row["finding"] for row in rows] == ["one-side", "one-side"]
    assert " ".join(typed("history")[1].split()) == said.strip()


def test_a_night_without_a_figure_is_held_against_if_there_is_no_other(
    fill: Fill, typed: Typed
) -> None:
    failed = run(None, set_name="night-0", case="1x1", phase=Phase.FAILED, at=EARLY)
    fill([failed, *a_night(1, 100)])
    code, out, _ = typed("compare")
    assert (code, out.splitlines()[0]) == (
        0,
        "A: night-0 of 2026-11-18 (UTC)   B: night-1 of 2026-11-19 (UTC)",
    )
    assert typed("compare", "--fail-on-regression=3%")[0] == 2, "nothing could be compared"


def test_nights_of_one_case_each_are_no_pair_if_these_differ(fill: Fill, typed: Typed) -> None:
    fill([*a_night(0, 100), *repeats((90.0,) * 3, case="1x8", set_name="n1", at=EARLY + DAY)])
    document = json.loads(typed("compare", "-o", "json")[1])
    assert [(case["case"], case["finding"]) for case in document["cases"]] == [
        *(("1x1", "one-side"), ("1x8", "one-side"))
    ]
    assert typed("compare", "--fail-on-missing")[0] == 7
    # Two sides that are named are a pair.
    document = json.loads(typed("compare", "night-0", "n1", "-o", "json")[1])
    assert [case["finding"] for case in document["cases"]] == ["not-comparable"]


@pytest.mark.parametrize("command", ["compare", "history"])
def test_a_store_without_runs_has_no_night(root: pathlib.Path, typed: Typed, command: str) -> None:
    code, out, err = typed(command)
    assert (code, out) == (2, "")
    assert "k8sbench submit BENCHMARK" in err
    assert not root.exists()


def test_runs_that_claim_no_speed_are_of_no_night(fill: Fill, typed: Typed) -> None:
    fill([smoke(3.0, set_name=name) for name in ("one", "two")])
    code, out, err = typed("compare")
    assert (code, out) == (2, "")
    assert "Smoke runs and runs on CPUs claim no speed" in err
    code, out, err = typed("history")
    assert (code, out, "smoke runs are functional tests" in err) == (0, "", True)
    assert json.loads(typed("history", "-o", "json")[1])["newest"] is None


def test_only_the_cases_that_are_asked_for_are_of_the_nights(fill: Fill, typed: Typed) -> None:
    fill([*a_night(0, 100, 100), *a_night(1, 90, 100), *a_night(2, 90)])
    words = ("compare", "--case=1x2", "-o", "json")
    document = json.loads(typed(*words)[1])
    assert document["nights"] == ["2026-11-18", "2026-11-19"]
    assert [case["case"] for case in document["cases"]] == ["1x2"]
    assert typed("compare", "--case=9x9")[0] == 2


def test_one_side_alone_is_an_error_that_says_what_to_do(fill: Fill, typed: Typed) -> None:
    fill([*a_night(0, 100), *a_night(1, 100)])
    code, _, err = typed("compare", "night-0")
    assert (code, "compare needs both sides" in err) == (2, True)


def test_history_prints_the_same_lines_above_its_list_of_changes(fill: Fill, typed: Typed) -> None:
    fill([*sets([*FLAT, *dropped(0.05, 6)]), *sets(FLAT, case="1x1")])
    compared = typed("compare")[1]
    out = typed("history")[1]
    assert out.startswith(f"{compared}\n")
    assert out.removeprefix(f"{compared}\n").startswith("Changes of all cases, the newest first\n")
    markdown = typed("history", "-o", "markdown")[1]
    assert markdown.startswith(typed("compare", "-o", "markdown")[1])
    document = json.loads(typed("history", "-o", "json")[1])
    schemas.validate("history", document)
    assert document["newest"] == json.loads(typed("compare", "-o", "json")[1])


def test_the_changes_of_all_cases_since_a_time_need_no_benchmark(fill: Fill, typed: Typed) -> None:
    fill([*sets([*FLAT, *dropped(0.05, 6)]), *sets([*FLAT[:6], *dropped(0.05, 10)], case="1x1")])

    def changed(*words: str) -> list[str]:
        document = json.loads(typed("history", "-o", "json", *words)[1])
        return [one["case"] for one in document["changes"]]

    assert changed() == ["1x8", "1x1"]
    assert changed("--since=2026-11-29") == ["1x8"]
    code, out, err = typed("history", "--since=2026-12-05")
    assert (code, err) == (0, "No case has changed since 2026-12-05 00:00 UTC.\n")
    assert out == typed("compare")[1]


def test_a_renamed_pool_is_said_once_for_all_cases(fill: Fill, typed: Typed) -> None:
    one, two = (NodePool(name=name, gpus_per_node=8, gpu_model="V100") for name in ("a", "b"))
    for case in ("1x1", "1x8"):
        fill(sets([100.0] * 3, case=case, pool=one))
        renamed = repeats((97.1,) * 3, set_name="n03", at=START + 3e5, case=case, pool=two)
        fill(renamed)
    said = "new since n03: pool b; −2.9 % against pool a."
    for command in ("compare", "history"):
        assert typed(command)[1].count(said) == 1
    document = json.loads(typed("compare", "-o", "json")[1])
    schemas.validate("compare", document)
    assert [case["new"]["since"] for case in document["cases"]] == ["n03", "n03"]
    words = ("history", "resnet50", "--case=1x8")
    assert "New since n03: pool b; 2.9 % slower than on pool a." in typed(*words)[1]
    schemas.validate("history", json.loads(typed(*words, "-o", "json")[1]))


def test_from_python_the_nights_are_compared_without_sides(
    fill: Fill, typed: Typed, root: pathlib.Path
) -> None:
    client = Client(store=root)
    with pytest.raises(NotFound):
        client.compare()
    fill(a_set("first", 0, (100, {})))
    assert client.compare().nights == ("2026-11-18",)
    fill(a_set("second", DAY, (90, {})))
    compared = client.compare()
    assert (compared.a, compared.b) == ("first", "second")
    assert [case.finding for case in compared.cases] == ["slower"]
    assert client.compare(benchmark="resnet50").cases == compared.cases
    with pytest.raises(UsageError):
        client.compare("first")
