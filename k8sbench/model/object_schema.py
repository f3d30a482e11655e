"""Check of a Benchmark object by its CRD, as the API server makes it. Pure.

The schema is read from the CRD, with the few keywords that it uses. The CRD's rules are CEL, and
stand here once more in Python, by their messages; examples are accepted and refused alike by both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import re2

from k8sbench.model.benchmark_object import API_VERSION, KIND
from k8sbench.model.errors import UsageError

Json = Any
Fault = tuple[str, str]
"""Field, such as ``spec.replicas``, and what is wrong with it."""

NAMES = frozenset({"name", "namespace", "labels", "annotations"})
"""Metadata that a user gives."""
SERVER = frozenset(
    {
        "creationTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
"""Other metadata that the API server takes; it means nothing in a store."""
PREFIXED = r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?"
LABEL = PREFIXED + r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
VALUE = r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$"

IMMUTABLE = "self == oldSelf"
"""The rule of a field that may not change."""
KEYS = re.compile(r"self\.all\(key, key\.matches\('(.*)'\)\)")
"""A rule on the keys of a mapping."""
CHANGE = (
    "only parallel, cancel, cancelRuns, keep, retry and ttlSecondsAfterFinished can change;"
    " create another Benchmark"
)

Spec = Mapping[str, Json]


def _at_most_one(*names: str) -> Callable[[Spec], bool]:
    return lambda spec: sum(name in spec for name in names) < 2


RULES: dict[str, Callable[[Spec], bool]] = {
    "give either benchmark or file": lambda spec: ("benchmark" in spec) != ("file" in spec),
    "iterations and epochs exclude each other": _at_most_one("iterations", "epochs"),
    "allCases excludes replicas and gpus": lambda spec: (
        not (spec.get("allCases") and ("replicas" in spec or "gpus" in spec))
    ),
    "nodePool and pool exclude each other": _at_most_one("nodePool", "pool"),
    "image and imageRegistry exclude each other": _at_most_one("image", "imageRegistry"),
    "nodes excludes replicas and allCases": lambda spec: (
        not ("nodes" in spec and ("replicas" in spec or "allCases" in spec))
    ),
}
"""Rules of a spec, by their messages."""
CHANGES: dict[str, Callable[[Spec, Spec], bool]] = {
    "a cancelled Benchmark stays cancelled; create another one": lambda old, new: (
        not old.get("cancel") or bool(new.get("cancel"))
    ),
    "a cancelled run stays cancelled": lambda old, new: (
        "cancelRuns" not in old
        or ("cancelRuns" in new and set(old["cancelRuns"]) <= set(new["cancelRuns"]))
    ),
    "retry only grows": lambda old, new: (
        "retry" not in old or ("retry" in new and new["retry"] >= old["retry"])
    ),
}
"""Rules of a spec's change, by their messages."""
NAME = (
    "the name must begin with a letter, hold lower-case letters, digits and '-' alone,"
    " and have at most 42 characters"
)
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?")


class ObjectSchema:
    """The CRD's schema of an object."""

    def __init__(self, crd: Mapping[str, Json]) -> None:
        (version,) = crd["spec"]["versions"]
        root = version["schema"]["openAPIV3Schema"]
        self._spec: Mapping[str, Json] = root["properties"]["spec"]

    def check(self, manifest: Json, old: Spec | None = None) -> dict[str, Json]:
        """Return an object without what the API server drops: its status, and nulls.

        ``old`` is its spec before a change. Raises :class:`UsageError` with every fault of the
        first kind.
        """
        faults = list(_metadata_faults(manifest))
        if faults:
            raise _invalid_object(manifest, faults)
        spec = _without_nulls(manifest["spec"], self._spec)
        faults = list(_faults(spec, self._spec, "spec"))
        if not faults:  # as for the API server, rules are for what has the right types
            faults = [*_name_faults(manifest), *_rule_faults(spec, self._spec, "spec")]
            faults += [("spec", text) for text, holds in RULES.items() if not holds(spec)]
            faults += [] if old is None else self._changes(old, spec)
        if faults:
            raise _invalid_object(manifest, faults)
        metadata = {
            key: manifest["metadata"][key] for key in NAMES if manifest["metadata"].get(key)
        }
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}

    def _changes(self, old: Spec, new: Spec) -> list[Fault]:
        immutable = [
            name for name, schema in self._spec["properties"].items() if _is_immutable(schema)
        ]
        absent = object()
        faults = [
            (f"spec.{name}", CHANGE)
            for name in immutable
            if old.get(name, absent) != new.get(name, absent)
        ]
        return faults + [("spec", text) for text, holds in CHANGES.items() if not holds(old, new)]


def _invalid_object(manifest: Json, faults: Sequence[Fault]) -> UsageError:
    metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    problems = "; ".join(f"{path}: {what}" for path, what in faults)
    what = f"Benchmark {name}" if isinstance(name, str) else "The Benchmark"
    return UsageError(
        f"{what} is invalid: {problems}.", "The fields are those of: k8sbench operator crd"
    )


