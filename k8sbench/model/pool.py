"""Node pools: requests of a replica's pod to its nodes.

Pools are data in one file (``pools.yaml``); the built-in one is part of the package. Rules for
several fields (a pool named twice, more shared memory than the pod has memory) are in
:func:`pool_problems` and :func:`document_problems`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

import msgspec

from k8sbench.model.masking import masked


def text_pattern(pattern: str, description: str) -> msgspec.Meta:
    """Return a text's pattern with its description."""
    return msgspec.Meta(pattern=pattern, description=description)


At = tuple[str | int, ...]
"""Path of the offending key."""
Text = Annotated[str, msgspec.Meta(min_length=1)]
_WORD = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = rf"{_WORD}(\.{_WORD})*"
_QUALIFIED = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
LONGEST = 253
"""Maximum characters of a name, and of the prefix before its slash."""
OBJECT_NAME = rf"^{_SUBDOMAIN}\Z"
ObjectName = Annotated[
    str,
    msgspec.Meta(
        max_length=LONGEST,
        pattern=OBJECT_NAME,
        description="a Kubernetes name: lower-case letters, digits, '-', '.'",
    ),
]
"""Names of most objects: claims, secrets, queues, classes."""
Quantity = Annotated[
    str,
    text_pattern(
        r"^\+?([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei"
        r"|[eE][+-]?[0-9]{1,2})?\Z",
        "a Kubernetes quantity such as 4, 500m or 32Gi",
    ),
]
"""Non-negative amount as Kubernetes writes it: a number and a unit."""
LabelKey = Annotated[
    str,
    text_pattern(rf"^({_SUBDOMAIN}/)?{_QUALIFIED}\Z", "a Kubernetes name such as nvidia.com/gpu"),
]
# The API server checks the keys of annotations in lower case.
_PREFIX = _SUBDOMAIN.replace("a-z", "A-Za-z")
AnnotationKey = Annotated[
    str,
    text_pattern(rf"^({_PREFIX}/)?{_QUALIFIED}\Z", "a Kubernetes name such as example.com/team"),
]
ResourceName = Annotated[
    str,
    text_pattern(rf"^{_SUBDOMAIN}/{_QUALIFIED}\Z", "an extended resource such as nvidia.com/gpu"),
]
LabelValue = Annotated[
    str,
    text_pattern(
        rf"^({_QUALIFIED})?\Z", "a label's value: at most 63 letters, digits, '-', '_' and '.'"
    ),
]
EnvName = Annotated[
    str,
    text_pattern(
        r"^([-_A-Za-z]|\.[-_A-Za-z0-9])[-._A-Za-z0-9]*\Z", "the name of an environment variable"
    ),
]
Word = Annotated[str, text_pattern(r"^[^\0]*\Z", "text without a NUL character")]
"""Argument or variable's value that a process can be given."""
PoolName = Annotated[
    str,
    text_pattern(
        r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z", "a name of lower-case letters, digits and '-'"
    ),
]
Capability = Annotated[str, text_pattern(r"^[A-Z][A-Z_]*\Z", "a Linux capability such as IPC_LOCK")]


class Toleration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Kubernetes toleration; fields as in ``core/v1``."""

    key: LabelKey | None = None
    """Key of the taint; without it every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """``Exists`` tolerates every value."""
    value: LabelValue | None = None
    """The taint's value, for ``Equal``; without it the empty one."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Without it every effect."""
    toleration_seconds: int | None = msgspec.field(default=None, name="tolerationSeconds")
    """Seconds that a pod may stay on a tainted node (``NoExecute``); default: for ever."""


