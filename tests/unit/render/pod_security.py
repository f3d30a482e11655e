"""The restricted Pod Security Standard as a checker of pod specs, for these tests.

Written from https://kubernetes.io/docs/concepts/security/pod-security-standards/ and not from our
templates. In ``tests/cluster`` the API server itself enforces the standard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
    *("projected", "secret"),
}


def violations(pod: Mapping[str, Any]) -> list[str]:
    """Name every rule of the restricted level that a pod spec breaks."""
    return [*_of_pod(pod), *(f for c in _containers(pod) for f in _of_container(c, pod))]


def _containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod.get(key, ())


def _of_pod(pod: Mapping[str, Any]) -> Iterator[str]:
    security = pod.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    for volume in pod.get("volumes", ()):
        if not set(volume) - {"name"} <= VOLUMES:
            yield "volume types"
    if security.get("runAsUser") == 0:
        yield "runAsUser"


def _of_container(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    security, above = container.get("securityContext", {}), pod.get("securityContext", {})
    capabilities = security.get("capabilities", {})
    if security.get("privileged"):
        yield "privileged"
    if security.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if "ALL" not in capabilities.get("drop", ()):
        yield "capabilities.drop"
    if set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "capabilities.add"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "hostPort"
    if security.get("runAsNonRoot", above.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot"
    if security.get("runAsUser") == 0:
        yield "runAsUser"
    seccomp = security.get("seccompProfile", above.get("seccompProfile", {}))
    if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
