r"""Masking of credentials in text.

Text of commands, logs, events and errors may hold credentials. :func:`masked` replaces each by
``***`` and is used wherever such text is printed, stored as a cause, served or exported. The table
:data:`FORMS` lists the forms of credentials: names with values, headers, URLs, tokens with a known
beginning. Private keys take several lines. Other text and the number of lines do not change.

Large logs must be masked fast. Most of their lines differ in digits only, and no form distinguishes
digits, so lines that are equal except for digits are searched once. Expressions that ignore case
are slow, so each form has hints that begin with plain text, which Python finds fast. Expressions
are compiled on first use.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import msgspec

from k8sbench.messages import Note

MASK = "***"
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_NO_DIGITS = dict.fromkeys(b"123456789", "0")
MOST_SHAPES = 20_000
"""Lines without a credential that are remembered, with 0 for each digit."""


class Hint(NamedTuple):
    """A part of all credentials of a form, in lower case and with 0 for each digit."""

    word: str
    """Plain text."""
    expression: str = ""
    """The word and what follows it; empty for the word alone."""

    def is_in(self, low: str) -> bool:
        """Return True if a text in lower case, with 0 for each digit, has it."""
        is_there = self.word in low
        return is_there and bool(not self.expression or _compiled(self.expression).search(low))


class Form(NamedTuple):
    """One way in which credentials are written."""

    hints: tuple[Hint, ...]
    """Text without any of them has no such credential."""
    expression: str
    """Its group ``kept`` is the part that stays; the rest of the match is masked."""
    flags: re.RegexFlag

    @property
    def pattern(self) -> re.Pattern[str]:
        """The expression, compiled."""
        return _compiled(self.expression, self.flags)


@functools.cache
def _compiled(expression: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile(expression, flags | re.ASCII)


# -- names with values -----------------------------------------------------------------------------

_STRONG = (
    r"passw(?:or)?d|passphrase|passcode|credentials?"
    # In a sentence, Secret is the kind of Kubernetes.
    r"|(?-i:secret|SECRET|(?<!\w )Secret)"
    r"|(?:api|access|secret|private|account|auth|encryption|signing|master|storage|subscription"
    r"|license|client|session|wandb|openai|anthropic|azure|aws|gcp|comet|neptune|hf)"
    r"[-_.]?(?:access[-_]?)?key(?:[-_]?id)?"
    r"|(?:auth|access|api|bearer|refresh|id|session|security|hf|hub|huggingface|git|github|gitlab"
    r"|wandb|private|personal)[-_.]?token"
)
_SPECIAL = (
    *("eos", "bos", "pad", "unk", "sep", "cls", "mask", "image"),
    *("stop", "start", "end", "first", "last", "next", "new", "per"),
)
"""Words before ``token`` in names of a tokenizer's and a model's settings."""
_TOKEN = "".join(rf"(?<!{word}[-_])" for word in _SPECIAL) + "token"
_PASS = r"(?<![A-Za-z])pass"
_PWD = r"(?<![A-Za-z])(?:old)?pwd"
_VARIABLE = (
    "".join(rf"(?<!{word.upper()})" for word in (*_SPECIAL, "public", "primary", "sort"))
    + r"(?<=[A-Z0-9])_(?:KEY|TOKEN|AUTH|PAT|CREDS)"
)
_NAMED = rf"(?:{_STRONG}|{_TOKEN}|{_PASS}|{_PWD})"
_NO_NUMBER = r"(?![-+]?\d[\d.,]*(?:e[-+]?\d+)?(?:[kmbt%]|m?s|tok/s)?(?:[\s,;&)\]}\"']|$))"
_NO_MARK = r"(?!<)"
_NO_PATH = r"(?![~.]?/|~)"

_COLOUR = r"(?:\x1b\[[\d;]*m)*"
_NAME_END = rf"\\*[\"']?\]?{_COLOUR}"
_SIGN = (
    r"(?:[ \t]*(?::=|=>|=(?!=))[ \t]*"
    r"|:(?![:\s]|//)"
    r"|[ \t]*:[ \t]*(?=\\*[\"'])"
    # Prose goes on with a word; a value has other characters, or ends the line or the pair.
    r"|:[ \t]+(?=[A-Za-z]*(?:[^A-Za-z\s'(,;]\S|[,;][ \t]*[\w.-]+[ \t]*[:=]|[,;})]*[ \t\r]*$)))"
)
_QUOTE = r"(?P<quote>\\*[\"'])"
_NO_VALUE = (
    r"(?!(?:none|null|nil|true|false|undefined|nan|inf)?(?:[\s,;&)\]}\"'\\]|$))"
    r"(?![$%][({]|\$[A-Z_]+\b)"
)
_WORD = (
    # Nor is a call or a subscript one, as a traceback quotes.
    r"(?![<({\[]|[A-Za-z_][A-Za-z_.]*[(\[])"
    r"(?:[^\s\"'\\,;&\x1b]|\\(?![\\\"'nrt])|[,;&](?!\s|$|[\w.-]+[ \t]*[=:]))*"
    r"[^\s\"'\\,;&)\]}\x1b]"
)
_VALUE = rf"(?(quote)(?:(?!(?P=quote))(?:\\.|[^\n\\]))+|{_WORD})"
_SECRET = "(?:pass|pwd|secret|credential|key|token)"


def _assigned(name: str, guard: str = "", signs: str = _SIGN) -> str:
    """Return the expression of a name with its value."""
    return rf"(?P<kept>(?:{name}){_NAME_END}{signs}{_COLOUR}{_QUOTE}?){_NO_VALUE}{guard}{_VALUE}"


def _option(name: str, guard: str = "") -> str:
    """Return the expression of an option with its value, on a command line or in a list."""
    between = r"(?:[ \t]+|\\*[\"'],[ \t]*(?=\\*[\"']))"
    head = rf"(?<![\w-])--(?:[\w.-]*[-_.])?(?:{name}){between}"
    return rf"(?P<kept>{head}{_QUOTE}?)(?!-){_NO_VALUE}{guard}{_VALUE}"


def _form(expression: str, *hints: Hint, is_cased: bool = False) -> Form:
    return Form(hints, expression, re.MULTILINE if is_cased else re.MULTILINE | re.IGNORECASE)


def _hint(word: str, rest: str) -> Hint:
    return Hint(word, re.escape(word) + rest)


def _before_sign(*words: str) -> Iterator[Hint]:
    """Yield hints: words that end names, or nearly so."""
    rest = rf"[a-z_.-]{{0,12}}[\\\"'\]]*{_COLOUR}[ \t]*[:=]"
    return (_hint(word, rest) for word in words)


_OPTION = _hint("--", rf"[\w.-]{{0,80}}?{_SECRET}")
_UNDERLINED = _hint(
    "_",
    r"(?=[\w-]{8})(?:(?<=hf_)|(?<=npm_)|(?<=gh[pousr]_)|(?<=github_pat_)|(?<=[sr]k_)|(?<=gsk_)"
    r"|(?<=dckr_pat_)|(?<=r0_))",
)
_LONG = r"(?=[\w-]{16}|[\w-]*\d)[\w-]{8,}"
_PLAIN = r"(?=[A-Za-z0-9]{16}|[A-Za-z0-9]*\d)[A-Za-z0-9]{8,}+(?!_)"
_BEGIN = r"(?P<kept>(?<![A-Za-z0-9])(?:{}))"

_VARIABLE_NAME = (
    r"\bname\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?[\w.-]{0,80}"
    rf"(?:{_NAMED}|(?-i:{_VARIABLE}))\\*[\"']?"
)
_ITS_VALUE = rf"\bvalue\\*[\"']?[ \t]*[:=][ \t]*{_QUOTE}?){_NO_VALUE}{_VALUE}"
_NAME_HINT = _hint(
    "name",
    r"[\\\"']*[ \t]*[:=][ \t\\\"']*[\w.-]{0,80}?"
    rf"(?:{_SECRET}|_auth|_pat|_creds)[\w\\\"']*(?:,|[ \t\r]*(?:\n|\Z))",
)
_NAME_LINE = _form(rf"{_VARIABLE_NAME},?[ \t\r]*$", _NAME_HINT)
_VALUE_LINE = _form(rf"(?P<kept>{_ITS_VALUE}")
"""The line after it, as in YAML."""

FORMS = (
    # HF_TOKEN=…, "password": "…", api_key: …, AccountKey=…;, X-Amz-Signature=…
    _form(_assigned(_STRONG), *_before_sign("pass", "secret", "credential", "key", "token")),
    _form(_assigned(_TOKEN, _NO_NUMBER + _NO_MARK), *_before_sign("token")),
    _form(
        _assigned(_PASS, _NO_NUMBER, r"[ \t]*(?:=(?!=)|:(?=\\*[\"']))[ \t]*"), *_before_sign("pass")
    ),
    _form(_assigned(_PWD, _NO_PATH), *_before_sign("pwd")),
    _form(
        _assigned(_VARIABLE),
        *_before_sign("key", "token", "_auth", "_pat", "_creds"),
        is_cased=True,
    ),
    _form(_assigned("signature", "", r"=(?!=)"), *_before_sign("signature")),
    # --token …, ['--password', '…'], curl -u user:…, docker login -p …
    _form(_option(_STRONG), _OPTION),
    _form(_option(_TOKEN, _NO_NUMBER + _NO_MARK), _OPTION),
    _form(_option(rf"{_PASS}|{_PWD}"), _OPTION),
    _form(
        r"(?P<kept>(?:\bcurl\b.{0,300}?[ \t](?:-u|--(?:proxy-)?user)[ \t=]*[\"']?[^\s:\"']+:"
        rf"|\b(?:login|sshpass)\b.{{0,300}}?[ \t]-p[ \t=]*){_QUOTE}?){_VALUE}",
        _hint("curl", r"\b.{0,300}?[ \t](?:-u|--user|--proxy-user)"),
        _hint("login", r"\b.{0,300}?[ \t]-p"),
        Hint("sshpass"),
    ),
    # {"name": "HF_TOKEN", "value": "…"}
    _form(rf"(?P<kept>{_VARIABLE_NAME},[ \t]*\\*[\"']?{_ITS_VALUE}", _NAME_HINT),
    # Headers, and the configuration of registries and npm.
    _form(
        r"(?P<kept>authorization\\*[\"']?[ \t]*[:=][ \t]*(?P<quote>\\*[\"'])?"
        rf"(?:(?:basic|bearer|token|apikey|negotiate|sharedkey)[ \t]+)?){_NO_VALUE}"
        rf"(?:(?:digest|aws4-hmac-sha256)[ \t][^\n]+|{_VALUE})",
        *_before_sign("auth"),
    ),
    _form(r"(?P<kept>\bbearer[ \t]+)(?=[^\s]{0,2000}\d)[\w.~+/=-]{8,}", Hint("bearer")),
    _form(
        r"(?P<kept>\b(?:set-)?cookie\\*[\"']?:[ \t]*\\*[\"']?)[^\s\"'\\][^\"'\\\n]*",
        Hint("cookie"),
    ),
    _form(
        _assigned(r"\b_?auth", r"(?=[\w+/=-]{8})", r"[ \t]*[:=][ \t]*(?<=[=\"' ])"),
        *_before_sign("auth"),
    ),
    # URLs: user and password; a password may hold any character. Parameters that sign or open.
    _form(
        r"(?P<kept>://[^:/?#@\s\[\"'\\]*:)(?!\d{1,5}(?:[/?#\s,;.)\"'\\]|$))(?!@)"
        r"[^@\n\"'\\]{0,200}(?=@)(?:@[^\s@\"'\\]*(?=@))*",
        _hint("://", r"[^:/?#@\s\[\"'\\]*:"),
    ),
    _form(
        r"(?P<kept>[?&](?:[\w.-]{0,80}(?:pass|token(?!s|iz)|secret|signature|credential|api_?key"
        rf"|auth(?!or))[\w.-]{{0,80}}|sig|key)=){_NO_VALUE}[^&\s\"'\\#]+",
        *(_hint(mark, rf"[\w.-]{{0,80}}?(?:{_SECRET}|sig|auth)") for mark in "?&"),
    ),
    _form(r"(?P<kept>\bhooks\.[\w.-]+/(?:services|workflows)/)[\w/-]+", Hint("hooks.")),
    # Tokens by their beginning.
    _form(
        _BEGIN.format("hf_|npm_|gh[pousr]_") + _PLAIN,
        _UNDERLINED,
        is_cased=True,
    ),
    _form(
        _BEGIN.format(
            r"github_pat_|gl(?:pat|dt|rt)-|sk-|[sr]k_(?:live|test)_|xox[a-z]-|xapp-|nvapi-|gsk_"
            r"|pypi-|dckr_pat_|hvs\.|ya\d\d\."
        )
        + _LONG,
        _UNDERLINED,
        _hint(
            "-",
            r"(?=[\w-]{8})(?:(?<=gl\w\w-)|(?<=glpat-)|(?<=sk-)|(?<=xox\w-)|(?<=xapp-)|(?<=nvapi-)"
            r"|(?<=pypi-))",
        ),
        Hint("hvs."),
        Hint("ya00."),
        is_cased=True,
    ),
    _form(
        _BEGIN.format(r"r\d_|dapi") + r"(?=\w*\d)[A-Za-z0-9]{20,}+(?!_)",
        _UNDERLINED,
        Hint("dapi"),
        is_cased=True,
    ),
    _form(
        _BEGIN.format("AKIA|ASIA") + r"[A-Z0-9]{12,}+(?![a-z_])",
        Hint("akia"),
        Hint("asia"),
        is_cased=True,
    ),
    _form(_BEGIN.format("AIza") + r"[\w-]{16,}", Hint("aiza"), is_cased=True),
    _form(_BEGIN.format("eyJ") + r"[\w-]{8,}(?:\.[\w-]*)*", Hint("eyj"), is_cased=True),
)
"""All forms of credentials of one line."""
_HINTS = tuple(dict.fromkeys(hint for form in FORMS for hint in form.hints))


# -- private keys ----------------------------------------------------------------------------------

_KEY = "PRIVATE KEY"
_KEY_BEGINS = re.compile(r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)(.*?)(-----END |$)")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY")
_KEY_LINE = re.compile(
    # After the time and the replica of an archived line.
    r"((?:\d{4}-\d\d-\d\dT\S+ )?(?:\[[^\]]*\]:? )*[\s\"']*)[A-Za-z0-9+/]+=*([\s\"',]|\\n)*",
    re.ASCII,
)
KEY_LINES = 250
"""Lines after the beginning of a private key that may belong to it."""


class Masking:
    """Masks the lines of a log that arrives in parts."""

    def __init__(self, *, is_in_key: bool = False) -> None:
        self._clean: set[bytes] = set()
        """Lines without a credential, with 0 for each digit."""
        self._key_lines = KEY_LINES if is_in_key else 0
        """Number of next lines that may belong to a private key."""
        self._is_named = False
        """True after the name of a variable, whose value may follow."""

    def text(self, text: bytes) -> bytes:
        """Mask text of whole lines."""
        shapes = text.translate(_ZEROS).split(b"\n")
        with_credential = self._with_credential(shapes)
        if not (with_credential or self._key_lines or self._is_named):
            return text
        return b"\n".join(self._mask_lines(text.split(b"\n"), shapes, with_credential))

    def lines(self, lines: Sequence[bytes]) -> list[bytes]:
        """Mask lines without their ends."""
        shapes = [line.translate(_ZEROS) for line in lines]
        return [*self._mask_lines(lines, shapes, self._with_credential(shapes))]

    def _with_credential(self, shapes: Sequence[bytes]) -> set[bytes]:
        """Return the shapes of lines that hold a credential."""
        new = {*shapes} - self._clean
        with_credential = (
            {shape for shape in new if _has_credential(shape)}
            if _has_credential(b"\n".join(new))
            else set()
        )
        if len(self._clean) < MOST_SHAPES:
            self._clean |= new - with_credential
        return with_credential

    def _mask_lines(
        self, lines: Sequence[bytes], shapes: Sequence[bytes], with_credential: Set[bytes]
    ) -> Iterator[bytes]:
        for line, shape in zip(lines, shapes, strict=True):
            # A part of a private key, or a value, looks like any other line.
            goes_on = self._key_lines or self._is_named
            yield self._mask_line(line) if goes_on or shape in with_credential else line

    def _mask_line(self, text: bytes) -> bytes:
        # All forms are ASCII, and any byte is a character of this encoding.
        line = text.decode("latin-1")
        for form in _possible_forms(line.lower().translate(_NO_DIGITS)):
            line = form.pattern.sub(_mask, line)
        if self._is_named:
            line = _VALUE_LINE.pattern.sub(_mask, line)
        self._is_named = _NAME_LINE.pattern.search(line) is not None
        return self._without_key(line).encode("latin-1")

    def _without_key(self, line: str) -> str:
        """Mask the part of a private key in a line, and note if the key continues."""
        if self._key_lines:
            self._key_lines = 0 if _KEY_ENDS.search(line) else self._key_lines - 1
            if part := _KEY_LINE.fullmatch(line):
                return f"{part[1]}{MASK}"
        if (key := _KEY_BEGINS.search(line)) is None:
            return line
        self._key_lines = 0 if key[3] else KEY_LINES
        return f"{line[: key.end(1)]}{MASK if key[2] else ''}{line[key.start(3) :]}"


def masked(text: str) -> str:
    """Return text with ``***`` in place of what looks like a credential.

    The text may be the end of a log, and begin within a private key.
    """
    data = text.encode("utf-8", "surrogatepass")
    end_of_key = _KEY_ENDS.search(text.partition("-----BEGIN ")[0]) if _KEY in text else None
    masked_data = Masking(is_in_key=end_of_key is not None).text(data)
    return text if masked_data is data else masked_data.decode("utf-8", "surrogatepass")


_mask_cached = functools.lru_cache(1024)(masked)
""":func:`masked` with a cache, because the states of many runs have the same causes."""


def mask_fields(value: msgspec.Struct, *names: str) -> None:
    """Mask fields of a struct, in its ``__post_init__``."""
    for name in names:
        text = getattr(value, name)
        if text and (replacement := _mask_cached(text)) != text:
            msgspec.structs.force_setattr(value, name, replacement)


def mask_note(message: Note) -> Note:
    """Mask the texts among the arguments of a message."""
    args = {name: _mask_arg(value) for name, value in message.args.items()}
    return message if args == message.args else Note(message.id, args)


def _mask_arg(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_mask_arg, value))
    if isinstance(value, Note):
        return mask_note(value)
    return _mask_cached(value) if isinstance(value, str) and value else value


def mask_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Mask a log that comes in pieces of any size."""
    masking = Masking()
    unfinished: list[bytes] = []
    for piece in pieces:
        whole, end, rest = piece.rpartition(b"\n")
        if end:
            yield masking.text(b"".join((*unfinished, whole))) + end
            unfinished = [rest]
        else:
            unfinished.append(piece)
    yield masking.text(b"".join(unfinished))


def _possible_forms(low: str) -> Iterator[Form]:
    """Yield the forms that text in lower case, with 0 for each digit, may hold."""
    hints = {hint for hint in _HINTS if hint.is_in(low)}
    return (form for form in FORMS if not hints.isdisjoint(form.hints))


def _has_credential(shape: bytes) -> bool:
    """Return True if a line of some text holds a credential."""
    text = shape.decode("latin-1")
    low = text.lower()
    is_name = _NAME_HINT.is_in(low) and _NAME_LINE.pattern.search(text)
    return (
        bool(is_name)
        or _KEY in text
        or any(form.pattern.search(text) for form in _possible_forms(low))
    )


def _mask(match: re.Match[str]) -> str:
    return f"{match['kept']}{MASK}"
