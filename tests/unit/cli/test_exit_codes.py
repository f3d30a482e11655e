"""Exit codes of commands that handle several runs."""

from __future__ import annotations

from k8sbench.cli import exit_codes
from k8sbench.model.errors import BenchError, FilesElsewhere, StoreError


def test_a_run_whose_files_are_on_another_machine_is_no_failure() -> None:
    elsewhere = FilesElsewhere("The files are on another machine.")
    unreadable = StoreError("The file cannot be read.")
    assert exit_codes.of_failures([]) == 0
    assert exit_codes.of_failures([elsewhere]) == 0
    assert exit_codes.of_failures([elsewhere, unreadable]) == BenchError.exit_code == 1
