"""A job kind is one entry: an added third one works everywhere."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from k8sbench import trainers
from k8sbench.adapters import templates
from k8sbench.adapters.kubernetes import kinds
from k8sbench.diagnose.job import state
from k8sbench.diagnose.preflight.facts import permissions
from k8sbench.model import identity, job_kind, operators
from k8sbench.model import kinds as model_kinds
from k8sbench.model.errors import UsageError
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import KINDS, default_kind, kind_of
from k8sbench.model.phase import Phase
from k8sbench.render import manifest
from k8sbench.results.report import repeating
from tests import packaged
from tests.unit import demo_kind
from tests.unit.doctor import clusters
from tests.unit.kubernetes import objects
from tests.unit.render import plans


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> JobKind:
    """Add the made-up kind."""
    return demo_kind.add(monkeypatch)


PLAN = plans.plan("2x8", kind="DemoJob", run_id=objects.JOB)


def test_what_its_operator_sets_cannot_be_set_by_a_benchmark(demo: JobKind) -> None:
    with pytest.raises(UsageError, match="sets DEMO_RANK, which the training operator v1 sets"):
        plans.rendered(msgspec.structs.replace(PLAN, env={"DEMO_RANK": "1"}))


def test_its_state_is_read_from_its_own_conditions(demo: JobKind) -> None:
    for condition, phase in (*demo.conditions[:3], ("Failed", Phase.PENDING)):
        assert state.phase_alone(objects.job(objects.condition(condition)), demo) is phase


def test_it_has_its_path_and_its_permissions(demo: JobKind) -> None:
    wanted = "/apis/demo.example.org/v1alpha1/namespaces/n/demojobs/j"
    assert kinds.path("DemoJob", "n", "j") == wanted
    documents = yaml.safe_load_all(manifest.role(templates.load_templates()))
    asked = [each for each in permissions(documents) if each.resource == "demojobs"]
    assert [(each.group, each.verb) for each in asked] == [
        ("demo.example.org", "get"),
        ("demo.example.org", "list"),
    ]
    assert all(each.needed for each in asked)


def test_it_is_followed_and_looked_for(demo: JobKind) -> None:
    kept = kinds.trimmed_job(plans.job(PLAN))
    helper = kept["spec"]["demoReplicaSpecs"]["Helper"]
    assert (helper["replicas"], helper["restartPolicy"]) == (1, "Never")
    (container,) = helper["template"]["spec"]["containers"]
    assert container.keys() == {"name", "image", "resources"}
    found = clusters.findings(asked=("DemoJob", "PyTorchJob"))
    found = tuple(finding for finding in found if finding.id == "job-kinds")
    assert [finding.severity for finding in found] == ["warn", "ok"]
    assert found[0].sentence == "DemoJob is not served by demo.example.org/v1alpha1."


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_the_hosts_in_a_command_make_no_other_case(framework: str) -> None:
    cases = set()
    for name in (None, "TrainJob"):
        command = tuple(default_kind(framework, name).known_hosts(objects.JOB, 2))
        plan = plans.plan("2x8", framework=framework, kind=name, command=command)
        cases.add(identity.case_key(msgspec.structs.replace(plan, run_id=objects.JOB)))
    assert len(cases) == 1
    own, *others = command
    assert re.sub(r"\$\(\w*RANK\)", "1", own) == others[1]


def test_a_plan_of_a_kind_that_is_not_known_is_an_error_with_a_way_out() -> None:
    with pytest.raises(UsageError, match=r"is a DemoJob, and this k8sbench knows PyTorchJob"):
        kind_of(PLAN)


# -- all kinds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if kind.default_for], ids=lambda kind: kind.name
)
def test_every_condition_of_the_operator_has_a_meaning(kind: JobKind) -> None:
    from kubeflow.training.constants import constants

    # The client's list lacks the condition of a suspended job, which the operator sets since v1.7.
    assert {name for name, _ in kind.conditions} == {*constants.JOB_CONDITIONS, "Suspended"}


@pytest.mark.parametrize(("replicas", "longest"), [(2, 48), (11, 47), (101, 46)])
def test_a_name_leaves_room_for_that_of_the_last_pod(replicas: int, longest: int) -> None:
    job = plans.plan(f"{replicas}x8", kind="TrainJob", run_id="a" * longest)
    plans.rendered(job)
    with pytest.raises(UsageError, match="pods' names would be too long"):
        plans.rendered(msgspec.structs.replace(job, run_id="a" * (longest + 1)))


@pytest.mark.parametrize(
    ("ready", "phase"),
    [([], Phase.CREATED), ([0], Phase.PENDING), ([1], Phase.RUNNING), ([1, 0], Phase.PENDING)],
)
def test_a_job_without_conditions_is_as_its_jobs(ready: list[int], phase: Phase) -> None:
    made = {"status": {"jobsStatus": [{"active": 1, "ready": count} for count in ready]}}
    assert state.phase_alone(made, default_kind("pytorch", "TrainJob")) is phase


def test_every_framework_has_one_default_kind() -> None:
    claimed = [framework for kind in KINDS.values() for framework in kind.default_for]
    assert sorted(claimed) == ["paddle", "pytorch"]


def test_the_rules_file_is_what_the_kinds_make_of_its_template() -> None:
    """Write it anew with ``manifest.role(templates.load_templates())``."""
    written = packaged.ROLE.read_text()
    assert written == manifest.role(templates.load_templates())


NAMES = re.compile(
    r"(?i)pytorchjob|paddlejob|trainjob|trainingruntime|jobset|pytorchReplicaSpecs|paddleReplicaSpecs|nprocPerNode"
    r"|jobsStatus|runtimePatches|replicatedJobs|numNodes|resourcesPerNode|completion-index"
    r"|\bMASTER_ADDR\b|PADDLE_NPROC|PADDLE_MASTER|[\"']Master[\"']|[\"'](master|worker)-0[\"']"
)


def names_of_kinds(text: str) -> list[str]:
    """Return the names of kinds in a module, docstrings and comments left out."""
    tree: Any = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [one for one in body if not is_docstring(one)] or [ast.Pass()]
    return [match[0] for match in NAMES.finditer(ast.unparse(tree))]


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_nothing_else_knows_a_kind_by_name() -> None:
    root = packaged.PACKAGE
    # A report repeats a program on one node by its launcher's own variables.
    known = {Path(inspect.getfile(one)) for one in (job_kind, model_kinds, operators, repeating)}
    known |= {Path(trainers.__file__).parent}
    found = {
        str(path.relative_to(root)): names
        for path in sorted(root.rglob("*.py"))
        if not any(path.is_relative_to(folder) for folder in known)
        if (names := names_of_kinds(path.read_text()))
    }
    assert found == {}
    own = {kind.template for kind in KINDS.values() if kind.runtime is not None}
    own |= {kind.runtime.template for kind in KINDS.values() if kind.runtime is not None}
    for name, text in templates.template_texts().items():
        assert name in own or not NAMES.search(text)
