"""Values of options, as they are typed or given in Python.

Command line and Python client read them here, by the types of the fields and their flags. What is
wrong raises :class:`UsageError` in the same words.
"""

from __future__ import annotations

import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from k8sbench.app import connections
from k8sbench.catalog.training import is_local_path
from k8sbench.model import request, times
from k8sbench.model.errors import UsageError, did_you_mean
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.request import ClusterAccess, Flag, SubmitRequest

LONGEST_SECONDS = 366 * 86400.0
"""Maximum of any duration option: a year."""


class Option(msgspec.Struct, frozen=True):
    """An option: a field of a struct, and its flag."""

    field: msgspec.structs.FieldInfo
    flag: Flag

    @property
    def names(self) -> tuple[str, ...]:
        """Its names at the command line: ``-n``, ``--namespace``."""
        return request.option_names(self.field.name, self.flag)

    @property
    def keyword(self) -> str:
        """Its name in Python: ``batch_size``."""
        return max(self.names, key=len).lstrip("-").replace("-", "_")

    @property
    def kinds(self) -> tuple[Any, ...]:
        """Types of its values; None among them if the field may be None."""
        kind = self.field.type
        return get_args(kind) if get_origin(kind) in {Union, types.UnionType} else (kind,)

    @property
    def words(self) -> tuple[str, ...]:
        """Values that it offers; empty if there are others."""
        literal = (kind for kind in self.kinds if get_origin(kind) is Literal)
        return tuple(word for kind in literal for word in get_args(kind))

    def read(self, given: Any) -> Any:
        """Read a value; None is the default. Raises :class:`UsageError`."""
        if given is None:
            return None if self.field.default is msgspec.NODEFAULT else self.field.default
        if own := _OF_ONE.get(self.field.name):
            return own(self, given)
        return self._by_type(given)

    def _by_type(self, given: Any) -> Any:
        if bool in self.kinds:
            return self._switch(given)
        if float in self.kinds:
            return self._percentage(given) if self.words else self._seconds(given)
        if self.words:
            return self._choice(given)
        if int in self.kinds:
            return self._count(given)
        if any(get_origin(kind) is tuple for kind in self.kinds):
            return texts(max(self.names, key=len), given)
        return self.text(given)

    def _wrong(self, given: Any, what: str, action: str) -> UsageError:
        return UsageError(f"{max(self.names, key=len)} {given!r} {what}.", action)

    def _switch(self, given: Any) -> bool:
        if isinstance(given, bool):
            return given
        raise self._wrong(given, "is neither True nor False", "It is a switch.")

    def _choice(self, given: Any) -> str:
        if isinstance(given, str) and given in self.words:
            return given
        near = did_you_mean(given, self.words) if isinstance(given, str) else ""
        offered = ", ".join(self.words)
        raise self._wrong(given, f"is none of {offered}", near or "Give one of them.")

    def _count(self, given: Any) -> int:
        count = _whole(given)
        if count is None:
            raise self._wrong(given, "is not a whole number", "Write it in digits.")
        request.check_bounds(max(self.names, key=len), count, self.flag.bounds)
        return count

    def _percentage(self, given: Any) -> float | str:
        """Read a percentage, or one of the words."""
        if isinstance(given, str) and given in self.words:
            return given
        if (percent := _number(given)) is not None:
            return percent
        words = " or ".join(self.words)
        raise self._wrong(given, "is not a percentage", f"Write it as 78.5, or {words}.")

    def _seconds(self, given: Any) -> float:
        """Read a duration above 0: text with a unit, or seconds."""
        seconds = times.parse_duration(given) if isinstance(given, str) else _number(given)
        if seconds is not None and 0 < seconds <= LONGEST_SECONDS:
            return seconds
        action = f"Write {times.EXAMPLES}: more than 0s, up to 366d."
        raise self._wrong(given, "is not a length of time", action)

    def text(self, given: Any) -> str:
        """Read a text, or a path; raises :class:`UsageError`."""
        return text(max(self.names, key=len), given)


def text(name: str, given: Any) -> str:
    """Read a text, or a path, of an option or argument; raises :class:`UsageError`."""
    read = os.fspath(given) if isinstance(given, os.PathLike) else given
    if isinstance(read, str):
        return read
    raise UsageError(f"{name} {given!r} is not a text.", "Write it in quotes.")


def texts(name: str, given: Any) -> tuple[str, ...]:
    """Read texts; one alone is a list of it."""
    if isinstance(given, str | os.PathLike) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(text(name, one) for one in given)


def _whole(given: Any) -> int | None:
    """Return a whole number, also of digits; None for anything else."""
    if isinstance(given, bool):
        return None
    try:
        return int(given) if isinstance(given, str) else operator.index(given)
    except (TypeError, ValueError):
        return None


def _number(given: Any) -> float | None:
    """Return a number, also of digits; None for anything else."""
    try:
        return None if isinstance(given, bool) else float(given)
    except (TypeError, ValueError):
        return None


def _batch_sizes(_: Option, given: Any) -> tuple[int, ...]:
    if isinstance(given, str):
        return request.parse_batch_sizes(given)
    several = given if isinstance(given, Iterable) else (given,)
    sizes = tuple(_whole(one) or 0 for one in several)
    request.check_batch_sizes(str(given), sizes)
    return sizes


def _place(option: Option, given: Any) -> str:
    """Read a path of this machine, made absolute, or another place."""
    text = option.text(given)
    # Not resolved: a link stays what the user calls it.
    return os.path.abspath(os.path.expanduser(text)) if is_local_path(text) else text  # noqa: PTH100, PTH111


_OF_ONE: Mapping[str, Callable[[Option, Any], Any]] = {
    "batch_sizes": _batch_sizes,
    "data": _place,
    "weights": _place,
    "checkpoints": _place,
    "kubeconfig": lambda option, given: str(Path(option.text(given)).absolute()),
    "prometheus": lambda option, given: connections.checked_prometheus(option.text(given)),
}
"""Fields whose values are read in a way of their own."""


def options(kind: type[msgspec.Struct], flags: Mapping[str, Flag]) -> dict[str, Option]:
    """Return the options of the fields with a flag, by the fields' names, in order."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return {name: Option(fields[name], flag) for name, flag in flags.items()}


def keywords(command: str, known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Read keyword arguments of Python; returns the values by field.

    Raises :class:`UsageError` for a keyword that the command does not have.
    """
    by_keyword = {option.keyword: (name, option) for name, option in known.items()}
    values = {}
    for keyword, value in given.items():
        if keyword not in by_keyword:
            near = did_you_mean(keyword, by_keyword) or f"It has {', '.join(by_keyword)}."
            raise UsageError(f"{command} has no option {keyword!r}.", near)
        name, option = by_keyword[keyword]
        values[name] = option.read(value)
    return values


SUBMIT = options(SubmitRequest, request.FLAGS)
"""Options of ``submit``, by field."""
AGREE = SUBMIT.pop("yes")
"""Agrees to the run of a user's program: in Python an argument of its own."""
ACCESS = options(ClusterAccess, request.ACCESS_FLAGS)
"""Options of every command that uses a cluster, by field."""
FILTERS = options(GroupFilter, request.FILTER_FLAGS)
"""Options that choose rows, by field."""
