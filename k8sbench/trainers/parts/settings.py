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
# Options that change speed, and tf32 also the precision; each is part of a result's identity.
SPEED_OPTIONS = (
    *("channels_last", "compile", "tf32", "fused_optimizer", "cudnn_benchmark", "overlap"),
)
# Paddle's: "compile" is not among them, since its to_static is another program, not a switch.
PADDLE_SPEED_OPTIONS = ("channels_last", "tf32", "fused_optimizer", "cudnn_benchmark", "overlap")
CHECKS = ("frozen_norm", "no_dropout", "width_divisor")
# Options that have no effect without --mode train.
OF_TRAINING = (
    *("length", "length_unit", "evaluate_every", "target", "stop_at_target"),
    *("checkpoints", "checkpoint_every"),
)


@dataclass(frozen=True)
class Defaults:
    """Default options of one trainer: upstream's full-size values."""

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
    speed_options: tuple[str, ...] = tuple(name for name in SPEED_OPTIONS if name != "overlap")
    # Recipes whose upstream lays images out as NHWC in mixed precision, and only there.
    channels_last_amp: tuple[str, ...] = ()
    # Recipes whose upstream sums all gradients after the backward pass in mixed precision.
    flat_sum_amp: tuple[str, ...] = ()
    # Whether ranks may share a GPU; Paddle's gloo takes no tensors of a GPU.
    shares_gpu: bool = False
    # Whether it has --mode train.
    trains: bool = True


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


def limit(text: str) -> str:
    """An argparse type: a whole number, or a percentage."""
    if re.fullmatch(r"\d{1,9}|\d{1,2}(\.\d{1,9})?%|100%", text):
        return text
    raise argparse.ArgumentTypeError(f"must be a number, or a share as in 0.5%, not {text!r}")


