"""What a collector is to do: from flags, the environment and a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.app import metric_sources
from k8sbench.model import times
from k8sbench.model.errors import UsageError


class CollectorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a collector is to do."""

    namespaces: tuple[str, ...] = ()
    """Names of namespaces; empty: the one that it runs in."""
    store: str | None = None
    """Folder or URL; None: the default place."""
    prometheus: str = metric_sources.AUTO
    """URL, ``auto`` or ``none``."""
    baseline: str | None = None
    """Name of the baseline with which the newest sets are compared; None: none is."""
    keep_logs_for: float | None = None
    """Seconds after a run's end; None: for ever."""


class SettingsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the file; what is left out has its default."""

    namespaces: list[str] | None = None
    store: str | None = None
    prometheus: str | None = None
    baseline: str | None = None
    keep_logs_for: str | None = msgspec.field(default=None, name="keepLogsFor")


def load(file: str | None, given: Mapping[str, Any]) -> CollectorSettings:
    """Read the settings; what is ``given`` by flags and the environment and not None comes first.

    Raises :class:`UsageError`, for the file with its line.
    """
    values: dict[str, Any] = {}
    if file is not None:
        from k8sbench.adapters.files import strict_yaml

        text = strict_yaml.read_text(file)
        if any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
            values = msgspec.structs.asdict(
                strict_yaml.parse(text, SettingsFile, file=file, rules=_problems)
            )
    values |= {name: value for name, value in given.items() if value}
    values = {name: value for name, value in values.items() if value is not None}
    if (length := values.get("keep_logs_for")) is not None:
        seconds = times.seconds(length)
        if not seconds:
            raise UsageError(
                f"--keep-logs-for {length!r} is not a length of time.", f"Write {times.EXAMPLES}."
            )
        values["keep_logs_for"] = seconds
    values["namespaces"] = tuple(dict.fromkeys(values.get("namespaces", ())))
    values["prometheus"] = metric_sources.checked(values.get("prometheus", metric_sources.AUTO))
    return CollectorSettings(**values)


def _problems(read: SettingsFile) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if read.keep_logs_for is not None and not times.seconds(read.keep_logs_for):
        yield ("keepLogsFor",), f"is not a length of time; write {times.EXAMPLES}"
    if read.namespaces is not None and not read.namespaces:
        yield ("namespaces",), "is empty; leave it out for the collector's own"
