"""Strict YAML for files that people write.

A file is read as text, the text as plain values with their lines, and these become one checked
value.

Stricter than YAML. One document, a mapping, text in UTF-8; no anchors, aliases, merge keys or tags,
so that what stands in the file is what it means and nothing can grow. Words that YAML 1.1 alone
takes for something else (``no``, ``010``, ``1:30``, ``2020-01-01``) are text, and an error where no
text is expected.

Whatever is wrong is one :class:`~k8sbench.model.errors.InputError` with the file, the line and what
to write instead. PyYAML parses, msgspec checks; a value that msgspec rejects is searched, in the
order of the file, for the innermost part that it rejects.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import yaml

from k8sbench.catalog import yaml_text
from k8sbench.model.errors import InputError, did_you_mean
from k8sbench.model.plain_text import counted

T = TypeVar("T")
Path = tuple[str | int, ...]
Rules = Callable[[T], Iterable[tuple[Path, str]]]
"""Rules for several keys: yields the offending key's path and the problem."""

LIMIT = 1024 * 1024
"""Bytes. The largest file of the catalog has 20 KiB."""
DEPTH = 50
"""Levels of nesting. The catalog needs 6."""

HOW_TO_WRITE = "Indent with blanks; text that holds ': ' or begins with a mark needs quotes."
"""Advice for a file that is not YAML."""
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
"""Longer numbers are text: JSON has no room for them."""
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_QUESTION = re.compile(r"\s*(?:- )?([\w-]+):\s+(?:\{\s*\w+:\s*)?\?\s*\}?\s*(?:#.*)?$")
"""``per: ?`` and ``batch_size: {fp32: ?}`` of a template of ``measure LOG --declare``."""
_CONSTANTS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
}
"""Names of msgspec's types in plain words."""


def read_text(file: str) -> str:
    """Read a file of at most 1 MiB of UTF-8 text."""
    try:
        with pathlib.Path(file).open("rb") as stream:
            content = stream.read(LIMIT + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise InputError(
            f"cannot be read: {reason}.", "Check the path.", file=file.replace("\0", "\\0")
        ) from error
    if len(content) > LIMIT:
        raise InputError("is larger than 1 MiB.", "Is it the right file?", file=file)
    return decode(content, file=file)


def decode(content: bytes, *, file: str) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            "is not text in UTF-8.", "Save it as UTF-8.", file=file, line=line
        ) from error


def parse(text: str, type_: type[T], *, file: str, rules: Rules[T] | None = None) -> T:
    """Parse YAML text into a checked value of ``type_``, a msgspec Struct."""
    document = _Document(text, file)
    if not isinstance(document.value, dict):
        what = "is empty" if document.value is None else "is not a mapping"
        raise document.error(f"{what}.", "Write keys and values, as 'name: value'.")
    if fault := _find_fault(type_, document.value, ()):
        path, message, action = fault
        raise document.error(message, action, document.line_of(path))
    result = msgspec.convert(document.value, type_)
    problems = (
        [(document.line_of(path), path, what) for path, what in rules(result)] if rules else ()
    )
    if problems:
        line, path, what = min(problems, key=lambda problem: problem[0])
        raise document.error(f"{_spell_path(path)} {what}.", line=line)
    return result


def check_value(value: Any, type_: type[T], *, where: str, rules: Rules[T] | None = None) -> T:
    """Convert plain values that are not from a file; ``where`` names their source in errors."""
    if fault := _find_fault(type_, value, ()):
        _, message, action = fault
        raise InputError(message, action, file=where)
    result = msgspec.convert(value, type_)
    for path, what in rules(result) if rules else ():
        raise InputError(f"{_spell_path(path)} {what}.", file=where)
    return result


class _Document:
    """Plain values built from YAML text, and the line of each."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._lines: dict[Path, int] = {(): 1}
        self.value: Any = None
        try:
            self._events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml_text.LOADER))
            for event in self._events:
                if isinstance(event, yaml.NodeEvent):
                    if self.value is not None:
                        raise self.error("has a second document.", "Keep one.", _line(event))
                    self._lines[()] = _line(event)
                    self.value = self._node(event, ())
        except yaml.YAMLError as error:
            if questions := _open_questions(text):
                raise self._unanswered(questions) from None
            line, problem = yaml_text.describe_syntax_error(error)
            raise self.error(f"is not YAML: {problem}.", HOW_TO_WRITE, line) from None

    def line_of(self, path: Path) -> int:
        """Return a key's line, or that of its nearest parent in the file."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]

    def error(self, message: str, action: str = "", line: int | None = None) -> InputError:
        """Return an error of this file; without a line, of the document."""
        return InputError(message, action, file=self._file, line=line or self._lines[()])

    def _unanswered(self, questions: Sequence[tuple[int, str]]) -> InputError:
        """Return the error of a template with open questions."""
        named = ", ".join(f"{key} (line {line})" for line, key in questions)
        text = f"has {counted(len(questions), 'open question')}: {named}."
        action = "Put an answer in place of each ?, and set confirmed: true."
        return self.error(text, action, questions[0][0])

    def _node(self, event: Any, path: Path) -> Any:
        line = _line(event)
        self._lines.setdefault(path, line)  # a value under a key has the line of the key
        if event.anchor is not None or getattr(event, "tag", None) is not None:
            what = event.anchor if event.anchor is not None else event.tag
            raise self.error(
                f"has {what}: anchors, aliases and tags are not read here.",
                "Write the value out; a word that begins with &, * or ! needs quotes.",
                line,
            )
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if len(path) >= DEPTH:
            raise self.error(f"nests deeper than {DEPTH} levels.", "Is it the right file?", line)
        items: list[Any] = []
        mapping: dict[str, Any] = {}
        while not isinstance(child := next(self._events), yaml.CollectionEndEvent):
            if isinstance(event, yaml.SequenceStartEvent):
                items.append(self._node(child, (*path, len(items))))
            else:
                key = self._key(child, path)
                if key in mapping:
                    message = f"has the key {_shorten(key)!r} a second time."
                    raise self.error(message, "Keep one of them.", _line(child))
                self._lines[*path, key] = _line(child)
                mapping[key] = self._node(next(self._events), (*path, key))
        return items if isinstance(event, yaml.SequenceStartEvent) else mapping

    def _key(self, event: Any, path: Path) -> str:
        key = None if isinstance(event, yaml.CollectionStartEvent) else self._node(event, path)
        if not isinstance(key, str) or (key == "<<" and not event.style):
            key_text = getattr(event, "value", "that is a mapping or a list")
            action = "Keys are words, as fp32 in {fp32: 32}; write another one in quotes."
            raise self.error(f"has the key {key_text}, which is not a word.", action, _line(event))
        return key

    def _scalar(self, event: Any) -> Any:
        """Read a scalar: unquoted ones as in YAML 1.2, numbers as decimals."""
        text: str = event.value
        if event.style:
            return text
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        return _CONSTANTS.get(text, text)


