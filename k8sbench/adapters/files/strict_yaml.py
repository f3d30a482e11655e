"""YAML files that people write: a file → text → values with their lines → a checked value.

Stricter than YAML. One document, a mapping, text in UTF-8; no anchors, aliases, merge keys or tags,
so that what stands in the file is what it means and nothing can grow. Words that YAML 1.1 and 1.2
read differently (``no``, ``010``, ``1:30``, ``2020-01-01``) are refused instead of guessed at.

Whatever is wrong is one :class:`~k8sbench.model.errors.InputError` with the file, the line and what
to write instead. The limits (1 MiB, 50 levels) hold before anything of that size is built; the
parser's events are taken one at a time, never recursively.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
import yaml

from k8sbench.model.errors import InputError

T = TypeVar("T")
Value = dict[str, Any] | list[Any] | str | int | float | bool | None
Path = tuple[str | int, ...]
Rules = Callable[[T], Iterable[tuple[Path, str]]]
"""What one key alone cannot state: yields the path of an offending key, and what it does wrong."""

LIMIT = 1024 * 1024
"""Bytes. The largest file of the catalog has 20 KiB."""
DEPTH = 50
"""Levels of nesting. The catalog needs 6."""
LARGEST = 2**63 - 1
LONGEST_NUMBER = 100
"""Letters. No reader takes more digits than this for a number that anybody meant."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What YAML calls printable, without its exotic line ends, which editors do not count as lines.
_UNPRINTABLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_SURPRISES = (
    (
        re.compile(r"yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"),
        "is true or false to some readers of YAML and a word to others",
        "Write true or false, or the word in quotes: {quoted}.",
    ),
    (
        re.compile(r"[-+]?0[0-9_]+"),
        "is octal to some readers of YAML and decimal to others",
        "Write it without the leading 0, or in quotes: {quoted}.",
    ),
    (
        re.compile(r"[-+]?0(?:[xX][0-9a-fA-F_]+|[bB][01_]+|[oO][0-7_]+)"),
        "is a number in another base",
        "Write it in decimal, or in quotes: {quoted}.",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?"),
        "is a number to some readers of YAML and a word to others",
        "Leave out the '_', or write it in quotes: {quoted}.",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"),
        "is a number of base 60 to some readers of YAML and a word to others",
        "Write it in quotes: {quoted}.",
    ),
    (
        re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
        "is not a finite number",
        "Give a finite number, or leave the key out.",
    ),
    (
        re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:.*)?"),
        "is a date to some readers of YAML and a word to others",
        "Write it in quotes: {quoted}.",
    ),
)


_NO_KEYS: dict[str, tuple[int, Mark]] = {}
_NO_ITEMS: list[Mark] = []
"""Of every scalar: a large file has hundreds of thousands."""


class Mark:
    """Where a value stands: its line, the text of a number, and the marks of what it holds."""

    __slots__ = ("items", "keys", "line", "raw")

    def __init__(self, line: int, raw: str | None = None, *, holds: bool = False) -> None:
        self.line = line
        self.raw = raw
        """Text of a scalar without quotes."""
        self.keys: dict[str, tuple[int, Mark]] = {} if holds else _NO_KEYS
        self.items: list[Mark] = [] if holds else _NO_ITEMS

    def line_of(self, path: Path) -> int:
        """The line of a key, or of the deepest part of its path that the file has."""
        line, mark = self.line, self
        for step in path:
            if isinstance(step, int) and step < len(mark.items):
                mark = mark.items[step]
                line = mark.line
            elif isinstance(step, str) and step in mark.keys:
                line, mark = mark.keys[step]
            else:
                break
        return line


def read(file: str, type_: type[T], rules: Rules[T] | None = None) -> tuple[T, str]:
    """Read a file into a value of ``type_``; returns it and the text it came from."""
    text = read_text(file)
    return parse(text, type_, file=file, rules=rules), text


