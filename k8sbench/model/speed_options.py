"""Options of k8sbench's own trainers that change speed and nothing else: ``--speed-option``.

They are off unless upstream has them on, and part of a group's key. Options that change what is
computed, such as a picture's size, make another benchmark: they belong into a catalog file. What
each trainer has is known here, so that nothing is started that its trainer would refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from k8sbench.model.errors import UsageError, did_you_mean

Option = str | int | float | bool

SWITCHES = ("compile", "tf32", "fused-optimizer")
"""On, or left out."""
TWO_WAY = ("channels-last", "cudnn-benchmark", "overlap")
"""On or off, with the trainer's own choice in between: ``--no-NAME`` is another thing than none."""
COUNTS = ("workers", "threads")
"""Loader processes, and CPU threads, of each rank."""
MOST = 1024
"""More loader processes or threads of one rank than any machine has use for."""

NAMES = (*SWITCHES, *TWO_WAY, *COUNTS)
_LACKING: dict[str, frozenset[str]] = {
    "paddle": frozenset({"compile"}),
    "allreduce": frozenset((*SWITCHES, *TWO_WAY)),
    "arcface": frozenset({"channels-last", "overlap"}),
    "resnet50": frozenset({"overlap"}),
    "tsm": frozenset({"overlap"}),
}
"""By framework and by trainer: what it does not have."""
_YES, _NO = ("true", "on", "yes"), ("false", "off", "no")


def parse(texts: Iterable[str]) -> dict[str, Option]:
    """Read ``NAME`` and ``NAME=VALUE`` as they are typed; raises UsageError."""
    options: dict[str, Option] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in NAMES:
            raise UsageError(
                f"Unknown --speed-option {name!r}.",
                did_you_mean(name, NAMES)
                + f"Options: {', '.join(NAMES)}. Options that change the model go under args: in"
                " the benchmark file.",
            )
        if name in options:
            raise UsageError(f"--speed-option {name} is given twice.", "Give it once.")
        options[name] = _value(name, value if equals else None)
    return options


def _value(name: str, text: str | None) -> Option:
    if name in COUNTS:
        if text is not None and text.isascii() and text.isdecimal() and int(text) <= MOST:
            return int(text)
        needed, example = f"a whole number from 0 to {MOST}", "8"
    else:
        if text is None or text.lower() in _YES:
            return True
        if text.lower() in _NO:
            return False
        needed, example = "on or off", "false"
    given = "" if text is None else f", not {text!r}"
    raise UsageError(f"--speed-option {name} needs {needed}{given}.", f"Write {name}={example}.")


def check(asked: Mapping[str, Option], framework: str, trainer: str, label: str) -> None:
    """Raise UsageError for an option that the trainer does not have."""
    there = available(framework, trainer)
    for name in asked:
        if name not in there:
            raise UsageError(
                f"k8sbench's trainer of {label} has no --speed-option {name}.",
                f"It has: {', '.join(there)}.",
            )


def available(framework: str, trainer: str) -> tuple[str, ...]:
    """The speed options of a trainer."""
    lacking = _LACKING.get(framework, frozenset()) | _LACKING.get(trainer, frozenset())
    return tuple(name for name in NAMES if name not in lacking)


def arguments(options: Mapping[str, Option]) -> Iterator[str]:
    """Options as a trainer's command has them, speed options or others."""
    for name, value in options.items():
        if value is True:
            yield f"--{name}"
        elif value is not False:
            yield from (f"--{name}", str(value))
        elif name in TWO_WAY:
            yield f"--no-{name}"


def words(options: Mapping[str, Option]) -> tuple[str, ...]:
    """The speed options among a plan's options, in words: ``channels-last``, ``workers 8``."""
    return tuple(
        name if value is True else f"no {name}" if value is False else f"{name} {value}"
        for name, value in sorted(options.items())
        if name in NAMES
    )
