"""What is typed wrong: exit code 2 and one sentence, before anything starts."""

from __future__ import annotations

import pathlib

import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli.main import main
from tests.unit.store.examples import NOW, plan

SUBMIT = ("submit", "resnet50", "--backend=local")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--seed=-1",), "error: --seed -1 is out of range.\n  Give 0 to 2147483647.\n"),
        (("--seed=2147483648",), "error: --seed 2147483648 is out of range."),
        (("--seed=99999999999999999999",), "error: --seed 99999999999999999999 is out of range."),
        (("--iterations=999999999999999999999999",), "is out of range.\n  Give 1 to 1000000000.\n"),
        (("--iterations=0",), "error: --iterations 0 is out of range."),
        (("--accept=nosuch",), "error: --accept nosuch: there is no such reason.\n"),
        (("--accept=outliers",), "Did you mean outlier?"),
        (
            ("--resume=nosuch",),
            "error: --resume nosuch: there is no set of that name in the store.",
        ),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_submit_starts_nothing_that_was_asked_for_wrongly(
    words: tuple[str, ...],
    sentence: str,
    more: tuple[str, ...],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = tmp_path / "store"
    assert main([*SUBMIT, *more, *words, f"--store={store}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert not store.exists()


def test_the_set_to_resume_is_suggested_where_it_is_mistyped(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(str(tmp_path)) as store:
        store.record(plan(set_name="nightly"), at=NOW, owner=None)
    assert main([*SUBMIT, "--dry-run", "--resume=nigthly", f"--store={tmp_path}"]) == 2
    assert "Did you mean nightly? To open a set: --set nigthly." in capsys.readouterr().err
    assert main([*SUBMIT, "--dry-run", "--resume=nightly", f"--store={tmp_path}"]) == 0


def test_collect_takes_no_reason_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--all", "--accept=nosuch"]) == 2
    assert "--accept nosuch: there is no such reason." in capsys.readouterr().err
