"""A store keeps the groups of its runs, and makes those anew that a change is about."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from k8sbench.model.errors import Finding, StoreError
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.model.series import UNJUDGED, AcceptedLevel, Judged
from k8sbench.results.groups import grouping, nights, selection, series
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.judged_series import notable
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store import exchange, group_index
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.results.report.factory import START, measurement, repeats
from tests.unit.store.examples import step
from tests.unit.store.filled import put


def night(number: int, *rates: float, **changes: object) -> list[Run]:
    """Return the runs of a set."""
    at = START + 86400 * number
    return repeats(rates or (100.0, 101.0, 99.0), set_name=f"night-{number}", at=at, **changes)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with three nights of one case."""
    put(tmp_path / "store", [run for number in range(3) for run in night(number)])
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Iterator[SqlStore]:
    with open_store(str(root)) as opened:
        yield opened


def known(store: SqlStore) -> list[Group]:
    """Return all groups that an answer knows."""
    groups = StoredGroups(store, print)
    return sorted(groups.groups(groups.rows), key=lambda group: group.key)


def medians(store: SqlStore) -> dict[str, float | None]:
    """Return the median of each set."""
    return {row.set_name: row.median for row in StoredGroups(store, print).rows}


def damage(store: SqlStore, runs: Sequence[Run]) -> None:
    """Make folders unreadable."""
    for run in runs:
        (store.folder(run.run_id) / "run.json").write_text("{")


def test_kept_groups_are_those_of_all_runs_together(store: SqlStore) -> None:
    expected = grouping.groups(store.runs(RunFilter()))
    assert known(store) == expected
    assert known(store) == expected, "the second time they come from the index"
    assert [group.row for group in expected] == sorted(StoredGroups(store, print).rows)


def test_an_answer_reads_no_folder_of_another_set(store: SqlStore) -> None:
    before = medians(store)
    damage(store, store.runs(RunFilter()))
    assert medians(store) == before
    report = selection.report(StoredGroups(store, print), Wanted(set_name="night-1"))
    assert [result.group.key.set_name for result in report.results] == ["night-1"]
    assert store.unreadable == {}


def test_a_change_makes_the_groups_of_its_set_anew_and_no_others(store: SqlStore) -> None:
    before = medians(store)
    first, *_ = changed = store.runs(RunFilter(set_name="night-1"))
    damage(store, [run for run in store.runs(RunFilter()) if run not in changed])
    store.save_measurement(first.run_id, measurement(105.0, first.plan))
    after = medians(store)
    assert after.pop("night-1") != before.pop("night-1")
    assert after == before
    assert store.unreadable == {}


def test_a_removed_set_has_no_group(store: SqlStore) -> None:
    medians(store)
    for run in store.runs(RunFilter(set_name="night-1")):
        exchange.remove_run(store, run.run_id)
    assert medians(store).keys() == {"night-0", "night-2"}


def test_a_log_counts_once_in_the_whole_store(root: Path, store: SqlStore) -> None:
    first, second = (night(n, 100.0, measured={"log_digest": "same"}) for n in (7, 8))
    put(root, first)
    assert medians(store)["night-7"] == 100.0
    put(root, second)
    assert medians(store)["night-8"] is None
    exchange.remove_run(store, first[0].run_id)
    assert medians(store)["night-8"] == 100.0


def test_a_run_that_is_measured_anew_frees_the_log_that_it_had(root: Path, store: SqlStore) -> None:
    first, second = (night(n, 100.0, measured={"log_digest": "same"}) for n in (7, 8))
    put(root, [*first, *second])
    assert medians(store)["night-8"] is None
    store.save_measurement(first[0].run_id, measurement(100.0, first[0].plan, log_digest="another"))
    assert medians(store)["night-8"] == 100.0


def test_an_efficiency_refers_to_the_1x1_case_of_another_set(root: Path, store: SqlStore) -> None:
    put(root, night(7, 10.0, case="1x1"))
    medians(store)
    put(root, night(8, 100.0))
    (group,) = (one for one in known(store) if one.key.set_name == "night-8")
    assert group.ids("reject") == ("efficiency-above-limit",)
    put(root, night(9, 70.0))
    report = selection.report(StoredGroups(store, print), Wanted(set_name="night-9"))
    assert [result.speedup.value for result in report.results] == [7.0]


def test_a_run_that_goes_on_is_as_its_folder_says(root: Path, store: SqlStore) -> None:
    (run,) = night(7, 100.0)
    store.record(run.plan, at=run.created_at, process=None)
    (row,) = (row for row in StoredGroups(store, print).rows if row.set_name == "night-7")
    assert (row.state, row.in_progress) == ("running", 1)
    # A killed process has written the folder alone.
    ended = msgspec.json.encode(step(Phase.SUCCEEDED, run.created_at + 9))
    with (store.folder(run.run_id) / "events.jsonl").open("ab") as events:
        events.write(ended + b"\n")
    (row,) = (row for row in StoredGroups(store, print).rows if row.set_name == "night-7")
    assert (row.state, row.in_progress) == ("failed", 0)


