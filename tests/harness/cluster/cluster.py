"""A cluster that a kubeconfig reaches, and kubectl to look at it."""

import contextlib
import functools
import json
import os
import subprocess
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import kubernetes
from kubernetes.dynamic import DynamicClient, Resource
from kubernetes.dynamic.exceptions import DynamicApiError
from urllib3.exceptions import HTTPError

from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import PYTORCH_JOB
from tests.harness.cluster import network
from tests.harness.cluster.limits import SECONDS

_JOBS = {"pytorchjobs", "paddlejobs", "trainjobs", "jobsets"}


class KubectlFailed(Exception):
    """kubectl ended with an error, which is the message."""


class Cluster:
    """A cluster that a kubeconfig reaches, with kubectl to look at it."""

    kind: JobKind = PYTORCH_JOB
    """Default kind of PyTorch jobs."""

    def __init__(
        self, kubeconfig: Path, kubectl: Path, scratch: Path, *, direct: str | None = None
    ) -> None:
        self.kubeconfig = kubeconfig
        cache, config = f"--cache-dir={scratch / 'kubectl'}", f"--kubeconfig={kubeconfig}"
        self._kubectl = (str(kubectl), cache, config)
        self._types = scratch / "types.json"
        """The types that the cluster serves, for :meth:`get`."""
        self._direct = direct

    @functools.cached_property
    def entry(self) -> dict[str, Any]:
        """Its entry in a kubeconfig, with the certificates in it."""
        view = ("config", "view", "--raw", "--minify", "--flatten", "--output=json")
        found: list[dict[str, Any]] = json.loads(self.kubectl(*view))["clusters"]
        return found[0]

    @functools.cached_property
    def job_kinds(self) -> str:
        """The kinds of jobs that it serves, as kubectl takes them."""
        served = self.kubectl("api-resources", "--output=name").split()
        return ",".join(each for each in served if each.partition(".")[0] in _JOBS)

    def variables(self) -> dict[str, str]:
        """Return what a program that shall talk to it must have in its environment."""
        # A proxy knows nothing of the addresses of our own.
        direct = network.bypass_proxies(os.environ, self._direct) if self._direct else {}
        return {"KUBECONFIG": str(self.kubeconfig), **direct}

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """Run kubectl and return what it prints; ``given`` is its input."""
        done = subprocess.run(
            [*self._kubectl, *words],
            env=os.environ | self.variables(),
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def get(
        self, kinds: str, name: str | None = None, *, namespace: str = "", selector: str = ""
    ) -> Any:
        """Get an object, or the list of them, whose kinds and labels are named as for kubectl.

        Raises KubectlFailed. Tests look again and again until something holds: a kubectl for each
        look would take a processor.
        """
        kind, _, named = kinds.partition("/")
        if name or named:
            return self._read(kind, name=name or named, namespace=namespace)
        listed = [
            self._read(each, namespace=namespace, label_selector=selector)
            for each in kinds.split(",")
        ]
        return [item for found in listed for item in found["items"]]

    def _read(self, kind: str, **where: str) -> dict[str, Any]:
        given = {key: value for key, value in where.items() if value}
        try:
            found: dict[str, Any] = self._client.get(self._type(kind), **given).to_dict()
        except (DynamicApiError, HTTPError, OSError) as wrong:
            raise KubectlFailed(f"get {kind} {given}: {wrong}") from wrong
        return found

    def _type(self, kind: str) -> Resource:
        """Return the type that kubectl takes for a name; raises KubectlFailed."""
        for attribute in ("name", "singular_name"):
            found = [
                each
                for each in self._client.resources.search(**{attribute: kind})
                if "/" not in each.name and each.preferred
            ]
            if found:
                # Events are of two groups: kubectl takes that of the core.
                return min(found, key=lambda each: str(each.group or ""))
        raise KubectlFailed(f"the cluster has no {kind}")

    @functools.cached_property
    def _client(self) -> DynamicClient:
        configuration = kubernetes.client.Configuration()
        # A proxy knows nothing of the addresses of our own.
        configuration.proxy = None
        client = kubernetes.config.new_client_from_config(
            str(self.kubeconfig), client_configuration=configuration
        )
        return DynamicClient(client, cache_file=str(self._types))

    @contextlib.contextmanager
    def lines(self, *words: str) -> Iterator[Iterator[str]]:
        """Run a kubectl that does not end, yield its lines, and end it."""
        argv, environ = [*self._kubectl, *words], os.environ | self.variables()
        with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            try:
                yield running.stdout
            finally:
                running.kill()

    def watch(self, *words: str) -> Generator[dict[str, Any]]:
        """Run ``kubectl get --watch`` for as long as it may, and yield the objects."""
        end = f"--request-timeout={SECONDS:.0f}s"
        with self.lines("get", *words, "--watch", "--output=json", end) as lines:
            yield from _objects(lines)

    def create(self, *wanted: dict[str, Any], namespace: str | None = None) -> None:
        """Create objects, as strictly as the API server can."""
        where = ("--namespace", namespace) if namespace else ()
        words = ("create", *where, "--validate=strict", "--filename=-")
        self.kubectl(*words, given=stream(wanted))

    def logs_of_components(self) -> dict[str, Path]:
        """Return the log files of the components, where they are ours."""
        return {}


def stream(objects: Iterable[dict[str, Any]]) -> str:
    # One after the other: for a List kubectl would load the API's old description, all of it.
    return "\n".join(json.dumps(one) for one in objects)


def _objects(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Read objects that are written one after the other, each on many lines."""
    text = ""
    for line in lines:
        text += line
        if line == "}\n":  # kubectl indents all but the last
            yield json.loads(text)
            text = ""
