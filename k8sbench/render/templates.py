"""Jinja2 as this project uses it: strict names, and no value into a text but through ``q``.

A template lays a manifest out; it does not compute, and it cannot forget to quote: whatever an
output expression yields must come out of the filter ``q``, or rendering stops. ``q`` writes plain
data (strings, whole numbers, booleans, lists, mappings of these) as a flow of YAML on one line of
ASCII, in which no value can end its own quotes. It refuses None, so that no manifest ever says
``name: null``, and fractions, which YAML 1.1 reads in several ways.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jinja2

from k8sbench.model.kinds import KINDS

RUNTIME_VERBS = ("get", "create", "patch", "delete")
ROLE, COLLECTOR_ROLE = "role.yaml.j2", "collector-role.yaml.j2"
"""The permissions of users and of the collector: fixed rules, and those of the job kinds."""
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


class Quoted(str):
    """A value as a piece of YAML. Only :func:`quote` makes one."""

    __slots__ = ()


def quote(value: object) -> Quoted:
    """Write ``value`` as YAML in flow style: the filter ``q``."""
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, and says which name is not defined
    _refuse_unplain(value)
    return Quoted(_NOT_ASCII.sub(_escape, json.dumps(value, ensure_ascii=False)))


def only_quoted(value: object) -> Quoted:
    """Let quoted values pass, and nothing else: what Jinja2 asks about every output expression."""
    if not isinstance(value, Quoted):
        raise TypeError(f"an output expression yields {value!r}, which did not pass the filter q")
    return value


def environment(
    texts: Mapping[str, str], compiled: jinja2.BytecodeCache | None = None
) -> jinja2.Environment:
    """Set up templates by name, strict and quoting; ``compiled`` keeps what was compiled before."""
    made = jinja2.Environment(  # noqa: S701 - not HTML; only_quoted refuses what is not escaped
        loader=jinja2.DictLoader(dict(texts)),
        bytecode_cache=compiled,
        undefined=jinja2.StrictUndefined,
        finalize=only_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters = {"q": quote, "indent": made.filters["indent"]}
    made.globals.clear()
    return made


def render(templates: jinja2.Environment, name: str, **values: Any) -> str:
    """Fill the template ``name``."""
    return templates.get_template(name).render(**values)


def role(templates: jinja2.Environment) -> str:
    """Write the permissions of users as YAML; ``k8sbench/role.yaml`` is this text."""
    return render(templates, ROLE, jobs=_jobs()) + "\n"


def collector_role(templates: jinja2.Environment) -> str:
    """Write the collector's Role as YAML, of which the chart has the rules.

    It creates jobs, too: the next attempts of runs whose attempt has failed.
    """
    return render(templates, COLLECTOR_ROLE, jobs=_jobs()) + "\n"


def _jobs() -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Group and verbs → plurals of the job kinds."""
    jobs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in KINDS.values():
        jobs.setdefault((kind.group, tuple(kind.verbs)), []).append(kind.plural)
        if kind.runtime is not None:
            jobs.setdefault((kind.group, RUNTIME_VERBS), []).append(kind.runtime.plural)
    return jobs


def _refuse_unplain(value: object) -> None:
    if isinstance(value, str | bool | int):
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"cannot quote the key {key!r}: it is not a string")
            _refuse_unplain(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_unplain(inner)
    else:
        raise TypeError(f"cannot quote {value!r}: it is not plain data")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
