"""Mutating admission webhooks in the tests' own process."""

import base64
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.harness.cluster import pki
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.pki import Subject
from tests.harness.cluster.shell import until


@contextlib.contextmanager
def mutating(
    cluster: OwnCluster, namespace: Namespace, patch: Sequence[dict[str, Any]]
) -> Iterator[None]:
    """Change by a JSON patch each job that is created in a namespace."""
    kind = cluster.kind
    name = f"hook-{namespace.name}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect((cluster.layout.place.address, 9))
        address = route.getsockname()[0]
    authority = cluster.layout.pki
    subject = Subject("hook", alternatives=[f"IP:{address}"], use="serverAuth")
    pki.sign(authority, name, subject)
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()

    is_in_force = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            is_in_force.set()
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answer = {"uid": asked["request"]["uid"], "allowed": True}
            answer |= {"patchType": "JSONPatch", "patch": encoded}
            body = json.dumps({**asked, "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer((address, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate(name), authority.key(name))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bundle = base64.b64encode(authority.certificate("ca").read_bytes()).decode()
    rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": ["CREATE"]}
    hook = {
        "name": "mutate.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}},
        "clientConfig": {"url": f"https://{address}:{server.server_port}/", "caBundle": bundle},
        "rules": [{**rule, "resources": [kind.plural]}],
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    cluster.create({**head, "metadata": {"name": name}, "webhooks": [hook]})
    metadata = {"name": "probe", "labels": {"k8sbench.io/run": "probe"}}
    probe = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": {}}

    def is_asked() -> bool:
        """Return True if the webhook is in force; it is asked before the job is checked."""
        with contextlib.suppress(KubectlFailed):
            words = ("create", "--dry-run=server", "--validate=ignore", "--filename=-")
            namespace.kubectl(*words, given=json.dumps(probe))
        return is_in_force.is_set()

    try:
        until(is_asked, "the webhook")
        yield
    finally:
        cluster.kubectl("delete", "mutatingwebhookconfiguration", name)
        server.shutdown()
        server.server_close()
