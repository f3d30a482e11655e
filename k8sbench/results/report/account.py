"""Facts that logs and the cluster, or people in a file, state of the rows of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from k8sbench.model.group import Group
from k8sbench.model.kinds import kind_of
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.results.report.environment import NODE, Given

STATED = (
    *("cpu", "cpus", "ram_gib", "kernel", *NODE, "driver", "transport", "infiniband"),
    *("cuda", "cudnn", "nccl", "python", "framework_version"),
)
"""Facts from a log about machine and libraries, or from the cluster about nodes."""
MACHINE = ("gpu", "driver", "kernel", "cpu", "cpus", "ram_gib", "infiniband")
"""Facts that all runs in one environment share, whatever the program."""
USUAL = (
    *("gpu", "cpu", "ram_gib", "os", "driver", "cuda", "cudnn", "nccl", "network", "container"),
)
"""Facts that the published reports state."""
OF_CPUS = ("cpu", "ram_gib", "os")
"""The same without a GPU."""
OF_NODES = ("nodes",)
"""The same of rows of several nodes."""
EQUAL = {"network": ("transport", "infiniband")}
"""Facts that stand for another one."""
Facts = dict[str, dict[str, list[str]]]
"""Name → value → names of the rows that have it."""
Lacking = dict[str, dict[str, bool]]
"""Name of a fact → each row that can have it → true if nobody states it."""


class By(StrEnum):
    """Source of a stated fact."""

    LOGS = "by_logs"
    """Logs, options or the cluster."""
    FILE = "by_file"
    """People, in the environment file."""


class Statement(NamedTuple):
    """A fact as one of both states it."""

    name: str
    values: dict[str, list[str]]
    """Value → names of the rows that have it."""
    by: By


class Account:
    """Facts of the rows of a report, by who states them."""

    def __init__(
        self,
        groups: Sequence[Group],
        names: Mapping[str, str],
        runs: Mapping[str, Run],
        given: Given,
    ) -> None:
        """``names`` are of the rows, by group id; ``runs`` by run id; ``given`` is the file."""
        self._groups = groups
        self._names = names
        self._runs = runs
        self._given = given
        self.logs = self._by_logs()
        self.file = self._by_file()
        self.read_rows = {names[group.key.id] for group, _, _ in self.counted(groups)}
        """Rows with a run that counts."""

    def counted(self, groups: Sequence[Group]) -> Iterator[tuple[Group, Run, Measurement]]:
        """Yield the runs that count, or all measured runs if none counts."""
        some = any(group.counted for group in groups)
        for group in groups:
            for member in group.members:
                run = self._runs[member.run_id]
                if run.measurement is not None and (member.rate is not None or not some):
                    yield group, run, run.measurement

    def given(self, group: Group) -> dict[str, str]:
        """Return the facts that the file states of a row."""
        return self._given.facts_for(group.key.set_name, self._names[group.key.id])

    def logged(self, group: Group, name: str) -> list[str | int | float | bool]:
        """Return the distinct values of a fact in the logs of a row's runs."""
        found = (one.environment.get(name) for _, _, one in self.counted([group]))
        return [*dict.fromkeys(value for value in found if value is not None)]

    def statements(self, names: Sequence[str]) -> Iterator[Statement]:
        """Yield what is stated of some facts, in their order."""
        for name in dict.fromkeys(names):
            for by, facts in ((By.LOGS, self.logs), (By.FILE, self.file)):
                if name in facts:
                    yield Statement(name, facts[name], by)

    def values_of(self, name: str) -> dict[str, list[str]]:
        """Return the values that anybody states of a fact, with the rows that have them."""
        found: dict[str, list[str]] = {}
        for statement in self.statements([name]):
            for value, rows in statement.values.items():
                named = found.setdefault(value, [])
                named += [row for row in rows if row not in named]
        return found

    def differing(self) -> list[str]:
        """Return the facts of one environment in which the runs differ."""
        return [name for name in MACHINE if len(self.logs.get(name, ())) > 1]

    def at_odds(self) -> list[str]:
        """Return the facts of which logs and file state different values for one row.

        Dependencies are lists of which each side names a part. A program is at odds if the file
        does not name that of the logs.
        """
        found = [
            name
            for name in self.file
            if name != "dependencies"
            and any(
                value != other and not set(rows).isdisjoint(others)
                for value, rows in self.logs.get(name, {}).items()
                for other, others in self.file[name].items()
            )
        ]
        return [*found, *(["program"] if any(map(self._is_other_program, self._groups)) else [])]

    def _is_other_program(self, group: Group) -> bool:
        given = self.given(group).get("program", "").lower()
        named = (str(name).lower() for name in self.logged(group, "program") if name)
        return bool(given) and any(name not in given for name in named)

    def lacking(self) -> Lacking:
        """Return the usual facts that nobody states, with the rows that lack them."""
        found: Lacking = {}
        for group in self._groups:
            row = self._names[group.key.id]
            if row in self.read_rows or not self.read_rows:
                for name, is_lacking in self._usual_lacking(group, row):
                    found.setdefault(name, {})[row] = is_lacking
        for group in self._groups:
            if group.planned is None:
                row = self._names[group.key.id]
                for name, is_lacking in self._imported_lacking(group):
                    found.setdefault(name, {})[row] = is_lacking
        return found

    def _usual_lacking(self, group: Group, row: str) -> Iterator[tuple[str, bool]]:
        known = {
            name
            for facts in (self.logs, self.file)
            for name, values in facts.items()
            if any(row in rows for rows in values.values())
        }
        if group.key.image != "-" or group.facts.backend == "local":
            known.add("container")
        for name in _usual(group):
            yield name, known.isdisjoint((name, *EQUAL.get(name, ())))

    def _imported_lacking(self, group: Group) -> Iterator[tuple[str, bool]]:
        """Yield what the plan of an own run would state."""
        given = self.given(group)
        is_data_known = group.facts.data != "unknown" or self._is_data_logged(group)
        yield "data_used", not (is_data_known or "data" in given)
        has_version = any(self.logged(group, "program_version"))
        yield "program_version", not (has_version or "program" in given)
        if group.facts.precision == "amp":
            yield "all_fp16", group.arithmetic is None and "all_fp16" not in given

    def _is_data_logged(self, group: Group) -> bool:
        """True if the logs state one data set, by its MD5, its samples or its name."""
        if group.data_md5 is not None:
            return True
        return any(len(self.logged(group, name)) == 1 for name in ("data_samples", "dataset"))

    def _by_logs(self) -> Facts:
        """Return the facts that logs and cluster state."""
        found: Facts = {}
        for group, run, measured in self.counted(self._groups):
            for name, value in _stated(group, run, measured).items():
                if value not in (None, ""):
                    rows = found.setdefault(name, {}).setdefault(str(value), [])
                    row = self._names[group.key.id]
                    rows += [row] if row not in rows else []
        return found

    def _by_file(self) -> Facts:
        """Return the facts that the environment file states."""
        found: Facts = {}
        for group in self._groups:
            for name, value in self.given(group).items():
                rows = found.setdefault(name, {}).setdefault(value, [])
                rows.append(self._names[group.key.id])
        return found


