"""Jinja2 with strict names, and values only through the filter ``q``.

A template lays a manifest out; it does not compute, and it cannot forget to quote: rendering stops
unless every output expression comes out of ``q``. ``q`` writes plain data (strings, whole numbers,
booleans, lists, mappings of these) as a flow of YAML on one line of ASCII, in which no value can
end its own quotes. It refuses None, so that no manifest contains ``name: null``, and fractions,
which YAML 1.1 reads in several ways.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jinja2

from k8sbench.model.kinds import KINDS

READ_VERBS = ("get", "list", "watch")
RUNTIME_VERBS = ("get", "create", "patch", "delete")
ROLE, OPERATOR_ROLE = "role.yaml.j2", "operator-role.yaml.j2"
"""Templates of the users' and the operator's permissions."""
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


class Quoted(str):
    """A value as quoted YAML, made only by :func:`quote`."""

    __slots__ = ()


def quote(value: object) -> Quoted:
    """Write ``value`` as YAML in flow style: the filter ``q``."""
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, and says which name is not defined
    _refuse_unplain(value)
    return Quoted(_NOT_ASCII.sub(_escape, json.dumps(value, ensure_ascii=False)))


def only_quoted(value: object) -> Quoted:
    """Return quoted values; raise for all others. Jinja2 calls it per output."""
    if not isinstance(value, Quoted):
        raise TypeError(f"an output expression yields {value!r}, which did not pass the filter q")
    return value


def environment(texts: Mapping[str, str]) -> jinja2.Environment:
    """Return strict, quoting templates by name."""
    made = jinja2.Environment(  # noqa: S701 - not HTML; only_quoted refuses what is not escaped
        loader=jinja2.DictLoader(dict(texts)),
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


def role(templates: jinja2.Environment, *, operated: bool = False) -> str:
    """Return the users' permissions as YAML, the text of ``k8sbench/role.yaml``.

    With ``operated`` those for namespaces that an operator serves: users only read jobs there.
    """
    verbs = READ_VERBS if operated else None
    return render(templates, ROLE, jobs=_jobs(verbs), operated=operated) + "\n"


def operator_role(templates: jinja2.Environment) -> str:
    """Return the operator's Role as YAML; the chart has its rules.

    It creates jobs, too: the next attempts of failed runs.
    """
    return render(templates, OPERATOR_ROLE, jobs=_jobs()) + "\n"


def _jobs(verbs: tuple[str, ...] | None = None) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """Group and verbs → plurals of the job kinds.

    With ``verbs`` of the jobs alone, and these verbs; else all that k8sbench needs.
    """
    jobs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in KINDS.values():
        jobs.setdefault((kind.group, verbs or tuple(kind.verbs)), []).append(kind.plural)
        if kind.runtime is not None and verbs is None:
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
