"""Test programs, built once from a pinned Go module into the user's cache.

A build is a folder named after the checksum of everything that decides what is in it. It appears
under that name only when it is whole; a build that failed or was killed leaves nothing that could
be taken for one. Whoever comes while another builds waits for that build. Files that belong to a
pinned program (its CRDs, its stages) are taken along, so that Go's own caches may go afterwards.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import tiers

KUBERNETES, HELM = "1.33.13", "3.18.6"
CACHE = tiers.CACHE / "k8sbench" / "tools"
TOOLS = tiers.ROOT / "tests" / "harness" / "tools"
# Read when this module is imported: Go's own caches are in the user's home, not in a test's.
GO_ENVIRONMENT = dict(os.environ)
ASKED = "K8SBENCH_TEST_KUBERNETES"
"""Variable that names another Kubernetes for the tests' clusters: ``oldest`` or ``newest``."""


class BuildFailed(Exception):
    """The build failed; the message ends with the Go command's output."""


@dataclass(frozen=True)
class Module:
    """A Go module that declares programs as tools, or has only files of others."""

    name: str
    folder: Path
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Name that Go gives a program → the name that it has here."""
    ldflags: str = "-s -w"
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Local file name → its module and path there."""
    version: str = ""
    """Version of Kubernetes that it is."""

    @property
    def key(self) -> str:
        """Checksum of all that decides the build."""
        sources = sorted(self.folder.rglob("*.go"))
        parts = [
            *(self.folder.joinpath(name).read_text() for name in ("go.mod", "go.sum")),
            *(source.read_text() for source in sources),
            f"{self.ldflags} {sorted(self.renamed.items())} {sorted(self.files.items())}",
            platform.system(),
            platform.machine(),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    @property
    def folder_of_build(self) -> Path:
        """Folder of its built programs."""
        return CACHE / f"{self.name}-{self.key}"

    @property
    def go(self) -> str:
        """The oldest Go that can build it, as its ``go.mod`` says."""
        found = re.search(r"^go (\S+)$", self._text, re.MULTILINE)
        assert found, "every go.mod has a go line"
        return found[1]

    @property
    def has_programs(self) -> bool:
        """Return True if it has programs to build."""
        return re.search(r"^tool\b", self._text, re.MULTILINE) is not None

    @property
    def _text(self) -> str:
        return self.folder.joinpath("go.mod").read_text()


def _stamps(kubernetes: str) -> str:
    """Return version flags as upstream sets them; the default is v0.0.0."""
    major, minor, _ = kubernetes.split(".")
    values = {
        "gitVersion": f"v{kubernetes}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "archive",
        "gitCommit": "unknown",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [
        f"-X {package}.{key}={value}" for package in packages for key, value in values.items()
    ]
    return " ".join(["-s -w", *stamps])


def _other(name: str) -> Module:
    """Return the control plane of another Kubernetes."""
    folder = TOOLS / "kubernetes" / name
    found = re.search(r"k8s\.io/kubernetes v(\S+)", folder.joinpath("go.mod").read_text())
    assert found, "it is a control plane of Kubernetes"
    return Module(f"kubernetes-{name}", folder, ldflags=_stamps(found[1]), version=found[1])


_OPERATOR = "github.com/kubeflow/training-operator"
_KWOK = "sigs.k8s.io/kwok"
CLUSTER = Module(
    name="cluster",
    folder=TOOLS / "cluster",
    renamed={"server": "etcd", "training-operator.v1": "training-operator"},
    ldflags=f"{_stamps(KUBERNETES)} -X helm.sh/helm/v3/internal/version.version=v{HELM}",
    files={
        "crd-pytorchjobs.yaml": (_OPERATOR, "manifests/base/crds/kubeflow.org_pytorchjobs.yaml"),
        "crd-paddlejobs.yaml": (_OPERATOR, "manifests/base/crds/kubeflow.org_paddlejobs.yaml"),
        "operator-webhook.yaml": (_OPERATOR, "manifests/base/webhook/manifests.yaml"),
        "operator-role.yaml": (_OPERATOR, "manifests/base/rbac/role.yaml"),
        "operator-binding.yaml": (_OPERATOR, "manifests/base/rbac/cluster-role-binding.yaml"),
        "operator-account.yaml": (_OPERATOR, "manifests/base/rbac/service-account.yaml"),
        "crd-logs.yaml": (_KWOK, "kustomize/crd/bases/kwok.x-k8s.io_logs.yaml"),
        "node-initialize.yaml": (_KWOK, "kustomize/stage/node/fast/node-initialize.yaml"),
        "node-heartbeat.yaml": (
            _KWOK,
            "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
        ),
        "pod-ready.yaml": (_KWOK, "kustomize/stage/pod/fast/pod-ready.yaml"),
        "pod-delete.yaml": (_KWOK, "kustomize/stage/pod/fast/pod-delete.yaml"),
    },
)
"""Programs of the test cluster."""
NODE = Module(name="node", folder=TOOLS / "node")
"""Programs of real nodes: the cluster's DNS and the pause program."""
HELM_4 = Module(name="helm", folder=TOOLS / "helm")
"""The other major version of Helm; Helm 3 is built with the cluster."""
_JOBSET, _TRAINER = "sigs.k8s.io/jobset", "github.com/kubeflow/trainer/v2"
_KUEUE, _KUEUE_PARTS = "sigs.k8s.io/kueue", "config/components"
OPERATORS = Module(
    name="operators",
    folder=TOOLS / "operators",
    files={
        "jobset-crd.yaml": (_JOBSET, "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"),
        "jobset-role.yaml": (_JOBSET, "config/components/rbac/role.yaml"),
        "jobset-webhook.yaml": (_JOBSET, "config/components/webhook/manifests.yaml"),
        **{
            f"trainer-crd-{plural}.yaml": (
                _TRAINER,
                f"manifests/base/crds/trainer.kubeflow.org_{plural}.yaml",
            )
            for plural in ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
        },
        "trainer-role.yaml": (_TRAINER, "manifests/base/rbac/role.yaml"),
        "trainer-webhook.yaml": (_TRAINER, "manifests/base/webhook/manifests.yaml"),
        **{
            f"kueue-crd-{plural}.yaml": (
                _KUEUE,
                f"{_KUEUE_PARTS}/crd/bases/kueue.x-k8s.io_{plural}.yaml",
            )
            for plural in (
                "admissionchecks",
                "clusterqueues",
                "cohorts",
                "localqueues",
                "multikueueclusters",
                "multikueueconfigs",
                "provisioningrequestconfigs",
                "resourceflavors",
                "topologies",
                "workloadpriorityclasses",
                "workloads",
            )
        },
        "kueue-role.yaml": (_KUEUE, f"{_KUEUE_PARTS}/rbac/role.yaml"),
        "kueue-secrets.yaml": (_KUEUE, f"{_KUEUE_PARTS}/rbac/manager_secrets_role.yaml"),
        "kueue-webhook.yaml": (_KUEUE, f"{_KUEUE_PARTS}/webhook/manifests.yaml"),
    },
)
"""Kubeflow Trainer v2, JobSet and Kueue."""
_DEFINITIONS = "example/prometheus-operator-crd/monitoring.coreos.com_"
MONITORING = Module(
    name="monitoring",
    folder=TOOLS / "monitoring",
    files={
        f"crd-{plural}.yaml": (
            "github.com/prometheus-operator/prometheus-operator",
            f"{_DEFINITIONS}{plural}.yaml",
        )
        for plural in ("servicemonitors", "prometheusrules")
    },
)
"""The Prometheus operator's own definitions of its types."""

OTHERS = {name: _other(name) for name in ("oldest", "newest")}
"""The oldest Kubernetes that the chart allows, and the newest that ``make soak`` runs."""
RELEASE = Module(name="release", folder=TOOLS / "release")
"""Linter of the workflows, and a registry for the rehearsal of a release."""
ALL = (CLUSTER, NODE, HELM_4, MONITORING, OPERATORS, RELEASE)
"""Modules that ``make test`` needs."""


@dataclass(frozen=True)
class Programs:
    """A finished build."""

    folder: Path
    instead: Path | None = None
    """Build whose programs replace those of the same name."""

    def program(self, name: str) -> Path:
        """Return the path of a program."""
        if self.instead is not None and (other := self.instead / "bin" / name).exists():
            return other
        return self.folder / "bin" / name

    def file(self, name: str) -> Path:
        """Return the path of a file that came with a program."""
        return self.folder / "files" / name


def missing(module: Module = CLUSTER) -> str | None:
    """Return why there is no build; None if built or buildable."""
    if module.folder_of_build.is_dir():
        return None
    if shutil.which("go", path=GO_ENVIRONMENT.get("PATH")) is None:
        return f"no go on PATH (Go {OPERATORS.go} or newer)"
    version = _go(module, "env", "GOVERSION").stdout.strip()
    if _numbers(version) < _numbers(module.go):
        return f"go is {version.removeprefix('go')}; building the programs needs {module.go}"
    return None


def built(module: Module = CLUSTER, say: Callable[[str], None] = print) -> Programs:
    """Return the programs, built now if they are not yet; raises BuildFailed."""
    target = module.folder_of_build
    if target.is_dir():
        return Programs(target)
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / f"{target.name}.lock", say) as lock:
        if not target.is_dir():
            say(f"building the programs of {module.folder} into {target}: minutes, but only once")
            partial = CACHE / f"{target.name}.partial"
            shutil.rmtree(partial, ignore_errors=True)  # of a build that was killed
            try:
                seconds = _build(module, partial, lock)
                partial.rename(target)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
            say(f"built in {seconds:.0f} s")
    return Programs(target)


def kubernetes() -> str:
    """Return the version of Kubernetes that the tests' clusters run."""
    asked = GO_ENVIRONMENT.get(ASKED)
    return OTHERS[asked].version if asked else KUBERNETES


def serves(version: str) -> bool:
    """Return True if the tests' clusters run this Kubernetes, such as 1.30, or a newer one."""
    return _numbers(kubernetes()) >= _numbers(version)


def of_cluster(say: Callable[[str], None] = print) -> Programs:
    """Return a cluster's programs, with the Kubernetes that is asked for; raises BuildFailed."""
    asked = GO_ENVIRONMENT.get(ASKED)
    return Programs(built(say=say).folder, built(OTHERS[asked], say).folder if asked else None)


def _build(module: Module, into: Path, lock: int) -> float:
    start = time.monotonic()
    folders = into / "bin", into / "files"
    for folder in folders:
        folder.mkdir(parents=True)
    programs, files = folders
    build = ("build", "-trimpath", f"-ldflags={module.ldflags}", "-o", f"{programs}/", "tool")
    # A go that outlives us because we were killed holds the lock for as long as it writes.
    _go(module, *(build if module.has_programs else ("mod", "download")), keep=(lock,))
    for old, new in module.renamed.items():
        programs.joinpath(old).rename(programs / new)
    for name, (owner, path) in module.files.items():
        home = _go(module, "list", "-m", "-f", "{{.Dir}}", owner).stdout.strip()
        # Without the mode: Go's cache is read-only, and a copy of it could not be removed.
        shutil.copyfile(Path(home, path), files / name)
    return time.monotonic() - start


def _go(
    module: Module, *words: str, keep: tuple[int, ...] = ()
) -> subprocess.CompletedProcess[str]:
    # The user's flags may ask for a vendor folder or a debug build; proxy and caches stay theirs.
    environment = GO_ENVIRONMENT | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    done = subprocess.run(
        ["go", *words],
        cwd=module.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=keep,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise BuildFailed(f"go {words[0]} failed in {module.folder}: {said[-2000:]}")
    return done


@contextlib.contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[int]:
    """Hold a lock, once whoever has it is done; gives its file descriptor."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"somebody else is building; waiting for {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def main(names: Sequence[str]) -> int:
    """Build programs now, where tests would build them when they first need them.

    Without names these are all that ``make test`` needs; with names those of :data:`OTHERS`.
    """
    try:
        for module in [OTHERS[name] for name in names] or ALL:
            built(module)
    except BuildFailed as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
