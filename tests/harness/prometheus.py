"""Debian's Prometheus on a free port, and exporters for it.

Where exact times matter, ``promtool`` makes its blocks beforehand from samples with stamps.
"""

import functools
import http.client
import importlib.util
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, make_server

import yaml

from tests.waiting import wait_until

PATIENCE = 60.0
"""Seconds until the start of a server has failed."""
LOOPBACK = "127.0.0.1"


@functools.cache
def missing() -> str | None:
    """Say what is missing; None if nothing."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            return f"{program} not installed (Debian: apt-get install prometheus)"
    if importlib.util.find_spec("prometheus_client") is None:
        return "prometheus-client not installed"
    return None


class Samples(NamedTuple):
    """One series with its samples: Unix seconds and value."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


class Server:
    """A Prometheus with a folder of its own."""

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        samples: Iterable[Samples] = (),
        scrape: Sequence[Mapping[str, Any]] = (),
        web: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"{'http' if web is None else 'https'}://{LOOPBACK}:{self.port}"
        make_blocks(folder, samples)
        every = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        config = {"global": every, "scrape_configs": list(scrape)}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        (folder / "web.yml").write_text(yaml.safe_dump(dict(web or {})))
        self.start()

    def start(self) -> None:
        """Start it on its data."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command(self._folder, f"{LOOPBACK}:{self.port}", self._folder / "data"),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait(self._is_ready, "Prometheus is ready")

    def stop(self) -> None:
        """Kill it; its write-ahead log is kept."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def freeze(self) -> None:
        """Let it accept connections and answer nothing."""
        self._process.send_signal(signal.SIGSTOP)
        # Its threads may still answer for a moment.
        status = pathlib.Path(f"/proc/{self._process.pid}/status")
        wait(lambda: "State:\tT" in status.read_text(), "it is frozen")

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        if self.url.startswith("https"):
            with socket.socket() as found:
                return found.connect_ex((LOOPBACK, self.port)) == 0
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=5)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


class Exporter:
    """An exporter on its own port, which a test changes, blocks and stops."""

    def __init__(self, text: str = "", port: int = 0) -> None:
        self.text = text
        """Exposed text."""
        self.registry: Any = None
        """If given, a registry of prometheus-client, which is exposed instead."""
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._server = make_server(LOOPBACK, port, self._answer, handler_class=_Silent)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    def hold(self) -> None:
        """Answer no scrape until :meth:`go_on`."""
        self._goes_on.clear()

    def go_on(self) -> None:
        """Answer again."""
        self._goes_on.set()

    def stop(self) -> None:
        """End it."""
        self.go_on()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, environ: Any, start: Any) -> list[bytes]:
        from prometheus_client import generate_latest

        self._goes_on.wait(PATIENCE)
        text = self.text.encode() if self.registry is None else generate_latest(self.registry)
        start("200 OK", [("Content-Type", "text/plain; version=0.0.4")])
        return [text]


class _Silent(WSGIRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing."""


def make_blocks(folder: pathlib.Path, samples: Iterable[Samples]) -> None:
    """Write blocks of these samples into the folder's data."""
    lines = []
    for one in sorted(samples, key=lambda each: each.name):
        labels = ",".join(f'{name}="{value}"' for name, value in one.labels.items())
        lines += [f"{one.name}{{{labels}}} {value!r} {at:.3f}" for at, value in one.points]
    (folder / "data").mkdir(exist_ok=True)
    if lines:
        file = folder / "samples.txt"
        file.write_text("\n".join([*lines, "# EOF\n"]))
        words = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(file)]
        subprocess.run([*words, str(folder / "data")], check=True, capture_output=True)


def command(folder: pathlib.Path, address: str, data: pathlib.Path) -> list[str]:
    """The words that start it."""
    return [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--web.config.file={folder}/web.yml",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={address}",
    ]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((LOOPBACK, 0)) as found:
        port: int = found.getsockname()[1]
        return port


def wait(is_so: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    wait_until(is_so, what, PATIENCE)