def read_text(file: str) -> str:
    """Read a regular file of UTF-8 text, at most 1 MiB of it.

    Never waits: neither for the writer of a pipe nor for the end of an endless device.
    """
    try:
        # Without blocking, as opening a pipe waits for its writer.
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISREG(mode):
                raise _no_regular_file(file, mode)
            content = b""
            while len(content) <= LIMIT and (part := os.read(handle, LIMIT + 1 - len(content))):
                content += part
        finally:
            os.close(handle)
    except OSError as wrong:
        if wrong.errno == errno.ENXIO:  # a socket, or a device without its driver
            raise _no_regular_file(file, 0) from wrong
        reason = (wrong.strerror or str(wrong)).lower()
        raise InputError(f"cannot be read: {reason}.", "Check the path.", file=file) from wrong
    except ValueError as wrong:  # a NUL in the name
        raise InputError("is no file name.", "Check the path.", file=repr(file)) from wrong
    if len(content) > LIMIT:
        raise InputError(
            "is larger than 1 MiB, the most that is read.", "Is it the right file?", file=file
        )
    return decode(content, file=file)


def decode(content: bytes, *, file: str) -> str:
    """Decode UTF-8, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = content.count(b"\n", 0, wrong.start) + 1
        raise InputError(
            "is not text in UTF-8.", "Save it as UTF-8.", file=file, line=line
        ) from wrong


def parse(text: str, type_: type[T], *, file: str, rules: Rules[T] | None = None) -> T:
    """Turn YAML text into a value of ``type_`` (a msgspec Struct) that keeps ``rules``."""
    value, mark = _build(text, file)
    if not isinstance(value, dict):
        what = "is empty" if value is None else f"is {said(value)}, not a mapping"
        raise InputError(
            f"{what}.", "Write keys and values, as 'name: value'.", file=file, line=mark.line
        )
    try:
        result = msgspec.convert(value, type_)
    except msgspec.ValidationError as wrong:
        from k8sbench.adapters.files import yaml_faults

        raise yaml_faults.explained(value, mark, type_, file, str(wrong)) from None
    broken = [(mark.line_of(path), path, what) for path, what in rules(result)] if rules else []
    if broken:
        line, path, what = min(broken, key=lambda each: each[0])
        raise InputError(f"{spelled(path)} {what}.", file=file, line=line)
    return result


# --- text → values with their lines -------------------------------------------------------------


class _Open:
    """A mapping or a list whose end has not come yet."""

    __slots__ = ("key", "mark", "value")

    def __init__(self, value: dict[str, Any] | list[Any], mark: Mark) -> None:
        self.value = value
        self.mark = mark
        self.key: tuple[str, int] | None = None
        """The key that waits for its value."""


def _build(text: str, file: str) -> tuple[Value, Mark]:
    """Build plain values and, beside them, the tree of their lines."""
    found = _UNPRINTABLE.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise InputError(
            f"holds the character U+{ord(found[0]):04X}, which YAML text cannot.",
            "Remove it, or write it as an escape inside double quotes.",
            file=file,
            line=line,
        )
    root: tuple[Value, Mark] | None = None
    stack: list[_Open] = []
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            line = event.start_mark.line + 1  # type: ignore[union-attr]  # the parsers set it
            if isinstance(event, yaml.DocumentStartEvent):
                if root is not None:
                    raise InputError(
                        "begins a second document.",
                        "Write one document per file.",
                        file=file,
                        line=line,
                    )
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue
            _refuse_references(event, file, line)
            value, mark = _value(event, file, line)
            if not stack:
                root = value, mark
            else:
                _put(stack[-1], event, value, mark, file)
            if isinstance(event, yaml.CollectionStartEvent):
                if len(stack) >= DEPTH:
                    raise InputError(
                        f"nests deeper than {DEPTH} levels.",
                        "Is it the right file?",
                        file=file,
                        line=line,
                    )
                assert isinstance(value, dict | list)
                stack.append(_Open(value, mark))
    except yaml.YAMLError as wrong:
        raise _not_yaml(wrong, file) from None
    return root if root is not None else (None, Mark(1))


def _refuse_references(event: Any, file: str, line: int) -> None:
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
        raise InputError(
            f"has the {'alias' if sign == '*' else 'anchor'} {sign}{event.anchor}; anchors and"
            " aliases are not read here.",
            "Write the value out at each place; a word that begins with & or * needs quotes.",
            file=file,
            line=line,
        )
    if event.tag is not None:
        raise InputError(
            f"has the tag {event.tag}; tags are not read here.",
            "Leave it out; a word that begins with ! needs quotes.",
            file=file,
            line=line,
        )


def _value(event: Any, file: str, line: int) -> tuple[Value, Mark]:
    if isinstance(event, yaml.MappingStartEvent):
        return {}, Mark(line, holds=True)
    if isinstance(event, yaml.SequenceStartEvent):
        return [], Mark(line, holds=True)
    text: str = event.value
    found = _UNPRINTABLE.search(text)
    if found:
        raise InputError(
            f"escapes the character U+{ord(found[0]):04X}, which no value here can hold.",
            "Remove it.",
            file=file,
            line=line,
        )
    if event.style:  # quoted, or a block of text: it is what it says
        return text, Mark(line)
    return _plain(text, file, line), Mark(line, raw=text)


def _plain(text: str, file: str, line: int) -> Value:
    """Read a scalar without quotes: YAML 1.2's core schema where 1.1 agrees, else an error."""
    if len(text) > LONGEST_NUMBER:
        return text
    if text in _NULLS:
        return None
    if text in BOOLS:
        return BOOLS[text]
    if INT.fullmatch(text):
        if len(text) > 20 or abs(int(text)) > LARGEST:
            raise InputError(
                f"has the number {short(text)}, which is too large.",
                "If it is a name, write it in quotes.",
                file=file,
                line=line,
            )
        return int(text)
    if FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise InputError(
                f"has the number {short(text)}, which is too large.",
                "If it is a name, write it in quotes.",
                file=file,
                line=line,
            )
        return number
    for pattern, what, action in _SURPRISES:
        if pattern.fullmatch(text):
            raise InputError(
                f"{short(text)} {what}.",
                action.format(quoted=f'"{short(text)}"'),
                file=file,
                line=line,
            )
    return text


