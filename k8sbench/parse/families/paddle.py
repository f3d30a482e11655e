"""What all of Paddle's programs print around their own lines: launcher and runtime."""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.model.sample import Fact
from k8sbench.parse.family import Reader, facts, rule

_FACTS = (
    rule(
        "Runtime API Version",
        r"Driver API Version: (?P<driver_api>[\d.]+), Runtime API Version: (?P<cuda>[\d.]+)",
    ),
    rule("cuDNN Version", r"cuDNN Version: (?P<cudnn>[\d.]+\d)"),
    rule("PADDLE_TRAINERS_NUM", r"\bPADDLE_TRAINERS_NUM\W+(?P<gpus>\d{1,12})\b"),
    # The older launcher's "gpus:" and "ips:" are arguments that the environment may overrule: a
    # job of four nodes prints one address.
    rule("devices: ", r"LAUNCH INFO \S+ \S+ devices: (?P<node_gpus>\d+(?:,\d+)*)\s*$"),
    rule("nnodes: ", r"LAUNCH INFO \S+ \S+ nnodes: (?P<nodes>\d{1,12})\s*$"),
)


class PaddleReader(Reader):
    """Collects the launcher's lines and says how many GPUs they add up to."""

    def __init__(self) -> None:
        self._launch: dict[str, Fact] = {}

    def head(self, line: int, text: str, source: str) -> Iterator[Fact]:
        """Facts of the launcher in one line."""
        for fact in facts(_FACTS, line, text, source):
            self._launch.setdefault(fact.name, fact)
            if fact.name not in {"node_gpus", "nodes"}:
                yield fact

    def settle(self) -> Iterator[Fact]:
        """GPUs of the job, where they follow from GPUs per node and nodes."""
        said = self._launch
        if "gpus" in said or "node_gpus" not in said or "nodes" not in said:
            return
        devices = said["node_gpus"]
        gpus = (devices.value.count(",") + 1) * int(said["nodes"].value)
        yield Fact(line=devices.line, text=devices.text, name="gpus", value=str(gpus))
