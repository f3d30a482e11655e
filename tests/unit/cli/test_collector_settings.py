"""The collector's settings: flags before the environment before the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from k8sbench.app import collector_settings
from k8sbench.app.collector_settings import CollectorSettings
from k8sbench.cli.commands import collector
from k8sbench.model.errors import UsageError

DAY = 86400.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(
        "namespaces: [a, b, a]\nstore: /data\nprometheus: none\nbaseline: release\n"
        "keepLogsFor: 90d\n"
    )
    return path


def test_what_is_given_comes_before_the_file(file: Path) -> None:
    assert collector_settings.load(
        str(file), {"namespaces": [], "store": None}
    ) == CollectorSettings(
        namespaces=("a", "b"),
        store="/data",
        prometheus="none",
        baseline="release",
        keep_logs_for=90 * DAY,
    )
    given: dict[str, Any] = {"namespaces": ["c"], "store": "postgresql://db", "prometheus": "auto"}
    assert collector_settings.load(
        str(file), given | {"keep_logs_for": "1d", "baseline": "b"}
    ) == CollectorSettings(
        namespaces=("c",), store="postgresql://db", baseline="b", keep_logs_for=DAY
    )
    assert collector_settings.load(None, {}) == CollectorSettings()


@pytest.mark.parametrize("text", ["", "# all defaults\n"])
def test_a_file_without_a_key_says_nothing(file: Path, text: str) -> None:
    file.write_text(text)
    assert collector_settings.load(str(file), {}) == CollectorSettings()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("storage: /data\n", "config.yaml:1: "),
        ("prometheus: none\nkeepLogsFor: soon\n", "config.yaml:2: keepLogsFor is not a length"),
        ("namespaces: []\n", "config.yaml:1: namespaces is empty"),
        ("prometheus: nowhere\n", "--prometheus is neither auto nor none nor an address"),
    ],
)
def test_a_wrong_file_is_one_error_with_its_line(file: Path, text: str, wrong: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError) as raised:
        collector_settings.load(str(file), {})
    assert wrong in str(raised.value)


def test_flags_come_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def load(config: str | None, given: dict[str, Any]) -> CollectorSettings:
        seen.update(given, config=config)
        raise UsageError("Enough.")

    monkeypatch.setattr(collector_settings, "load", load)
    environment = {
        "K8SBENCH_NAMESPACES": "a,b",
        "K8SBENCH_STORE": "postgresql://db",
        "K8SBENCH_PROMETHEUS": "none",
        "K8SBENCH_BASELINE": "release",
        "K8SBENCH_KEEP_LOGS_FOR": "90d",
        "K8SBENCH_CONFIG": "/etc/k8sbench/config.yaml",
    }
    runner = CliRunner(env=environment)
    runner.invoke(collector.command, [])
    expected = {
        "namespaces": ["a", "b"],
        "store": "postgresql://db",
        "prometheus": "none",
        "baseline": "release",
        "keep_logs_for": "90d",
        "config": "/etc/k8sbench/config.yaml",
    }
    assert seen == expected
    runner.invoke(collector.command, ["-n", "c", "--namespace=d", "--store=/data"])
    assert seen == expected | {"namespaces": ["c", "d"], "store": "/data"}
