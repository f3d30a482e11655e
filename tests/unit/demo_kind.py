"""A made-up third job kind, defined by this entry alone."""

import pytest

from k8sbench.model.job_kind import InjectedVariable, JobKind
from k8sbench.model.kinds import KINDS
from k8sbench.model.phase import Phase

DEMO = JobKind(
    name="DemoJob",
    plural="demojobs",
    group="demo.example.org",
    version="v1alpha1",
    default_for=(),
    replicas_key="demoReplicaSpecs",
    lead="Ruler",
    others="Helper",
    container="demo",
    port_name="demo",
    port=4321,
    processes_field="perReplica",
    launcher=("python3", "{mount}/k8sbench/trainers/{module}.py"),
    variables=(
        InjectedVariable("DEMO_RANK", "{rank}"),
        InjectedVariable("DEMO_WORLD", "{world_size}"),
        InjectedVariable("DEMO_CHIEF", "me", of="first"),
        InjectedVariable("DEMO_CHIEF", "{address}:{port}", of="others"),
    ),
    local=(InjectedVariable("DEMO_HERE", "{pod_ip}"),),
    conditions=(
        ("Broken", Phase.FAILED),
        ("Done", Phase.SUCCEEDED),
        ("Going", Phase.RUNNING),
        ("Held", Phase.QUEUED),
    ),
    verbs=("get", "list"),
)


def add(monkeypatch: pytest.MonkeyPatch) -> JobKind:
    """Add the kind, until the test ends."""
    monkeypatch.setitem(KINDS, DEMO.name, DEMO)
    return DEMO
