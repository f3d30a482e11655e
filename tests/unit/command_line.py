"""k8sbench's commands as one types them, run in the test's own process."""

import json
from typing import Any, NamedTuple

import pytest

from k8sbench.cli.main import main
from k8sbench.cli.terminal import output


class Printed(NamedTuple):
    """Output of a command."""

    out: str
    err: str


class Cli:
    """Runs commands, and gives what each has printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int | None = 0) -> Printed:
        """Run a command; check its exit code, unless None."""
        try:
            ended = main([*words])
        finally:
            # An option of this command is none of the next test's.
            output.quiet = False
        printed = Printed(*self._capsys.readouterr())
        assert code in (ended, None), f"exit {ended}: {printed}"
        return printed

    def json(self, *words: str, code: int | None = 0) -> Any:
        """Run a command for its JSON."""
        return json.loads(self(*words, code=code).out)
