"""Kills a trainer in the middle of its training, all its ranks at once as the end of a pod does,
and starts it again with the same options.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from k8sbench.trainers.data import sample_sets
from tests.trainers import runs
from tests.trainers.runs import Event, environment, events, losses, only

LENGTH = 10
COMMON = (
    *("--mode", "train", "--length", str(LENGTH), "--evaluate-every", "5"),
    *("--warmup", "1", "--log-interval", "1", "--batch-size", "2", "--seed", "3"),
    *("--device", "cpu", "--threads", "1", "--width-divisor", "16"),
)
# The set of each trainer, and what makes it tiny.
TRAINERS = {
    "deeplabv3p_pytorch": ("cityscapes", ("--crop", "32x32")),
    "deeplabv3p_paddle": ("cityscapes", ("--crop", "32x32")),
    "resnet50": ("imagenet", ("--input-size", "32", "--classes", "8", "--accumulate", "2")),
    "tsm": ("kinetics", ("--input-size", "32", "--classes", "4", "--segments", "2")),
    "arcface": ("faces", ("--size", "16", "--classes", "8")),
}
SETS: dict[str, Callable[[pathlib.Path], None]] = {
    "cityscapes": functools.partial(sample_sets.cityscapes, pictures=8, size=(32, 64)),
    "imagenet": functools.partial(sample_sets.imagenet, pictures=24, size=(40, 40)),
    "kinetics": functools.partial(sample_sets.kinetics, pictures=8, size=(40, 40)),
    "faces": functools.partial(sample_sets.faces, pictures=16, size=(16, 16)),
}


# A trainer that saves after each second step, and kills itself and its loader processes: "EVENT
# STEP" once it has written this line, "rename N" before it makes its Nth checkpoint.
DYING = """
import json, os, runpy, signal, sys
from k8sbench.trainers.parts import events, training

training.Training.is_due = lambda _, step: step % 2 == 0
name, number = (os.environ["K8SBENCH_TEST_DIES"] or "never 0").split()
left = int(number)
defaults = events.Journal.__init__.__kwdefaults__
plain = defaults["write"]

def write(text):
    plain(text)
    if text.startswith(f'K8SBENCH {{"event": "{name}"'):
        if json.loads(text.partition(" ")[2])["step"] == int(number):
            os.killpg(0, signal.SIGKILL)

def hook(event, details):
    global left
    if (name, event) == ("rename", "os.rename") and ".step-" in str(details[0]):
        left -= 1
        if left == 0:
            os.killpg(0, signal.SIGKILL)

defaults["write"] = write
sys.addaudithook(hook)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__")
"""


def words(trainer: str, sets: pathlib.Path, *more: str) -> list[str]:
    """The arguments of Python that train on the set of this trainer, drawn where it is missing."""
    name, tiny = TRAINERS[trainer]
    if not (sets / name).exists():
        SETS[name](sets / name)
    return ["-m", f"k8sbench.trainers.{trainer}", *COMMON, *tiny, "--data", str(sets / name), *more]


def _variables(trainer: str, world: int) -> list[dict[str, str]]:
    return [{}] if world == 1 else runs.rank_variables(runs.FRAMEWORKS[trainer], world)


def trained(trainer: str, arguments: Sequence[str], world: int = 1) -> list[Event]:
    """Train to the end; rank 0's events."""
    return events(runs.together(arguments, _variables(trainer, world))[0])


def killed(trainer: str, arguments: Sequence[str], moment: str, world: int = 1) -> list[Event]:
    """Train until rank 0 kills itself at a moment of `DYING`, and then the others; rank 0's
    events.
    """
    command = [sys.executable, "-W", "ignore", "-c", DYING, *arguments[1:]]
    with contextlib.ExitStack() as stack:
        for rank, variables in reversed([*enumerate(_variables(trainer, world))]):
            process = subprocess.Popen(
                command,
                env=environment(**variables, K8SBENCH_TEST_DIES="" if rank else moment),
                stdout=subprocess.DEVNULL if rank else subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            stack.enter_context(process)
            stack.callback(_kill, process)
        text = process.communicate(timeout=200)[0]
    assert process.returncode == -signal.SIGKILL, text
    return events(text)


def _kill(process: subprocess.Popen[str]) -> None:
    """End its session: also its loader processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def goes_on(whole: list[Event], before: list[Event], after: list[Event]) -> int:
    """Whether two attempts train as the whole run does, to the bit; the step between them."""
    assert losses(before) == losses(whole)[: len(losses(before))]
    saved = [event["step"] for event in only(before, "checkpoint")]
    resumed = only(after, "resume")
    done = int(resumed[0]["step"])
    assert done >= max(saved, default=0)
    assert losses(after) == losses(whole)[done:]

    def evaluated(found: list[Event]) -> list[object]:
        return [[event["step"], event["figures"]] for event in only(found, "evaluation")]

    assert evaluated(after) == evaluated(whole)[len(evaluated(whole)) - len(evaluated(after)) :]
    summary, ended = after[-1], whole[-1]
    for name in ("best", "evaluations", "steps", "ended_by"):
        assert summary[name] == ended[name], name
    return done
