"""Regular expressions that users declare, matched by RE2.

RE2 takes time in proportion to the line, whatever the expression. Python's ``re`` may take years
for thirty characters, and nothing can stop it in a process that serves a team.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from k8sbench.model.errors import InputError

_CONTEXT = "match the text around a value as part of the expression: only named groups are read"
_REPEATED = "write the text of the group again"
INSTEAD = {
    **dict.fromkeys(("(?=", "(?!", "(?<=", "(?<!"), _CONTEXT),
    **dict.fromkeys(("(?P", *(f"\\{number}" for number in range(1, 10))), _REPEATED),
    "\\Z": "write \\z",
}
"""Construct named in RE2's error → its replacement."""
_NAMES = re.compile(r"\(\?P?<(\w+)>")
_NO_MINIMUM = re.compile(r"\{,\d+\}")


class Match(Protocol):
    """The common part of the matches of ``re`` and RE2."""

    def __getitem__(self, group: int, /) -> Any:
        """Return the text of a group; 0: of the match."""

    def end(self) -> int:
        """Return the place behind the match."""

    def groupdict(self) -> dict[str, Any]:
        """Return the text of each named group, None where it takes no part."""


class Pattern(Protocol):
    """The common part of the compiled expressions of ``re`` and RE2."""

    @property
    def groupindex(self) -> Mapping[str, int]:
        """The number of each named group."""

    def search(self, text: str, start: int = 0, /) -> Match | None:
        """Return the first match from a place on."""

    def finditer(self, text: str, /) -> Iterator[Match]:
        """Return all matches."""


def compiled(text: str) -> Pattern:
    """Compile an expression of a user.

    Raises :class:`InputError` where RE2 does not take it, or where it would mean something else
    than in Python.
    """
    import re2  # noqa: PLC0415 - no built-in benchmark declares an expression

    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(text, options)
    except re2.error as error:
        problem = error.args[0].decode(errors="replace")
        instead = INSTEAD.get(problem.rpartition(": ")[2])
        raise InputError(f"{problem}; {instead}" if instead else problem) from error
    names = _NAMES.findall(text)
    if len(names) > len(set(names)):
        raise InputError("two groups have the same name")
    if _NO_MINIMUM.search(text):
        raise InputError("{,n} has no minimum; write {0,n}")
    return cast("Pattern", expression)
