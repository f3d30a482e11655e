"""What a script with kubeflow-training's client does to create a job.

    python -m tests.bench.sides.training_client KUBECONFIG NAMESPACE JOB.json NAME

The job is the one of the file under another name. It goes in as its typed models want it, but for
the pods' templates, which may be plain data, and cost nothing so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes.client import V1ObjectMeta


def main() -> None:
    """Create the job."""
    kubeconfig, namespace, file, name = sys.argv[1:]
    found = json.loads(Path(file).read_text())
    spec = found["spec"]
    job = KubeflowOrgV1PyTorchJob(
        api_version="kubeflow.org/v1",
        kind="PyTorchJob",
        metadata=V1ObjectMeta(
            name=name,
            labels=found["metadata"]["labels"],
            annotations=found["metadata"]["annotations"],
        ),
        spec=KubeflowOrgV1PyTorchJobSpec(
            run_policy=KubeflowOrgV1RunPolicy(
                clean_pod_policy=spec["runPolicy"]["cleanPodPolicy"],
                backoff_limit=spec["runPolicy"].get("backoffLimit"),
            ),
            nproc_per_node=spec["nprocPerNode"],
            pytorch_replica_specs={
                role: KubeflowOrgV1ReplicaSpec(
                    replicas=one["replicas"],
                    restart_policy=one["restartPolicy"],
                    template=one["template"],
                )
                for role, one in spec["pytorchReplicaSpecs"].items()
            },
        ),
    )
    client = TrainingClient(config_file=kubeconfig, job_kind="PyTorchJob")
    client.create_job(job, namespace=namespace)


if __name__ == "__main__":
    main()
