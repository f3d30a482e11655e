"""Options of k8sbench's trainers for their speed.

They are off unless upstream has them on, and part of a group's key. Two change more, so that
figures with and without them have no ratio: tf32 the precision of FP32, sequence-length the
samples. Another option that changes the computation, such as the size of a picture, makes another
benchmark and belongs into a catalog file. The table has the options of each trainer, so that a run
with an unknown one never starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from k8sbench.model.errors import UsageError, did_you_mean

Option = str | int | float | bool

SWITCHES = ("compile", "tf32", "fused-optimizer", "chunked-loss", "broadcast-pool")
"""On, or left out."""
TWO_WAY = ("channels-last", "cudnn-benchmark", "overlap")
"""Options with ``--no-NAME``: on, off, or left to the trainer."""
COUNTS = ("workers", "threads")
"""Loader processes, and CPU threads, of each rank."""
SIZES = ("sequence-length",)
"""Tokens of a sequence; another length makes another case."""
LARGEST_OPTION = 1024
"""Upper limit of each of these numbers."""

SPEED_OPTIONS = (*SWITCHES, *TWO_WAY, *COUNTS, *SIZES)
_LACKING: dict[str, frozenset[str]] = {
    "paddle": frozenset({"compile"}),
    "allreduce": frozenset((*SWITCHES, *TWO_WAY)),
    "arcface": frozenset({"channels-last", "overlap"}),
    "gpt": frozenset(TWO_WAY),
    "resnet50": frozenset({"overlap"}),
    "tsm": frozenset({"overlap"}),
}
"""Framework or trainer → options that it lacks."""
_ONLY = {"sequence-length": "gpt", "chunked-loss": "gpt", "broadcast-pool": "deeplabv3p_pytorch"}
"""Option → the only trainer that has it."""
FAST = "fast"
FAST_OPTIONS: dict[str, tuple[str, ...]] = {
    "gpt": ("compile", "fused-optimizer", "chunked-loss"),
    "resnet50": ("channels-last", "compile", "fused-optimizer"),
    "tsm": ("channels-last", "compile", "fused-optimizer"),
    "deeplabv3p_pytorch": (
        *("channels-last", "compile", "fused-optimizer", "overlap", "broadcast-pool"),
    ),
    "deeplabv3p_paddle": ("channels-last", "fused-optimizer", "overlap"),
    "arcface": ("fused-optimizer",),
    "allreduce": (),
}
"""Trainer → the options that ``fast`` stands for: equal within rounding."""
SPEED_ALONE = frozenset({"allreduce", "gpt"})
"""Trainers that evaluate nothing, and so have no ``--mode train``."""
_YES = ("true", "on", "yes")
_NO = ("false", "off", "no")


def parse_speed_options(texts: Iterable[str]) -> dict[str, Option]:
    """Read ``NAME`` and ``NAME=VALUE`` as they are typed; raises UsageError."""
    options: dict[str, Option] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in (FAST, *SPEED_OPTIONS):
            raise UsageError(
                f"Unknown --speed-option {name!r}.",
                did_you_mean(name, (FAST, *SPEED_OPTIONS))
                + f"Options: {', '.join((FAST, *SPEED_OPTIONS))}."
                " Options that change the model go under args: in the benchmark file.",
            )
        if name in options:
            raise UsageError(f"--speed-option {name} is given twice.", "Give it once.")
        options[name] = _parse_value(name, value if equals else None)
    return options


def _parse_value(name: str, text: str | None) -> Option:
    if name in (*COUNTS, *SIZES):
        least = int(name in SIZES)
        if (
            text is not None
            and text.isascii()
            and text.isdecimal()
            and least <= int(text) <= LARGEST_OPTION
        ):
            return int(text)
        needed = f"a whole number from {least} to {LARGEST_OPTION}"
        example = "8"
    else:
        if text is None or text.lower() in _YES:
            return True
        if text.lower() in _NO:
            return False
        needed, example = "on or off", "false"
    instead = "" if text is None else f", not {text!r}"
    raise UsageError(f"--speed-option {name} needs {needed}{instead}.", f"Write {name}={example}.")


def check_speed_options(
    requested: Mapping[str, Option], framework: str, trainer: str, label: str
) -> None:
    """Raise UsageError for an option that the trainer does not have."""
    offered = (FAST, *speed_options_of(framework, trainer))
    for name in requested:
        if name not in offered:
            raise UsageError(
                f"k8sbench's trainer of {label} has no --speed-option {name}.",
                f"It has: {', '.join(offered)}.",
            )


def speed_options_of(framework: str, trainer: str) -> tuple[str, ...]:
    """The speed options of a trainer."""
    lacking = _LACKING.get(framework, frozenset()) | _LACKING.get(trainer, frozenset())
    lacking |= frozenset(name for name, only in _ONLY.items() if only != trainer)
    return tuple(name for name in SPEED_OPTIONS if name not in lacking)


def expand_fast(requested: Mapping[str, Option], trainer: str) -> dict[str, Option]:
    """Replace ``fast`` by the options that it stands for; named options override them."""
    others = {name: value for name, value in requested.items() if name != FAST}
    return {**dict.fromkeys(FAST_OPTIONS[trainer] if requested.get(FAST) else (), True), **others}


def trainer_arguments(options: Mapping[str, Option]) -> Iterator[str]:
    """Yield options in the form of a trainer's command line."""
    for name, value in options.items():
        if value is True:
            yield f"--{name}"
        elif value is not False:
            yield from (f"--{name}", str(value))
        elif name in TWO_WAY:
            yield f"--no-{name}"


def option_words(options: Mapping[str, Option]) -> tuple[str, ...]:
    """Return the plan's speed options in words: ``channels-last``, ``workers 8``."""
    return tuple(
        name if value is True else f"no {name}" if value is False else f"{name} {value}"
        for name, value in sorted(options.items())
        if name in SPEED_OPTIONS
    )
