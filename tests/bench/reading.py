"""Time to read and measure a log, compared with a plain loop.

For each of five families a log is made of the lines of our own fixtures: a dense one, all training
lines, a sparse one, with nineteen other lines for each of those, and one whose ten training lines
come after all others, which are coloured and numbered; of this the family is not named. The plain
loop is what one writes by hand for one log: one compiled expression, tried on each line from its
beginning, and each of its groups converted, the stamp included; it checks nothing and keeps two
sums. Both read the same file in this process, by turns. Printed are processor times, and medians of
their ratios with quartiles. Exit code 1 if a median is over its limit.

    python tests/bench/reading.py [LINES] [--pairs 7] [--only mmseg ...]
"""

import argparse
import datetime
import itertools
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.adapters.files.log_files import LogFile
from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from k8sbench.parse.families import NAMES

LINES = 200_000
PAIRS = 7
LIMITS = {"dense": 6.0, "sparse": 5.5, "prologue": 3.5}
OTHERS = 19
"""Other lines for each training line of a sparse log."""
FIXTURES = Path(__file__).parents[1] / "fixtures" / "logs"
STEP = datetime.timedelta(milliseconds=500)
BEGAN = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC)
OTHER_LINES = (
    "/usr/lib/python3.8/site-packages/paddle/nn/layer/norm.py:641: UserWarning: When training, ...",
    "  warnings.warn(",
    "node-17:1234:1290 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[1b000] via P2P/IPC",
    "I0302 10:00:00.000000  1234 device_context.cc:447] Please NOTE: device: 0, GPU Compute 7.0",
    "Loading and preparing results... DONE (t=0.02s)",
    "2026-03-02 10:00:00,000 - root - INFO - gradient overflow, reducing the loss scale to 32768.0",
    "Traceback (most recent call last):",
)


@dataclass(frozen=True)
class Family:
    """A family's log, and the expression that reads its training lines and no more."""

    fixture: str
    stamp: str
    """Time stamp in front of a training line, in ``strftime`` format."""
    count: str
    """Text in front of the iteration number."""
    every: int
    """Iterations from line to line."""
    expression: str
    """For the plain loop; the first group is the stamp."""
    batch: int = 4

    def lines(self) -> tuple[list[str], str]:
        """The fixture's head, and its first training line."""
        lines = (FIXTURES / self.fixture).read_text().splitlines()
        plain = re.compile(self.expression)
        first = next(number for number, line in enumerate(lines) if plain.match(line))
        head = [line for line in lines[:first] if self.count not in line]
        return head, lines[first]


FAMILIES = {
    "k8sbench": Family(
        "k8sbench_master.log",
        "%Y-%m-%dT%H:%M:%S.%f",
        '"step": ',
        1,
        r'(\S+)Z K8SBENCH {"event": "step", "step": (\d+), "of": (\d+), "steps": (\d+), '
        r'"seconds": ([\d.]+), "data_seconds": ([\d.]+), "loss": ([\d.]+), .*?"time": ([\d.]+)',
    ),
    "mmseg": Family(
        "mmseg_evaluation.log",
        "%Y-%m-%d %H:%M:%S,%f",
        "Iter [",
        10,
        r"(\d+-\d+-\d+ \d+:\d+:\d+,\d+) - mmseg - INFO - Iter \[(\d+)/(\d+)\].*?time: ([\d.]+), "
        r"data_time: ([\d.]+), memory: (\d+), .*, loss: ([\d.]+)",
    ),
    "paddleseg": Family(
        "paddleseg.log",
        "%Y-%m-%d %H:%M:%S",
        "iter: ",
        5,
        r"(\d+-\d+-\d+ \d+:\d+:\d+) \[INFO\]\s\[TRAIN\] epoch: \d+, iter: (\d+)/(\d+), "
        r"loss: ([\d.]+), .*?batch_cost: ([\d.]+), reader_cost: ([\d.]+), ips: ([\d.]+)",
    ),
    "dle-resnet50": Family(
        "dle_resnet50_2022.log",
        "%Y-%m-%d %H:%M:%S.%f",
        "Iteration: ",
        1,
        r"DLL (\d+-\d+-\d+ \d+:\d+:\d+\.\d+) - Epoch: (\d+) Iteration: (\d+)  "
        r"train.loss : ([\d.]+) .*?compute_ips : ([\d.]+) .*?total_ips : ([\d.]+)",
    ),
    "plsc": Family(
        "plsc_v2.log",
        "%Y-%m-%d %H:%M:%S,%f",
        "step: ",
        100,
        r"Training: (\d+-\d+-\d+ \d+:\d+:\d+,\d+) - loss ([\d.]+), lr: [\d.]+, epoch: (\d+), "
        r"step: (\d+), .*?throughput: ([\d.]+)",
    ),
}


