"""Measures our trainers and peers in turn; prints tables and writes ``peers.json``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tests.gpu.peers.contests import CONTESTS, TINY_BATCH, Contest
from tests.gpu.peers.runs import NotRun, Peer, run_ours

Row = dict[str, Any]
PARTS = tuple(dict.fromkeys(each.part for each in CONTESTS))
IMPORTS = 180.0
"""Seconds for the imports of all peers at once, from a cold disk."""


class Measuring:
    """Limits and results of one run of this program."""

    def __init__(self, seconds: float, pairs: int, tiny: bool, folder: pathlib.Path) -> None:
        self.deadline = time.monotonic() + seconds
        self.pairs, self.tiny, self.folder = pairs, tiny, folder
        self.rows: list[Row] = []
        folder.mkdir(parents=True, exist_ok=True)

    def left(self, sharing: int = 1) -> float:
        """Seconds left for each of `sharing` parts."""
        return max(self.deadline - time.monotonic(), 0.0) / max(sharing, 1)

    def write(self) -> None:
        """Write the results so far."""
        text = json.dumps({"rows": self.rows}, indent=1)
        (self.folder / "peers.json").write_text(text + "\n")

    def contests(self, chosen: Sequence[Contest]) -> None:
        """Run contests; each has an equal share of the time left."""
        with contextlib.ExitStack() as stack:
            waiting = {}
            for number, contest in enumerate(chosen):
                for name in contest.peers:
                    log = self.folder / f"{number}-{name}.log"
                    peer = waiting[number, name] = Peer(name, contest.task(self.tiny), log)
                    stack.callback(peer.end)
            for number, contest in enumerate(chosen):
                began, share = time.monotonic(), self.left(len(chosen) - number)
                peers = [waiting[number, name] for name in contest.peers]
                rows = [self._row(contest, peer) for peer in peers]
                for row, peer in zip(rows, peers, strict=True):
                    with _noted(row):
                        peer.ready(IMPORTS)
                        row["packages"] = peer.packages
                for done in range(1, self.pairs + 1):
                    self._turn(contest, rows, peers)
                    self.write()
                    print(f"# {contest.title}: {done} of {self.pairs}", file=sys.stderr, flush=True)
                    over = (time.monotonic() - began) * (done + 1) / done > share
                    if over or all(row["reason"] for row in rows):
                        break
                for peer in peers:
                    peer.end()

    def _row(self, contest: Contest, peer: Peer) -> Row:
        row: Row = {"part": contest.part, "model": contest.title, "peer": peer.name}
        batch = TINY_BATCH if self.tiny else contest.ours.batch
        row |= {"batch": batch, "amp": contest.ours.amp, "reason": None, "ours": [], "theirs": []}
        self.rows.append(row)
        return row

    def _turn(self, contest: Contest, rows: Sequence[Row], peers: Sequence[Peer]) -> None:
        """Run ours once and each peer once."""
        try:
            found = run_ours(contest.ours, tiny=self.tiny, until=self.deadline)
        except NotRun as reason:
            for row in rows:
                row["reason"] = row["reason"] or f"ours: {reason}"
            return
        warmup, steps = (1, 2) if self.tiny else (contest.ours.warmup, contest.ours.steps)
        for row, peer in zip(rows, peers, strict=True):
            row |= {"gpu": found["gpu"], "torch": found["torch"]}
            if row["reason"] is None:
                with _noted(row):
                    theirs = peer.steps(warmup, steps, max(self.left(), 1.0))
                    row["parameters"] = [found["parameters"], theirs["parameters"]]
                    row["ours"].append(row["batch"] / found["seconds"])
                    row["theirs"].append(row["batch"] / theirs["seconds"])


@contextlib.contextmanager
def _noted(row: Row) -> Any:
    """Write the reason of a missing figure into a row."""
    try:
        yield
    except NotRun as reason:
        row["reason"] = str(reason)


PRECISION = {"none": "FP32", "fp16": "AMP fp16", "bf16": "AMP bf16"}


def tables(measuring: Measuring) -> Iterable[str]:
    """The tables, in Markdown."""
    yield "| model | peer | precision | batch | ours | theirs | ours ÷ theirs | pairs |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for row in measuring.rows:
        versions = {**row.get("packages", {})}
        versions.pop("torch", None)
        peer = ", ".join(f"{name} {version}" for name, version in versions.items()) or row["peer"]
        if row["peer"] == "mmseg":
            peer += ", `mmcv.ops` a stand-in"
        figures = ["–", "–", f"not run: {row['reason'] or 'no time'}"]
        if row["ours"]:
            ours, theirs = statistics.median(row["ours"]), statistics.median(row["theirs"])
            figures = [f"{ours:,.1f}", f"{theirs:,.1f}", f"{ours / theirs:.3f}"]
            if len(set(row["parameters"])) > 1:
                figures[2] += " (parameters: {:,} and {:,})".format(*row["parameters"])
        cells = [row["model"], peer, PRECISION[row["amp"]], str(row["batch"]), *figures]
        yield "| " + " | ".join([*cells, str(len(row["ours"]))]) + " |"
    known = {(row["gpu"], row["torch"]) for row in measuring.rows if "gpu" in row}
    yield ""
    for gpu, torch in sorted(known, key=str):
        yield f"{gpu or 'CPU'}, PyTorch {torch}; samples/s: pictures, clips and sequences."


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.peers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=460.0, help="for all of it")
    parser.add_argument("--pairs", type=int, default=3, help="at most, of each contest")
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--tiny", action="store_true", help="small shapes on a CPU")
    given = parser.parse_args()
    if unknown := set(given.only.split(",")) - set(PARTS):
        parser.error(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(PARTS)}")
    parts = given.only.split(",")
    folder = pathlib.Path(os.environ.get("FIGURES") or "dist/gpu-figures", "peers")
    measuring = Measuring(given.seconds, given.pairs, given.tiny, folder)
    # On a CPU mixed precision would take minutes a step.
    contests = [each for each in CONTESTS if not given.tiny or each.ours.amp == "none"]
    measuring.contests([each for each in contests if each.part in parts])
    print("\n".join(tables(measuring)))


if __name__ == "__main__":
    main()
