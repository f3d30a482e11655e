"""Training operators as data, for checks and messages.

Each creates the objects of a job, and is the upstream program in the tested version. Labels, names
and namespaces are those of upstream's manifests.
"""

from __future__ import annotations

import msgspec


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """A controller that creates the objects of a job."""

    name: str
    """For people, as it stands within a sentence."""
    group: str
    """API group of its custom resources."""
    version: tuple[int, int]
    """The one that is tested."""
    install: str
    """Text after ``Install`` in an action, without a full stop."""
    selector: str
    """Label selector of its Deployment."""
    place: tuple[str, str]
    """Namespace and name of the Deployment."""
    container: str
    """Name of the container that runs it."""
    webhook: str
    """Part of the names of the operator's webhooks or their service."""
    needs: tuple[Operator, ...] = ()
    """Operators without which it creates no pods."""

    @property
    def title(self) -> str:
        """The name as the first word of a sentence."""
        return self.name[0].upper() + self.name[1:]

    @property
    def tested_version(self) -> str:
        """The version that is tested, for people."""
        return ".".join(map(str, self.version))


_V2 = (
    "kubectl apply --server-side -k"
    " 'github.com/kubeflow/trainer.git/manifests/overlays/manager?ref=v2.3.0'"
)
TRAINING_OPERATOR = Operator(
    name="the training operator v1",
    group="kubeflow.org",
    version=(1, 9),
    install="the training operator v1.9: kubectl apply --server-side -k"
    " 'github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3'",
    selector="control-plane=kubeflow-training-operator",
    place=("kubeflow", "training-operator"),
    container="training-operator",
    webhook="training-operator",
)
JOBSET = Operator(
    name="JobSet",
    group="jobset.x-k8s.io",
    version=(0, 12),
    install=f"JobSet 0.12, which comes with Kubeflow Trainer v2.3: {_V2}",
    selector="app.kubernetes.io/part-of=jobset",
    place=("kubeflow-system", "jobset-controller-manager"),
    container="manager",
    webhook="jobset-webhook-service",
)
TRAINER = Operator(
    name="Kubeflow Trainer v2",
    group="trainer.kubeflow.org",
    version=(2, 3),
    install=f"Kubeflow Trainer v2.3, and JobSet with it: {_V2}",
    selector="app.kubernetes.io/name=trainer,app.kubernetes.io/component=manager",
    place=("kubeflow-system", "kubeflow-trainer-controller-manager"),
    container="manager",
    webhook=".trainer.kubeflow.org",
    needs=(JOBSET,),
)
OPERATORS = {"v1": TRAINING_OPERATOR, "trainjob": TRAINER}
"""Operators by ``--job-kind``; by default the first one that is served."""
