"""What is wrong with a YAML value that is not of its type, and in which line.

msgspec decides whether a value is right. Where it is not, it names neither the line nor the key
inside a mapping of names; here the value is gone through again, beside the tree of its lines, and
the first fault by line is said in a sentence, with the nearest key that would have been right.
Imported when a file is wrong, and only then.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec.inspect as types

from k8sbench.adapters.files.strict_yaml import (
    BOOLS,
    FLOAT,
    INT,
    Mark,
    Path,
    Value,
    said,
    short,
    spelled,
)
from k8sbench.model.errors import InputError

_Fault = tuple[int, str, str]
"""Line, what is wrong, what to do."""


def explained(value: Value, mark: Mark, type_: type[Any], file: str, otherwise: str) -> InputError:
    """Say what is wrong with a value that is not of ``type_``: its first fault by line.

    ``otherwise`` is said where nothing is found here.
    """
    faults = list(_faults(types.type_info(type_), value, mark, ()))
    if not faults:
        return InputError(f"{otherwise}.", file=file, line=mark.line)
    line, message, action = min(faults, key=lambda fault: fault[0])
    return InputError(message, action, file=file, line=line)


def _faults(kind: Any, value: Value, mark: Mark, path: Path) -> Iterator[_Fault]:
    """Yield what keeps ``value`` from being of ``kind``, a :mod:`msgspec.inspect` type."""
    words = ""
    if isinstance(kind, types.Metadata):
        words = (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    if isinstance(kind, types.UnionType):
        kind = _branch(kind, value)
        if isinstance(kind, types.Metadata):
            words = (kind.extra_json_schema or {}).get("description", "")
            kind = kind.type
    if isinstance(kind, types.StructType) and isinstance(value, dict):
        yield from _struct_faults(kind, value, mark, path)
    elif isinstance(kind, types.DictType) and isinstance(value, dict):
        yield from _dict_faults(kind, value, mark, path)
    elif isinstance(kind, types.VarTupleType | types.ListType) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(kind.item_type, item, mark.items[index], (*path, index))
    elif isinstance(kind, types.LiteralType):
        # true is 1 to Python, but not to a reader
        if not any(value == each and type(value) is type(each) for each in kind.values):
            known = [str(each) for each in kind.values]
            yield (
                mark.line,
                f"{spelled(path)} is {_said(value, mark)}, not one of {', '.join(known)}.",
                _near(value if isinstance(value, str) else "", known),
            )
    elif not _fits(kind, value):
        yield mark.line, *_mismatch(kind, value, mark, path)
    else:
        what = _beyond(kind, value)
        if what:
            yield mark.line, *_limit_fault(spelled(path), _said(value, mark), words, what)


def _struct_faults(kind: Any, value: dict[str, Any], mark: Mark, path: Path) -> Iterator[_Fault]:
    fields = {field.encode_name: field for field in kind.fields}
    unknown = [key for key in value if key not in fields]
    for key in unknown[:1]:  # the first is told; to look for the nearest of thousands takes long
        where = f" in {spelled(path)}" if path else ""
        yield (
            mark.keys[key][0],
            f"unknown key {short(key)!r}{where}.",
            f"{_near(key, fields)} Known keys: {', '.join(fields)}.".strip(),
        )
    for name, field in fields.items():
        if name in value:
            yield from _faults(field.type, value[name], mark.keys[name][1], (*path, name))
        elif field.required and not unknown:  # a mistyped key is told as such
            where = spelled(path) if path else "the file"
            yield mark.line, f"{where} lacks the key {name!r}.", f"Add '{name}: …'."


def _dict_faults(kind: Any, value: dict[str, Any], mark: Mark, path: Path) -> Iterator[_Fault]:
    inner = kind.key_type
    words = ""
    if isinstance(inner, types.Metadata):
        words = (inner.extra_json_schema or {}).get("description", "")
        inner = inner.type
    for key, item in value.items():
        line, below = mark.keys[key]
        if isinstance(inner, types.LiteralType) and key not in inner.values:
            known = [str(each) for each in inner.values]
            yield (
                line,
                f"unknown key {short(key)!r} in {spelled(path)}.",
                f"{_near(key, known)} Known keys: {', '.join(known)}.".strip(),
            )
            return
        elif isinstance(inner, types.StrType) and (what := _beyond(inner, key)):
            of = f"the key {short(key)!r} in {spelled(path)}"
            yield line, *_limit_fault(of, "it is not", words, what)
            return
        yield from _faults(kind.value_type, item, below, (*path, key))


def _branch(kind: Any, value: Value) -> Any:
    """Of a union, the type that the value was meant to be; the union itself if none."""
    for each in kind.types:
        bare = each.type if isinstance(each, types.Metadata) else each
        if isinstance(bare, types.StructType | types.DictType):
            if isinstance(value, dict):
                return each
        elif _fits(bare, value):
            return each
    rest = [each for each in kind.types if not isinstance(each, types.NoneType)]
    return rest[0] if len(rest) == 1 else kind


def _fits(kind: Any, value: Value) -> bool:
    """Whether a value is of a type at all, whatever its limits."""
    if isinstance(kind, types.Metadata):
        kind = kind.type
    if isinstance(kind, types.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, types.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, types.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, types.StrType | types.LiteralType):
        return isinstance(value, str)
    if isinstance(kind, types.NoneType):
        return value is None
    if isinstance(kind, types.VarTupleType | types.ListType):
        return isinstance(value, list)
    return isinstance(kind, types.AnyType)


def _mismatch(kind: Any, value: Value, mark: Mark, path: Path) -> tuple[str, str]:
    wanted, is_ = _wanted(kind), _said(value, mark)
    if value is None:
        return f"{spelled(path)} has no value.", f"Give {wanted}, or leave the key out."
    action = ""
    if "text" in wanted and mark.raw is not None:
        action = f'Write it in quotes: "{short(mark.raw)}".'
    elif (
        isinstance(value, str)
        and mark.raw is None
        and (INT.fullmatch(value) or FLOAT.fullmatch(value) or value in BOOLS)
    ):
        action = "Write it without quotes."
    elif isinstance(kind, types.VarTupleType | types.ListType) and not isinstance(value, dict):
        action = f"Write a list: [{short(mark.raw or str(value))}]."
    elif isinstance(kind, types.IntType) and isinstance(value, float) and value.is_integer():
        action = f"Write {int(value)}."
    return f"{spelled(path)} should be {wanted}, but is {is_}.", action


def _limit_fault(of: str, is_: str, words: str, what: str) -> tuple[str, str]:
    if words:
        return f"{of} should be {words}, but {'is ' * (is_ != 'it is not')}{is_}.", ""
    return f"{of} is {what}.", ""


def _wanted(kind: Any) -> str:
    if isinstance(kind, types.Metadata):
        kind = kind.type
    if isinstance(kind, types.UnionType):
        kinds = [each for each in kind.types if not isinstance(each, types.NoneType)]
        return " or ".join(_wanted(each) for each in kinds)
    for names, words in (
        ((types.StructType, types.DictType), "a mapping"),
        ((types.VarTupleType, types.ListType), "a list"),
        ((types.BoolType,), "true or false"),
        ((types.IntType,), "a whole number"),
        ((types.FloatType,), "a number"),
        ((types.NoneType,), "nothing"),
    ):
        if isinstance(kind, names):
            return words
    return "text"


def _beyond(kind: Any, value: Any) -> str:
    """How a value of the right type is beyond its limits, as the end of a sentence; else empty."""
    lowest, above = getattr(kind, "ge", None), getattr(kind, "gt", None)
    highest = getattr(kind, "le", None)
    if lowest is not None and value < lowest:
        return f"{value}, but must be at least {lowest}"
    if above is not None and value <= above:
        return f"{value}, but must be above {above}"
    if highest is not None and value > highest:
        return f"{value}, but must be at most {highest}"
    shortest, pattern = getattr(kind, "min_length", None), getattr(kind, "pattern", None)
    if shortest is not None and len(value) < shortest:
        return "empty"
    if pattern is not None and not re.search(pattern, value):
        return f"{short(value)!r}, which is not of the form {pattern}"
    return ""


def _said(value: Value, mark: Mark) -> str:
    """A value as the end of "… is …", a number as the file has it."""
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return f"the number {mark.raw}" if numeric and mark.raw else said(value)


def _near(word: str, known: Iterable[str]) -> str:
    """``Did you mean …?``, if something near is known."""
    alike = {each.lower().replace("-", "_"): each for each in known}
    near = difflib.get_close_matches(word.lower().replace("-", "_"), alike, n=1)
    return f"Did you mean {alike[near[0]]}?" if near else ""
