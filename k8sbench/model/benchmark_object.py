"""The custom resource ``Benchmark``: what a user wants of the operator. Pure.

``charts/crds`` has its schema; the API server has checked an object against it. One object is one
submit, and its runs are named after it: ``NAME-1``, ``NAME-2`` and so on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import UsageError
from k8sbench.model.kube import KubeObject, conditions, is_true, parse_time
from k8sbench.model.pool import NodePool
from k8sbench.model.request import CaseRequest, SubmitRequest

GROUP = "k8sbench.io"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "Benchmark"
SCHEMA = 1
"""Number of the CRD's schema, which stands in its description."""
MOST_RUNS = 1000
"""Most runs of one object."""
LONGEST_NAME = 42
"""Characters of a name: those of its runs and their pods are longer."""
COMPLETE, VALID = "Complete", "Valid"
"""Types of the conditions of its status."""
ObjectPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]
OVER = frozenset({"Succeeded", "Failed", "Cancelled"})
"""Phases that an object does not leave."""


class ObjectSpec(
    CaseRequest, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The ``spec`` of an object."""

    set: str | None = None
    """Set of the runs; None: the object's name."""
    benchmark: str | None = None
    """Name in the catalog, or ``all``."""
    file: str | None = None
    """Text of a benchmark file; one of the two is given."""
    pool: dict[str, Any] | None = None
    """Pool in place of the operator's, as in a pools file; checked when its runs are planned."""
    timeout: str | None = None
    wait_timeout: str | None = None
    target: str | None = None
    """Percent, or ``none``."""
    nodes: tuple[str, ...] = ()
    """Nodes to each of which the case is pinned; empty: the scheduler chooses."""

    cancel: bool = False
    """True to end the runs and start no more."""
    cancel_runs: tuple[str, ...] = ()
    """Names of runs to end."""
    retry: int = 0
    """Grows to run again what is missing or failed."""
    ttl_seconds_after_finished: int | None = None
    """Seconds from the end until the object is deleted; None: it stays."""


MUTABLE = frozenset(
    {"parallel", "cancel", "cancel_runs", "keep", "retry", "ttl_seconds_after_finished"}
)
"""Fields of :class:`ObjectSpec` that may change."""


class StatusEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a status, as a Kubernetes event."""

    key: str
    """Lower-case text that no other change of the object has."""
    reason: str
    message: str
    is_warning: bool = False


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """One object, as the API server has it."""

    name: str
    uid: str
    generation: int
    created_at: float
    """Unix seconds."""
    spec: ObjectSpec
    status: Mapping[str, Any] = {}
    """The status that the operator wrote last; empty before."""
    is_deleted: bool = False
    """True if it is deleted as soon as no finalizer holds it; its spec then cancels all runs."""
    held_by: tuple[str, ...] = ()
    """Finalizers of other programs that hold it."""

    @property
    def set_name(self) -> str:
        """Set of its runs."""
        return self.spec.set or self.name

    @property
    def is_over(self) -> bool:
        """True if its status says that all of its runs have ended."""
        return self.status.get("phase") in OVER and self.retried >= self.spec.retry

    @property
    def retried(self) -> int:
        """Value of ``retry`` that its status answers."""
        return int(self.status.get("observedRetry", 0))

    @property
    def expires_at(self) -> float | None:
        """Time at which it is to be deleted, Unix seconds; None if never."""
        seconds = self.spec.ttl_seconds_after_finished
        complete = conditions({"status": self.status}).get(COMPLETE)
        if seconds is None or complete is None or not is_true(complete):
            return None
        at = parse_time(complete["lastTransitionTime"])
        return None if at is None else at + seconds

    def run_id(self, number: int) -> str:
        """Return the name of a run by its number, from 1."""
        return f"{self.name}-{number}"

    def number_of(self, run_id: str) -> int | None:
        """Return the number in a run's name; None for another's name."""
        name, _, digits = run_id.rpartition("-")
        is_number = digits.isascii() and digits.isdigit() and digits[0] != "0"
        return int(digits) if is_number and name == self.name else None

    def last_number(self, run_ids: Iterable[str]) -> int:
        """Return the highest number of its runs among these; 0 if none is its."""
        return max((self.number_of(run_id) or 0 for run_id in run_ids), default=0)

    def request(self) -> SubmitRequest:
        """Return the submit that the object stands for.

        Raises :class:`~k8sbench.model.errors.UsageError`.
        """
        spec = self.spec
        fixed = set(CaseRequest.__struct_fields__) - MUTABLE - {"wait"}
        return SubmitRequest(
            benchmark=spec.benchmark or f"{self.name}.yaml",
            backend="kubernetes",
            set_name=self.set_name,
            timeout_s=_parse_seconds("timeout", spec.timeout),
            wait_timeout_s=_parse_seconds("waitTimeout", spec.wait_timeout),
            target=_parse_target(spec.target),
            **{name: getattr(spec, name) for name in fixed},
        )


def _parse_seconds(field: str, text: str | None) -> float | None:
    if text is None:
        return None
    seconds = times.parse_duration(text)
    if not seconds:
        raise UsageError(f"{field} {text!r} is not a length of time.", f"Write {times.EXAMPLES}.")
    return seconds


def _write_seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def _parse_target(text: str | None) -> float | Literal["none"] | None:
    if text is None or text == "none":
        return text  # type: ignore[return-value]
    return float(text)


def object_of(
    request: SubmitRequest,
    name: str,
    *,
    file: str = "",
    pool: NodePool | None = None,
    nodes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the manifest of the Benchmark that stands for a submit.

    ``file`` is the text of a benchmark file; empty for the catalog's benchmark. ``pool`` is one
    that the operator does not have. ``nodes`` are those to which the case is pinned. Raises
    :class:`~k8sbench.model.errors.UsageError` for an option that no object has.
    """
    for option, value in (
        ("--data", request.data),
        ("--weights", request.weights),
        ("--checkpoints", request.checkpoints),
    ):
        if value and not value.startswith(("pvc:", "synthetic")):
            raise UsageError(
                f"{option} {value} is no claim, and the operator's pods mount claims alone.",
                f"Write {option} pvc:NAME/FOLDER, or run it from here with --no-operator.",
            )
    shared = {name: getattr(request, name) for name in CaseRequest.__struct_fields__}
    precision = "amp" if request.amp and request.precision is None else request.precision
    target = request.target if request.target in {None, "none"} else f"{request.target:.9g}"
    wanted_spec = ObjectSpec(
        **shared
        | {
            "set": None if request.set_name == name else request.set_name,
            "benchmark": None if file else request.benchmark,
            "file": file or None,
            "precision": precision,
            "timeout": _write_seconds(request.timeout_s),
            "wait_timeout": _write_seconds(request.wait_timeout_s),
            "target": target,
            "node_pool": None if pool is not None else request.node_pool,
            "pool": None if pool is None else _pool_as_json(pool),
            "nodes": tuple(nodes),
        }
    )
    # An absent field is None, and a list of none has no items that the schema would take.
    fields = _as_json(wanted_spec)
    defaults = _as_json(ObjectSpec())
    order = ("set", "benchmark", "file", *defaults)
    spec = {name: fields[name] for name in order if fields[name] != defaults[name]}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}


