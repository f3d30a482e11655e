"""What became of logs that were to be imported, as ``import`` and ``measure --record`` say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k8sbench.cli import exit_codes
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.errors import InputError

if TYPE_CHECKING:
    from k8sbench.app.importing import Imported


def told(done: Imported) -> int:
    """Note what was recorded and what was not; returns the exit code."""
    kind = "error" if done.rows is None else "left out"
    following = [*(error.action for error in done.failures[1:]), None]
    for error, then in zip(done.failures, following, strict=False):
        output.note(f"{kind}: {error.message}")
        # What is to be done about several logs in a row is said once.
        if error.action and error.action != then:
            output.note(f"  {error.action}")
    if done.rows is None:
        output.note(f"Nothing was imported: {counted(len(done.failures), 'error')}.")
        return InputError.exit_code
    here = f"; {counted(len(done.there), 'run', ('was', 'were'))} there already"
    output.note(
        f"{counted(len(done.added), 'run')} imported into set {done.set_name}"
        f"{here if done.there else ''}."
    )
    return exit_codes.of_rows(done.rows)