def test_another_version_makes_all_groups_anew(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    medians(store)
    assert store.group_index.changed_sets() == {}
    monkeypatch.setattr(group_index, "__version__", "9.9.9")
    assert store.group_index.changed_sets().keys() == {"night-0", "night-1", "night-2"}
    medians(store)
    assert store.group_index.changed_sets() == {}


def test_groups_of_a_set_that_changed_meanwhile_are_not_kept(store: SqlStore) -> None:
    medians(store)
    index = store.group_index
    (run, *_) = store.runs(RunFilter(set_name="night-1"))
    store.save_measurement(run.run_id, measurement(60.0, run.plan))
    versions = index.changed_sets()
    store.save_measurement(run.run_id, measurement(50.0, run.plan))
    assert index.put({name: [] for name in versions}, versions) == []
    assert index.changed_sets().keys() == {"night-1"}


def test_an_answer_survives_a_change_while_it_is_made(root: Path, store: SqlStore) -> None:
    groups = StoredGroups(store, print)
    put(root, night(3, 100.0, measured={"gpu_model": "NVIDIA A100-SXM4-40GB"}))
    other = StoredGroups(store, print)
    for run in store.runs(RunFilter(set_name="night-1")):
        exchange.remove_run(store, run.run_id)
    medians(store)
    assert {group.key.set_name for group in groups.groups(groups.rows)} == {"night-0", "night-2"}
    assert len(other.groups(other.rows)) == 3


def test_overruled_reasons_change_no_kept_group(root: Path, store: SqlStore) -> None:
    reason = Finding(id="too-few-records", severity="reject", sentence="4 records.")
    put(root, night(7, 100.0, measured={"verdict": "rejected", "reasons": (reason,)}))
    accepting = StoredGroups(store, print, accept=("too-few-records",))
    assert {row.set_name: row.median for row in accepting.rows}["night-7"] == 100.0
    assert medians(store)["night-7"] is None


def test_an_overruled_1x1_case_changes_the_efficiencies_that_refer_to_it(
    root: Path, store: SqlStore
) -> None:
    reason = Finding(id="too-few-records", severity="reject", sentence="4 records.")
    put(root, night(7, 10.0, case="1x1", measured={"verdict": "rejected", "reasons": (reason,)}))
    put(root, night(8, 100.0))
    assert medians(store)["night-8"] == 100.0
    accepting = StoredGroups(store, print, accept=("too-few-records",))
    (row,) = (row for row in accepting.rows if row.set_name == "night-8")
    assert (row.median, row.rejects) == (None, "efficiency-above-limit")


def test_an_overruled_reason_makes_no_groups_that_it_is_not_about(
    root: Path, store: SqlStore
) -> None:
    reason = Finding(id="too-few-records", severity="reject", sentence="4 records.")
    put(root, night(7, 100.0, measured={"verdict": "rejected", "reasons": (reason,)}))
    medians(store)
    damage(store, [run for run in store.runs(RunFilter()) if run.plan.set_name != "night-7"])
    accepting = StoredGroups(store, print, accept=("too-few-records",))
    assert {row.set_name: row.counted for row in accepting.rows}["night-7"] == 1
    assert store.unreadable == {}


def test_a_store_that_can_only_be_read_answers_alike(
    root: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = known(store)
    put(root, night(7, 50.0))
    with open_store(str(root)) as reader:
        reader.database.read_only = StoreError("It can only be read.")
        assert len(known(reader)) == len(expected) + 1
        assert medians(reader)["night-7"] == 50.0
    assert store.group_index.changed_sets().keys() == {"night-7"}


# What the series of the cases say


def judgements(store: SqlStore) -> dict[str, Judged]:
    """Return the judgements of all sets by name; the notable ones are found without the others."""
    groups = StoredGroups(store, print)
    assert groups.notable(groups.rows) == notable(groups.judged(groups.rows))
    return {row.set_name: groups.judged([row])[row.group_id] for row in groups.rows}


def anew(store: SqlStore) -> dict[str, Judged]:
    """Judge all sets without what the index keeps."""
    rows = StoredGroups(store, print).rows
    found = nights.judge(rows)
    return {row.set_name: found.get(row.group_id, UNJUDGED) for row in rows}


LEVELS = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 95.0, 95.3, 95.1, 100.0, 100.2, 100.1]


@pytest.mark.parametrize("order", ["as they came", "the fourth last"])
def test_a_growing_store_is_judged_as_one_that_is_judged_anew(
    root: Path, store: SqlStore, order: str
) -> None:
    nights = [night(3 + n, level, level * 1.001) for n, level in enumerate(LEVELS)]
    if order == "the fourth last":
        nights.append(nights.pop(3))
    for runs in nights:
        put(root, runs)
        assert judgements(store) == anew(store)
    kinds = {name: one.mark.kind for name, one in judgements(store).items() if one.mark}
    assert kinds == {"night-9": "step", "night-12": "step"}


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the sets, each time that one is judged."""
    names: list[str] = []
    of_night = series.Judge.night

    def counting(judge: series.Judge, rows: Sequence[GroupRow]) -> None:
        names.extend(row.set_name for row in rows)
        of_night(judge, rows)

    monkeypatch.setattr(series.Judge, "night", counting)
    return names


def test_an_answer_judges_no_set_again_that_is_judged(
    root: Path, store: SqlStore, judged: list[str]
) -> None:
    for number, level in enumerate(LEVELS):
        put(root, night(3 + number, level, level * 1.001))
    before = judgements(store)
    judged.clear()
    assert judgements(store) == before
    assert judged == []
    put(root, night(15, 100.0, 100.1))
    assert judgements(store) == anew(store)
    assert judged[0] == "night-15", "the new night alone"


def test_what_is_kept_may_be_deleted_at_any_time(root: Path, store: SqlStore) -> None:
    for number, level in enumerate(LEVELS):
        put(root, night(3 + number, level, level * 1.001))
    before = judgements(store)
    with store.database.writing() as db:
        db.execute("DELETE FROM nights")
        db.execute("DELETE FROM series WHERE night % 2")
    assert judgements(store) == before
    with store.database.reading() as db:
        kept = [tuple(row) for row in db.execute("SELECT night, state IS NULL FROM nights")]
    assert sum(not is_null for _, is_null in kept) <= 4, "the states of few nights are kept"


def test_a_newest_set_that_goes_leaves_the_others_as_they_were(root: Path, store: SqlStore) -> None:
    for number, level in enumerate(LEVELS[:8]):
        put(root, night(3 + number, level, level * 1.001))
    assert judgements(store)["night-9"].mark is not None
    for run in store.runs(RunFilter(set_name="night-10")):
        exchange.remove_run(store, run.run_id)
    assert judgements(store) == anew(store)


def test_a_store_that_can_only_be_read_judges_a_set_once(
    root: Path, store: SqlStore, judged: list[str]
) -> None:
    for number, level in enumerate(LEVELS):
        put(root, night(3 + number, level, level * 1.001))
    expected = anew(store)
    with open_store(str(root)) as reader:
        reader.database.read_only = StoreError("It can only be read.")
        judged.clear()
        assert judgements(reader) == expected
    assert sorted(judged) == sorted(expected)


def test_a_set_that_goes_on_is_judged_when_its_runs_have_ended(root: Path, store: SqlStore) -> None:
    for number, level in enumerate(LEVELS[:6]):
        put(root, night(3 + number, level, level * 1.001))
    ended, last = night(9, 95.0, 95.1)
    going_on = msgspec.structs.replace(
        last, measurement=None, history=(step(Phase.RUNNING, last.created_at),)
    )
    put(root, [ended, going_on])
    assert judgements(store)["night-9"] == UNJUDGED
    exchange.remove_run(store, going_on.run_id)
    mark = judgements(store)["night-9"].mark
    assert mark is not None
    assert mark.kind == "unconfirmed"


def test_the_levels_of_a_case_that_alternates_are_kept(root: Path, store: SqlStore) -> None:
    levels = [100.0, 100.3, 99.8, *(103.0 - 3 * (n % 2) + 0.1 * (n % 3) for n in range(14))]
    for number, level in enumerate(levels):
        put(root, night(3 + number, level, level * 1.001))
    assert judgements(store) == anew(store)
    assert judgements(store)["night-19"].alternating is not None


def test_an_accepted_level_is_open_no_more(root: Path, store: SqlStore) -> None:
    for number, level in enumerate(LEVELS[:9]):
        put(root, night(3 + number, level, level * 1.001))
    newest = max(StoredGroups(store, print).rows, key=lambda row: row.began)
    assert judgements(store)[newest.set_name].open is not None
    accepted = AcceptedLevel(
        case="1x8",
        line=newest.line,
        set_name=newest.set_name,
        began=newest.began,
        accepted_at=START,
    )
    store.accept_levels([accepted])
    assert [one.open for one in judgements(store).values()] == [None] * 12
    put(root, night(12, 95.0, 95.1))
    assert judgements(store)["night-12"].open is None