def _as_json(spec: ObjectSpec) -> dict[str, Any]:
    """Return a spec as JSON has it, which knows lists alone."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    return plain


def _pool_as_json(pool: NodePool) -> dict[str, Any]:
    """Write a pool as an object has it, in which an absent field is None."""
    fields = msgspec.to_builtins(pool).items()
    return {name: value for name, value in fields if value is not None or name == "gpu_model"}


def _read_pool(pool: Mapping[str, Any] | None) -> Any:
    """Read a pool to compare it; return an unreadable one as it is."""
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.convert(pool, NodePool | None)
    return pool


def asks_for_same(manifest: Mapping[str, Any], benchmark: Benchmark) -> bool:
    """Return True if an object has the immutable fields of a new one."""
    spec = msgspec.convert(manifest["spec"], ObjectSpec)
    fixed = set(ObjectSpec.__struct_fields__) - MUTABLE - {"set", "pool"}
    if _read_pool(spec.pool) != _read_pool(benchmark.spec.pool):
        return False
    is_in_set = (spec.set or manifest["metadata"]["name"]) == benchmark.set_name
    return is_in_set and all(
        getattr(spec, field) == getattr(benchmark.spec, field) for field in fixed
    )


def claim_name(name: str) -> str:
    """Return the name of the claim of the process that reconciles a stored object."""
    return f"benchmark {name}"


def cancelled_spec(spec: ObjectSpec) -> ObjectSpec:
    """Return the spec of an object that is deleted while a finalizer holds it."""
    return msgspec.structs.replace(spec, cancel=True, keep=False)


def read(kube_object: KubeObject) -> Benchmark:
    """Read an object of the API server.

    Raises :class:`msgspec.ValidationError` for one of another version of the schema.
    """
    metadata = kube_object["metadata"]
    spec = msgspec.convert(kube_object["spec"], ObjectSpec)
    is_deleted = metadata.get("deletionTimestamp") is not None
    if is_deleted:
        spec = cancelled_spec(spec)
    return Benchmark(
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        created_at=parse_time(metadata.get("creationTimestamp")) or 0.0,
        spec=spec,
        status=kube_object.get("status") or {},
        is_deleted=is_deleted,
        held_by=tuple(metadata.get("finalizers") or ()),
    )