def _usual(group: Group) -> tuple[str, ...]:
    """Return the facts that published reports state of such a row."""
    usual: tuple[str, ...] = OF_CPUS if group.on_cpu else USUAL
    return usual + OF_NODES if (group.hardware.machines or 1) > 1 else usual


def named_version(framework: str, version: object) -> str:
    """Write a framework with its version; Paddle's builds of develop have the number 0.0.0."""
    return f"{framework} {'develop' if version == '0.0.0' else version}".strip()


def _stated(group: Group, run: Run, measured: Measurement) -> dict[str, object]:
    """Return the facts of a run's environment; None or empty if unknown."""
    planned, stated = run.planned, measured.environment
    hosts = {stated.get("node"), *(rank.host for rank in measured.ranks)}
    facts: dict[str, object] = {name: stated.get(name) for name in STATED}
    facts["gpu"] = measured.gpu_model
    is_local = run.facts.backend == "local"  # without a container
    facts["os"] = stated.get("os" if is_local else "node_os")
    facts["image_os"] = None if is_local else stated.get("os")
    facts["dependencies"] = stated.get("mmcv") and f"mmcv {stated['mmcv']}"
    facts["nodes"] = ", ".join(sorted(str(host) for host in hosts if host))
    facts["ram_gib"] = stated.get("ram_gib") and f"{stated['ram_gib']} GiB"
    if version := stated.get("framework_version"):
        facts["framework_version"] = named_version(run.facts.framework or "", version)
    facts["backend"] = None if run.facts.backend == "imported" else run.facts.backend
    if group.on_cpu:
        facts["transport"] = None  # gloo's, not NCCL's
    if planned is not None and planned.backend == "kubernetes":
        kind = kind_of(planned)
        facts["gpus_per_node"] = None if group.on_cpu else planned.pool.gpus_per_node
        facts["operator"] = f"{kind.operator.name} ({kind.name}, {kind.api_version})"
    return facts