class Rdma(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """RDMA devices of a pool; they leave the restricted Pod Security Standard."""

    resource: ResourceName
    """Extended resource name of the device plugin, for example ``rdma/hca_shared_devices_a``."""
    count: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Devices per pod."""
    capabilities: tuple[Capability, ...] = ("IPC_LOCK",)
    """Linux capabilities for the devices, which lock memory."""


class NodePool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Kind of node and settings of its pods, in Kubernetes quantities."""

    name: PoolName
    """Value of ``--node-pool``."""
    gpus_per_node: Annotated[int, msgspec.Meta(ge=0, le=64)]
    """Also the default of ``--gpus``."""
    gpu_model: Text | None
    """GPU model by the driver (``Tesla V100-SXM2-16GB``); null without GPUs."""
    gpu_resource: ResourceName = "nvidia.com/gpu"
    """Extended resource that a pod asks for, one per GPU."""
    selector: dict[LabelKey, LabelValue] = {}
    """Node labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of the nodes that the pods tolerate."""
    cpu_per_gpu: Quantity = "4"
    """CPU cores of a pod, per GPU."""
    memory_per_gpu: Quantity = "32Gi"
    """Memory of a pod, per GPU; ``shm`` is part of it."""
    shm: Quantity = "8Gi"
    """Size of /dev/shm, which counts against the pod's memory limit."""
    runtime_class: ObjectName | None = None
    """``runtimeClassName``, where GPUs need one."""
    priority_class: ObjectName | None = None
    """``priorityClassName``."""
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Names of secrets in the job's namespace."""
    annotations: dict[AnnotationKey, str] = {}
    """Annotations of the pods, such as a network attachment."""
    nccl_env: dict[EnvName, Word] = {}
    """Variables of the communication library (``NCCL_…``)."""
    python_packages: Text | None = None
    """Claim with the framework's site-packages, ``pvc:NAME[/SUB]``.

    For images with the same Python but no framework. It is mounted read-only and put on
    ``PYTHONPATH``.
    """
    rdma: Rdma | None = None
    """RDMA devices; without them NCCL talks over TCP between nodes."""
    host_network: bool = False
    """Use the node's network; leaves the restricted Pod Security Standard."""
    ipc_lock: bool = False
    """Add IPC_LOCK without RDMA devices; leaves the restricted Pod Security Standard."""
    note: Text | None = None
    """Remark: what to know, or what to adapt."""


class PoolsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pools file as a whole."""

    pools: Annotated[
        tuple[NodePool, ...], msgspec.Meta(min_length=1, description="at least one pool")
    ]
    """The pools, each with a name of its own."""
    default: PoolName | None = None
    """Pool of runs without ``--node-pool``; optional for a single pool of whole GPUs."""


CPU_POOL = NodePool(
    name="local", gpus_per_node=0, gpu_model=None, cpu_per_gpu="1", memory_per_gpu="4Gi", shm="1Gi"
)
"""Pool of local machines without GPU: no selector, no GPU request."""

SHARED = (
    "other pods share its GPUs: figures are not comparable with those of whole GPUs, and rejected"
    " (gpu-shared) if another process is seen"
)
SLICES = (
    "its GPUs are slices (MIG): figures are of slices, without a share of the peak, and NCCL does"
    " not connect slices of one GPU"
)
OF_PARTS = SHARED, SLICES
"""Remarks on GPUs that are not whole.

A pool of them is a default only where its file says so.
"""
GPU_REMARKS = {"nvidia.com/gpu.shared": SHARED, "nvidia.com/mig-": SLICES}
"""Prefix of a GPU resource → remark for all runs on it."""
PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery."""
GKE_PART = "cloud.google.com/gke-gpu-partition-size"
"""Label of GKE: profile of the slices, such as ``1g.5gb``."""
_PARTS = (
    (PRODUCT, re.compile(r".*-MIG-.+"), SLICES),
    (GKE_PART, re.compile(r".+"), SLICES),
    (PRODUCT, re.compile(r".*-SHARED"), SHARED),
    ("nvidia.com/gpu.replicas", re.compile(r"[2-9]|[1-9]\d+"), SHARED),
    ("nvidia.com/gpu.sharing-strategy", re.compile(r"time-slicing|mps"), SHARED),
    ("cloud.google.com/gke-gpu-sharing-strategy", re.compile(r".+"), SHARED),
)
"""Label and form of its value → remark.

The GPU operator and GKE set them on nodes whose ``nvidia.com/gpu`` is no whole GPU.
"""
OTHER_VENDORS = (
    *("amd.com/", "gpu.intel.com/", "habana.ai/", "huawei.com/", "cambricon.com/"),
    *("google.com/tpu", "aws.amazon.com/neuron"),
)
"""Prefixes of resources that images for CUDA cannot use."""
OTHER_VENDOR = "its GPUs are not NVIDIA's: k8sbench is not tested there and has no GPU metrics"


def label_of_parts(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the label of slices or shared GPUs, and the remark."""
    matching = ((key, text) for key, form, text in _PARTS if form.fullmatch(labels.get(key, "")))
    return next(matching, None)


def gpu_remark(resource: str, labels: Mapping[str, str]) -> str | None:
    """Return the remark for runs on a GPU resource; None for whole NVIDIA GPUs.

    ``labels`` are those of a node, or of a pool's selector.
    """
    if resource.startswith(OTHER_VENDORS):
        return OTHER_VENDOR
    remarks = (text for start, text in GPU_REMARKS.items() if resource.startswith(start))
    return next(remarks, None) or (label_of_parts(labels) or (None, None))[1]


_UNITS: dict[str, Decimal] = {
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
    **dict(
        zip(["n", "u", "m", "", *"kMGTPE"], (Decimal(1000) ** p for p in range(-3, 7)), strict=True)
    ),
}


def parse_quantity(quantity: str) -> Decimal:
    """Read a Kubernetes quantity: ``500m`` is 0.5, ``8Gi`` is 8589934592."""
    number = r"\+?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    match = re.fullmatch(rf"({number}(?:[eE][+-]?[0-9]+\Z)?)([a-zA-Z]*)", quantity)
    if match is None or match[2] not in _UNITS:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity")
    return Decimal(match[1]) * _UNITS[match[2]]


def multiply(quantity: str, count: int) -> str:
    """Multiply a quantity in its own unit: 8 × ``1.5Gi`` is ``12Gi``."""
    number = re.match("[+0-9.]+", quantity)
    assert number is not None, "a quantity begins with a number"
    return write_number(Decimal(number[0]) * count) + quantity[number.end() :]


def write_number(number: Decimal | int) -> str:
    """Write a number without an exponent."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Claim(NamedTuple):
    """A folder of a persistent volume claim, or a file."""

    name: str
    folder: str | None
    """Folder below the claim's root, without outer slashes; None: the root."""


_CLAIM = re.compile(rf"pvc:(?P<name>{_SUBDOMAIN})(?P<folder>(/(?!\.\.?(/|\Z))[^/\0]+)*)/*")


def parse_claim(place: str) -> Claim | None:
    """Read ``pvc:NAME[/SUB]``; None for anything else.

    A ``..`` or an empty name in it is also None.
    """
    match = _CLAIM.fullmatch(place)
    return None if match is None else Claim(match["name"], match["folder"][1:] or None)


def pool_problems(pool: NodePool, *, gpus: int | None = None) -> Iterator[tuple[At, str]]:
    """Yield a pool's problems for pods of ``gpus`` GPUs (default: all of a node)."""
    for field in ("cpu_per_gpu", "memory_per_gpu", "shm"):
        if parse_quantity(getattr(pool, field)) <= 0:
            yield (field,), f"is {getattr(pool, field)}; a pod needs some"
    shares = max(1, pool.gpus_per_node if gpus is None else gpus)
    if parse_quantity(pool.shm) > shares * parse_quantity(pool.memory_per_gpu):
        yield (
            ("shm",),
            f"is {pool.shm}, more than the memory ({shares} × {pool.memory_per_gpu}) it is part of",
        )
    if pool.gpus_per_node > 0 and pool.gpu_model is None:
        yield ("gpu_model",), "is null, but the pool has GPUs; name it as nvidia-smi does"
    if pool.python_packages is not None and parse_claim(pool.python_packages) is None:
        yield ("python_packages",), f"is {pool.python_packages}, not pvc:NAME[/SUB]"
    for index, entry in enumerate(pool.tolerations):
        yield from (
            (("tolerations", index, key), text) for key, text in _toleration_problems(entry)
        )
    yield from ((("nccl_env", *path), text) for path, text in secret_problems(pool.nccl_env))


def widened_fields(pool: NodePool, base: NodePool) -> Iterator[str]:
    """Yield the fields in which a pool lets a pod do more than another pool does.

    A narrower one selects fewer nodes, or asks for less. Variables and claims are free: benchmark
    files name any.
    """
    for field in ("gpu_model", "gpu_resource", "runtime_class", "priority_class"):
        if getattr(pool, field) != getattr(base, field):
            yield field
    for field in ("cpu_per_gpu", "memory_per_gpu", "shm"):
        if parse_quantity(getattr(pool, field)) > parse_quantity(getattr(base, field)):
            yield field
    if pool.gpus_per_node > base.gpus_per_node:
        yield "gpus_per_node"
    if base.selector.items() - pool.selector.items():
        yield "selector"
    if pool.annotations.items() - base.annotations.items():
        yield "annotations"
    for field in ("tolerations", "image_pull_secrets"):
        if any(item not in getattr(base, field) for item in getattr(pool, field)):
            yield field
    if pool.rdma not in (None, base.rdma):
        yield "rdma"
    for field in ("host_network", "ipc_lock"):
        if getattr(pool, field) and not getattr(base, field):
            yield field


def _toleration_problems(toleration: Toleration) -> Iterator[tuple[str, str]]:
    """Yield what the API server refuses in a toleration."""
    if toleration.operator == "Exists" and toleration.value:
        yield "value", f"is {toleration.value}, and the operator Exists takes none"
    if toleration.operator == "Equal" and toleration.key is None:
        yield "operator", "must be Exists without a key"
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield "tolerationSeconds", "is for the effect NoExecute alone"


def secret_problems(env: Mapping[str, object]) -> Iterator[tuple[At, str]]:
    """Yield the variables with given values that look secret."""
    for name, value in env.items():
        # What $(NAME) stands for may come from a Secret.
        text = f"{name}={value}" if isinstance(value, str) and "$(" not in value else ""
        if text != masked(text):
            text = "is named like a secret or holds a password: a benchmark's env may say"
            yield (name,), f"{text} {{secretKeyRef: {{name: SECRET, key: KEY}}}} instead"


def document_problems(document: PoolsFile) -> Iterator[tuple[At, str]]:
    """Yield the problems of a pools file as a whole."""
    names = [pool.name for pool in document.pools]
    for index, pool in enumerate(document.pools):
        if pool.name in names[:index]:
            yield ("pools", index, "name"), f"says {pool.name} a second time"
        yield from ((("pools", index, *path), text) for path, text in pool_problems(pool))
    if document.default is not None and document.default not in names:
        yield ("default",), f"is {document.default!r}; the file's pools are {', '.join(names)}"
