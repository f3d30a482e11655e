"""Several stores on one namespace: only a job's owner acts."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

OWNER = "k8sbench.io/owner"


def written(shell: Shell, run_id: str) -> dict[str, str]:
    metadata = shell.namespace.get(shell.namespace.job(run_id))["metadata"]
    return dict(metadata["annotations"])


def owner(shell: Shell, run_id: str) -> Any:
    return json.loads(written(shell, run_id)[OWNER])["store"]


def ended(shell: Shell, run_id: str) -> list[str]:
    """Detach from a run, and let it end; returns what its first replica printed."""
    logs = shell.printing(run_id)
    logs.end()
    shell.finish(run_id)
    shell.namespace.wait_for_success(run_id)
    return logs.expected[shell.replicas[0]]


# -- other stores ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cancel", "delete", "watch", "collect"])
def test_another_store_is_refused_with_the_command_that_helps(shell: Shell, command: str) -> None:
    run_id = f"theirs-{command}"
    shell.printing(run_id)
    colleague = shell.colleague()
    refused = colleague.run(command, run_id, code=2)
    assert f"k8sbench collect --take-over {run_id}" in refused.err
    assert run_id in shell.on_cluster()
    assert colleague.json("list") == []
    shell.run("cancel", run_id)


# -- a change of the owner ------------------------------------------------------------------------


def test_a_job_is_collected_where_it_is_taken_over_and_nowhere_else(own_shell: Shell) -> None:
    shell = own_shell
    lines = ended(shell, "left")
    colleague = shell.colleague()
    refused = colleague.run("collect", "left", code=2)
    assert "take it over with: k8sbench collect --take-over left" in refused.err
    assert colleague.run("collect", "--all").err == "Nothing needs collection here.\n"
    unasked = colleague.run("collect", "--take-over", "left", code=2)
    assert "give --yes" in unasked.err
    assert owner(shell, "left") == shell.identity
    taken = colleague.run("collect", "--take-over", "--yes", "left")
    assert " ok (smoke)" in taken.out
    assert "left belongs to this store now." in taken.err
    assert colleague.archived("left") == lines
    assert "left" not in shell.on_cluster()
    # Nobody knows any more who has taken it over: the job is gone.
    assert "run-lost" in shell.run("collect", "left", code=3).out


# -- no owner -------------------------------------------------------------------------------------


def test_a_rendered_job_belongs_to_nobody_until_a_store_collects_it_by_its_name(
    own_shell: Shell,
) -> None:
    shell = own_shell
    logs = shell.logs("loose").begin().end()
    rendered = shell.run("render", *CASE, ENDLESS, "--run-id=loose", "--with-trainers").out
    shell.namespace.create(*yaml.safe_load_all(rendered))
    assert OWNER not in written(shell, "loose")
    # Nor does it take a place of its set.
    with shell.started("submit", *CASE, ENDLESS, "--set=loose", "--parallel=1") as submit:
        until(lambda: len(shell.on_cluster()) == 2, "the job of the submit")
        (job,) = set(shell.on_cluster()) - {"loose"}
        shell.finish(job)
        submit.ends(5)
    shell.finish("loose")
    shell.namespace.wait_for_success("loose")
    shell.run("collect", "--all")
    assert shell.on_cluster() == ["loose"]
    assert " ok (smoke)" in shell.run("collect", "loose").out
    assert shell.archived("loose") == logs.expected[shell.replicas[0]]
    assert shell.on_cluster() == []
    assert shell.json("status", "loose")["plan"]["object_name"] is None
