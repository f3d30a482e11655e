"""The chart grants exactly the rights that sessions use, by audit log."""

import base64
import itertools
import json
import re
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from k8sbench.model.kube import TOKEN_HEADER
from k8sbench.render.trainer_sources import SELECTOR
from tests import tiers
from tests.chart import examples
from tests.cluster.exposing import expose
from tests.harness import helm as programs
from tests.harness.cluster import audit, operator_process, users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import CASE, ENDLESS, POOLS, REPLICAS, Running, Shell, until
from tests.harness.cluster.volumes import claimed_all
from tests.harness.helm import CHART, RELEASE, Helm, Values, merged, nested
from tests.harness.release import configuration

KUEUE = "kueue.x-k8s.io"
OPERATOR = f"{RELEASE}-operator"
VALUES: Values = {
    "listNodes": True,
    "nodePools": yaml.safe_load(POOLS)["pools"],
    "defaultNodePool": "quick",
    "prometheus": {"url": "http://prometheus.monitoring.svc:9090"},
}
PADDLE = ("deeplabv3p", "--framework=paddle", "--replicas=2", "--gpus=1", "--preset=smoke")

TRAINING = ("--mode=train", "--data=pvc:data", "--checkpoints=pvc:checkpoints", ENDLESS, "--detach")


class Right(NamedTuple):
    """One verb on one resource, as rules name both."""

    group: str
    resource: str
    verb: str


ELSEWHERE: dict[Right, str] = {
    Right("", "services/proxy", "get"): "Prometheus is in a namespace of its own"
}
"""Ungranted right that sessions use → its purpose.

It concerns other namespaces or cannot be granted. Each is only a note; no run fails without it.
"""
OF_USERS = ELSEWHERE | {
    Right("apps", "deployments", "get"): "the training operator is elsewhere, too",
    Right("apps", "deployments", "list"): "wherever that is",
}


class Account:
    """A service account of the chart with its granted and used rights."""

    def __init__(self, namespace: Namespace, name: str, *roles: str) -> None:
        self.namespace, self.name = namespace, name
        self._roles = (name, *roles)
        self._of_cluster = [f"{namespace.name}-{RELEASE}-{each}" for each in ("nodes", "queues")]

    def granted(self) -> set[Right]:
        """Return what the chart's Roles and ClusterRole grant."""
        roles = [self.namespace.get("role", role) for role in self._roles]
        roles += [self.namespace.cluster.get("clusterrole", role) for role in self._of_cluster]
        return {
            Right(*right)
            for role in roles
            for rule in role["rules"]
            for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
        }

    def used(self) -> set[Right]:
        """Return what it was allowed to do by the chart's bindings, and did."""
        bindings = [f'"{role}/{self.namespace.name}"' for role in self._roles]
        bindings += [f'"{role}"' for role in self._of_cluster]
        return {
            right(request)
            for request in self._requests()
            if any(binding in said(request, "reason") for binding in bindings)
        }

    def refused(self) -> set[Right]:
        """Return what it asked for and was not allowed to do."""
        return {
            right(request) for request in self._requests() if said(request, "decision") == "forbid"
        }

    def _requests(self) -> list[dict[str, Any]]:
        name = users.account(self.namespace, self.name)
        cluster = self.namespace.cluster
        assert isinstance(cluster, OwnCluster)
        asked = audit.requests(cluster.layout.audit_log)
        return [each for each in asked if each["user"].get("username") == name]


def said(request: dict[str, Any], what: str) -> str:
    return str(request.get("annotations", {}).get(f"authorization.k8s.io/{what}", ""))


