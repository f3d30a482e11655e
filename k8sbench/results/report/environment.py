"""Environment of a published report.

Logs and the cluster state some facts; people state others in a file. The report says who states
what, and names the usual facts that nobody states.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import yaml

from k8sbench.catalog import yaml_text
from k8sbench.model.errors import InputError, did_you_mean
from k8sbench.model.group import Group
from k8sbench.model.kinds import kind_of
from k8sbench.model.measurement import Measurement
from k8sbench.model.run import Run
from k8sbench.results.report.words import both

FILE = "environment.yaml"
"""Name of the file in the report's folder."""
NODE = ("node_kernel", "node_architecture", "kubelet", "container_runtime")
STATED = (
    *("cpu", "cpus", "ram_gib", "kernel", *NODE, "driver", "transport", "infiniband"),
    *("cuda", "cudnn", "nccl", "python", "framework_version"),
)
"""Facts from a log about machine and libraries, or from the cluster about nodes."""
HOST = (
    *("machine", "gpu", "gpus_per_node", "nodes", "cpu", "cpus", "ram_gib", "os", "kernel"),
    *(*NODE, "driver", "network", "transport", "infiniband", "backend", "operator"),
)
"""Known facts about machines, in the order of their table."""
CONTAINER = (
    *("container", "image_os", "framework_version", "cuda", "cudnn", "nccl", "python"),
    "dependencies",
)
"""Known facts about the container, or the libraries, in the order of their table."""
FACTS = (*HOST, *CONTAINER)
ELSEWHERE = ("program", "data", "all_fp16")
"""Facts of a file that have a table of their own."""
KNOWN = (*FACTS, *ELSEWHERE)
"""Facts with a name in each language; another name in a file is the user's own."""
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
OF_PROGRAM = (*CONTAINER, "program")
"""Facts of one program or its image, which rows of another framework do not share."""
EQUAL = {"network": ("transport", "infiniband")}
"""Facts that stand for another one."""
Facts = dict[str, dict[str, list[str]]]
"""Name → value → names of the rows that have it."""
Lacking = dict[str, dict[str, bool]]
"""Name of a fact → each row that can have it → true if nobody states it."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from an environment file."""

    everywhere: Mapping[str, str] = {}
    """Facts of all rows: name → value."""
    sets: Mapping[str, Mapping[str, str]] = {}
    """Facts by set."""
    rows: Mapping[str, Mapping[str, str]] = {}
    """Facts by name of a row, or of a program, which all its rows have in their names."""

    def facts_for(self, set_name: str, row: str) -> dict[str, str]:
        """Return the facts of a row: its own before its program's, these before its set's."""
        of_set = self.sets.get(set_name, {})
        of_program = self.rows.get(_program_of(row), {})
        return {**self.everywhere, **of_set, **of_program, **self.rows.get(row, {})}


def read(text: str, file: str, sets: Iterable[str], rows: Mapping[str, Group]) -> Given:
    """Read an environment file: facts of all rows, of ``sets`` and of ``rows`` by their names.

    Raises :class:`InputError` for an unknown set or row, for values that are no text, and for facts
    of one program that rows of several frameworks would get.
    """
    try:
        found = yaml_text.load_texts(text)
    except yaml.YAMLError as error:
        line, problem = yaml_text.describe_syntax_error(error)
        raise InputError(f"is no YAML: {problem}.", file=file, line=line) from error
    found = _mapping(found or {}, "the file", file)
    parts = {}
    programs = dict.fromkeys(filter(None, map(_program_of, rows)))
    for part, known in (("sets", list(sets)), ("rows", [*programs, *rows])):
        values = _mapping(found.pop(part, {}), part, file)
        if unknown := next((name for name in values if name not in known), None):
            near = did_you_mean(unknown, known)
            action = f"{near}There are: {', '.join(known)}."
            raise InputError(f"{part}: the report has no {unknown}.", action, file=file)
        parts[part] = {name: _facts_of(_mapping(v, name, file), file) for name, v in values.items()}
    given = Given(everywhere=_facts_of(found, file), **parts)
    _check_programs(given, file, rows)
    return given


