"""The command line that all trainers share.

`read` turns arguments into one frozen `Settings` plus the trainer's own options. It imports no
framework, so that ``--help`` is quick and works on any machine. A wrong value is one line on
stderr and exit code 2; nothing is clamped or corrected in silence.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, TypeVar

T = TypeVar("T", int, float)

AMP_DTYPES = ("none", "fp16", "bf16")
DEVICES = ("auto", "cpu", "cuda")
DATA_SOURCES = ("synthetic", "synthetic-host")  # any other is a folder of real files
MODES = ("throughput", "train")
LENGTH_UNITS = ("iterations", "epochs")
PRESETS = ("full", "smoke")
LARGEST = 2**31 - 1  # of any whole number here; numpy takes no larger seeds than twice that
# Options that change speed and nothing else; each is part of a result's identity.
SWITCHES: dict[str, tuple[Any, str]] = {
    "channels_last": (argparse.BooleanOptionalAction, "NHWC memory format (default: as upstream)"),
    "compile": ("store_true", "compile the model"),
    "tf32": ("store_true", "allow TF32 in FP32 matrix products and convolutions"),
    "fused_optimizer": ("store_true", "one kernel for the optimizer step"),
    "cudnn_benchmark": (
        argparse.BooleanOptionalAction,
        "let cuDNN time its algorithms (default: as upstream)",
    ),
    "overlap": (
        argparse.BooleanOptionalAction,
        "sum gradients during the backward pass, not all at once after it (default: as upstream)",
    ),
}
SPEED_OPTIONS = tuple(SWITCHES)
_MORE_OPTIONS = ("workers", "threads")


@dataclass(frozen=True)
class Defaults:
    """What one trainer takes when an option is not given: upstream's full-size values."""

    benchmark: str
    recipes: tuple[str, ...]  # the ways to train; the first is the default
    batch_size: int  # per rank, FP32
    batch_size_amp: int | None = None  # per rank, AMP; None = as FP32
    warmup: int = 20
    iterations: int = 100
    log_interval: int = 10
    workers: int = 4
    # Where a recipe has others: in FP32 and in mixed precision.
    recipe_workers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cudnn_benchmark: bool = True
    # Speed options that this trainer has; one that it lacks is refused as an unknown option.
    speed_options: tuple[str, ...] = tuple(name for name in SWITCHES if name != "overlap")
    # Recipes whose upstream lays images out as NHWC in mixed precision, and only there.
    channels_last_amp: tuple[str, ...] = ()
    # Recipes whose upstream sums all gradients after the backward pass in mixed precision.
    flat_sum_amp: tuple[str, ...] = ()
    # Whether ranks may share a GPU; Paddle's gloo takes no tensors of a GPU.
    shares_gpu: bool = False


@dataclass(frozen=True)
class Settings:
    """The options that every trainer has. Sizes are per rank, steps are optimizer steps."""

    benchmark: str
    variant: str  # a label for the start line; what is done is the recipe's
    recipe: str
    batch_size: int
    warmup: int
    iterations: int
    log_interval: int
    min_steady_seconds: float
    amp_dtype: str | None  # None = FP32
    device: str
    data: str
    workers: int
    seed: int
    preset: str
    run_id: str | None
    tf32: bool
    channels_last: bool
    compile: bool
    fused_optimizer: bool
    cudnn_benchmark: bool
    overlap: bool
    threads: int
    share_gpu: bool = False
    mode: str = "throughput"
    weights: str | None = None  # a file of weights to begin with; None: from scratch
    # Of --mode train: how long it trains in all, and how often it evaluates, in `length_unit`.
    length: int = 0
    length_unit: str = "iterations"
    evaluate_every: int = 0  # 0: at the end only
    target: float | None = None  # percent
    stop_at_target: bool = False
    checkpoints: str | None = None  # a folder
    checkpoint_every: int = 0  # steps; 0: at evaluations
    broken_limit: int = 100

    @property
    def real_data(self) -> bool:
        """Whether `data` is a folder of files."""
        return self.data not in DATA_SOURCES

    @property
    def precision(self) -> str:
        """The requested precision; the framework's session reports the effective one."""
        return "fp32" if self.amp_dtype is None else "amp"

    def speed_options(self) -> dict[str, object]:
        """The options that change speed, as they are written into the start line."""
        shared = ("share_gpu",) if self.share_gpu else ()
        return {name: getattr(self, name) for name in (*SPEED_OPTIONS, *_MORE_OPTIONS, *shared)}


def whole(minimum: int, maximum: int = LARGEST) -> Callable[[str], int]:
    """An argparse type: a whole number from `minimum` to `maximum`."""
    return _number(int, "a whole number", minimum, maximum)


def real(minimum: float, maximum: float = LARGEST) -> Callable[[str], float]:
    """An argparse type: a number from `minimum` to `maximum`."""
    return _number(float, "a number", minimum, maximum)


