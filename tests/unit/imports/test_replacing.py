"""``import --replace``: logs of a set that have changed take the place of its runs."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k8sbench.model.run import Run
from k8sbench.store import exchange, index
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from tests.unit.command_line import Cli
from tests.unit.imports import foreign

WORDS = [*foreign.OF, "--set", "s"]
REPLACE = ["import", "logs", *WORDS, "--replace"]


def kept() -> dict[str, Run]:
    """The runs of the store, by the name of their log."""
    with open_store() as store:
        runs = store.runs(RunFilter())
    names = [run.measurement.files[0] for run in runs if run.measurement is not None]
    assert len(names) == len(set(names)) == len(runs)
    return dict(zip(names, runs, strict=True))


def rate(run: Run) -> float:
    assert run.measurement is not None
    assert run.measurement.throughput is not None
    assert run.measurement.throughput.time_weighted is not None
    return run.measurement.throughput.time_weighted


@pytest.fixture
def three(place: Path, cli: Cli) -> Path:
    """A folder of three logs of one case, which are runs of set s."""
    (place / "logs").mkdir()
    for number in (1, 2, 3):
        (place / "logs" / f"{number}.txt").write_text(foreign.log(rate=1200.0 + number))
    cli("import", "logs", *WORDS)
    return place / "logs"


def test_a_changed_log_replaces_its_run_and_no_other(three: Path, cli: Cli) -> None:
    before = kept()
    (three / "2.txt").write_text(foreign.log(rate=1300.0))
    (three / "4.txt").write_text(foreign.log(rate=1204.0))
    err = cli(*REPLACE).err
    assert err.endswith(
        "2 runs imported into set s; 1 earlier run was replaced; 2 runs were there already.\n"
    )
    after = kept()
    assert [after[f"logs/{number}.txt"].plan.repeat for number in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert rate(after["logs/2.txt"]) == pytest.approx(1300.0, rel=1e-3)
    for name in ("logs/1.txt", "logs/3.txt"):
        assert after[name].run_id == before[name].run_id
    with open_store() as store:
        assert not (store.root / exchange.REMOVED).exists()
    assert cli("logs", after["logs/2.txt"].run_id).out == (three / "2.txt").read_text()


def test_without_it_a_changed_log_is_a_further_repeat(three: Path, cli: Cli) -> None:
    (three / "2.txt").write_text(foreign.log(rate=1300.0))
    assert "replaced" not in cli("import", "logs", *WORDS).err
    with open_store() as store:
        assert len(store.ids()) == 4


def test_other_options_replace_the_runs_of_the_same_logs(three: Path, cli: Cli) -> None:
    before = kept()
    err = cli("import", "logs", *WORDS, "--warmup", "210", code=2).err
    assert "--replace" in err
    for warmup in ("210", "220", "230"):
        err = cli(*REPLACE, "--warmup", warmup, code=5).err
        assert err.endswith("3 runs imported into set s; 3 earlier runs were replaced.\n")
        runs = kept().values()
        assert [run.plan.window.warmup for run in runs] == [int(warmup)] * 3
        assert sorted(run.plan.repeat for run in runs) == [1, 2, 3]
    again = cli("import", "logs", *WORDS, "--warmup", "230", code=5).err
    assert again.endswith("0 runs imported into set s; 3 runs were there already.\n")
    assert set(before) == set(kept())


def test_a_second_time_changes_nothing(three: Path, cli: Cli) -> None:
    (three / "2.txt").write_text(foreign.log(rate=1300.0))
    cli(*REPLACE)
    before = kept()
    assert "0 runs imported into set s; 3 runs were there already." in cli(*REPLACE).err
    assert kept() == before


def test_logs_that_changed_their_names_with_each_other(three: Path, cli: Cli) -> None:
    one, two = (three / "1.txt").read_text(), (three / "2.txt").read_text()
    (three / "1.txt").write_text(two)
    (three / "2.txt").write_text(one)
    assert "2 earlier runs were replaced; 1 run was there already" in cli(*REPLACE).err
    assert [round(rate(kept()[f"logs/{n}.txt"])) for n in (1, 2, 3)] == [1202, 1201, 1203]


def test_another_case_of_a_log_leaves_its_old_case(three: Path, cli: Cli) -> None:
    (three / "2.txt").write_text(foreign.log(gpus=8, rate=8800.0))
    cli(*REPLACE)
    cases = {row["case"]: row["runs_total"] for row in cli.json("results", "-o", "json")["rows"]}
    assert cases == {"1x1": 2, "1x8": 1}


def test_runs_of_other_sets_stay_and_their_logs_are_doubles(three: Path, cli: Cli) -> None:
    (three / "2.txt").write_text(foreign.log(rate=1300.0))
    err = cli("import", "logs/1.txt", *foreign.OF, "--set", "t", "--replace", code=2).err
    assert "is in set s already" in err
    cli("import", "logs/2.txt", *foreign.OF, "--set", "t", "--replace")
    assert "k8sbench" not in cli("import", "logs/2.txt", *foreign.OF, "--set", "t").err
    with open_store() as store:
        assert sorted(run.plan.set_name for run in store.runs(RunFilter())) == [*"ssst"]


def test_it_needs_the_name_of_a_set(three: Path, cli: Cli) -> None:
    assert "--set" in cli("import", "logs", *foreign.OF, "--replace", code=2).err


def test_standard_input_has_no_name_to_replace_by(
    place: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        text = foreign.log(rate=1200.0 + number).encode()
        stdin = SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text)))
        monkeypatch.setattr(sys, "stdin", stdin)
        cli("import", "-", *WORDS, "--replace")
    with open_store() as store:
        assert len(store.ids()) == 2


def test_which_of_two_logs_of_one_name_is_replaced_is_no_guess(place: Path, cli: Cli) -> None:
    for number, folder in enumerate(("x", "y", "z")):
        (place / folder).mkdir()
        (place / folder / "a.txt").write_text(foreign.log(rate=1200.0 + number))
    for folder in ("x", "y"):
        cli("import", str(place / folder), *WORDS)
    err = cli("import", str(place / "z"), *WORDS, "--replace", code=2).err
    assert "may replace any of 2 runs of set s" in err
    assert err.count("tf-") >= 2
    assert "2 runs" not in cli("import", str(place / "y"), *WORDS, "--replace").err


def test_one_log_that_cannot_be_read_replaces_nothing(three: Path, cli: Cli) -> None:
    before = kept()
    (three / "1.txt").write_text(foreign.log(rate=1300.0))
    (three / "2.txt").write_text("no log\n")
    cli(*REPLACE, code=2)
    assert kept() == before
    err = cli(*REPLACE, "--skip-unreadable").err
    assert "1 earlier run was replaced" in err
    assert set(kept()) == set(before), "the run of the unreadable log is kept"


class Killed(BaseException):
    """The process is gone: nothing is undone."""


@pytest.mark.parametrize("fails", ["index", "remove", "commit"])
def test_a_replacement_that_fails_changes_nothing(
    three: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    before = kept()
    for number in (1, 2):
        (three / f"{number}.txt").write_text(foreign.log(rate=1300.0 + number))

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        if fails == "index":
            patched.setattr(index, "put", fail)
        else:
            delete = index.delete
            deleted: list[str] = []

            def once(db: Any, run_id: str) -> None:
                deleted.append(run_id)
                delete(db, run_id)
                if len(deleted) == (1 if fails == "remove" else 2):
                    fail()

            patched.setattr(index, "delete", once)
        cli(*REPLACE, code=1)
    assert kept() == before
    assert "2 earlier runs were replaced" in cli(*REPLACE).err


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_killed_replacement_loses_no_log_and_the_next_one_ends_it(
    three: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Killed after so many of two new and two old folders were moved."""
    for number in (1, 2):
        (three / f"{number}.txt").write_text(foreign.log(rate=1300.0 + number))
    moved: list[Path] = []
    rename = Path.rename

    def killed(self: Path, target: Any) -> Path:
        if len(moved) == after:
            raise Killed  # also of what would undo it
        if {exchange.INCOMING, exchange.REMOVED} & {*self.parts, *Path(target).parts}:
            moved.append(self)
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", killed)
        patched.setattr(exchange, "remove_folders", lambda _: None)
        with pytest.raises(Killed):
            cli(*REPLACE, code=None)
    assert len(moved) == after
    err = cli(*REPLACE).err
    assert "imported into set s" in err
    assert {name: round(rate(run)) for name, run in kept().items()} == {
        "logs/1.txt": 1301,
        "logs/2.txt": 1302,
        "logs/3.txt": 1203,
    }
    assert "0 runs imported into set s; 3 runs were there" in cli(*REPLACE).err


def test_a_log_imported_beside_its_former_content_still_replaces_it(three: Path, cli: Cli) -> None:
    (three / "2.txt").write_text(foreign.log(rate=1300.0))
    cli("import", "logs", *WORDS)
    err = cli(*REPLACE).err
    assert "1 earlier run was replaced; 3 runs were there already" in err
    after = kept()
    assert len(after) == 3
    assert rate(after["logs/2.txt"]) == pytest.approx(1300.0, rel=1e-3)
