"""Several stores on one job: everyone gets the row, and the last one deletes the job."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from k8sbench.adapters.kubernetes.sharing import FOLLOWED_SECONDS, SUBMITTED_SECONDS, User
from tests.harness.cluster import following
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until

USED_BY = "k8sbench.io/used-by-"
COLLECTED_BY = "k8sbench.io/collected-by-"


def written(namespace: Namespace, run_id: str, prefix: str) -> dict[str, Any]:
    """What stores have written onto a job, by the stores' ids."""
    found = namespace.get("pytorchjob", run_id)["metadata"]["annotations"]
    return {
        name.removeprefix(prefix): json.loads(value)
        for name, value in found.items()
        if name.startswith(prefix)
    }


def age(namespace: Namespace, run_id: str, seconds: float) -> None:
    """Let all marks of a job be as old as that."""
    for store, mark in written(namespace, run_id, USED_BY).items():
        value = json.dumps(mark | {"at": time.time() - seconds})
        namespace.kubectl(
            "annotate", "pytorchjob", run_id, "--overwrite", f"{USED_BY}{store}={value}"
        )


def identity(shell: Shell) -> str:
    return str(shell.json("store", "info")["identity"])


def digest(shell: Shell, run_id: str) -> str:
    """SHA-256 over the logs that a store has."""
    folder = shell.store / "runs" / run_id / "logs"
    logs = [folder / f"{name}.log" for name in ("master-0", "worker-0")]
    return hashlib.sha256(b"".join(log.read_bytes() for log in logs)).hexdigest()


def rate(shell: Shell, run_id: str) -> float:
    measured = shell.json("status", run_id)["measurement"]
    assert measured["verdict"] == "valid"
    return float(measured["throughput"]["time_weighted"])


def test_a_detached_submitter_gets_its_row_after_others_have_collected_the_run(
    own_shell: Shell,
) -> None:
    namespace, ben = own_shell.namespace, own_shell.colleague()
    logs = own_shell.printing("r1")
    with ben.started("collect", "--all", "--follow") as serving:
        serving.until("step ")
        logs.end()
        own_shell.finish("r1")
        serving.until("submitted it and has not collected it yet.")
        assert "r1 stays on the cluster: k8sbench on " in serving.err
        # It leaves the job alone from then on, and another one may come.
        eve = ben.colleague()
        collected = eve.run("collect", "--all")
        assert "submitted it and has not collected it yet." in collected.err
        reported = written(namespace, "r1", COLLECTED_BY)
        assert set(reported) == {identity(ben), identity(eve)}
        assert set(written(namespace, "r1", USED_BY)) == {identity(own_shell)}
        mine = own_shell.run("collect", "--all")
        serving.interrupt().ends(0)
    assert "stays on the cluster" not in mine.err
    assert own_shell.on_cluster() == []
    rates = {receipt["throughput"] for receipt in reported.values()}
    for store in (own_shell, ben, eve):
        assert store.archived("r1") == logs.expected["master-0"]
        rates.add(rate(store, "r1"))
    # What was recorded of it is what everybody has.
    assert len(rates) == 1
    for receipt in reported.values():
        assert (receipt["digest"], receipt["verdict"]) == (digest(own_shell, "r1"), "valid")


def test_a_submitter_that_comes_when_the_pods_are_gone_learns_who_has_the_logs(
    shell: Shell,
) -> None:
    logs = shell.printing("late")
    logs.end()
    shell.finish("late")
    ben = shell.colleague()
    ben.run("collect", "late", "--follow")
    shell.namespace.kubectl("delete", "pods", "--selector=k8sbench.io/run=late")
    shell.run("collect", "late", code=5)
    status = shell.json("status", "late")
    assert (status["phase"], status["measurement"]["verdict"]) == ("Succeeded", "rejected")
    assert f"{rate(ben, 'late'):.1f} samples/s, valid, SHA-256 of its logs " in status["cause"]
    assert digest(ben, "late") in status["cause"]
    assert f"the store {identity(ben)} there has its logs." in status["action"]
    assert "late" not in shell.on_cluster()


def test_the_mark_of_a_follower_that_was_killed_expires_and_the_job_is_deleted(
    shell: Shell,
) -> None:
    namespace, ben = shell.namespace, shell.colleague()
    logs = shell.printing("expired")
    with ben.started("watch", "expired") as watching:
        watching.until("step ")
        until(lambda: len(written(namespace, "expired", USED_BY)) == 2, "both marks")
        watching.kill()
    logs.end()
    shell.finish("expired")
    collected = shell.run("collect", "expired", "--follow")
    assert "follows it, too, and deletes it at its end." in collected.err
    assert shell.run("collect", "--all").err == "Nothing needs collection here.\n"
    age(namespace, "expired", FOLLOWED_SECONDS)
    deleted = shell.run("collect", "--all").err
    assert "expired is deleted from the cluster: no store needs it any more." in deleted
    assert "expired" not in shell.on_cluster()


def test_the_mark_of_a_submitter_that_never_comes_back_expires(shell: Shell) -> None:
    shell.logs("forgotten").end()
    shell.submit("forgotten", "--detach")
    ben = shell.colleague()
    collected = ben.run("collect", "forgotten", "--follow", code=5)
    assert "submitted it and has not collected it yet." in collected.err
    age(shell.namespace, "forgotten", SUBMITTED_SECONDS)
    assert "forgotten is deleted from the cluster" in ben.run("collect", "--all").err
    assert "forgotten" not in shell.on_cluster()
    # Its run is lost here, but not for everybody.
    shell.run("collect", "forgotten", code=3)
    assert "unless another store has collected it" in shell.json("status", "forgotten")["action"]


def test_who_follows_a_job_renews_its_mark(namespace: Namespace, user: Path) -> None:
    store = User(store="0123456789abcdef", host="lab-7")
    plan = following.plan()
    seen: set[float] = set()

    def renewed(_: object) -> bool:
        with contextlib.suppress(KeyError):
            mark = written(namespace, plan.run_id, USED_BY)[store.store]
            seen.update(filter(None, [mark["at"]]))
        return len(seen) >= 3

    with following.opened(user, user=store, renew_s=0.1) as port:
        port.submit(plan, None)
        port.until(renewed)
        assert all(abs(at - time.time()) < following.SECONDS for at in seen)
    # It has submitted the job: closed, it does not follow it any more, and needs it still.
    (mark,) = written(namespace, plan.run_id, USED_BY).values()
    assert (mark["submitted"], mark["detached"]) == (True, True)
