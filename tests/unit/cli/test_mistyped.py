"""What is typed wrong: exit code 2 and one sentence, before anything starts."""

from __future__ import annotations

import pathlib

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli.main import main
from k8sbench.model.errors import NotFound
from tests.unit.command_line import Cli
from tests.unit.store.examples import NOW, plan

SUBMIT = ("submit", "resnet50", "--backend=local")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--iterations=999999999999999999999999",), "is out of range.\n  Give 1 to 1000000000.\n"),
        (("--resume=nosuch",), "error: There is no set 'nosuch'.\n  The store is empty.\n"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_submit_starts_nothing_that_was_asked_for_wrongly(
    words: tuple[str, ...], sentence: str, more: tuple[str, ...], tmp_path: pathlib.Path, cli: Cli
) -> None:
    store = tmp_path / "store"
    out, err = cli(*SUBMIT, *more, *words, f"--store={store}", code=2)
    assert out == ""
    assert sentence in err
    assert not store.exists()


def test_the_set_to_resume_is_suggested_where_it_is_mistyped(
    tmp_path: pathlib.Path, cli: Cli
) -> None:
    with open_store(str(tmp_path)) as store:
        store.record(plan(set_name="nightly"), at=NOW, owner=None)
    err = cli(*SUBMIT, "--dry-run", "--resume=nigthly", f"--store={tmp_path}", code=2).err
    assert "Did you mean nightly? Latest sets: nightly." in err
    cli(*SUBMIT, "--dry-run", "--resume=nightly", f"--store={tmp_path}")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("--resume=nosuch", "error: There is no set 'nosuch'.\n"),
        ("--set=a b", "error: 'a b' cannot name a set."),
        ("--backend=local", "error: nodes compares the nodes of a cluster.\n  Leave out --backend"),
    ],
)
def test_nodes_runs_nothing_that_was_asked_for_wrongly(
    word: str, sentence: str, tmp_path: pathlib.Path, cli: Cli
) -> None:
    assert sentence in cli("nodes", "resnet50", word, f"--store={tmp_path / 'store'}", code=2).err


@pytest.mark.parametrize("command", ["list", "results"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_set_that_does_not_exist_is_an_error_wherever_it_is_named(
    command: str, is_empty: bool, tmp_path: pathlib.Path, cli: Cli
) -> None:
    if not is_empty:
        with open_store(str(tmp_path)) as store:
            store.record(plan(set_name="nightly"), at=NOW, owner=None)
    err = cli(command, "--set=nope", f"--store={tmp_path}", code=2).err
    assert "error: There is no set 'nope'." in err


def test_runs_are_called_near_only_where_their_names_are(tmp_path: pathlib.Path, cli: Cli) -> None:
    with open_store(str(tmp_path)) as store:
        for run_id in ("resnet50-261121-132222-84v5dp", "tsm-261121-132300-aaaaaa"):
            store.record(plan(run_id, set_name=run_id), at=NOW, owner=None)
    store_option = f"--store={tmp_path}"
    err = cli("logs", "nosuch", store_option, code=2).err
    assert "Nearest" not in err
    assert "k8sbench list shows the runs." in err
    err = cli("logs", "resnet50-261121-132222-84v5pd", store_option, code=2).err
    assert "Nearest: resnet50-261121-132222-84v5dp." in err


@pytest.mark.parametrize("words", [("--debug", "status", "x"), ("status", "x", "--debug")])
def test_debug_may_stand_anywhere_on_the_line(
    words: tuple[str, ...], tmp_path: pathlib.Path
) -> None:
    with pytest.raises(NotFound):
        main([*words, f"--store={tmp_path}"])


@pytest.mark.parametrize("words", [("--quiet", "results"), ("results", "--quiet")])
def test_quiet_leaves_notes_out_and_keeps_errors(
    words: tuple[str, ...], tmp_path: pathlib.Path, cli: Cli
) -> None:
    store = f"--store={tmp_path / 'none'}"
    assert "no store" in cli("results", store).err
    assert cli(*words, store) == ("", "")
    assert "There is no run" in cli("status", "x", "--quiet", store, code=2).err


@pytest.mark.usefixtures("no_cluster", "root")
def test_no_advice_names_an_option_that_the_command_does_not_have(cli: Cli) -> None:
    for words in (["doctor"], ["collect", "--all"], ["list", "-n", "a"], ["cancel", "x"]):
        out, err = cli(*words, code=None)
        assert "--backend" not in out + err


def test_collect_takes_no_reason_that_does_not_exist(cli: Cli) -> None:
    err = cli("collect", "--all", "--accept=nosuch", code=2).err
    assert "--accept nosuch: there is no such reason." in err


@pytest.mark.parametrize("words", [[], ["baseline"], ["data"], ["store"]])
def test_a_command_without_the_word_that_must_follow_prints_its_help(
    words: list[str], cli: Cli
) -> None:
    out, err = cli(*words, code=2)
    assert out == ""
    assert err.startswith(f"Usage: {' '.join(['k8sbench', *words])} [OPTIONS] COMMAND")
    assert "error:" not in err
    assert "See '" not in err
