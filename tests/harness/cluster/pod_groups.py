"""The coscheduling plugin's type: the operator makes pod groups only where their type is served."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.tools import CLUSTER, GO_ENVIRONMENT

SCHEDULER = "scheduler-plugins-scheduler"
"""What --gang-scheduler-name takes."""
_MODULE = "sigs.k8s.io/scheduler-plugins"
_FILE = "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"


@contextlib.contextmanager
def operator_with_gangs(cluster: OwnCluster) -> Iterator[str]:
    """Have the operator make pod groups for the plugin; yields the name of their type."""
    # The definition in the module that the operator is built with, of the same version.
    done = subprocess.run(
        ["go", "mod", "download", "-json", _MODULE],
        cwd=CLUSTER.folder,
        env=GO_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    definition = yaml.safe_load((Path(json.loads(done.stdout)["Dir"]) / _FILE).read_text())
    name = definition["metadata"]["name"]
    cluster.create(definition)
    Namespace(cluster, "default").wait("condition=Established", f"crd/{name}")
    cluster.kill("training-operator")
    try:
        cluster.start("training-operator", f"--gang-scheduler-name={SCHEDULER}")
        cluster.wait_for("training-operator")
        yield name
    finally:
        cluster.kill("training-operator")
        # First: an operator that finds the type watches it, whether it makes pod groups or not.
        cluster.kubectl("delete", "crd", name)
        cluster.start("training-operator")
        cluster.wait_for("training-operator")