def _is_immutable(schema: Mapping[str, Json]) -> bool:
    return any(rule["rule"] == IMMUTABLE for rule in schema.get("x-kubernetes-validations", ()))


def _metadata_faults(manifest: Json) -> Iterator[Fault]:
    """Yield what is wrong around the spec."""
    if not isinstance(manifest, dict):
        yield "object", "is no mapping"
        return
    for key, value in (("apiVersion", API_VERSION), ("kind", KIND)):
        if manifest.get(key) != value:
            yield key, f"must be {value}"
    for key in manifest.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    if not isinstance(manifest.get("spec"), dict):
        yield "spec", "is needed, as a mapping"
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        yield "metadata.name", "is needed, as text"
        return
    for key in metadata.keys() - NAMES - SERVER:
        yield f"metadata.{key}", "unknown field"
    if not isinstance(metadata.get("namespace") or "", str):
        yield "metadata.namespace", "must be text"
    for field, pattern in (("labels", VALUE), ("annotations", None)):
        yield from _pair_faults(metadata.get(field) or {}, f"metadata.{field}", pattern)


def _pair_faults(pairs: Json, path: str, pattern: str | None) -> Iterator[Fault]:
    if not isinstance(pairs, dict):
        yield path, "must be a mapping"
        return
    for key, value in pairs.items():
        name = key.lower() if pattern is None and isinstance(key, str) else key
        if not isinstance(name, str) or re2.search(LABEL, name) is None:
            yield path, f"{key!r} is no key of labels"
        if not isinstance(value, str) or (pattern and re2.search(pattern, value) is None):
            yield f"{path}.{key}", f"{value!r} is no value of a label"


def _name_faults(manifest: Mapping[str, Json]) -> Iterator[Fault]:
    if _NAME.fullmatch(manifest["metadata"]["name"]) is None:
        yield "metadata.name", NAME


def _without_nulls(value: Json, schema: Mapping[str, Json]) -> Json:
    """Drop nulls of fields that cannot be null."""
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        return {
            name: _without_nulls(inner, properties.get(name, {}))
            for name, inner in value.items()
            if inner is not None or name not in properties or properties[name].get("nullable")
        }
    if isinstance(value, list) and "items" in schema:
        return [_without_nulls(inner, schema["items"]) for inner in value]
    return value


_TYPES: dict[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}
_LIMITS: dict[str, Callable[[Json, Json], bool]] = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "minLength": lambda value, limit: len(value) >= limit,
    "maxLength": lambda value, limit: len(value) <= limit,
    "minItems": lambda value, limit: len(value) >= limit,
    "maxItems": lambda value, limit: len(value) <= limit,
    "maxProperties": lambda value, limit: len(value) <= limit,
    "enum": lambda value, limit: value in limit,
    "pattern": lambda value, limit: re2.search(limit, value) is not None,
}
KEYWORDS = frozenset(
    {
        *_LIMITS,
        "additionalProperties",
        "description",
        "items",
        "nullable",
        "properties",
        "required",
        "type",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    }
)
"""Keywords that are understood; the CRD's spec uses no other."""


def _faults(value: Json, schema: Mapping[str, Json], path: str) -> Iterator[Fault]:
    """Yield what is wrong with the types and sizes of a value."""
    if value is None and schema.get("nullable"):
        return
    if not _TYPES[schema["type"]](value):
        yield path, f"must be of type {schema['type']}"
        return
    for keyword, holds in _LIMITS.items():
        if keyword in schema and not holds(value, schema[keyword]):
            yield path, f"{_shorten(value)} breaks {keyword} {schema[keyword]}"
    if isinstance(value, dict):
        yield from _property_faults(value, schema, path)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _faults(item, schema["items"], f"{path}[{number}]")
            if schema.get("x-kubernetes-list-type") == "set" and item in value[:number]:
                yield f"{path}[{number}]", f"{_shorten(item)} stands there twice"


def _property_faults(
    value: Mapping[str, Json], schema: Mapping[str, Json], path: str
) -> Iterator[Fault]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}", "is needed"
    for name, inner in value.items():
        field = properties.get(name, other)
        if field is None:
            yield f"{path}.{name}", "unknown field"
        else:
            yield from _faults(inner, field, f"{path}.{name}")


def _rule_faults(value: Json, schema: Mapping[str, Json], path: str) -> Iterator[Fault]:
    """Yield the broken rules on the keys of mappings, anywhere in a value."""
    for rule in schema.get("x-kubernetes-validations", ()):
        pattern = KEYS.fullmatch(rule["rule"])
        if pattern and not all(re2.search(pattern[1], key) for key in value):
            yield path, rule["message"]
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield from _rule_faults(value[name], inner, f"{path}.{name}")


def _shorten(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
