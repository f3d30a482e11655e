"""How far a pool's pods leave the restricted Pod Security Standard, and what for.

By default they keep to it. Each opt-in of a pool is named in the pods' annotations, so that a
namespace that refuses them is no riddle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from k8sbench.model.pool import NodePool

Level = Literal["restricted", "baseline", "privileged"]
USER = 1000
"""Any user but root; no image needs to know it."""

# https://kubernetes.io/docs/concepts/security/pod-security-standards/: what the baseline level
# lets a container add.
_BASELINE = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID "  # noqa: SIM905 - a table reads better as words
    "SETPCAP SETUID SYS_CHROOT".split()
)


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """The security of one pod."""

    level: Level
    """The strictest standard that it keeps to."""
    reasons: tuple[str, ...]
    """What keeps it from being restricted."""
    capabilities: tuple[str, ...]
    user: int
    non_root: bool
    group: int | None = None
    """Of the files on volumes that the pod writes to; None: it writes to none."""


def security(pool: NodePool, *, writes: bool = False) -> Security:
    """Decide on the user, the capabilities and the level of the pods of ``pool``.

    ``writes``: whether they write to a volume, which is a fresh disk's root's before that.
    """
    wanted = set(pool.rdma.capabilities if pool.rdma is not None else ())
    if pool.ipc_lock:
        wanted.add("IPC_LOCK")
    if pool.host_network or wanted - _BASELINE:
        level: Level = "privileged"
    else:
        level = "baseline" if wanted else "restricted"
    return Security(
        level=level,
        reasons=tuple(_reasons(pool, wanted)),
        capabilities=tuple(sorted(wanted)),
        # The kernel gives an added capability to a process of root alone: for any other user
        # IPC_LOCK would stand in the manifest and lock nothing.
        user=0 if wanted else USER,
        non_root=not wanted,
        # The same for root, which is without the right to write what is others': a run that is
        # taken up by another user's pods finds its checkpoints writable.
        group=USER if writes else None,
    )


def _reasons(pool: NodePool, capabilities: set[str]) -> Iterator[str]:
    for name in sorted(capabilities):
        yield f"capability {name}"
    if capabilities:
        yield "root user"
    if pool.host_network:
        yield "host network"
