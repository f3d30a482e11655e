"""Facts that all of Paddle's programs print around their own lines: launcher and runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k8sbench.model.sample import Fact
from k8sbench.parse.family import rule

LAUNCH = (
    rule(
        "Runtime API Version",
        r"Driver API Version: (?P<driver_api>[\d.]+), Runtime API Version: (?P<cuda>[\d.]+)",
    ),
    rule("cuDNN Version", r"cuDNN Version: (?P<cudnn>[\d.]+\d)"),
    rule("PADDLE_TRAINERS_NUM", r"\bPADDLE_TRAINERS_NUM\W+(?P<gpus>\d{1,12})\b"),
    # The older launcher's "gpus:" and "ips:" are arguments that the environment may overrule: a
    # job of four nodes prints one address.
    rule("devices: ", r"LAUNCH INFO \S+ \S+ devices: (?P<_node_gpus>\d+(?:,\d+)*)\s*$"),
    rule("nnodes: ", r"LAUNCH INFO \S+ \S+ nnodes: (?P<_nodes>\d{1,12})\s*$"),
)


def gpus_of_job(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """GPUs of the job, where they follow from GPUs per node and nodes."""
    if "gpus" not in stated and "_node_gpus" in stated and "_nodes" in stated:
        devices = stated["_node_gpus"]
        gpus = (devices.value.count(",") + 1) * int(stated["_nodes"].value)
        yield devices.like("gpus", str(gpus))
