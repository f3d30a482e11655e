"""Cost of masking a log beside that of reading it: ``python tests/bench/masking.py [MEGABYTES]``.

Each of the :data:`LOGS` is written, measured as ``k8sbench measure`` does, and masked in the pieces
in which a report copies it. Printed are the processor seconds of both and their ratio. Exit code 1
if a ratio is above :data:`MOST`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.app.report_folder import PIECE
from k8sbench.model.masking import mask_pieces
from k8sbench.reader.log_files import LogFile
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.measuring import measure
from tests.harness.credentials import written
from tests.tiers import ROOT

MEGABYTES = 50
MOST = 0.05
"""Most processor time of masking, as a share of that of reading."""
HEAD = (ROOT / "tests/fixtures/logs/torchtitan.log").read_text().splitlines()[:12]
WORDS = (
    *("epoch", "loading", "shard", "of", "the", "data", "set", "from", "worker", "with", "batch"),
    *("size", "path", "rank", "node", "key", "token", "tokens", "signal", "author", "pass"),
)
STEP = (
    "[titan] 2026-03-02 {at} - root - INFO - step: {step:5d}  loss: {loss:8.4f}  grad_norm: 1.2345"
    "  memory: 47.53GiB(60.08%)  tps: 7,400  tflops: 400.12  mfu: 40.46%"
)


def steps() -> Iterator[str]:
    """Yield the lines of a training program."""
    step = 0
    while True:
        step += 1
        second, part = divmod(step, 10)
        at = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02},{part}00"
        yield STEP.format(at=at, step=step, loss=12 - step % 1000 / 100)


def with_words() -> Iterator[str]:
    """Yield such lines; each fifth is of other words, some of credentials, and like no other."""
    drawn = random.Random(1)
    for number, line in enumerate(steps()):
        yield line
        if number % 4 == 0:
            yield " ".join(drawn.choices(WORDS, k=12)) + f" {drawn.getrandbits(64):x}"


def with_credentials() -> Iterator[str]:
    """Yield the lines of a training program with a credential after each 100."""
    forms = written()
    for number, line in enumerate(steps()):
        yield line
        if number % 100 == 0:
            yield forms[number // 100 % len(forms)].text


LOGS: dict[str, Callable[[], Iterator[str]]] = {
    "training lines": steps,
    "other words": with_words,
    "credentials": with_credentials,
}


def write(path: Path, lines: Iterator[str], size: int) -> None:
    """Write a log of a size in bytes."""
    with path.open("w") as file:
        file.write("".join(f"{line}\n" for line in HEAD))
        while size > 0:
            size -= file.write(f"{next(lines)}\n")


def read(path: Path) -> None:
    """Read a log as a measurement does."""
    measure([LogFile(str(path), path.name)], Expectation(format="torchtitan", gpus=8, warmup=10))


def mask(path: Path) -> None:
    """Mask a log as a report does."""
    with path.open("rb") as file:
        for _ in mask_pieces(iter(partial(file.read, PIECE), b"")):
            pass


def cost(work: Callable[[Path], None], path: Path) -> float:
    """Return the processor seconds of some work on a log."""
    before = time.process_time()
    work(path)
    return time.process_time() - before


def main() -> int:
    """Measure and print; returns 1 if masking is too slow."""
    megabytes = int(sys.argv[1]) if sys.argv[1:] else MEGABYTES
    missed = []
    print(f"{'log':<16}{'MB':>5}{'read s':>8}{'mask s':>8}{'share':>8}")
    with tempfile.TemporaryDirectory(prefix="k8sbench-masking-") as folder:
        for name, lines in LOGS.items():
            path = Path(folder) / "train.log"
            write(path, lines(), megabytes * 1_000_000)
            reading = cost(read, path)
            masking = min(cost(mask, path) for _ in range(3))
            share = masking / reading
            print(f"{name:<16}{megabytes:>5}{reading:>8.2f}{masking:>8.2f}{share:>8.1%}")
            if share > MOST:
                missed.append(name)
    for name in missed:
        print(f"missed: {name}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
