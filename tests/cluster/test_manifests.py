"""What ``k8sbench render`` prints, as the real API server, webhook and operator see it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from k8sbench.adapters.files import catalog
from k8sbench.cli.main import main
from k8sbench.model import sources
from k8sbench.render import to_yaml
from tests.harness.cluster.namespace import Namespace, events_of
from tests.unit.render import plans

STRICT = ("--validate=strict", "--filename=-")
VARIANTS = [
    pytest.param(
        loaded.spec.name, variant, id=f"{loaded.spec.name}-{variant.framework}-{variant.name}"
    )
    for loaded in catalog.load_all()
    for variant in loaded.spec.variants
]
PROGRAMS = [
    (loaded.spec.name, framework)
    for loaded in catalog.load_all()
    for framework in loaded.spec.frameworks
]
TRAINING = ("--mode=train", "--data=pvc:sets/real", "--checkpoints=pvc:kept")
OPTIONS: tuple[tuple[str, ...], ...] = (
    ("--queue", "team-queue"),
    ("--image", "registry.example.com/team/trainer:1.2"),
)
UPSTREAM = (
    *("--impl", "upstream", "--image", "registry.example.com/upstream:1"),
    *("--data", "pvc:cityscapes/train"),
)


def shape(case: str) -> tuple[str, ...]:
    """Options of a case such as ``4x8``."""
    replicas, gpus = case.split("x")
    return f"--replicas={replicas}", f"--gpus={gpus}"


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
    """Have the API server and the webhook check objects without keeping them; count the jobs."""
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


@pytest.mark.parametrize(("benchmark", "variant"), VARIANTS)
def test_every_case_and_every_option_passes_strict_validation_and_the_webhook(
    restricted: Namespace, render: Render, benchmark: str, variant: Any
) -> None:
    which = (benchmark, "--framework", variant.framework, "--variant", variant.name)
    weights = f"--weights=pvc:sets/start{sources.WEIGHTS[variant.framework]}"
    trained = [("--amp",), (*TRAINING, weights)] if variant.train else []
    options = (*OPTIONS, *trained, *([UPSTREAM] if variant.upstream else []))
    texts = [render(*which, "--all-cases")]
    texts += [render(*which, *shape(str(variant.cases[-1])), *more) for more in options]
    assert accepted_jobs(restricted, "".join(texts)) == len(variant.cases) + len(options)


def test_every_kind_of_plan_passes_strict_validation_and_the_webhook(namespace: Namespace) -> None:
    # A stride that divides no axis of the plans: every two choices still meet.
    some = list(plans.all_plans())[::13]
    text = "".join(to_yaml(plans.rendered(plan)) for plan in some)
    assert accepted_jobs(namespace, text) == len(some)


@pytest.mark.parametrize("case", ["1x2", "4x8"])
@pytest.mark.parametrize(("benchmark", "framework"), PROGRAMS)
def test_its_pods_run_where_the_restricted_profile_is_enforced(
    restricted: Namespace, render: Render, benchmark: str, framework: str, case: str
) -> None:
    text = render(benchmark, "--framework", framework, *shape(case))
    restricted.kubectl("create", *STRICT, given=text)
    replicas, gpus = (int(part) for part in case.split("x"))
    pods = restricted.wait_for_pods(replicas)
    assert [gpus_of(pod) for pod in pods.values()] == [gpus] * replicas
    job = job_of(text)
    restricted.wait("condition=Running", f"{job['kind']}/{job['metadata']['name']}")
    assert not [why for why in events_of(restricted, "FailedCreatePod") if "PodSecurity" in why]


def test_a_training_that_writes_to_a_claim_keeps_to_the_restricted_profile(
    restricted: Namespace, render: Render
) -> None:
    restricted.kubectl("create", *STRICT, given=render("tsm", *shape("2x8"), *TRAINING))
    # It waits for its claims; admission has let it in.
    pod = restricted.until(lambda pod: True, "pods")
    assert pod["spec"]["securityContext"]["fsGroup"] == 1000
