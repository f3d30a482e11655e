"""Values of whole installs, which several tests take."""

from __future__ import annotations

from typing import Any

import yaml

from k8sbench import __version__
from tests.harness.helm import CHART

IMAGE = f"registry.example/team/k8sbench-operator:{__version__}"
INSTALLS: dict[str, dict[str, Any]] = {
    file.name.removesuffix("-values.yaml"): yaml.safe_load(file.read_text()) or {}
    for file in sorted((CHART / "ci").glob("*-values.yaml"))
}
"""The values with which ``ct`` checks the chart, by the name of their file."""
OPERATOR, ALL = INSTALLS["operator"], INSTALLS["all"]
PARTS = OPERATOR["operator"]["image"]
POOL: dict[str, Any] = ALL["nodePools"][0]