def right(request: dict[str, Any]) -> Right:
    about = request["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    return Right(about.get("apiGroup", ""), resource, request["verb"])


def shell_of(account: Account, folder: Path) -> Shell:
    """Give a command line of an account, which knows nothing but the cluster."""
    folder.mkdir(exist_ok=True)
    kubeconfig = users.sign_in(account.namespace, account.name, folder / "kubeconfig")
    found = Shell(account.namespace, kubeconfig, folder)
    del found.environment["K8SBENCH_POOLS"]
    return found


def crd(group: str, version: str, kind: str) -> dict[str, Any]:
    """A type of another program, of which its existence is all that matters."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": anything}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Of groups like Kueue's the API server wants to know who approved them.
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture
def kueue(own_cluster: OwnCluster) -> Iterator[None]:
    """Let the cluster know Kueue's types; Kueue does not run."""
    kinds = ("LocalQueue", "Workload", "ClusterQueue", "ResourceFlavor")
    types = [crd(KUEUE, "v1beta1", kind) for kind in kinds]
    for of_cluster in types[2:]:
        of_cluster["spec"]["scope"] = "Cluster"
    own_cluster.create(*types)
    served = f"/apis/{KUEUE}/v1beta1"
    own_cluster.until(lambda: own_cluster.ask(served) is not None, lambda: "kube-apiserver")
    yield
    own_cluster.kubectl("delete", "crd", *(f"{kind.lower()}s.{KUEUE}" for kind in kinds))


@pytest.fixture
@tiers.needs("helm")
def install(
    own_cluster: OwnCluster, namespace: Namespace, tmp_path: Path
) -> Callable[[Values], Namespace]:
    """Install the chart with values besides those of all tests here; gives its namespace."""
    helm = Helm(max(programs.MODULES), tmp_path, own_cluster.variables())

    def install(values: Values) -> Namespace:
        where = f"--namespace={namespace.name}"
        helm.run("install", RELEASE, CHART, where, *helm.given(merged(VALUES, values)))
        return namespace

    return install


def superfluous(account: Account) -> set[Right]:
    """Return unused rights, except on job kinds that the cluster lacks."""
    unused: set[Right] = account.granted() - account.used()
    return {right for right in unused if right.group != "trainer.kubeflow.org"}


def test_an_operator_and_its_users_are_granted_what_whole_sessions_use_and_nothing_else(
    own_cluster: OwnCluster,
    install: Callable[[Values], Namespace],
    kueue: None,
    tmp_path: Path,
) -> None:
    # It looks for Prometheus by itself, as it does where nobody has named one.
    namespace = install(merged(examples.OPERATOR, nested("prometheus.url", "")))
    settings = configuration(namespace)
    namespace.kubectl("delete", "deployment,service", OPERATOR)  # it runs beside the cluster
    account = Account(namespace, OPERATOR, f"{OPERATOR}-token")
    kubeconfig = users.sign_in(namespace, OPERATOR, tmp_path / "kubeconfig")
    operator = OperatorShell(namespace, kubeconfig, tmp_path / "c")
    del operator.environment["K8SBENCH_POOLS"]
    operator.environment |= settings
    user = Account(namespace, f"{RELEASE}-user")
    submitter = shell_of(user, tmp_path / "submitter")
    collecting = operator.collecting(f"--name={OPERATOR}")
    with claimed_all(namespace, "data", "checkpoints"), collecting as running:
        running.until("info collecting\n")
        expose(own_cluster, submitter, running)
        prepare(namespace)
        submitter.run("doctor", "--data=pvc:data", "--queue=lab", code=None)
        # One run of each kind from its submit until its job is deleted.
        logs = submitter.logs("whole-1").begin()
        with submitter.submitted("whole") as submit:
            submit.until("step ")
            until(lambda: operator.archived("whole-1"), "lines of whole")
            for command in ("list", "status", "logs"):
                submitter.run(command, *(["whole-1"] if command != "list" else []))
            logs.end()
            submitter.finish("whole-1")
            submit.ends()
        until(lambda: operator.on_cluster() == [], "the deletion of whole")
        # One of each kind whose first attempt fails; somebody deletes the trainers meanwhile.
        fails_once(submitter, "again", CASE)
        fails_once(submitter, "other", PADDLE)
        until(lambda: operator.on_cluster() == [], "the deletion of again")
        until(lambda: operator.on_cluster("paddlejobs") == [], "the deletion of other")
        # One that waits in its queue, and one that no node fits.
        submitter.submit("queued", "--queue=lab", "--detach")
        submitter.submit("nowhere", "--node-pool=nowhere", "--detach")
        running.until("run=queued-1 Queued: ")
        with submitter.started("watch", "queued") as watch:
            watch.until("Queued: ")
            until(lambda: Right(KUEUE, "workloads", "list") in user.used(), "the user's look")
        until(lambda: Right(KUEUE, "workloads", "list") in account.used(), "a look at the queue")
        submitter.run("delete", "queued")
        until(lambda: operator.on_cluster() == [], "the end of both")
        submitter.run("submit", *PADDLE, ENDLESS, "--run-id=unwanted", "--detach")
        with submitter.started("watch", "unwanted") as watch:
            watch.until("Running: ")
            submitter.run("status", "unwanted-1")
        submitter.run("cancel", "unwanted")
        until(lambda: operator.on_cluster("paddlejobs") == [], "the end of unwanted")
        # An object that cannot be planned is over at once, and so is its time.
        spec = {"benchmark": "none-such", "ttlSecondsAfterFinished": 0}
        head = {"apiVersion": "k8sbench.io/v1alpha1", "kind": "Benchmark"}
        namespace.create({**head, "metadata": {"name": "unknown"}, "spec": spec})
        namespace.wait("delete", "benchmark/unknown")
        # Who reads it asks nothing of the cluster.
        secret = namespace.get("secret", f"{OPERATOR}-token")
        token = base64.b64decode(secret["data"]["token"]).decode()
        assert served(running, "/api/v1/runs/whole-1", token)["measurement"]["verdict"] == "valid"
        operator_process.end(running)

    # Of TrainJobs, which this cluster does not serve: whether the attempt before is gone.
    # A PaddleJob is patched as a PyTorchJob is, which took longer here.
    unused = superfluous(account) - {Right("kubeflow.org", "paddlejobs", "patch")}
    assert sorted(unused) == [Right("batch", "jobs", "get")]
    assert sorted(account.refused()) == sorted(ELSEWHERE)
    assert sorted(superfluous(user)) == []
    assert sorted(user.refused()) == sorted(OF_USERS)


def fails_once(shell: Shell, name: str, case: Sequence[str]) -> None:
    """Leave a training, have its pods fail, and those of its next attempt succeed."""
    of_run = f"k8sbench.io/run={name}-1"

    def pods(selector: str) -> int:
        return len(shell.namespace.get("pods", selector=selector))

    shell.run("submit", *case, *TRAINING, f"--run-id={name}")
    until(lambda: pods(of_run) == REPLICAS, f"the pods of {name}")
    shell.namespace.kubectl("delete", "configmaps", f"--selector={SELECTOR}")
    end = (f"{RUN_FOR}=0s", f"{EXIT_CODE}=1")
    shell.namespace.kubectl("annotate", "pods", f"--selector={of_run}", "--overwrite", *end)
    until(lambda: pods(f"{of_run},k8sbench.io/attempt=2") == REPLICAS, "the next attempt")
    shell.namespace.finish(f"{name}-1")


def served(running: Running, path: str, token: str) -> Any:
    found = re.search(r"at port (\d+)", running.err)
    assert found is not None
    url = f"http://127.0.0.1:{found[1]}{path}"
    asked = urllib.request.Request(url, headers={TOKEN_HEADER: token})
    with urllib.request.urlopen(asked, timeout=30) as read:
        return json.load(read)


def old_kueue(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Make an object of a Kueue that serves v1beta1 alone."""
    metadata = {"name": name}
    return {"apiVersion": f"{KUEUE}/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def prepare(namespace: Namespace) -> None:
    """Make what the doctor is asked about."""
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "any"}]}
    namespace.cluster.create(
        old_kueue("ClusterQueue", "lab", resourceGroups=[group]), old_kueue("ResourceFlavor", "any")
    )
    namespace.create(
        old_kueue("LocalQueue", "lab", clusterQueue="lab"),
    )
