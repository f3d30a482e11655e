"""``k8sbench data`` on claims: its Job is accepted, joined again, and ends as it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.manifests import limit
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.cluster.volumes import claimed

PREPARE = ("data", "prepare", "cityscapes", "--data=pvc:data/city", "--url=http://127.0.0.1:1/a")


@pytest.fixture
def shell(restricted: Namespace, tmp_path: Path) -> Iterator[Shell]:
    """Give a user with the rights of role.yaml, where the restricted standard is enforced."""
    with claimed(restricted, "data", "/nowhere"):
        yield Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")


def jobs(shell: Shell) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(
        shell.namespace.kubectl("get", "jobs.batch", "--output=json")
    )["items"]
    return listed


def job_that_was_left(shell: Shell) -> dict[str, Any]:
    """Create a Job and press Ctrl-C."""
    with shell.started(*PREPARE) as running:
        running.until("Created Job data-prepare-cityscapes-")
        running.interrupt().ends(130)
    assert "goes on.\n  To follow it again, give the same command." in running.err
    (job,) = jobs(shell)
    return job


def test_a_job_that_is_left_goes_on_and_the_same_command_follows_it_again(shell: Shell) -> None:
    job = job_that_was_left(shell)
    until(lambda: shell.on_cluster("pods"), "its pod: the restricted standard lets it in")
    with shell.started(*PREPARE) as again:
        again.until("is there already; following it")
        again.interrupt().ends(130)
    assert [standing["metadata"]["uid"] for standing in jobs(shell)] == [job["metadata"]["uid"]]


def test_a_job_that_cannot_start_says_why_and_ends_at_its_time_limit(shell: Shell) -> None:
    # The fake nodes have a taint, which a pool would have to tolerate.
    with shell.started(*PREPARE, "--timeout=10s") as running:
        running.until("the taint nvidia.com/gpu: present")
        running.ends(4)
    assert "took longer than it may" in running.err
    assert running.err.count("the taint nvidia.com/gpu") == 1
    until(lambda: not jobs(shell), "the deletion of a Job whose end was seen")


def test_a_job_that_can_never_start_fails_with_the_reason_and_is_deleted(shell: Shell) -> None:
    limit(shell.namespace, {"requests.cpu": "100m", "requests.memory": "1Gi"})
    done = shell.run(*PREPARE, code=3)
    assert "is not created: quota few allows requests.cpu 100m" in done.err
    until(lambda: not jobs(shell), "the deletion of a Job that cannot start")


def test_a_job_that_is_deleted_while_it_is_followed_is_told(shell: Shell) -> None:
    with shell.started(*PREPARE) as running:
        running.until("Created Job")
        shell.namespace.kubectl("delete", "jobs.batch", "--all")
        running.ends(3)
    assert "was deleted before its end was seen" in running.err


def test_a_job_of_somebody_else_under_the_name_stays_and_is_named(shell: Shell) -> None:
    name = job_that_was_left(shell)["metadata"]["name"]
    shell.namespace.kubectl("delete", "job.batch", name)
    shell.namespace.kubectl("create", "job", name, "--image=busybox")
    done = shell.run(*PREPARE, code=2)
    assert f"{name} in namespace {shell.namespace.name} already" in done.err
    assert "not k8sbench's" in done.err
    (standing,) = jobs(shell)
    assert "deletionTimestamp" not in standing["metadata"]
