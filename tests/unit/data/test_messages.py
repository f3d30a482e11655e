"""What preparing a data set prints: one line for each message."""

from __future__ import annotations

import pytest

from k8sbench.trainers.prepare.messages import Progress, say


def test_a_name_of_a_file_cannot_begin_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("Left out: a\nmissing: b, \udcff.")
    assert capsys.readouterr().out == "Left out: a missing: b, \\udcff.\n"


def test_a_step_is_told_at_its_beginning_and_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    fetch = Progress("fetch a.tar", 11_600_000_000)
    for _ in range(100):
        fetch.add(116_000_000)
    fetch.say()
    Progress("unpack", None, done=5_000_000)
    Progress("make train ids", 2975, "files", done=500)
    assert capsys.readouterr().out.splitlines() == [
        "fetch a.tar: 0 B of 11.6 GB (0%)",
        "fetch a.tar: 11.6 GB of 11.6 GB (100%)",
        "unpack: 5 MB",
        "make train ids: 500 of 2,975 files (17%)",
    ]
