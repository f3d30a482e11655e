"""k8sbench as users run it: commands, store, kubeconfig, exit codes, terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from k8sbench import adapters, app, cli, diagnose, operator, results
from tests.harness import children, forks
from tests.harness.cluster import fault_proxy
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.limits import LOOKS, SECONDS, shortening
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import RUN_FOR
from tests.harness.cluster.trainer_logs import TrainerLogs
from tests.harness.forks import Ended
from tests.waiting import wait_until

NODES = """gpus_per_node: 8
    gpu_model: Tesla V100-SXM2-32GB
    selector: {nvidia.com/gpu.product: Tesla-V100-SXM2-32GB}
    tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
    cpu_per_gpu: "1"
    memory_per_gpu: 1Gi
    shm: 64Mi"""
POOLS = f"""
default: quick
pools:
  - name: quick
    {NODES}
    annotations: {{{RUN_FOR}: 0s}}
  - name: endless
    {NODES}
  - name: nowhere
    gpus_per_node: 8
    gpu_model: Tesla V100-SXM2-32GB
    selector: {{no.such/label: "true"}}
    tolerations: [{{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}}]
"""
"""Pods of ``quick`` end at once, of ``endless`` when released.

Those of ``nowhere`` never start.
"""
IMPATIENT = {
    "unread_logs": 2.0,
    "pods_settle": 0.1,
}
"""Limits with which nobody waits for minutes until a log can be read."""


IMPORTED = [
    f"{package.__name__}.*" for package in (adapters, app, cli, diagnose, operator, results)
]
"""The modules that commands import."""


def hurried(**limits: float) -> tuple[str, str]:
    """Make the program of a k8sbench with other limits of time, which looks often."""
    return "-c", shortening(LOOKS | limits) + children.K8SBENCH


REPLICAS = 2
ENDLESS = "--node-pool=endless"
"""Pods run until they are released."""
CASE = ("resnet50", f"--replicas={REPLICAS}", "--gpus=1", "--preset=smoke")


class Shell:
    """One user's k8sbench: its own store, in a shared namespace."""

    def __init__(self, namespace: Namespace, kubeconfig: Path, folder: Path) -> None:
        self.namespace, self.folder = namespace, folder
        folder.mkdir(exist_ok=True)
        self.store = folder / "data" / "k8sbench"
        self.pools = folder / "pools.yaml"
        self.pools.write_text(POOLS)
        self.environment = {
            **os.environ,
            **namespace.cluster.variables(),
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "K8SBENCH_POOLS": str(self.pools),
        }
        self._kubeconfig = kubeconfig
        self.kind = namespace.cluster.kind
        self.replicas = self.kind.names(REPLICAS)
        """Names of those of the usual case, rank 0's first."""

    proxy: FaultProxy | None = None
    """Proxy before the API server, if any; serves some pods' logs."""
    program: tuple[str, ...] = ("-m", "k8sbench")
    """Program that Python runs; a test may replace it."""
    limits: Mapping[str, float] = {}
    """Other limits of its commands, as :func:`hurried` takes them."""

    def argv(self, words: Sequence[str]) -> list[str]:
        """Return the command."""
        is_plain = self.program == Shell.program
        program = hurried(**self.limits) if is_plain else self.program
        return [sys.executable, *program, *words]

    @property
    def identity(self) -> str:
        """Return the identity of its store on clusters."""
        return (self.store / "store.id").read_text().strip()

    def colleague(self) -> Shell:
        """Another user: an empty store, and only the cluster in common."""
        colleague = Shell(self.namespace, self._kubeconfig, self.folder / "colleague")
        colleague.proxy = self.proxy
        return colleague

    @contextlib.contextmanager
    def behind_proxy(self) -> Iterator[FaultProxy]:
        """Put a proxy between the API server and the user, colleagues included."""
        if self.proxy is not None:
            yield self.proxy
            return
        with fault_proxy.before(self._kubeconfig) as (self.proxy, self._kubeconfig):
            self.environment["KUBECONFIG"] = str(self._kubeconfig)
            yield self.proxy

    def run(self, *words: str, code: int | None = 0, **changes: str | None) -> Ended:
        """Run a command; check its exit code, unless None."""
        argv, environment = self.argv(words), self._changed(changes)
        if argv[0] == sys.executable:
            servers = forks.servers(*IMPORTED)
            (done,) = servers.start(argv[1:], [environment], SECONDS, cwd=self.folder)
        else:  # a program that makes another machine of this one
            ended = subprocess.run(
                argv,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            done = Ended(ended.returncode, ended.stdout, ended.stderr)
        assert code in {None, done.code}, f"exit {done.code}\n{done.out}\n{done.err}"
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        """Run a command for its JSON."""
        return json.loads(self.run(*words, "--output=json", code=code).out)

    @contextlib.contextmanager
    def started(self, *words: str, columns: int | None = None) -> Iterator[Running]:
        """Start a command, with a terminal of so many columns or none.

        It ends with the block.
        """
        running = Running(self.argv(words), self, columns)
        try:
            yield running
        except BaseException as wrong:
            running.kill()
            wrong.add_note(f"{' '.join(words)}: exit {running.process.returncode}")
            wrong.add_note(f"{running.out}\n{running.err}")
            raise
        finally:
            running.kill()

    def submit(self, run_id: str, *words: str, code: int = 0) -> Ended:
        """Submit the usual case under a name."""
        return self.run("submit", *CASE, f"--run-id={run_id}", *words, code=code)

    def submitted(
        self, run_id: str, *words: str, columns: int | None = None
    ) -> contextlib.AbstractContextManager[Running]:
        """Start a submit of the usual case, whose pods run until they are released."""
        case = ("submit", *CASE, f"--run-id={run_id}", ENDLESS)
        return self.started(*case, *words, columns=columns)

    def logs(self, run_id: str) -> TrainerLogs:
        """Give the pods of a run logs of our trainer; before it is submitted."""
        return TrainerLogs(self.namespace, run_id, self.folder, proxy=self.proxy)

    def printing(self, run_id: str, *words: str) -> TrainerLogs:
        """Submit a run detached; its pods print the first part of their logs."""
        logs = self.logs(run_id).begin()
        self.submit(run_id, ENDLESS, "--detach", *words)
        return logs

    def archived(self, run_id: str, replica: str | None = None) -> list[str]:
        """Return a replica's archived lines without stamps; by default rank 0's."""
        file = self.store / "runs" / run_id / "logs" / f"{replica or self.replicas[0]}.log"
        text = file.read_text() if file.exists() else ""
        return [line.partition(" ")[2] for line in text.splitlines()]

    def phase(self, run_id: str) -> str:
        """Return a run's phase on record."""
        return str(self.json("status", run_id)["phase"])

    def finish(self, run_id: str) -> None:
        """Release the pods of a run as soon as all exist."""

        def pods() -> int:
            return sum(pod.startswith(f"{run_id}-") for pod in self.on_cluster("pods"))

        until(lambda: pods() == REPLICAS, f"the pods of {run_id}")
        self.namespace.finish(run_id)

    def until_nothing_is_left(self) -> None:
        """Wait until there is nothing of any run but the trainers."""
        runtime = self.kind.runtime
        kinds = (self.kind.plural, "pods", *(() if runtime is None else (runtime.plural,)))
        until(lambda: not any(map(self.on_cluster, kinds)), f"no {', '.join(kinds)}")

    def on_cluster(self, kind: str | None = None) -> list[str]:
        """Return the names of k8sbench's jobs, or of another kind."""
        ours = "app.kubernetes.io/managed-by=k8sbench"
        found = self.namespace.get(kind or self.kind.plural, selector=ours)
        return [each["metadata"]["name"] for each in found]

    def _changed(self, changes: dict[str, str | None]) -> dict[str, str]:
        changed = {**self.environment, **changes}
        return {name: value for name, value in changed.items() if value is not None}


class Running:
    """A running command, and its output so far."""

    def __init__(self, argv: list[str], shell: Shell, columns: int | None) -> None:
        self._terminal: int | None = None
        where: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = shell.environment
        theirs = None
        if columns is not None:
            self._terminal, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            where = {"stdout": theirs, "stderr": theirs}
            environment = {**environment, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            argv, cwd=shell.folder, env=environment, stdin=subprocess.DEVNULL, **where
        )
        self._read: dict[str, bytes] = {"out": b"", "err": b""}
        self._changed = threading.Condition()
        if theirs is not None:
            os.close(theirs)
            sources: dict[str, int | IO[bytes] | None] = {"out": self._terminal}
        else:
            sources = {"out": self.process.stdout, "err": self.process.stderr}
        self._open = len(sources)
        self._readers = [
            threading.Thread(target=self._read_all, args=(name, source), daemon=True)
            for name, source in sources.items()
        ]
        for reader in self._readers:
            reader.start()

    @property
    def out(self) -> str:
        """Output on stdout or the terminal."""
        return self._read["out"].decode(errors="replace")

    @property
    def err(self) -> str:
        """Output on stderr; empty on a terminal."""
        return self._read["err"].decode(errors="replace")

    @property
    def drawn(self) -> str:
        """Output without colours and cursor movements."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.out)

    def until(self, text: str) -> None:
        """Wait until something was printed."""
        with self._changed:
            seen = self._changed.wait_for(
                lambda: text in self.out + self.err or self._is_over(), SECONDS
            )
        assert seen, f"no {text!r} in {SECONDS:.0f} s:\n{self.out}\n{self.err}"
        assert text in self.out + self.err, f"ended without {text!r}:\n{self.out}\n{self.err}"

    def until_drawn(self, pattern: str) -> None:
        """Wait until something was drawn that matches."""
        with self._changed:
            self._changed.wait_for(
                lambda: re.search(pattern, self.drawn) or self._is_over(), SECONDS
            )
        assert re.search(pattern, self.drawn), f"no {pattern!r} in:\n{self.drawn}"

    def ends(self, *codes: int) -> Running:
        """Wait for its end; check that the exit code is expected, default 0."""
        found = self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)
        assert found in (codes or (0,)), f"exit {found}\n{self.out}\n{self.err}"
        return self

    def interrupt(self) -> Running:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self

    def kill(self) -> None:
        """End it at once with SIGKILL."""
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(SECONDS)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def _is_over(self) -> bool:
        return self._open == 0

    def _read_all(self, name: str, source: Any) -> None:
        number = source if isinstance(source, int) else source.fileno()
        # A terminal whose other side has gone is an error to read.
        with contextlib.suppress(OSError):
            while piece := os.read(number, 65536):
                with self._changed:
                    self._read[name] += piece
                    self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()


def until(condition: Callable[[], Any], what: str) -> None:
    """Poll for something that has no event."""
    wait_until(condition, what, SECONDS)


@pytest.fixture(scope="module")
def common(
    cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Namespace, Path]]:
    """Provide a module's namespace, and a user with role.yaml's permissions."""
    namespace = Namespace.make(cluster, request.module.__name__.rpartition(".")[2])
    yield namespace, namespace.user(tmp_path_factory.mktemp("user"))
    namespace.delete()


@pytest.fixture
def shell(common: tuple[Namespace, Path], tmp_path: Path) -> Shell:
    """Provide a command line with an empty store in the module's namespace."""
    return Shell(*common, tmp_path / "shell")


@pytest.fixture
def own_shell(namespace: Namespace, user: Path, tmp_path: Path) -> Shell:
    """Give a user a command line in a namespace where nothing else is."""
    return Shell(namespace, user, tmp_path / "shell")


@pytest.fixture
def proxy(own_shell: Shell) -> Iterator[FaultProxy]:
    """Put a proxy between the user and the API server."""
    with own_shell.behind_proxy() as proxy:
        yield proxy
