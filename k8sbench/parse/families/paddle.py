"""Lines that several Paddle programs print.

Launcher, runtime, configuration, training lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from k8sbench.model.sample import Fact
from k8sbench.parse.family import FactRule, Family, LineReader, rule
from k8sbench.parse.lines import CleanLine

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

DYGRAPH_LINE = (
    r"\[Train\]\[Epoch (?P<epoch>\d{1,6})/(?P<epochs>\d{1,6})\]"
    r"\[Iter: ?(?P<iteration>\d{1,12})/(?P<total>\d{1,12})\](?P<middle>(?:(?!\[Train\]).)*?)"
    r"batch_cost: (?P<step_seconds>\d+\.\d+) ?s, "
    r"reader_cost: (?P<data_seconds>\d+\.\d+)(?: ?s)?, ips: (?P<rate>\d+\.\d{5,}) ?"
)
"""Training line of PaddleClas' newer engine and plsc 2.4, without unit."""

# -- configuration --------------------------------------------------------------------------------
#
# PaddleClas and plsc 2.4 print it as sections: ``[2023/07/28 06:42:45] ppcls INFO:     Train : ``.

_MODEL = re.compile(r"INFO: (?:ARCHITECTURE|Arch|Model) : ")
_NAME = re.compile(r"INFO:\s+name : (?P<model>\S+)")
_LOADER = re.compile(r"INFO:\s+(?P<section>Train|Eval|Infer|TRAIN|VALID) : *$")
_BATCH = re.compile(r"INFO:\s+batch_size : (?P<batch>\d{1,12})\s*$")
_BATCH_OF = {"Train": "batch_size", "TRAIN": "global_batch"}
"""Section → what its batch is of: of 2020's, all cards together."""
_CONFIGURED = "ARCHITECTURE Arch Model Train Eval Infer TRAIN VALID batch_size name"


class ConfigurationReader(LineReader):
    """Reads model and batch from the sections of a printed configuration."""

    _names_model = False
    _section = ""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.head_needles |= {f"{name} : " for name in _CONFIGURED.split()}

    def facts(self, line: CleanLine, rules: Sequence[FactRule]) -> Iterator[Fact]:
        """Apply the rules, then the sections."""
        yield from super().facts(line, rules)
        if _MODEL.search(line.text):
            self._names_model = True
        elif self._names_model and (match := _NAME.search(line.text)):
            self._names_model = False
            yield line.fact("model", match["model"])
        if match := _LOADER.search(line.text):
            self._section = match["section"]
        elif self._section in _BATCH_OF and (match := _BATCH.search(line.text)):
            yield line.fact(_BATCH_OF[self._section], match["batch"])
            self._section = ""


# -- GPUs -----------------------------------------------------------------------------------------


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
