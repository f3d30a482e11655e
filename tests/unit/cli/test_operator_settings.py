"""The operator's settings: flags before the environment."""

from typing import Any

import pytest
from click.testing import CliRunner

from k8sbench.cli.commands import cluster
from k8sbench.model.errors import UsageError
from k8sbench.operator import controller
from k8sbench.operator.controller import OperatorSettings

DAY = 86400.0


def test_what_is_given_is_read() -> None:
    given: dict[str, Any] = {"namespaces": ["c", "d", "c"], "store": "postgresql://db"}
    assert controller.settings(
        given | {"keep_logs_for": "1d", "baseline": "b", "prometheus": "auto"}
    ) == OperatorSettings(
        namespaces=("c", "d"), store="postgresql://db", baseline="b", keep_logs_for=DAY
    )
    assert controller.settings({}) == OperatorSettings(prometheus="usual"), (
        "users have no say in it"
    )


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"keep_logs_for": "soon"}, "--keep-logs-for 'soon' is not a length of time"),
        ({"prometheus": "nowhere"}, "--prometheus is neither auto nor none nor an address"),
    ],
)
def test_a_wrong_value_is_an_error(given: dict[str, Any], wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        controller.settings(given)


def test_flags_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def load(given: dict[str, Any]) -> OperatorSettings:
        seen.update(given)
        raise UsageError("Enough.")

    monkeypatch.setattr(controller, "settings", load)
    expected: dict[str, Any] = {
        "store": "postgresql://db",
        "prometheus": "none",
        "baseline": "release",
        "keep_logs_for": "90d",
        "allow_own_pools": True,
        "observe": True,
        "observe_keep_logs_for": "30d",
        "observe_serve_logs": True,
    }
    environment = {f"K8SBENCH_{name.upper()}": str(text) for name, text in expected.items()}
    runner = CliRunner(
        env=environment | {"K8SBENCH_NAMESPACES": "a,b", "K8SBENCH_RESERVED": "a/c,a/d"}
    )
    runner.invoke(cluster.operator_command, [])
    expected["reserved"] = ["a/c", "a/d"]
    assert seen == expected | {"namespaces": ["a", "b"]}
    runner.invoke(cluster.operator_command, ["-n", "c", "--namespace=d", "--store=/data"])
    assert seen == expected | {"namespaces": ["c", "d"], "store": "/data"}