def _put(parent: _Open, event: Any, value: Value, mark: Mark, file: str) -> None:
    """Put a value where it belongs: into a list, or as the next key or value of a mapping."""
    if isinstance(parent.value, list):
        parent.value.append(value)
        parent.mark.items.append(mark)
        return
    if parent.key is not None:
        (key, line), parent.key = parent.key, None
        parent.value[key] = value
        parent.mark.keys[key] = (line, mark)
        return
    if not isinstance(event, yaml.ScalarEvent):
        raise InputError(
            f"has {said(value)} as a key.", "Keys are words.", file=file, line=mark.line
        )
    if not isinstance(value, str):
        raise InputError(
            f"has the key {short(event.value)!r}, which is {said(value)}, not a word.",
            f'Write it in quotes: "{short(event.value)}".',
            file=file,
            line=mark.line,
        )
    if value == "<<" and not event.style:
        raise InputError(
            "has a merge key (<<); merge keys are not read here.",
            "Write the keys out.",
            file=file,
            line=mark.line,
        )
    if value in parent.value:
        first = parent.mark.keys[value][0]
        raise InputError(
            f"has the key {short(value)!r} a second time; the first is in line {first}.",
            "Keep one of them.",
            file=file,
            line=mark.line,
        )
    parent.key = value, mark.line


def _no_regular_file(file: str, mode: int) -> InputError:
    what = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
    return InputError(f"is {what}, not a file.", "Give the path of a YAML file.", file=file)


def _not_yaml(wrong: yaml.YAMLError, file: str) -> InputError:
    mark = getattr(wrong, "problem_mark", None) or getattr(wrong, "context_mark", None)
    problem = getattr(wrong, "problem", None) or str(wrong)
    action = ""
    if "\\t" in problem or "tab" in problem:
        action = "Indent with blanks, not with tabs."
    elif "mapping values are not allowed" in problem:
        action = "Check the indentation; text that holds ': ' needs quotes."
    elif "cannot start any token" in problem:
        action = "Text that begins with this character needs quotes."
    line = None if mark is None else mark.line + 1
    return InputError(f"is not YAML: {problem}.", action, file=file, line=line)


def spelled(path: Path) -> str:
    """A path as people write it: ``variants[0].window.warmup``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the file"


def said(value: Value) -> str:
    """A value as the end of "… is …"."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {short(value)!r}" if value else "empty"
    return f"the number {value}"


def short(text: str) -> str:
    """Text that fits into a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "…"
