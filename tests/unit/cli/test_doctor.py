"""``k8sbench doctor`` where no cluster answers, and what needs none."""

import signal
from pathlib import Path

import pytest

from k8sbench.app import doctor
from k8sbench.cli.running import SignalStop
from tests import packaged
from tests.unit.command_line import Cli
from tests.unit.kubernetes import servers

pytestmark = pytest.mark.usefixtures("no_cluster")

POOLS = packaged.POOLS


def test_no_cluster_is_one_line_and_exit_code_6(cli: Cli) -> None:
    document = cli.json("doctor", "-o", "json", code=6)
    (line,) = document.pop("checks")
    assert (line["id"], line["level"]) == ("api-server", "failure")
    assert line["message"].startswith("No cluster is configured")
    assert line["action"]
    assert document == {"schema": 2, "server": None, "namespace": None, "ready": False}


def test_a_cluster_that_does_not_answer_is_the_same(tmp_path: Path, cli: Cli) -> None:
    nobody_there = servers.kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:1")
    words = ("doctor", f"--kubeconfig={nobody_there}")
    assert "has no context nosuch. It has: lab." in cli(*words, "--context=nosuch", code=6).out
    assert "no node pool 'h9'" in cli(*words, "--node-pool=h9", f"--pools={POOLS}", code=2).err
    out, err = cli(*words, "-n", "team-a", code=6)
    head, line = out.splitlines()
    assert head.split() == ["LEVEL", "CHECK", "FINDING"]
    assert line.startswith("fail    api-server   The API server https://127.0.0.1:1")
    assert err == "not ready: 0 ok, 0 warn, 1 fail\n"


def test_the_init_template_needs_no_cluster(cli: Cli) -> None:
    assert "allowPrivilegeEscalation: false" in cli("doctor", "--init-template").out


def test_a_second_ctrl_c_ends_at_once(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    def interrupted(*_: object, **__: object) -> None:
        with SignalStop():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(doctor, "examine", interrupted)
    err = cli("doctor", code=130).err
    assert err.endswith("error: Interrupted.\n  k8sbench list shows what became of the runs.\n")
