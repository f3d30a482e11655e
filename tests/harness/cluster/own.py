"""A cluster whose components can be stopped, killed, frozen and restarted."""

import contextlib
import json
import os
import signal
import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from k8sbench.model.kinds import PYTORCH_JOB, TRAIN_JOB
from tests.harness.cluster import components, network, operators
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.components import Layout
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.processes import Processes, ProcessTrouble

_LOOK_SECONDS = 0.03
_RESTARTED = ("kube-controller-manager", "kube-scheduler")
_STANDING_STILL = ("training-operator", "kwok", *operators.NAMES)
"""Frozen while the API server is down.

If they restarted, an operator's webhook would reject creations as soon as the API server is back,
and kwok would have to learn the pods' logs again.
"""


class DidNotStart(Exception):
    """A component is not ready; the message ends with its log."""


class OwnCluster(Cluster):
    """A cluster whose processes we started, and may stop, kill and start again."""

    def __init__(self, layout: Layout, processes: Processes) -> None:
        admin, kubectl = layout.kubeconfig("admin"), layout.programs.program("kubectl")
        super().__init__(admin, kubectl, layout.folder, direct=layout.place.address)
        self.layout = layout
        self.kind = PYTORCH_JOB if layout.has_v1 else TRAIN_JOB
        self.processes = processes
        self.components = components.all_of(layout) | operators.components(layout)
        self._stopped: set[str] = set()
        """Components that do not run because we ended them."""

    def start(self, name: str, *flags: str) -> None:
        """Start a component that does not run, with flags that override its own."""
        component = self.components[name]
        if component.awaits is not None:
            component.awaits.parent.mkdir(parents=True, exist_ok=True)
            component.awaits.touch()
        environ = {"PATH": os.defpath, "HOME": str(self.layout.folder), **component.environ}
        self.processes.start(name, (*component.argv, *flags), environ)
        self._stopped.discard(name)

    def stop(self, name: str) -> None:
        """End a component in its own way."""
        self._stopped.add(name)
        self.processes.stop(name)

    def kill(self, name: str) -> None:
        """End a component at once."""
        self._stopped.add(name)
        self.processes.stop(name, grace=0)

    @contextlib.contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """Kill components for the block; then restart them in this order.

        The API server's other clients are stopped or frozen while it is down: their retries back
        off up to a minute, for two minutes after it is back, and tests would wait for that.
        """
        with contextlib.ExitStack() as after:
            if "kube-apiserver" in names:
                after.enter_context(self._without_its_clients())
            for name in reversed(names):
                self.kill(name)
            try:
                yield
            finally:
                for name in names:
                    self.start(name)
                    self.wait_for(name)

    @contextlib.contextmanager
    def _without_its_clients(self) -> Iterator[None]:
        restarted, still = (
            [name for name in names if name in self.components.keys() - self._stopped]
            for names in (_RESTARTED, _STANDING_STILL)
        )
        for name in restarted:
            self.kill(name)
        try:
            with contextlib.ExitStack() as stack:
                for name in still:
                    stack.enter_context(self.frozen(name))
                yield
        finally:
            for name in restarted:
                self.start(name)
            self.wait_for(*restarted)

    @contextlib.contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Freeze a component, which keeps its connections, until the end of the block."""
        self.processes.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes.signal(name, signal.SIGCONT)

    def wait_for(self, *names: str) -> None:
        """Wait until components are ready, or raise DidNotStart with a log."""
        waiting = list(names)

        def ready() -> bool:
            waiting[:] = [name for name in waiting if not self.is_ready(name)]
            return not waiting

        self.until(ready, lambda: waiting[0])

    def is_ready(self, name: str) -> bool:
        """Return True if a component reports readiness."""
        return self._answer(self.components[name].ready) is not None

    def ask(self, path: str) -> Any:
        """Get a path of the API server; None if missing or unreachable."""
        text = self._answer(self.layout.server + path)
        return None if text is None else json.loads(text)

    def until(self, condition: Callable[[], bool], guilty: Callable[[], str]) -> None:
        """Wait for a condition; raise the log of a failed component."""
        until = time.monotonic() + SECONDS
        while not condition():
            for state in self.processes.list():
                if not state.is_running and state.name not in self._stopped:
                    self._fail(state.name, f"ended with status {state.status}")
            if time.monotonic() > until:
                self._fail(guilty(), f"is not ready after {SECONDS:.0f} s")
            time.sleep(_LOOK_SECONDS)

    def logs_of_components(self) -> dict[str, Path]:
        """Return the components' log files."""
        return {name: self.processes.log(name) for name in self.components}

    def end(self) -> None:
        """End it, wait for that, and leave nothing behind."""
        # At once: what is a program of the control plane has nothing to put in order, and takes its
        # whole grace to do so.
        for name, component in self.components.items():
            if component.ready:
                with contextlib.suppress(ProcessTrouble):
                    self.processes.stop(name, grace=0)
        self.processes.end()
        # The kernel removes it some time after the last process has gone: this waits for that.
        network.disconnect(self.layout.place.link)

    def _answer(self, url: str) -> bytes | None:
        try:
            with self._opener.open(url, timeout=2) as answer:
                text: bytes = answer.read()
        except OSError:  # urllib's errors are such too
            return None
        return text

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        pki = self.layout.pki
        context = ssl.create_default_context(cafile=pki.certificate("ca"))
        context.load_cert_chain(pki.certificate("admin"), pki.key("admin"))
        no_proxy = urllib.request.ProxyHandler({})
        return urllib.request.build_opener(no_proxy, urllib.request.HTTPSHandler(context=context))

    def _fail(self, name: str, what: str) -> None:
        end = tail(self.processes.log(name))
        raise DidNotStart(f"{name} {what}; the end of its log:\n{end}")


def tail(log: Path, start: int = 0, lines: int = 25, wanted: Callable[[str], bool] = bool) -> str:
    """Return the last matching lines of a log after an offset."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    found = [line[:400] for line in text.splitlines() if wanted(line)]
    return "\n".join(found[-lines:])
