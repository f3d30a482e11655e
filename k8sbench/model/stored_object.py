"""A Benchmark object of a store, which the process that submitted it reconciles. Pure.

``object`` is what the API server would hold, and is checked by the same schema. What the API server
must not know, such as paths of a machine, is in :class:`PrivateOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from k8sbench.model import benchmark_object
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.masking import masked
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.request import ClusterAccess, SubmitRequest
from k8sbench.model.run import Process


class ObjectPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Place of the runs of an object, and the process that creates them."""

    backend: Literal["kubernetes", "local"]
    access: ClusterAccess = ClusterAccess()
    """Namespace, context and kubeconfig of the cluster."""
    process: Process | None = None
    """Process that reconciles the object, with its host and boot; None: it has ended."""


class PrivateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that only this machine understands; no passwords."""

    benchmark: str | None = None
    """Absolute path of the user's benchmark file; its folder is that of its program."""
    data: str | None = None
    """Folder of samples; None: the object says where they are. So for the next two."""
    weights: str | None = None
    checkpoints: str | None = None
    pools_file: str | None = None
    prometheus: str | None = "auto"
    """URL, ``auto`` or ``none``; None: a URL with a password, which must be given again."""


PATHS = ("data", "weights", "checkpoints")
"""Options that an object has only for claims and synthetic samples."""


class StoredObject(msgspec.Struct, frozen=True, kw_only=True):
    """``NAME.json``: the object with its place; commands write it."""

    schema: int = SCHEMA
    """Version of the document."""
    object: dict[str, Any]
    """Object as the API server would hold it, without its status."""
    place: ObjectPlace
    private: PrivateOptions = PrivateOptions()

    def benchmark(self, status: Mapping[str, Any] | None = None) -> Benchmark:
        """Read the object with a status; raises :class:`msgspec.ValidationError`."""
        return benchmark_object.read({**self.object, "status": status or {}})


class StoredStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``NAME.status.json``: the status; whoever reconciles the object writes it."""

    schema: int = SCHEMA
    """Version of the document."""
    uid: str
    """The object's; a status of another object of its name counts for nothing."""
    status: dict[str, Any]


def split_request(request: SubmitRequest) -> tuple[SubmitRequest, PrivateOptions]:
    """Split a request into what an object can say, and what only this machine understands.

    The benchmark file is the caller's to resolve: see :attr:`PrivateOptions.benchmark`.
    """
    paths = {name: getattr(request, name) for name in PATHS}
    local = {
        name: value
        for name, value in paths.items()
        if value and not value.startswith(("pvc:", "synthetic"))
    }
    url = request.prometheus
    private = PrivateOptions(
        **local,
        pools_file=request.pools_file,
        prometheus=url if url is None or masked(url) == url else None,
    )
    usual = {name: "synthetic" if name == "data" else None for name in local}
    return msgspec.structs.replace(request, **usual), private
