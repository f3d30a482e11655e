"""GPU failures of trainers: exit code, last lines and diagnosis."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from k8sbench.diagnose.job import exits
from tests.trainers.checks import SIZES
from tests.trainers.killed_ranks import ENDLESS
from tests.trainers.runs import environment, events, only

LONG = 240.0
# A kernel of some step between the second and the thirtieth.
ILLEGAL = {"CUDA_STUB_FAILING_LAUNCH": "6000"}
SMALL_CARD = {"CUDA_STUB_MEMORY": str(2**28)}
FAULT = "CUDA error: an illegal memory access was encountered"


def ended(arguments: Sequence[str], **variables: str) -> tuple[int, list[str]]:
    """Run ``python ARGUMENTS``; return exit code and lines of both streams."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=LONG)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output.splitlines()


def cause(code: int, lines: Sequence[str]) -> str:
    """The sentence that the user reads."""
    return exits.cause(exits.Ended(replica="worker-0", code=code, last=lines), []).sentence


def alone(trainer: str, amp: str, failure: dict[str, str]) -> tuple[int, list[str]]:
    """A trainer by its command line, which would go on for long."""
    options = ("--device", "cuda", *ENDLESS, "--amp-dtype", amp, *SIZES[trainer])
    return ended(["-m", f"k8sbench.trainers.{trainer}", *options], **failure)


def test_a_trainer_ends_at_an_error_of_cuda_with_code_1_and_that_error() -> None:
    code, lines = alone("resnet50", "fp16", ILLEGAL)
    assert code == 1, lines
    found = events("\n".join(lines))
    assert len(only(found, "step")) > 1
    assert not only(found, "summary")
    assert cause(code, lines) == f"worker-0 exited with code 1: torch.AcceleratorError: {FAULT}"


def test_a_trainer_ends_without_memory_with_code_1_and_says_how_much_was_missing() -> None:
    """The weights, their gradients and momenta alone take more than 256 MiB."""
    code, lines = alone("deeplabv3p_pytorch", "none", SMALL_CARD)
    assert code == 1, lines
    assert not only(events("\n".join(lines)), "summary")
    sentence = cause(code, lines)
    start = "worker-0 exited with code 1: torch.OutOfMemoryError: CUDA out of memory. Tried to all"
    assert sentence.startswith(start)
    assert "GPU 0 has a total capacity of 256.00 MiB" in sentence