def _open_questions(text: str) -> list[tuple[int, str]]:
    """Return the lines and keys whose value is a bare ``?``: in YAML a value is never that."""
    lines = enumerate(text.splitlines(), 1)
    return [(number, match[1]) for number, line in lines if (match := _QUESTION.match(line))]


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


# --- what is wrong with a value -----------------------------------------------------------------


_Fault = tuple[Path, str, str]
"""Path of the fault, the fault, and the action."""


def _find_fault(kind: Any, value: Any, path: Path) -> _Fault | None:
    """Return the first and innermost fault of ``value``; None without one."""
    try:
        msgspec.convert(value, kind)
        return None
    except msgspec.ValidationError as error:
        problem = str(error)
    arms, description = _union_types(kind)
    for arm in arms:
        faults: Iterator[_Fault | None] = iter(())
        if isinstance(value, dict) and (_is_struct(arm) or get_origin(arm) is dict):
            faults = _mapping_faults(arm, value, path)
        elif isinstance(value, list) and get_origin(arm) in (tuple, list):
            faults = (
                _find_fault(get_args(arm)[0], item, (*path, i)) for i, item in enumerate(value)
            )
        if fault := next(filter(None, faults), None):
            return fault
    name = _spell_path(path)
    is_ = f"is {_shorten(json.dumps(value, ensure_ascii=False))}"
    if get_origin(arms[0]) is Literal:
        allowed = [str(item) for item in get_args(arms[0])]
        near = did_you_mean(str(value), allowed).strip()
        return path, f"{name} {is_}, not one of {', '.join(allowed)}.", near
    # The expected type of "Expected `int | null`, got `str` - at `$.x`" or "Expected `int` >= 1".
    _, expected, limit = re.split(
        r"`([^`]*)`", re.sub(r"(, got| - at) .*", "", problem), maxsplit=1
    )
    expected = " or ".join(_WORDS[item] for item in expected.split(" | ") if item != "null") + limit
    return path, f"{name} should be {description or expected}, but {is_}.", ""


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _mapping_faults(kind: Any, value: dict[str, Any], path: Path) -> Iterator[_Fault | None]:
    """Yield the faults of a mapping's keys and values.

    ``kind`` is a Struct or a dict.
    """
    fields = msgspec.structs.fields(kind) if _is_struct(kind) else ()
    types_by_key = {field.encode_name: field.type for field in fields}
    key_kind, item_kind = get_args(kind) or (str, None)
    for key, item in value.items():
        if fields and key not in types_by_key:
            where = f" in {_spell_path(path)}" if path else ""
            action = f"{did_you_mean(key, types_by_key)}Known keys: {', '.join(types_by_key)}."
            yield (*path, key), f"unknown key {_shorten(key)!r}{where}.", action
        if fault := _find_fault(key_kind, key, (*path, key)):
            yield fault[0], f"the key {fault[1]}", fault[2]
        yield _find_fault(types_by_key.get(key, item_kind), item, (*path, key))
    for field in fields:
        if field.required and field.encode_name not in value:
            name = field.encode_name
            yield path, f"{_spell_path(path)} lacks the key {name!r}.", f"Add '{name}: …'."


def _union_types(kind: Any) -> tuple[list[Any], str]:
    """Return a union's types and the description from msgspec.Meta."""
    if get_origin(kind) is Annotated:
        arms, description = _union_types(get_args(kind)[0])
        return arms, next((m.description for m in kind.__metadata__ if m.description), description)
    if get_origin(kind) in (Union, types.UnionType):
        parts = [_union_types(part) for part in get_args(kind)]
        return [arm for arms, _ in parts for arm in arms], "".join(words for _, words in parts)
    return [kind], ""


def _spell_path(path: Path) -> str:
    """Write a path as people do: ``variants[0].window.warmup``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the file"


def _shorten(text: str) -> str:
    """Return text that is short enough for a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "…"
