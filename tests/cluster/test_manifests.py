"""Output of ``k8sbench render`` against real API server, webhook and operator."""

from typing import Any

import pytest
import yaml

from k8sbench.catalog import spec_files
from k8sbench.cli.main import main
from k8sbench.render.manifest import to_yaml
from tests.harness.cluster.namespace import Namespace, events_of
from tests.unit.render import plans

STRICT = ("--validate=strict", "--filename=-")
UPSTREAM = (
    *("--impl", "upstream", "--image", "registry.example.com/upstream:1"),
    *("--data", "pvc:cityscapes/train"),
)


class Render:
    """The command, and what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        code = main(["render", "--with-trainers", *words])
        out, problem = self._capsys.readouterr()
        assert code == 0, problem
        return out


@pytest.fixture
def render(capsys: pytest.CaptureFixture[str]) -> Render:
    return Render(capsys)


def accepted_jobs(namespace: Namespace, text: str) -> int:
    """Check objects by a server-side dry run; return the number of jobs."""
    names = namespace.kubectl(
        "create", *STRICT, "--dry-run=server", "--output=name", given=text
    ).splitlines()
    return sum("job.kubeflow.org/" in name for name in names)


def job_of(text: str) -> dict[str, Any]:
    *_, job = yaml.safe_load_all(text)
    assert isinstance(job, dict)
    return job


def gpus_of(pod: dict[str, Any]) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["limits"]["nvidia.com/gpu"])


def test_every_case_passes_validation_and_webhook(namespace: Namespace, render: Render) -> None:
    texts, jobs = [], 0
    for loaded in spec_files.load_all():
        for variant in loaded.spec.variants:
            which = (loaded.spec.name, "--framework", variant.framework, "--variant", variant.name)
            has_image = variant.upstream is not None and variant.upstream.image
            registry = ("--image-registry", "registry.example.com/lab") if has_image else ()
            texts.append(render(*which, *registry, "--all-cases"))
            jobs += len(variant.cases)
            if variant.upstream:
                replicas, gpus = variant.cases[-1].split("x")
                size = (f"--replicas={replicas}", f"--gpus={gpus}")
                texts.append(render(*which, *size, *UPSTREAM))
                jobs += 1
    assert accepted_jobs(namespace, "".join(texts)) == jobs


def test_every_kind_of_plan_passes_strict_validation_and_the_webhook(namespace: Namespace) -> None:
    # A stride that divides no axis of the plans: every two choices still meet.
    some = list(plans.all_plans())[::13]
    text = "".join(to_yaml(plans.rendered(plan)) for plan in some)
    assert accepted_jobs(namespace, text) == len(some)


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_its_pods_run_where_the_restricted_profile_is_enforced(
    restricted: Namespace, render: Render, framework: str
) -> None:
    text = render("deeplabv3p", "--framework", framework, "--replicas=2", "--gpus=8")
    restricted.kubectl("create", *STRICT, given=text)
    pods = restricted.wait_for_pods(2)
    assert [gpus_of(pod) for pod in pods.values()] == [8, 8]
    job = job_of(text)
    restricted.wait("condition=Running", f"{job['kind']}/{job['metadata']['name']}")
    assert not [why for why in events_of(restricted, "FailedCreatePod") if "PodSecurity" in why]
