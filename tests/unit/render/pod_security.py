"""The restricted Pod Security Standard as a checker of pod specs, for these tests.

Written from https://kubernetes.io/docs/concepts/security/pod-security-standards/ and not from our
templates: it knows fields that we never write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
    *("projected", "secret"),
}
SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start"),
    *("net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time"),
    *("net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes"),
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
    for sysctl in security.get("sysctls", ()):
        if sysctl["name"] not in SYSCTLS:
            yield "sysctls"
    if security.get("runAsUser") == 0:
        yield "runAsUser"
    yield from _of_either(security)


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
    if security.get("procMount", "Default") != "Default":
        yield "procMount"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "hostPort"
    if security.get("runAsNonRoot", above.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot"
    if security.get("runAsUser") == 0:
        yield "runAsUser"
    seccomp = security.get("seccompProfile", above.get("seccompProfile", {}))
    if seccomp.get("type") not in ("RuntimeDefault", "Localhost"):
        yield "seccompProfile"
    yield from _of_either(security)


def _of_either(security: Mapping[str, Any]) -> Iterator[str]:
    if security.get("windowsOptions", {}).get("hostProcess"):
        yield "hostProcess"
    profile = security.get("appArmorProfile", {}).get("type", "RuntimeDefault")
    if profile not in ("RuntimeDefault", "Localhost"):
        yield "appArmorProfile"
    options = security.get("seLinuxOptions", {})
    types = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
    if options.get("type", "") not in types or options.get("user") or options.get("role"):
        yield "seLinuxOptions"
