"""Environment file of a report: the facts that people state.

:mod:`k8sbench.results.report.account` sets them beside those of logs and the cluster.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import msgspec
import yaml

from k8sbench.catalog import yaml_text
from k8sbench.model.errors import InputError, did_you_mean
from k8sbench.model.group import Group
from k8sbench.results.report.words import both

FILE = "environment.yaml"
"""Name of the file in the report's folder."""
NODE = ("node_kernel", "node_architecture", "kubelet", "container_runtime")
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
OF_PROGRAM = (*CONTAINER, "program")
"""Facts of one program or its image, which rows of another framework do not share."""


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
