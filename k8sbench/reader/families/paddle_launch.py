"""Lines of Paddle's launcher and runtime: versions, and the GPUs of the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k8sbench.model.sample import Fact
from k8sbench.reader.family import rule

_TRAINERS = "PADDLE_TRAINERS_NUM"
_BELIEF = ("_gpus_program", "_gpus_nccl", "_gpus_launcher")
"""Statements of the job's processes, the most reliable first."""

LAUNCH = (
    rule(
        "Runtime API Version",
        r"Driver API Version: (?P<driver_api>[\d.]+), Runtime API Version: (?P<cuda>[\d.]+)",
    ),
    rule("cuDNN Version", r"cuDNN Version: (?P<cudnn>[\d.]+\d)"),
    # The communicator of all ranks; those of parts of the job have other rings.
    rule("init nccl context", r"nranks: (?P<_gpus_nccl>\d{1,12})\b(?!.*\bring id: [1-9])"),
    rule("trainers_endpoints: ", r"num_nodes: .*\bnranks: (?P<_gpus_launcher>\d{1,12})\s*$"),
    # In the launcher's box this variable counts processes; where a shell prints its environment,
    # it may count nodes.
    rule(_TRAINERS, rf"\|\s+{_TRAINERS}\s+(?P<_gpus_launcher>\d{{1,12}})\s+\|"),
    rule(_TRAINERS, rf"^[^|]*\b{_TRAINERS}\W+(?P<_gpus_environment>\d{{1,12}})\b"),
    # The older launcher's "gpus:" and "ips:" are arguments that the environment may overrule: a
    # job of four nodes prints one address.
    rule("devices: ", r"LAUNCH INFO \S+ \S+ devices: (?P<_node_gpus>\d+(?:,\d+)*)\s*$"),
    rule("nnodes: ", r"LAUNCH INFO \S+ \S+ nnodes: (?P<_nodes>\d{1,12})\s*$"),
)


def gpus_of_job(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """GPUs of the job, by each statement of the log, the most reliable first.

    An environment that a shell has printed may count nodes: where the program and its launcher
    agree on another number, theirs stands.
    """
    counts = [stated[name] for name in _BELIEF if name in stated]
    if not counts and "_node_gpus" in stated and "_nodes" in stated:
        devices = stated["_node_gpus"]
        gpus = (devices.value.count(",") + 1) * int(stated["_nodes"].value)
        counts.append(devices.like("gpus", str(gpus)))
    environment = stated.get("_gpus_environment")
    agree = len(counts) > 1 and len({int(count.value) for count in counts}) == 1
    if environment is not None and not agree:
        name = "gpus_by_environment" if counts else "gpus"
        yield environment.like(name, str(int(environment.value)))
    for count in counts:
        yield count.like("gpus", str(int(count.value)))