def _check_programs(given: Given, file: str, rows: Mapping[str, Group]) -> None:
    """Refuse facts of one program where rows of several frameworks would get them."""
    shared = [("all rows", given.everywhere, [*rows])]
    for name, facts in given.sets.items():
        of_set = [row for row, group in rows.items() if group.key.set_name == name]
        shared.append((f"set {name}", facts, of_set))
    for whose, facts, its_rows in shared:
        stated = [name for name in facts if name in OF_PROGRAM]
        frameworks = sorted({rows[row].key.framework for row in its_rows})
        if stated and len(frameworks) > 1:
            names = dict.fromkeys(_program_of(row) or row for row in its_rows)
            what = f"{', '.join(stated)}: stated of {whose}, which are of {', '.join(frameworks)}."
            action = f"State it under rows: of its own rows: {', '.join(names)}."
            raise InputError(what, action, file=file)


def _program_of(row: str) -> str:
    """Return the program in a row's name; empty where the report has one program."""
    return row.rpartition("/")[0]


def _mapping(value: object, what: str, file: str) -> dict[str, object]:
    if not isinstance(value, dict):
        action = "Write rows such as: driver: 450.80.02"
        raise InputError(f"{what} has no names with values.", action, file=file)
    return value


def _facts_of(values: Mapping[str, object], file: str) -> dict[str, str]:
    known = _ids()
    made = {}
    for name, value in values.items():
        each = value if isinstance(value, list) else [value]
        written = [one for one in each if isinstance(one, str)]
        if len(written) < len(each):
            raise InputError(f"{name} is no text.", "Write one line of text.", file=file)
        made[known.get(name.lower(), name)] = ", ".join(written)
    return made


@functools.cache
def _ids() -> dict[str, str]:
    """Map the words of known facts, in both languages, to their ids."""
    return {word.lower(): name for name in KNOWN for word in (name, *both(name))}


def by_logs(counted: Iterable[tuple[Group, Run, Measurement]], names: Mapping[str, str]) -> Facts:
    """Return the facts that logs and cluster state."""
    found: Facts = {}
    for group, run, measured in counted:
        for name, value in _stated(group, run, measured).items():
            if value not in (None, ""):
                rows = found.setdefault(name, {}).setdefault(str(value), [])
                rows += [row] if (row := names[group.key.id]) not in rows else []
    return found


def by_file(given: Given, groups: Sequence[Group], names: Mapping[str, str]) -> Facts:
    """Return the facts that the environment file states."""
    found: Facts = {}
    for group in groups:
        row = names[group.key.id]
        for name, value in given.facts_for(group.key.set_name, row).items():
            found.setdefault(name, {}).setdefault(value, []).append(row)
    return found


def values_of(name: str, *stated: Facts) -> dict[str, list[str]]:
    """Return the values that several sources state of a fact, with the rows that have them."""
    found: dict[str, list[str]] = {}
    for facts in stated:
        for value, rows in facts.get(name, {}).items():
            named = found.setdefault(value, [])
            named += [row for row in rows if row not in named]
    return found


def at_odds(logs: Facts, file: Facts) -> list[str]:
    """Return the facts of which logs and file state different values for one row.

    Dependencies are lists of which each side names a part.
    """
    return [
        name
        for name in file
        if name != "dependencies"
        and any(
            value != other and not set(rows).isdisjoint(others)
            for value, rows in logs.get(name, {}).items()
            for other, others in file[name].items()
        )
    ]


def lacking(groups: Sequence[Group], *stated: Facts, names: Mapping[str, str]) -> Lacking:
    """Return the usual facts that nobody states, with the rows that lack them."""
    found: Lacking = {}
    for group in groups:
        row = names[group.key.id]
        known = {
            name for facts in stated for name, values in facts.items() if _has_row(values, row)
        }
        if group.key.image != "-" or group.facts.backend == "local":
            known.add("container")
        for name in _usual(group):
            is_stated = not known.isdisjoint((name, *EQUAL.get(name, ())))
            found.setdefault(name, {})[row] = not is_stated
    return found


def _has_row(values: Mapping[str, Sequence[str]], row: str) -> bool:
    return any(row in rows for rows in values.values())


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