def size(text: str) -> tuple[int, int]:
    """An argparse type: HEIGHTxWIDTH, as in 512x1024."""
    match = re.fullmatch(r"([1-9][0-9]*)x([1-9][0-9]*)", text.lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTH, as in 512x1024, not {text!r}")
    return int(match[1]), int(match[2])


def _option(text: str, default: Any = None, **how: Any) -> Any:
    """A field that is an option of the command line; `how` argparse takes it."""
    return field(default=default, metadata={"help": text, **how})


def _choice(words: tuple[str, ...], text: str) -> Any:
    return _option(text, words[0], choices=words)


def _count(least: int, text: str, default: int | None = None) -> Any:
    return _option(text, default, type=whole(least))


def _switch(text: str) -> Any:
    return _option(text, False, action="store_true")


def _two_way(text: str) -> Any:
    return _option(f"{text} (default: as upstream)", action=argparse.BooleanOptionalAction)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options that every trainer has.

    Sizes are per rank. A step is one batch of each rank; after each `--accumulate` of them the
    optimizer changes the weights.
    """

    benchmark: str = _option("name for the start line")
    variant: str = _option("label for the start line, of any kind (default: --recipe)")
    recipe: str = _option("way to train")
    preset: str = _choice(
        PRESETS, "label of the sizes for the start line; the sizes themselves are options"
    )
    run_id: str | None = _option("identity of the run, for the start line")
    batch_size: int = _count(1, "samples per rank (default: as upstream)")
    warmup: int = _count(0, "steps before the measured window")
    iterations: int = _count(1, "measured steps")
    log_interval: int = _count(1, "steps per log line")
    min_steady_seconds: float = _option(
        "train on after the window until S seconds have passed since the warm-up",
        0.0,
        type=real(0.0),
        metavar="S",
    )
    # None: FP32.
    amp_dtype: str | None = _choice(
        AMP_DTYPES, "none = FP32; fp16 uses a gradient scaler, bf16 none"
    )
    device: str = _choice(DEVICES, "where it trains")
    data: str = _option(
        "synthetic = fixed tensors on the device; synthetic-host = made by loader workers; "
        "DIR = the absolute path of a folder of real files",
        DATA_SOURCES[0],
        type=source,
        metavar="{synthetic,synthetic-host,DIR}",
    )
    workers: int = _count(
        0,
        "loader processes per rank, where the data need them (default: as upstream, 1 with "
        "--preset smoke)",
    )
    threads: int = _count(0, "CPU threads per rank; 0 = leave the framework's choice", 0)
    seed: int = _count(0, "of all random numbers", 0)
    channels_last: bool = _two_way("NHWC memory format")
    compile: bool = _switch("compile the model")
    tf32: bool = _switch("allow TF32 in FP32 matrix products and convolutions")
    fused_optimizer: bool = _switch("one kernel for the optimizer step")
    cudnn_benchmark: bool = _two_way("let cuDNN time its algorithms")
    overlap: bool = _two_way("sum gradients during the backward pass, not all at once after it")
    share_gpu: bool = _switch(
        "let several ranks share a GPU and talk by gloo, since NCCL refuses that; for checks"
    )
    weights: str | None = _option("published weights to begin with", metavar="FILE")
    mode: str = _choice(
        MODES,
        "throughput = a warm-up and measured steps; train = --length of real data, evaluated, "
        "where the measured steps are all that follow the warm-up",
    )
    length: int = _count(1, "of all training in --mode train", 0)
    length_unit: str = _choice(LENGTH_UNITS, "of --length and --evaluate-every")
    evaluate_every: int = _count(0, "besides at the end; 0 = at the end only", 0)
    target: float | None = _option("accuracy in percent", type=real(0.0, 100.0), metavar="X")
    stop_at_target: bool = _switch("end at the evaluation that reaches it")
    checkpoints: str | None = _option(
        "folder of this run alone, from which it goes on after a restart", metavar="DIR"
    )
    checkpoint_every: float = _option(
        "seconds between checkpoints, besides those at evaluations and at SIGTERM; 0 = at these "
        "alone",
        600.0,
        type=real(0.0),
        metavar="S",
    )
    broken_limit: str | None = _option(
        "samples that cannot be read, more of which end the run, as a number or a share of all "
        "(default: 100, and at most 10%%)",
        type=limit,
        metavar="N|X%",
    )

    # For checks and not for measuring: they make a trainer comparable with itself.
    lr: float | None = _option("base learning rate (default: upstream's rule)", type=real(0.0))
    frozen_norm: bool = _switch(
        "batch norm in evaluation mode and no dropout, so that one rank and several compute the "
        "same; for checks"
    )
    no_dropout: bool = _switch(
        "no dropout, batch norm as it trains: so that one rank and several with synchronised "
        "batch norm compute the same; for checks"
    )
    width_divisor: int = _option(
        "divide the model's numbers of channels by N; for checks",
        1,
        type=whole(1, 32),  # the narrowest layer has 32 channels
        metavar="N",
    )

    @property
    def precision(self) -> str:
        """The requested precision; the framework's session reports the effective one."""
        return "fp32" if self.amp_dtype is None else "amp"

    @property
    def checks(self) -> dict[str, object]:
        """The options for checks that the start line names."""
        return {name: getattr(self, name) for name in CHECKS}

    def speed_options(self) -> dict[str, object]:
        """The options that change speed, as they are written into the start line."""
        more = ("workers", "threads", *(("share_gpu",) if self.share_gpu else ()))
        return {name: getattr(self, name) for name in (*SPEED_OPTIONS, *more)}


class Parser(argparse.ArgumentParser):
    """Argument parser with one-line errors, for logs."""

    def error(self, message: str) -> NoReturn:
        """Print one line that says what is wrong; exit code 2."""
        self.exit(2, f"k8sbench: error: {message}; see {self.prog} --help\n")


def refuse(message: str, *, passing: bool = False) -> NoReturn:
    """End a trainer whose options, machine and data do not fit.

    One line on stderr, exit code 2.

    `k8sbench.diagnose.job.exits` knows that line, because launchers change the code; such a run is
    not restarted. What may be better at another attempt, `passing`, has another line, and code 1.
    """
    sys.stdout.flush()
    sys.stderr.write(f"k8sbench: {'failed' if passing else 'error'}: {message}\n")
    # A plain exit could wait for the threads of a half-made process group.
    os._exit(1 if passing else 2)


def parser(program: str, description: str, defaults: Defaults) -> Parser:
    """The common options with one trainer's defaults."""
    made = Parser(
        prog=f"python -m k8sbench.trainers.{program}",
        description=description,
        allow_abbrev=False,
    )
    own = {
        "benchmark": defaults.benchmark,
        "recipe": defaults.recipes[0],
        "run_id": os.environ.get("K8SBENCH_RUN_ID") or None,
        "warmup": defaults.warmup,
        "iterations": defaults.iterations,
        "log_interval": defaults.log_interval,
    }
    lacking = {name for name in SPEED_OPTIONS if name not in defaults.speed_options}
    if not defaults.shares_gpu:
        lacking.add("share_gpu")
    for entry in fields(Settings):
        if entry.name not in lacking:
            how = dict(entry.metadata)
            default = own.get(entry.name, entry.default)
            if entry.name == "recipe":
                how["choices"] = defaults.recipes
            if default is not None and default is not False:
                how["help"] += f" (default: {default})"
            made.add_argument(f"--{entry.name.replace('_', '-')}", default=default, **how)
    return made


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
    if given.mode == "train" and not defaults.trains:
        made.error("--mode train: this trainer measures speed and evaluates nothing; leave it out")
    for name in OF_TRAINING if given.mode != "train" else ():
        if getattr(given, name) != made.get_default(name):
            made.error(f"--{name.replace('_', '-')} is for --mode train; add that, or leave it out")
    if given.mode == "train" and given.data in DATA_SOURCES:
        made.error(f"--mode train needs real data: {given.data} has nothing to learn; --data DIR")
    if given.mode == "train" and not given.length:
        made.error("--mode train needs --length: how long it trains")
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
