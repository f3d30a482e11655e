"""One operator in its own namespace; teams may only read it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.chart import examples
from tests.cluster.exposing import expose
from tests.harness import helm as programs
from tests.harness.cluster import operator_process, users
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import POOLS, Shell, until
from tests.harness.helm import CHART, RELEASE, Helm, merged
from tests.harness.release import configuration

OPERATOR = f"{RELEASE}-operator"
READ = {
    ("get", f"services/{OPERATOR}:http", "--subresource=proxy"),
    ("get", f"secrets/{OPERATOR}-token"),
}
"""Permissions of users in the operator's namespace."""
NOT = {
    ("get", "secrets"),
    ("get", "secrets/store"),
    ("list", "pods"),
    ("create", "configmaps"),
    ("create", "pytorchjobs.kubeflow.org"),
    ("create", "benchmarks.k8sbench.io"),
}


def may(where: Namespace, who: Namespace, *asked: str) -> bool:
    """Return True if one namespace's user may act in another."""
    try:
        where.kubectl("auth", "can-i", *asked, f"--as=system:serviceaccount:{who.name}:member")
    except KubectlFailed:
        return False
    return True


def is_empty(shell: Shell) -> bool:
    return shell.on_cluster() == []


class Teams(NamedTuple):
    """Two namespaces that one operator in a third serves."""

    home: Namespace
    teams: list[Namespace]
    operator: OperatorShell
    shells: list[Shell]


@pytest.fixture
def served(
    own_cluster: OwnCluster, new_namespace: Callable[..., Namespace], tmp_path: Path
) -> Teams:
    """Install an operator for two teams, whose process the test starts."""
    home, *teams = (new_namespace() for _ in range(3))
    for team in teams:
        team.kubectl("create", "serviceaccount", "member")
    members = [
        {"kind": "ServiceAccount", "name": "member", "namespace": name, "namespaces": [name]}
        for name in (team.name for team in teams)
    ]
    values = merged(
        examples.OPERATOR,
        {
            "namespaces": [team.name for team in teams],
            "users": {"subjects": members},
            "nodePools": yaml.safe_load(POOLS)["pools"],
        },
    )
    helm = Helm(max(programs.MODULES), tmp_path, own_cluster.variables())
    helm.run("install", RELEASE, CHART, f"--namespace={home.name}", *helm.given(values))
    # It runs beside the cluster, with the rights and the settings of the pod.
    settings = configuration(home)
    home.kubectl("delete", "deployment,service", OPERATOR)
    signed = users.sign_in(home, OPERATOR, tmp_path / "kubeconfig")
    operator = OperatorShell(home, signed, tmp_path / "operator")
    operator.environment |= settings
    shells = [
        Shell(
            team,
            users.sign_in(team, "member", tmp_path / f"{team.name}.config"),
            tmp_path / team.name,
        )
        for team in teams
    ]
    return Teams(home, teams, operator, shells)


@pytest.mark.tier("helm")
def test_two_teams_read_an_operator_in_whose_namespace_they_have_no_other_rights(
    own_cluster: OwnCluster, served: Teams
) -> None:
    home, teams, operator, shells = served
    with operator.collecting() as running:
        expose(own_cluster, shells[0], running, home)
        logs = [operator_process.given(shell, f"r{number}") for number, shell in enumerate(shells)]
        for number, shell in enumerate(shells):
            logs[number].end()
            shell.finish(f"r{number}-1")
            until(partial(is_empty, shell), "the deletion of the job")
        for number, shell in enumerate(shells):
            listed = {run["run_id"]: run for run in shell.json("list")}
            assert listed.keys() == {"r0-1", "r1-1"}
            ours = listed[f"r{number}-1"]
            assert (ours["source"], ours["verdict"]) == ("operator", "valid")
            here = shell.json("list", f"--namespace={shell.namespace.name}")
            assert [run["run_id"] for run in here] == [f"r{number}-1"]
            for replica, lines in logs[number].expected.items():
                printed = shell.run("logs", f"r{number}-1", f"--replica={replica}").out
                assert printed.splitlines() == lines
        operator_process.end(running)
    for team, other in (teams, teams[::-1]):
        assert {asked for asked in READ | NOT if may(home, team, *asked)} == READ
        assert not any(may(other, team, *asked) for asked in READ | NOT)
        assert may(team, team, "create", "benchmarks.k8sbench.io")
        assert not may(team, team, "create", "pytorchjobs.kubeflow.org")


@pytest.mark.tier("helm")
def test_a_namespace_that_is_lost_is_named_and_the_other_team_is_served(
    served: Teams,
) -> None:
    _, (lost, kept), operator, (_, shell) = served
    numbers = itertools.count(1)

    def is_served() -> None:
        name = f"r{next(numbers)}"
        logs = operator_process.given(shell, name)
        logs.end()
        shell.finish(f"{name}-1")
        until(partial(is_empty, shell), "the deletion of the job")
        assert operator.json("status", f"{name}-1")["measurement"]["verdict"] == "valid"

    unready = f"collecting; not ready: namespace {lost.name}: "
    place = "k8sbench.io/operator"
    with operator.collecting() as running:
        running.until("info collecting\n")
        (lease,) = lost.get("leases")
        mine = lease["metadata"]["annotations"][place]
        lost.kubectl("annotate", "--overwrite", "lease/k8sbench-operator", f"{place}=else/where")
        running.until(f"{unready}operator else/where serves namespace {lost.name}")
        is_served()
        lost.kubectl("annotate", "--overwrite", "lease/k8sbench-operator", f"{place}={mine}")
        until(lambda: running.err.count("info collecting\n") == 2, "both are served")
        lost.kubectl("delete", "rolebindings", "--all")
        running.until(f"{unready}User ")
        is_served()
        operator_process.end(running)
    for number in range(2):
        with operator.collecting() as running:
            running.until(unready)
            is_served()
            operator_process.end(running)
        if number == 0:
            lost.cluster.kubectl("delete", "namespace", lost.name)
    assert kept.get("leases")
