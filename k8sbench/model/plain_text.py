"""Text for people: safe display of others' text, numbers and counts.

Terminals obey what text from logs, clusters and files of others may hold: sequences that move the
cursor, set the title, hide a link behind other words (OSC 8) or fill the clipboard (OSC 52).
Bidirectional controls show a line in another order than it is read in, on pages as well.
"""

from __future__ import annotations

import decimal
import re

_CONTROL = r"\x00-\x1f\x7f-\x9f"
_BIDIRECTIONAL = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = r"\u200b\u2060\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_SURROGATES = r"\ud800-\udfff"
_UNSAFE = re.compile(
    # A sequence as a whole, of the 7-bit and of the 8-bit forms; what never ends, to the line's.
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    rf"|[\u2028\u2029{_CONTROL}{_BIDIRECTIONAL}{_INVISIBLE}{_SURROGATES}]"
)
_NO_TEXT = re.compile(f"[{_SURROGATES}]")
_BLANKS = frozenset("\t\n\r\u2028\u2029")
_DIGEST = re.compile(r"\b((?:sha256:)?[0-9a-f]{12})[0-9a-f]{20,}\b")
_NOT_IN_JSON = re.compile(rf"[\x7f-\x9f\u2028\u2029{_BIDIRECTIONAL}{_INVISIBLE}]")


def clean(text: str) -> str:
    """Return text for one line, without control characters.

    Whitespace becomes blanks.
    """
    return _UNSAFE.sub(lambda match: " " if match[0] in _BLANKS else "", text)


def clean_lines(text: str) -> str:
    """Return text of several lines without control characters.

    Lines keep their indentation.
    """
    return "\n".join(map(clean, text.split("\n")))


def readable(path: str) -> str:
    r"""Return a path as UTF-8 text, with ``\xe9`` for each byte that is none."""
    return _NO_TEXT.sub(lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", path)


def short_digests(text: str) -> str:
    """Shorten the digests in a text to twelve digits, as container tools do."""
    return _DIGEST.sub(r"\1", text)


def split_words(text: str, signs: str) -> list[str]:
    """Split text into words of letters, digits and ``signs``."""
    kept = (char if char.isalnum() or char in signs else " " for char in text)
    return "".join(kept).split()


def slug(text: str) -> str:
    """Write a text as an id: ``GPUs per node`` is ``gpus-per-node``."""
    ascii_only = text.lower().encode("ascii", "replace").decode()
    return "-".join(split_words(ascii_only, ""))


def escape_json(text: str) -> str:
    """Return the JSON document with control characters escaped."""
    return _NOT_IN_JSON.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


# -- counts ----------------------------------------------------------------------------------------


ABSENT = "–"
"""A cell without a value. Never 0, never empty."""


def significant(value: float, digits: int = 3) -> str:
    """Write a number with that many significant digits, without exponent."""
    return format(decimal.Decimal(f"{value:.{digits}g}"), "f")


def counted(number: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Write a count: ``1 run``, ``2 processes``.

    ``verbs`` are the singular and the plural.
    """
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    text = f"{number} {noun if number == 1 else plural}"
    return text if verbs is None else f"{text} {verbs[number != 1]}"


def share(part: int, whole: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Write a part of a count: ``1 of 1 run``, ``1 of 3 runs``.

    ``verbs`` are the singular and the plural, chosen by the part.
    """
    text = f"{part} of {counted(whole, noun)}"
    return text if verbs is None else f"{text} {verbs[part != 1]}"
