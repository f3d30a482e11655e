"""A cluster of our own that has real nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.harness.cluster import kubeconfig, pki, tools
from tests.harness.cluster.components import Component, Layout
from tests.harness.cluster.own import OwnCluster, tail
from tests.harness.cluster.pki import Identity, Subject
from tests.harness.cluster.processes import NoCluster, Processes, State
from tests.harness.node import configs, image
from tests.harness.node.machine import Machine
from tests.harness.node.needs import PATH
from tests.tiers import ROOT

_DNS_READY = 8181
# Instead of 50 s and 300 s: a lost node is one after 10 s, and its pods are deleted 5 s later.
_FLAGS = {
    "kube-apiserver": (
        "--default-not-ready-toleration-seconds=5",
        "--default-unreachable-toleration-seconds=5",
    ),
    "kube-controller-manager": ("--node-monitor-grace-period=10s", "--node-monitor-period=1s"),
    "training-operator": (f"--pytorch-init-container-image={image.PYTHON}",),
}


class Node:
    """One real node: a machine with containerd and a kubelet."""

    def __init__(self, machine: Machine, layout: Layout) -> None:
        self.machine = machine
        self.name = machine.name
        self.processes = Processes(Path(machine.socket_folder))
        self._layout = layout
        self._data = Path(machine.data)
        self._killed: set[str] = set()
        kubelet = (
            str(layout.programs.program("kubelet")),
            f"--config={self._data / 'kubelet.json'}",
            f"--kubeconfig={layout.kubeconfig(machine.name)}",
            f"--root-dir={self._data / 'kubelet'}",
            f"--cert-dir={self._data / 'kubelet-pki'}",
            f"--hostname-override={machine.name}",
            f"--node-ip={machine.ip}",
        )
        self._programs = {
            "containerd": ("containerd", f"--config={self._data / 'containerd.toml'}"),
            "kubelet": kubelet,
        }

    def write_files(self) -> None:
        """Make its folders, certificates and configuration files."""
        layout, machine, name = self._layout, self.machine, self.name
        for folder in (Path(machine.socket_folder, "log"), self._data / "cni"):
            folder.mkdir(parents=True)
        who = Identity(name, f"system:node:{name}", "system:nodes")
        pki.sign(layout.pki, name, Subject(who.user, group=who.group, use="clientAuth"))
        server = Subject(name, alternatives=[f"IP:{machine.ip}"], use="serverAuth")
        pki.sign(layout.pki, configs.server_name(machine), server)
        kubeconfig.of_identity(layout.kubeconfig(name), layout.server, layout.pki, name)
        self._data.joinpath("containerd.toml").write_text(configs.containerd(machine))
        self._data.joinpath("cni", "pods.conflist").write_text(configs.pod_network(machine))
        self._data.joinpath("resolv.conf").touch()
        self.configure()
        machine.write(self._data / "machine.json")

    def configure(self, log_size: str = configs.LOG_SIZE) -> None:
        """Write the kubelet's configuration, which it reads when it starts."""
        layout = self._layout
        reported = configs.kubelet(self.machine, layout.pki, layout.place.address, log_size)
        self._data.joinpath("kubelet.json").write_text(json.dumps(reported))

    def start(self, program: str) -> None:
        """Start its containerd or its kubelet."""
        environ = {"PATH": PATH, "HOME": str(self._data)}
        self.processes.start(program, self._programs[program], environ)
        self._killed.discard(program)

    def kill(self, program: str) -> None:
        """End one of them at once; its containers continue."""
        self._killed.add(program)
        self.processes.stop(program, grace=0)

    def is_up(self) -> bool:
        """Return True if its machine is up and can start programs."""
        return self._states() is not None

    def ended(self) -> str | None:
        """Name the program that ended unexpectedly, and how; None if none did."""
        for state in self._states() or ():
            if not state.is_running and state.name in {*self._programs} - self._killed:
                return f"{state.name} ended with status {state.status}"
        return None

    def _states(self) -> list[State] | None:
        try:
            return self.processes.list()
        except NoCluster:
            return None

    def load(self, *archives: Path) -> None:
        """Give its containerd images; there is no registry to pull them from."""
        for archive in archives:
            if self.ctr("images", "import", str(archive)) is None:
                raise RuntimeError(f"{self.name} does not take the image {archive.name}")

    def ctr(self, *words: str) -> str | None:
        """Ask containerd; None if it does not answer."""
        done = subprocess.run(
            ("ctr", "--address", str(configs.socket(self.machine)), "-n", "k8s.io", *words),
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else None


class NodeCluster(OwnCluster):
    """A cluster of our own that has real nodes, and DNS for their pods."""

    def __init__(
        self,
        layout: Layout,
        processes: Processes,
        *,
        programs: tools.Programs,
        count: int,
    ) -> None:
        super().__init__(layout, processes)
        self.node_programs = programs
        self.nodes = tuple(Node(_machine(layout, number), layout) for number in range(count))
        for name, flags in _FLAGS.items():
            if (old := self.components.get(name)) is None:
                continue
            self.components[name] = dataclasses.replace(old, argv=(*old.argv, *flags))
        self.components |= {one.name: one for one in (_dns(layout, programs), *self._machines())}

    @property
    def pools(self) -> Path:
        """The pools file for ``k8sbench --pools``; see ``frameworks.py``."""
        return self.layout.folder / "pools.yaml"

    def node(self, name: str) -> Node:
        """Return a node by its name."""
        return next(node for node in self.nodes if node.name == name)

    def load(self, archive: Path) -> None:
        """Give every node an image."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.load(archive), self.nodes))

    def write_dns_file(self) -> None:
        """Write the configuration of the DNS."""
        layout = self.layout
        address = layout.place.address
        # A component's identity, for the audit log to leave it out; nobody to ask for other names.
        lines = (
            ".:53 {",
            f"  bind {address}",
            f"  ready {address}:{_DNS_READY}",
            "  errors",
            "  kubernetes cluster.local in-addr.arpa {",
            f"    kubeconfig {layout.kubeconfig('kwok')}",
            "    ttl 0",
            "    fallthrough in-addr.arpa",
            "  }",
            "  template ANY ANY . {",
            "    rcode NXDOMAIN",
            "  }",
            "}",
        )
        _dns_file(layout).write_text("\n".join(lines) + "\n")

    def is_ready(self, name: str) -> bool:
        """Return True if a component is ready.

        A kubelet must also answer itself, because the API server reports it as ready for some
        seconds after its end.
        """
        if name not in {node.name for node in self.nodes}:
            return super().is_ready(name)
        # The cluster goes on saying so for seconds after a kubelet has ended.
        node: dict[str, Any] | None = self.ask(f"/api/v1/nodes/{name}")
        answers = self._answer(f"{self.layout.server}/api/v1/nodes/{name}/proxy/healthz")
        if node is None or node["spec"].get("taints") or answers is None:
            return False
        conditions = node["status"].get("conditions", ())
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def until(self, condition: Callable[[], bool], guilty: Callable[[], str]) -> None:
        """Wait for a condition; fail with the log if a node's program ends."""

        def fulfilled() -> bool:
            for node in self.nodes:
                if (what := node.ended()) is not None:
                    self._fail(node.name, what)
            return condition()

        super().until(fulfilled, guilty)

    def logs_of_components(self) -> dict[str, Path]:
        """Return the components' log files, and those of each node's programs."""
        own = super().logs_of_components()
        return own | {
            f"{program} of {node.name}": node.processes.log(program)
            for node in self.nodes
            for program in ("containerd", "kubelet")
        }

    def end(self) -> None:
        """End it, wait for that, and leave nothing behind."""
        for node in self.nodes:
            # All at once, before the subreaper does it one after the other.
            with contextlib.suppress(Exception):
                self.processes.signal(node.name, signal.SIGTERM)
        super().end()

    def _machines(self) -> Iterator[Component]:
        environ = {"PATH": PATH, "PYTHONPATH": str(ROOT)}
        for node in self.nodes:
            reported = str(Path(node.machine.data, "machine.json"))
            argv = (sys.executable, "-m", "tests.harness.node.machine", reported)
            yield Component(node.name, argv, "", environ)

    def _fail(self, name: str, what: str) -> None:
        ends = "".join(
            f"\nthe end of the log of its {program}:\n{tail(node.processes.log(program))}"
            for node in self.nodes
            for program in ("containerd", "kubelet")
            if node.name == name
        )
        super()._fail(name, what + ends)


def _machine(layout: Layout, number: int) -> Machine:
    """Place a node: a link of four addresses, and a network of pods."""
    block = ipaddress.ip_network(f"{layout.place.address}/24", strict=False)
    first = 8 + 4 * number
    name = f"node-{number}"
    return Machine(
        name=name,
        socket_folder=str(layout.folder / name),
        data=str(layout.folder / f"{name}-data"),
        cgroup=f"{layout.place.link}-{name}",
        router=f"{block[first + 1]}/30",
        address=f"{block[first + 2]}/30",
        pods=f"10.244.{number}.0/24",
    )


def _dns(layout: Layout, programs: tools.Programs) -> Component:
    argv = (str(programs.program("coredns")), "-conf", str(_dns_file(layout)))
    return Component("coredns", argv, f"http://{layout.place.address}:{_DNS_READY}/ready")


def _dns_file(layout: Layout) -> Path:
    return layout.folder / "Corefile"
