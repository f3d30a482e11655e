"""A training whose pod fails continues as attempt 2, despite k8sbench faults.

The fake pods of a run fail on request; the next attempt's run until released. Each attempt's output
comes from files.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster import pod_logs, volumes
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR, log_text
from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

TRAIN = (*CASE, ENDLESS, "--mode=train", "--data=pvc:data", "--checkpoints=pvc:checkpoints")


@pytest.fixture
def shell(own_shell: Shell) -> Iterator[Shell]:
    """Give the user's namespace the claims of a training; fake pods mount nothing."""
    with volumes.claimed_all(own_shell.namespace, "data", "checkpoints"):
        yield own_shell


@pytest.fixture
def proxy(shell: Shell) -> Iterator[FaultProxy]:
    """Put a proxy between the user and the API server."""
    with shell.behind_proxy() as proxy:
        yield proxy


def jobs(shell: Shell) -> str:
    """Return where the path of the jobs ends."""
    return f"/{shell.kind.plural}"


class Training:
    """A run whose output and end the test controls."""

    def __init__(self, shell: Shell, run_id: str) -> None:
        self.shell, self.run_id = shell, run_id
        self._files = {
            replica: shell.folder / f"{run_id}-{replica}.log" for replica in shell.replicas
        }
        self.last = shell.replicas[-1]
        """The replica that fails."""
        self.prints("one")
        pod_logs.serve(shell.namespace, run_id, self._files, shell.proxy)

    def prints(self, *lines: str) -> None:
        """Write the output of the next attempt's pods; earlier files are gone."""
        for file in self._files.values():
            file.write_text(log_text(lines))

    def started(self, *words: str) -> Any:
        return self.shell.started("submit", *TRAIN, f"--run-id={self.run_id}", *words)

    def runs(self, attempt: int) -> None:
        """Wait until an attempt's pods are there, and run."""

        def all_run() -> bool:
            pods = self.shell.namespace.get("pods", selector=f"k8sbench.io/run={self.run_id}")
            mine = [pod for pod in pods if _attempt(pod) == attempt]
            return [pod["status"].get("phase") for pod in mine] == ["Running", "Running"]

        until(all_run, f"the pods of attempt {attempt}")

    def archives(self, text: str) -> None:
        """Wait until what the pods print is in the store."""
        until(lambda: text in self.shell.archived(self.run_id, self.last), "the lines")

    def fails(self, *, alone: bool = False) -> None:
        """Kill the worker for want of memory; end the master unless ``alone``."""
        end = ("--overwrite", f"{RUN_FOR}=0s", f"{EXIT_CODE}=137")
        pods = self.shell.on_cluster("pods")
        (pod,) = (pod for pod in pods if self.shell.kind.replica_of(pod, self.run_id) == self.last)
        self.shell.namespace.kubectl("annotate", "pod", pod, *end)
        if not alone:
            # The master of a TrainJob may be gone by now: its operator deletes it.
            with contextlib.suppress(KubectlFailed):
                self.shell.namespace.finish(self.run_id)

    def status(self) -> Any:
        return self.shell.json("status", self.run_id)

    def check_succeeded(self) -> None:
        """Check that attempt 2 ended the run, without lost or duplicate lines."""
        status = self.status()
        assert (status["phase"], status["restarts"]) == ("Succeeded", 1)
        (restart,) = [one for one in status["history"] if one["cause_id"] == "restarting"]
        assert re.match(
            rf"Attempt 2 of 4: A process of {self.last} ran out of its memory .* killed",
            restart["cause"],
        )
        for replica in self.shell.replicas:
            assert self.shell.archived(self.run_id, replica) == ["one", "two"]
        assert not (self.shell.store / "runs" / self.run_id / "log-gaps.json").exists()


def _attempt(found: Any) -> int:
    labels, annotations = (found["metadata"].get(key, {}) for key in ("labels", "annotations"))
    assert labels.get("k8sbench.io/attempt") == annotations.get("k8sbench.io/attempt")
    return int(labels.get("k8sbench.io/attempt", "1"))


def failed(training: Training) -> None:
    """Fail the first attempt of a run, with everything archived until then."""
    training.runs(1)
    training.archives("one")
    training.fails()


def test_a_run_with_a_killed_worker_succeeds_as_attempt_2(shell: Shell, proxy: FaultProxy) -> None:
    training = Training(shell, "killed")
    held = proxy.hold(jobs(shell), method="POST", skip=1)
    with training.started() as submit:
        failed(training)
        held.wait()
        assert not shell.namespace.get("pods", selector="k8sbench.io/run=killed")
        training.prints("two")
        held.end()
        training.runs(2)
        job = shell.namespace.get("pytorchjob", "killed")
        assert _attempt(job) == 2
        training.archives("two")
        shell.namespace.finish("killed")
        submit.ends(5)  # they print no steps
    training.check_succeeded()
    assert "Attempt 2 of 4: A process of worker-0 ran out of its memory" in submit.err
    until(lambda: "killed" not in shell.on_cluster(), "the end of the job")
    (listed,) = [run for run in shell.json("list") if run["run_id"] == "killed"]
    assert listed["restarts"] == 1
    assert "RESTARTS" in shell.run("list").out
    assert "1 restart" in shell.run("status", "killed").out


def test_a_restart_killed_before_creation_is_resumed(shell: Shell, proxy: FaultProxy) -> None:
    """tests/simulation covers the other moments."""
    training = Training(shell, "left")
    held = proxy.hold(jobs(shell), method="POST", skip=1)
    with training.started() as submit:
        failed(training)
        held.wait()
        training.prints("two")
        submit.kill()
    held.end()
    assert training.status()["cause_id"] in {"restarting", "restart-waits"}
    with shell.started("watch", "left") as watch:
        training.runs(2)
        training.archives("two")
        shell.namespace.finish("left")
        watch.ends(5)
    training.check_succeeded()