def write(family: Family, kind: str, count: int, path: Path) -> None:
    """Write a log of ``count`` lines that repeats the fixture's first training line."""
    head, line = family.lines()
    stamp = re.search(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[,.]\d+)?", line)
    assert stamp is not None
    before, _, rest = line.partition(family.count)
    assert stamp.end() <= len(before)
    rest = re.sub(r"^(\d+)/\d+", r"\1/900000000", rest.lstrip("0123456789"))
    digits = 3 if stamp[0][-4] == "," else 6
    others = itertools.cycle(OTHER_LINES)
    with path.open("w") as out:
        out.writelines(f"{each}\n" for each in head)
        records = {"dense": count, "sparse": count // (OTHERS + 1), "prologue": 10}[kind]
        if kind == "prologue":
            out.writelines(
                f"\x1b[33m{next(others)}\x1b[0m [{number}]\n" for number in range(count - records)
            )
        for number in range(1, records + 1):
            at = (BEGAN + number * STEP).strftime(family.stamp)
            if "%f" in family.stamp:
                at = at[: len(at) - 6 + digits]
            began = f"{before[: stamp.start()]}{at}{before[stamp.end() :]}"
            out.write(f"{began}{family.count}{number * family.every}{rest}\n")
            if kind == "sparse":
                out.writelines(f"{next(others)}\n" for _ in range(OTHERS))


def plain(path: Path, expression: re.Pattern[str]) -> tuple[int, float]:
    """Read a log by hand; return its training lines and their seconds."""
    match, parse, utc = expression.match, datetime.datetime.fromisoformat, datetime.UTC
    records, began, ended, total = 0, 0.0, 0.0, 0.0
    with path.open(encoding="utf-8", errors="replace") as log:
        for line in log:
            found = match(line)
            if found is None:
                continue
            stamp, *numbers = found.groups()
            ended = parse(stamp).replace(tzinfo=utc).timestamp()
            values = [float(number) for number in numbers]
            began = began or ended
            total += values[-1]
            records += 1
    return records, ended - began


def ours(path: Path, names: Sequence[str]) -> int:
    """Measure it as a log of one of these families; how many training lines."""
    expected = [Expectation(format=name, gpus=8, batch_size=4, warmup=0) for name in names]
    return measure([LogFile(str(path))], expected).records


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def compared(
    family: str, names: Sequence[str], path: Path, pairs: int
) -> Iterator[tuple[float, float]]:
    """The plain loop's and our seconds, by turns."""
    expression = re.compile(FAMILIES[family].expression)
    sides = (lambda: plain(path, expression), lambda: ours(path, names))
    if (theirs := plain(path, expression)[0]) != (mine := ours(path, names)):
        raise SystemExit(f"{family}: the plain loop reads {theirs} training lines, we {mine}")
    for number in range(pairs):
        took = {side: seconds(sides[side]) for side in ((0, 1) if number % 2 else (1, 0))}
        yield took[0], took[1]


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lines", nargs="?", type=int, default=LINES)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--only", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    given = parser.parse_args()
    if given.pairs < 2:
        parser.error("--pairs must be 2 or more: quartiles are printed")
    missed = False
    with tempfile.TemporaryDirectory(prefix="k8sb-") as folder:
        for kind, limit in LIMITS.items():
            for family in given.only:
                path = Path(folder, "train.log")
                write(FAMILIES[family], kind, given.lines, path)
                names = NAMES if kind == "prologue" else [family]
                took = list(compared(family, names, path, given.pairs))
                low, middle, high = statistics.quantiles([mine / other for other, mine in took])
                missed |= middle > limit
                each = [
                    statistics.median(side) / given.lines * 1e6 for side in zip(*took, strict=True)
                ]
                print(
                    f"{kind} {family}: {middle:.2f} × the plain loop ({low:.2f}–{high:.2f}, limit "
                    f"{limit}); {each[1]:.2f} µs a line, {each[0]:.2f} the plain loop"
                    + ("" if middle <= limit else ": MISSED"),
                    flush=True,
                )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
