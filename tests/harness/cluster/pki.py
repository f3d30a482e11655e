"""Certificates and keys of one test cluster, made with openssl (3.0 or later).

Everything lives for a year in the cluster's own folder and goes with it. Elliptic keys, for they
take no time; but the training operator and Kueue accept only RSA keys in PKCS#1 for their webhooks,
a CA of exactly the name that they would have given it themselves, and otherwise make their own
pair, which is then not the one in their folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.harness.cluster import network

DAYS = "365"
WEBHOOK_DAYS = "3650"  # the operator renews what ends within 90 days, as 365 days do one day
WEBHOOK_HOST = "training-operator.kubeflow.svc"
MASTERS = "system:masters"


@dataclass(frozen=True)
class Identity:
    """A client of the API server: user name and group in its certificate."""

    name: str
    user: str
    group: str | None = None


# Users of their own, so that the audit log tells them apart. The controller manager as masters: as
# system:kube-controller-manager it needs --use-service-account-credentials, and service accounts
# then appear 4 s later.
IDENTITIES = (
    Identity("admin", "admin", MASTERS),
    Identity("kube-controller-manager", "k8sbench:kube-controller-manager", MASTERS),
    Identity("kube-scheduler", "system:kube-scheduler"),
    Identity("kwok", "k8sbench:kwok", MASTERS),
    Identity(
        "training-operator",
        "system:serviceaccount:kubeflow:training-operator",
        "system:serviceaccounts",
    ),
    # The API server as a client of the nodes.
    Identity("kubelet-client", "k8sbench:kube-apiserver", MASTERS),
)


@dataclass(frozen=True)
class Pki:
    """Folder of the files ``NAME.crt`` and ``NAME.key``."""

    folder: Path

    def certificate(self, name: str) -> Path:
        """Return the path of a certificate."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the path of a private key."""
        return self.folder / f"{name}.key"

    @property
    def webhook(self) -> Path:
        """The folder with the webhook's own four files."""
        return self.folder / "webhook"


def make(folder: Path, address: str) -> Pki:
    """Make all of it for a cluster whose servers listen on this address."""
    pki = Pki(folder)
    pki.webhook.mkdir(parents=True)
    _authority(folder, "ca", Subject("k8sbench-test-ca"), _EC, DAYS)
    names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    hosts = [f"DNS:{name}" for name in names]
    hosts += [f"IP:{one}" for one in (address, network.LOOPBACK, network.API_SERVICE)]
    server = Subject("k8sbench-test", alternatives=hosts, use="serverAuth")
    with ThreadPoolExecutor() as pool:
        work = [
            pool.submit(rotated, pki.webhook, "training-operator", WEBHOOK_HOST),
            pool.submit(_service_account_keys, folder),
            pool.submit(_leaf, folder, "ca", "server", server, _EC, DAYS),
        ]
        for one in IDENTITIES:
            subject = Subject(one.user, group=one.group, use="clientAuth")
            work.append(pool.submit(_leaf, folder, "ca", one.name, subject, _EC, DAYS))
        for job in work:
            job.result()
    return pki


def sign(pki: Pki, name: str, subject: Subject) -> None:
    """Make one more certificate and key of the cluster's authority."""
    _leaf(pki.folder, "ca", name, subject, _EC, DAYS)


@dataclass(frozen=True)
class Subject:
    """The subject of a certificate, and its use."""

    common_name: str
    group: str | None = None
    alternatives: Sequence[str] = ()
    use: str | None = None


_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _authority(folder: Path, name: str, subject: Subject, key: Sequence[str], days: str) -> None:
    extensions = {
        "basicConstraints": "critical,CA:TRUE",
        "keyUsage": "critical,keyCertSign,digitalSignature",
        "subjectKeyIdentifier": "hash",
    }
    _request(folder, name, subject, extensions, key, days)


def _leaf(
    folder: Path, authority: str, name: str, subject: Subject, key: Sequence[str], days: str
) -> None:
    extensions = {
        "basicConstraints": "critical,CA:FALSE",
        "keyUsage": "critical,digitalSignature,keyEncipherment",
        "extendedKeyUsage": subject.use or "serverAuth",
        "subjectKeyIdentifier": "hash",
        "authorityKeyIdentifier": "keyid",
    }
    signed = ("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key")
    _request(folder, name, subject, extensions, (*key, *signed), days)


def rotated(folder: Path, name: str, host: str) -> None:
    """Make an operator's webhook's own four files as the operator's rotator would.

    It checks the names of the authority, its alternative name too.
    """
    authority = Subject(f"{name}-ca", group=name, alternatives=[f"DNS:{name}-ca"])
    server = Subject(host, alternatives=[f"DNS:{host}"], use="serverAuth")
    for one in ("ca", "tls"):
        _openssl(folder, "genrsa", "-traditional", "-out", f"{one}.key", "2048")
    _authority(folder, "ca", authority, ("-key", "ca.key"), WEBHOOK_DAYS)
    _leaf(folder, "ca", "tls", server, ("-key", "tls.key"), WEBHOOK_DAYS)


def _service_account_keys(folder: Path) -> None:
    curve = ("-name", "prime256v1", "-genkey", "-noout")
    _openssl(folder, "ecparam", *curve, "-out", "service-accounts.key")
    public = ("-pubout", "-out", "service-accounts.pub")
    _openssl(folder, "ec", "-in", "service-accounts.key", *public)


def _request(
    folder: Path,
    name: str,
    subject: Subject,
    extensions: dict[str, str],
    words: Sequence[str],
    days: str,
) -> None:
    # A file of our own: the system's openssl.cnf adds extensions that differ by distribution.
    if subject.alternatives:
        extensions |= {"subjectAltName": ",".join(subject.alternatives)}
    lines = ["[req]", "prompt=no", "distinguished_name=who", "x509_extensions=what", "[who]"]
    lines += [f"O={subject.group}"] if subject.group else []
    lines += [f"CN={subject.common_name}", "[what]"]
    lines += [f"{key}={value}" for key, value in extensions.items()]
    folder.joinpath(f"{name}.cnf").write_text("\n".join(lines) + "\n")
    out = ("-out", f"{name}.crt")
    made = () if "-key" in words else ("-keyout", f"{name}.key")
    config = ("-config", f"{name}.cnf")
    _openssl(folder, "req", "-x509", *config, "-days", days, *words, *made, *out)


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