def _number(
    convert: Callable[[str], T], what: str, minimum: float, maximum: float
) -> Callable[[str], T]:
    def parse(text: str) -> T:
        with contextlib.suppress(ValueError):
            value = convert(text)
            if minimum <= value <= maximum:
                return value
        raise argparse.ArgumentTypeError(
            f"must be {what} of at least {minimum:.15g} and at most {maximum:.15g}, not {text!r}"
        )

    return parse


def source(text: str) -> str:
    """An argparse type: one of `DATA_SOURCES`, or an absolute path."""
    if text in DATA_SOURCES or text.startswith("/"):
        return text
    raise argparse.ArgumentTypeError(
        f"must be {' or '.join(DATA_SOURCES)}, or the absolute path of a folder, not {text!r}"
    )


def size(text: str) -> tuple[int, int]:
    """An argparse type: HEIGHTxWIDTH, as in 512x1024."""
    match = re.fullmatch(r"([1-9][0-9]*)x([1-9][0-9]*)", text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTH, as in 512x1024, not {text!r}")
    return int(match[1]), int(match[2])


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line: the reader is a log, not a terminal."""

    def error(self, message: str) -> NoReturn:
        """Print one line that says what is wrong; exit code 2."""
        self.exit(2, f"k8sbench: error: {message}; see {self.prog} --help\n")


def refuse(message: str, *, passing: bool = False) -> NoReturn:
    """End a trainer whose options, machine and data do not fit: one line on stderr, exit code 2.

    `k8sbench.diagnose.job.exits` knows that line, because launchers change the code; such a run is
    not restarted. What may be better at another attempt, `passing`, has another line, and code 1.
    """
    sys.stdout.flush()
    sys.stderr.write(f"k8sbench: {'failed' if passing else 'error'}: {message}\n")
    sys.stderr.flush()
    # A plain exit could wait for the threads of a half-made process group.
    os._exit(1 if passing else 2)


# Options of one of several words, the first of which is the default.
CHOICES: dict[str, tuple[tuple[str, ...], str]] = {
    "preset": (PRESETS, "label of the sizes for the start line; the sizes themselves are options"),
    "amp_dtype": (AMP_DTYPES, "none = FP32; fp16 uses a gradient scaler, bf16 none"),
    "mode": (
        MODES,
        (
            "throughput = a warm-up and measured steps; train = --length of real data, evaluated, "
            "where the measured steps are all that follow the warm-up"
        ),
    ),
    "length_unit": (LENGTH_UNITS, "of --length and --evaluate-every"),
    "device": (DEVICES, "where it trains"),
}
# Whole numbers, with the least that is taken and the default.
COUNTS: dict[str, tuple[int, int, str]] = {
    "seed": (0, 0, "of all random numbers"),
    "threads": (0, 0, "CPU threads per rank; 0 = leave the framework's choice"),
    "broken_limit": (
        *(0, Settings.broken_limit),
        "samples that cannot be read, more of which than this end the run",
    ),
    "length": (1, 0, "of all training"),
    "evaluate_every": (0, 0, "besides at the end; 0 = at the end only"),
    "checkpoint_every": (0, 0, "iterations; 0 = at evaluations"),
}


def parser(program: str, description: str, defaults: Defaults) -> Parser:
    """The common options with one trainer's defaults."""
    made = Parser(
        prog=f"python -m k8sbench.trainers.{program}",
        description=description,
        allow_abbrev=False,
    )
    add = made.add_argument
    for name, (words, text) in (CHOICES | {"recipe": (defaults.recipes, "way to train")}).items():
        add(_flag(name), choices=words, default=words[0], help=f"{text} (default: {words[0]})")
    steps = {
        "warmup": (0, defaults.warmup, "steps before the measured window"),
        "iterations": (1, defaults.iterations, "measured steps"),
        "log_interval": (1, defaults.log_interval, "steps per log line"),
    }
    for name, (least, default, text) in (COUNTS | steps).items():
        add(_flag(name), type=whole(least), default=default, help=f"{text} (default: {default})")
    for name, (action, text) in SWITCHES.items():
        if name in defaults.speed_options:
            add(_flag(name), action=action, default=None, help=text)
    if defaults.shares_gpu:
        text = "let several ranks share a GPU and talk by gloo, since NCCL refuses that; for checks"
        add("--share-gpu", action="store_true", help=text)
    add("--benchmark", default=defaults.benchmark, help="name for the start line")
    add("--variant", help="label for the start line, of any kind (default: --recipe)")
    add(
        "--run-id",
        default=os.environ.get("K8SBENCH_RUN_ID") or None,
        help="identity of the run, for the start line (default: the variable K8SBENCH_RUN_ID)",
    )
    amp = defaults.batch_size_amp or defaults.batch_size
    batch = f"samples per rank (default: {defaults.batch_size}, with AMP {amp})"
    add("--batch-size", type=whole(1), help=batch)
    workers = f"loader processes per rank, where the data need them (default: {defaults.workers}, "
    add("--workers", type=whole(0), help=f"{workers}1 with --preset smoke)")
    add(
        "--data",
        type=source,
        default="synthetic",
        metavar="{synthetic,synthetic-host,DIR}",
        help="synthetic = fixed tensors on the device; synthetic-host = made by loader workers; "
        "DIR = the absolute path of a folder of real files",
    )
    add("--weights", metavar="FILE", help="weights to begin with, as .npz")
    add(
        "--min-steady-seconds",
        type=real(0.0),
        default=0.0,
        metavar="S",
        help="train on after the window until S seconds have passed since the warm-up (default: 0)",
    )
    add("--target", type=real(0.0, 100.0), metavar="X", help="accuracy in percent")
    text = "end at the evaluation that reaches it"
    add("--stop-at-target", action="store_true", help=text)
    text = "folder of this run alone, from which it goes on after a restart"
    add("--checkpoints", metavar="DIR", help=text)
    return made


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _contradiction(given: argparse.Namespace) -> str | None:
    """What --mode train lacks; options of it that another mode has not are left unused there."""
    if given.mode != "train":
        return None
    if given.data in DATA_SOURCES:
        return f"--mode train needs real data: --data {given.data} has nothing to learn; give DIR"
    return None if given.length else "--mode train needs --length: how long it trains"


def read(
    program: str,
    description: str,
    defaults: Defaults,
    add_options: Callable[[argparse._ArgumentGroup], Any] | None = None,
    argv: Sequence[str] | None = None,
) -> tuple[Settings, argparse.Namespace]:
    """Parse `argv`: the common settings, and the namespace that holds the trainer's own options.

    `program` is the trainer's module name. `add_options` adds the trainer's own options to the
    parser (with `whole`, `real` and `size` as types).
    """
    made = parser(program, description, defaults)
    if add_options is not None:
        add_options(made.add_argument_group("this benchmark's own options"))
    given = made.parse_args(argv)
    if (contradiction := _contradiction(given)) is not None:
        made.error(contradiction)
    amp_dtype = None if given.amp_dtype == "none" else str(given.amp_dtype)
    batch_size = given.batch_size or defaults.batch_size
    if given.batch_size is None and amp_dtype is not None:
        batch_size = defaults.batch_size_amp or defaults.batch_size
    workers = given.workers
    if workers is None:
        counts = defaults.recipe_workers.get(given.recipe, (defaults.workers, defaults.workers))
        # Starting as many as a full run takes would be most of what a small one does.
        workers = 1 if given.preset == "smoke" else counts[amp_dtype is not None]
    upstream = {
        "channels_last": amp_dtype is not None and given.recipe in defaults.channels_last_amp,
        "cudnn_benchmark": defaults.cudnn_benchmark,
        "overlap": amp_dtype is None or given.recipe not in defaults.flat_sum_amp,
    }
    values: dict[str, Any] = {
        entry.name: getattr(given, entry.name, False) for entry in fields(Settings)
    }
    # As set, else as upstream; an option that the trainer lacks is off, but that its gradients are
    # summed as upstream's.
    values["overlap"] = getattr(given, "overlap", None)
    for name in SPEED_OPTIONS:
        values[name] = upstream.get(name, False) if values[name] is None else values[name]
    values |= {
        "variant": given.variant or given.recipe,
        "batch_size": batch_size,
        "amp_dtype": amp_dtype,
        "workers": workers,
    }
    return Settings(**values), given


def add_check_options(group: argparse._ArgumentGroup) -> None:
    """Options that make a trainer comparable with itself; none is for measuring."""
    add = group.add_argument
    add("--lr", type=real(0.0), help="base learning rate (default: upstream's rule)")
    text = "batch norm in evaluation mode and no dropout, so that one rank and several compute the"
    add("--frozen-norm", action="store_true", help=f"{text} same; for checks")
    text = "no dropout, batch norm as it trains: so that one rank and several with synchronised"
    add("--no-dropout", action="store_true", help=f"{text} batch norm compute the same; for checks")
    add(
        "--width-divisor",
        type=whole(1, 32),  # the narrowest layer has 32 channels
        default=1,
        metavar="N",
        help="divide the model's numbers of channels by N; for checks",
    )


def check_values(own: argparse.Namespace) -> dict[str, Any]:
    """The options for checks that change what is computed: for the work and the start line."""
    return {"frozen_norm": own.frozen_norm, "no_dropout": own.no_dropout}


def check_options(own: argparse.Namespace) -> dict[str, Any]:
    """All options for checks that the start line names: also what the trainer itself takes."""
    return {**check_values(own), "width_divisor": own.width_divisor}
