"""``k8sbench data`` on claims: the Job that it prints is accepted, and its pod is let in."""

from __future__ import annotations

from pathlib import Path

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.cluster.volumes import claimed


def test_kubectl_creates_the_job_that_is_printed_where_the_restricted_standard_is_enforced(
    restricted: Namespace, tmp_path: Path
) -> None:
    shell = Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")
    words = ("--data=pvc:data/city", "--url=http://127.0.0.1:1/a", "--secret=account")
    with claimed(restricted, "data", "/nowhere"):
        printed = shell.run("data", "prepare", "cityscapes", *words).out
        restricted.kubectl("create", "--filename=-", given=printed)
        until(lambda: shell.on_cluster("pods"), "the pod of the Job")
