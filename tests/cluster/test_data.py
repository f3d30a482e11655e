"""``k8sbench data`` on claims: its Job is accepted, found again, and ends as it should."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import data_jobs
from k8sbench.adapters.kubernetes.client.connection import connect
from tests.harness.cluster import fault_proxy
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.cluster.volumes import claimed

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    },
}
PREPARE = ("data", "prepare", "cityscapes", "--data=pvc:data/city", "--url=http://127.0.0.1:1/a")


@pytest.fixture
def shell(restricted: Namespace, tmp_path: Path) -> Iterator[Shell]:
    """Give a user with the rights of role.yaml, where the restricted standard is enforced."""
    with claimed(restricted, "data", "/nowhere"):
        yield Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")


def jobs(shell: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        shell.namespace.kubectl("get", "jobs.batch", "--output=json")
    )["items"]
    return found


def owner_of_sources(shell: Shell, job: dict[str, Any]) -> Any:
    found = shell.namespace.get("configmap", job["metadata"]["name"])["metadata"]
    (owner,) = found["ownerReferences"]
    return owner["uid"]


def test_a_job_that_is_left_goes_on_and_the_same_command_follows_it_again(shell: Shell) -> None:
    with shell.started(*PREPARE) as first:
        first.until("Created Job data-prepare-cityscapes-")
        until(lambda: shell.on_cluster("pods"), "its pod: the restricted standard lets it in")
        first.interrupt().ends(130)
    assert "goes on" in first.err
    assert "give the same command" in first.err
    (job,) = jobs(shell)
    assert owner_of_sources(shell, job) == job["metadata"]["uid"]
    with shell.started(*PREPARE) as again:
        again.until("is at work already; following it")
        again.interrupt().ends(130)
    done = shell.run(*PREPARE, "--url=http://127.0.0.1:1/b", code=2)
    assert "at work on this folder with other options" in done.err
    assert [one["metadata"]["uid"] for one in jobs(shell)] == [job["metadata"]["uid"]]


def test_two_that_begin_at_once_follow_one_job_whose_program_stays(shell: Shell) -> None:
    with fault_proxy.before(Path(shell.environment["KUBECONFIG"])) as (proxy, path):
        second = shell.colleague()
        shell.environment["KUBECONFIG"] = str(path)
        creation = proxy.hold("/jobs", method="POST")
        with shell.started(*PREPARE) as late:
            creation.wait()
            with second.started(*PREPARE) as first:
                first.until("Created Job")
                creation.end()
                late.until("is at work already; following it")
                first.interrupt().ends(130)
            late.interrupt().ends(130)
    (job,) = jobs(shell)
    assert owner_of_sources(shell, job) == job["metadata"]["uid"]


def test_a_job_that_cannot_start_says_why_and_ends_at_its_time_limit(shell: Shell) -> None:
    # The fake nodes have a taint, which a pool would have to tolerate.
    with shell.started(*PREPARE, "--timeout=10s") as running:
        running.until("the taint nvidia.com/gpu: present")
        running.ends(4)
    assert "took longer than it may" in running.err
    until(lambda: not jobs(shell), "the deletion of a Job whose end was seen")


def test_a_job_that_another_k8sbench_deleted_is_told(shell: Shell) -> None:
    with shell.started(*PREPARE) as running:
        running.until("Created Job")
        (job,) = jobs(shell)
        shell.namespace.kubectl("delete", "job.batch", job["metadata"]["name"])
        running.ends(3)
    assert "was deleted before its end was seen" in running.err


def test_objects_of_others_under_its_name_stay_and_are_named(shell: Shell) -> None:
    """The name is made of the folder's, so that somebody else may have it by chance."""
    with shell.started(*PREPARE) as first:
        first.until("Created Job")
        (job,) = jobs(shell)
        first.interrupt().ends(130)
    name = job["metadata"]["name"]
    shell.namespace.kubectl("delete", "job.batch", name, "--cascade=foreground")
    shell.namespace.wait("delete", f"configmap/{name}")
    shell.namespace.kubectl("create", "configmap", name)
    done = shell.run(*PREPARE, code=2)
    assert f"There is a ConfigMap {name} in" in done.err
    assert "that is not k8sbench's" in done.err
    assert shell.namespace.get("configmap", name)["metadata"].get("labels") is None
    until(lambda: not jobs(shell), "the Job that it had created is gone")
    shell.namespace.kubectl("create", "job", name, "--image=busybox")
    admin = str(shell.namespace.cluster.kubeconfig)
    with contextlib.closing(connect(kubeconfig=admin, namespace=shell.namespace.name)) as api:
        data_jobs.remove(api, name)
    assert [one["metadata"]["name"] for one in jobs(shell)] == [name]
    assert "deletionTimestamp" not in jobs(shell)[0]["metadata"]


def test_a_claim_that_is_not_there_or_cannot_be_written_is_told_before_anything_is_made(
    shell: Shell,
) -> None:
    done = shell.run("data", "check", "imagenet", "--data=pvc:nowhere", code=2)
    assert f"There is no volume claim nowhere in {shell.namespace.name}" in done.err
    read_only = {**CLAIM, "metadata": {"name": "read-only"}}
    read_only["spec"] = {**CLAIM["spec"], "accessModes": ["ReadOnlyMany"]}  # type: ignore[dict-item]
    shell.namespace.create(read_only)
    done = shell.run("data", "prepare", "imagenet", "--data=pvc:read-only", code=2)
    assert "nothing can be written to it" in done.err
    assert not jobs(shell)
    assert not shell.on_cluster("configmaps")


def test_a_quota_that_has_no_room_is_told(shell: Shell) -> None:
    hard = {"hard": {"requests.cpu": "100m", "requests.memory": "1Gi"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    shell.namespace.create({**quota, "spec": hard})
    with shell.started(*PREPARE) as running:
        running.until("is not created: quota small allows requests.cpu 100m")
        running.ends(3)
    until(lambda: not jobs(shell), "the deletion of a Job that cannot start")


def test_without_the_permission_it_is_named(namespace: Namespace, tmp_path: Path) -> None:
    namespace.create(CLAIM)
    shell = Shell(namespace, namespace.user(tmp_path), tmp_path / "shell")
    (role,) = namespace.get("roles")
    rules = [rule for rule in role["rules"] if "batch" not in rule["apiGroups"]]
    patch = json.dumps({"rules": rules})
    namespace.kubectl("patch", "role", role["metadata"]["name"], "--type=merge", f"--patch={patch}")
    done = shell.run(*PREPARE, code=6)
    assert "may not get jobs.batch in namespace" in done.err
    assert not shell.on_cluster("configmaps")
