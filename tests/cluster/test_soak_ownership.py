"""Two laptops and a collector on one namespace, whose processes are killed again and again.

Each round is one run: a laptop submits it, both laptops and the collector act on it, and their
processes are killed at some moment. Then everything is collected.
"""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_collector_reading import expose
from tests.harness.cluster import collectors
from tests.harness.cluster.collectors import Collector
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

pytestmark = pytest.mark.soak

ROUNDS = 200
AT_ONCE = 3
MOST_SECONDS = 6.0
"""Within which a command that is to be killed is killed."""
SEED = 1


class Laptops:
    """What a round plays with, and what its commands were."""

    def __init__(self, shell: Shell) -> None:
        self.both = (shell, shell.colleague())
        self.commands = Counter[str]()
        self.expected: dict[str, list[str]] = {}
        self.owners: dict[str, set[Shell]] = {}
        """By run: the laptops that have submitted it, or adopted it, as they said."""
        self.said = dict.fromkeys(self.both, "")

    def play(self, number: int) -> None:
        """Submit a run, and let others act on it meanwhile; all of them may be killed."""
        dice, run_id = random.Random(SEED * 1_000_000 + number), f"run-{number}"
        mine, other = dice.sample(self.both, 2)
        logs = mine.logs(run_id).begin().end()
        self.expected[run_id], self.owners[run_id] = logs.expected["master-0"], {mine}
        options = dice.choice(([], ["--detach"], [ENDLESS], [ENDLESS, "--detach"]))
        submit = ("submit", *CASE, f"--run-id={run_id}", *options)
        self._killed(mine, dice, *submit)
        if not self._is_known(run_id):
            mine.run(*submit, *({"--detach"} - {*options}), code=None)
        for _ in range(dice.randrange(4)):
            words = dice.choice((["collect"], ["collect", "--adopt"], ["watch"]))
            shell = dice.choice((mine, other))
            if "adopted" in self._killed(shell, dice, *words, run_id):
                self.owners[run_id].add(shell)
        if ENDLESS in options and run_id in mine.on_cluster():
            mine.finish(run_id)

    def _is_known(self, run_id: str) -> bool:
        """Whether its job was created, as far as a laptop or the cluster knows."""
        phases = [one["phase"] for shell in self.both for one in rows(shell, run_id).values()]
        return run_id in self.both[0].on_cluster() or "Succeeded" in phases

    def _killed(self, shell: Shell, dice: random.Random, *words: str) -> str:
        self.commands[words[0]] += 1
        with shell.started(*words) as running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(dice.random() * MOST_SECONDS)
            running.kill()
        self.said[shell] += running.err
        return running.err

    def have_collected(self) -> bool:
        """Collect everything, and say whether nothing is left to be collected by a laptop."""
        said = {
            shell: shell.run("collect", "--all", "--adopt", code=None).err for shell in self.both
        }
        for shell, text in said.items():
            self.said[shell] += text
        return all("Nothing needs collection" in text for text in said.values())


def rows(shell: Shell, *wanted: str) -> dict[str, Any]:
    """Return what a store has of its runs, or of those that are wanted: their status."""
    ids = [row["run_id"] for row in shell.json("list")]
    ids = [run_id for run_id in ids if run_id in wanted or not wanted]
    return {run_id: shell.json("status", run_id) for run_id in ids}


def check_measured_once(laptops: Laptops, run_id: str, known: dict[Shell, Any]) -> None:
    """Check what the stores have of a run: one measured it, and its owners have that or know it."""
    taken = f"{run_id} was collected by the collector: its logs and figures are here now."
    measured = {shell for shell, one in known.items() if one["measurement"] is not None}
    by_itself = [shell for shell in measured if taken not in laptops.said.get(shell, "")]
    assert len(by_itself) == 1, (run_id, known)
    for shell, one in known.items():
        if shell in measured:
            assert (one["phase"], one["measurement"]["verdict"]) == ("Succeeded", "valid")
            assert shell.archived(run_id) == laptops.expected[run_id]
        else:
            # Who only looked at a job may find no more than that it is gone.
            is_owner = shell in laptops.owners[run_id]
            ends = {"collected-elsewhere"} | (set() if is_owner else {"job-gone"})
            assert one["cause_id"] in ends, (run_id, one)


@pytest.mark.timeout(7200)
def test_each_run_is_measured_once_by_the_owner_of_its_job(
    own_cluster: OwnCluster, own_shell: Shell, tmp_path: Path
) -> None:
    laptops = Laptops(own_shell)
    collector: Collector = collectors.make(own_shell.namespace, tmp_path / "collector")
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(collector.collecting())
        expose(own_cluster, own_shell, running)
        port = re.search(r"at port (\d+)", running.err)
        assert port is not None
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for count, _ in enumerate(pool.map(laptops.play, range(ROUNDS)), 1):
                if count % 20 == 0:
                    running.kill()
                    running = stack.enter_context(collector.collecting(f"--listen=:{port[1]}"))
        until(laptops.have_collected, "the end of all runs")
        collectors.end(running)
    there = {shell: rows(shell) for shell in (*laptops.both, collector)}
    for run_id in laptops.expected:
        known = {shell: some[run_id] for shell, some in there.items() if run_id in some}
        check_measured_once(laptops, run_id, known)
    # Each of them had its share.
    assert all(laptops.commands[name] >= ROUNDS / 8 for name in ("submit", "collect", "watch"))
    assert all(any(one["measurement"] for one in some.values()) for some in there.values())
