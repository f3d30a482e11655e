"""Volume claims that no pod could mount are named before anything is created or recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.cluster.manifests import claim
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell

RUN = ("submit", "resnet50", "--gpus=1", "--preset=smoke", "--image=registry.example.com/torch:1")
TRAINING = ("--mode=train", "--data=pvc:pictures", "--checkpoints=pvc:kept")
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@pytest.fixture
def classes(own_cluster: OwnCluster) -> Iterator[None]:
    """Have a class that binds when the first pod comes."""
    own_cluster.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "when-used"},
            "provisioner": NO_PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    yield
    own_cluster.kubectl("delete", "storageclass", "when-used")


def refused(shell: Shell, *words: str) -> str:
    """See a submit end with exit code 6 and nothing made; gives what it says."""
    said = shell.run(*RUN, *words, code=6).err
    assert shell.on_cluster() == []
    assert shell.json("list") == []
    return said


def test_claims_that_are_missing_are_all_named(own_shell: Shell) -> None:
    said = refused(own_shell, *TRAINING, "--weights=pvc:start/a.npz")
    for name in ("pictures", "kept", "start"):
        assert f"There is no volume claim {name} in {own_shell.namespace.name}." in said
    dry = own_shell.run(*RUN, *TRAINING, "--dry-run=server", code=6).err
    assert "fail data: There is no volume claim kept" in dry


def test_a_claim_of_the_wrong_mode_is_named_with_the_right_one(
    own_shell: Shell, classes: None
) -> None:
    own_shell.namespace.create(
        claim("pictures", "ReadWriteOnce", "when-used"), claim("kept", "ReadOnlyMany", "when-used")
    )
    said = refused(own_shell, *TRAINING)
    assert "The volume claim kept is ReadOnlyMany: checkpoints cannot be written to it." in said
    assert "Name a claim with ReadWriteOnce." in said
    said = refused(own_shell, *TRAINING, "--replicas=2")
    assert "The volume claim pictures is ReadWriteOnce: 2 replicas on nodes of their own" in said
    assert "Name a claim with ReadOnlyMany or ReadWriteMany, or run one replica." in said


def test_a_claim_that_is_not_bound_yet_is_no_reason(own_shell: Shell, classes: None) -> None:
    own_shell.namespace.create(claim("pictures", "ReadWriteOnce", "when-used"))
    own_shell.run(*RUN, "--data=pvc:pictures", "--detach")
    assert len(own_shell.on_cluster()) == 1
