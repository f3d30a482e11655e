"""Cancel and delete are recorded before the API server is called.

An outage could make k8sbench forget the request. A kill before a deletion: test_every_write.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.cli.main import main
from tests.harness.cluster import fault_proxy
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.limits import shorten
from tests.harness.cluster.shell import ENDLESS, Shell, until
from tests.harness.cluster.trainer_logs import TrainerLogs


@pytest.fixture
def proxy(shell: Shell, user_config: Path) -> Iterator[FaultProxy]:
    """Put a proxy before the API server, for all commands of the shell."""
    with fault_proxy.before(user_config) as (found, path):
        shell.environment["KUBECONFIG"] = str(path)
        yield found


@pytest.fixture
def user_config(shell: Shell) -> Path:
    return Path(shell.environment["KUBECONFIG"])


def detached(shell: Shell, run_id: str, *words: str) -> TrainerLogs:
    """Submit a run whose pods have printed something and run on."""
    logs = shell.logs(run_id).begin()
    shell.submit(run_id, ENDLESS, "--detach", *words)
    until(lambda: shell.json("status", run_id)["on_cluster"]["phase"] == "Running", "running")
    return logs


def record_of(shell: Shell, run_id: str) -> tuple[str, str, str | None]:
    status = shell.json("status", run_id)
    return status["phase"], status["cause"], status["cause_id"]


CANCELLED = ("Cancelled", "Cancelled by k8sbench cancel.", "cancelled")


def test_a_cancel_during_an_outage_is_carried_out_by_collect(
    shell: Shell,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = detached(shell, "outage")
    for name in ("KUBECONFIG", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, shell.environment[name])
    with monkeypatch.context() as short, proxy.drop():
        shorten(short, request_retry=1.0)
        assert main(["cancel", "outage"]) == 6
    said = capsys.readouterr().err
    assert "That outage is to be cancelled is recorded" in said
    assert "k8sbench collect outage" in said
    assert "outage" in shell.on_cluster()
    assert [wish["kind"] for wish in shell.json("status", "outage")["wishes"]] == ["cancel"]
    assert "1 run is still to be cancelled" in shell.run("list").err
    assert main(["collect", "outage"]) == 3
    assert record_of(shell, "outage") == CANCELLED
    assert shell.archived("outage") == logs.expected["master-0"]
    assert "outage" not in shell.on_cluster()
