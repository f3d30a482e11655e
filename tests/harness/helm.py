"""Helm 3 and Helm 4, as users run them, with own folders."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from tests.harness.cluster import tools
from tests.tiers import ROOT

CHART = ROOT / "charts"
RELEASE, NAMESPACE = "dlperf", "team-a"
MODULES = {3: tools.CLUSTER, 4: tools.HELM_4}
"""Major version → the module that its program comes from."""

Values = Mapping[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


class HelmFailed(Exception):
    """helm ended with an error, which is the message."""


class Told(NamedTuple):
    """Output of a command."""

    out: str
    err: str


def missing() -> str | None:
    """Say why one of the two cannot be had; None if both can."""
    return next(filter(None, map(tools.missing, MODULES.values())), None)


class Helm:
    """One major version of Helm, with a cache and settings of its own."""

    def __init__(self, major: int, folder: Path, environment: Mapping[str, str] = NOTHING) -> None:
        self.major = major
        self._program = tools.built(MODULES[major]).program("helm")
        self._values = folder / "values.yaml"
        homes = {f"HELM_{each}_HOME": str(folder) for each in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, **homes, **environment}

    def run(self, *words: str | Path) -> Told:
        """Run a command to its end; raises HelmFailed."""
        done = subprocess.run(
            [self._program, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise HelmFailed(f"{done.stdout}\n{done.stderr}".strip())
        return Told(done.stdout, done.stderr)

    def lint(self, values: Values = NOTHING) -> Told:
        """Check the chart with values, as strictly as Helm can."""
        kubernetes = f"--kube-version={tools.kubernetes()}"
        return self.run("lint", "--strict", kubernetes, CHART, *self.given(values))

    def template(
        self, values: Values = NOTHING, *, release: str = RELEASE, namespace: str = NAMESPACE
    ) -> list[dict[str, Any]]:
        """Render the chart without a cluster; returns the objects in Helm's order."""
        where = (f"--namespace={namespace}", f"--kube-version={tools.kubernetes()}")
        told = self.run("template", release, CHART, *where, *self.given(values))
        return [each for each in yaml.safe_load_all(told.out) if each is not None]

    def given(self, values: Values) -> Sequence[str]:
        """Write values into a file, and return the words that name it."""
        self._values.write_text(yaml.safe_dump(dict(values)))
        return (f"--values={self._values}",)


def find(objects: Sequence[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """Return the one object of a kind, or of a kind and a name."""
    (found,) = named(objects, kind, name)
    return found


def named(
    objects: Sequence[dict[str, Any]], kind: str, name: str | None = None
) -> list[dict[str, Any]]:
    """Return the objects of a kind, or of a kind and a name."""
    kinds = (each for each in objects if each["kind"] == kind)
    return [each for each in kinds if name in {None, each["metadata"]["name"]}]


def nested(path: str, value: Any) -> dict[str, Any]:
    """Return values with one alone: ``a.b`` → ``{"a": {"b": value}}``."""
    for key in reversed(path.split(".")):
        value = {key: value}
    found: dict[str, Any] = value
    return found


def merged(*several: Values) -> dict[str, Any]:
    """Return values that say all of several; the later ones win."""
    found: dict[str, Any] = {}
    for values in several:
        for key, value in values.items():
            both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
            found[key] = merged(found[key], value) if both else value
    return found
