"""Values of whole installs, which several tests take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from k8sbench import __version__

IMAGE = f"registry.example/team/k8sbench-collector:{__version__}"
PARTS = {"registry": "registry.example/team", "repository": "k8sbench-collector"}
COLLECTOR: dict[str, Any] = {"collector": {"image": PARTS}}
"""The least with which the collector is installed."""
ALL: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("everything.yaml").read_text())
"""Everything that can be turned on."""
POOL: dict[str, Any] = ALL["nodePools"][0]
