"""Case keys, group keys, and the labels of a run's objects.

A *case key* identifies a run's case, by its
facts and by the plan that k8sbench made, if it made one; ``(set, case key, repeat)`` is unique. A
*group key* identifies the measurements that may be taken together, and needs what only the run
itself reports (GPU model, precision in effect). Both, and every other comparison of runs, follow
from one list: :data:`CASE_FIELDS`.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from k8sbench.model.facts import Facts, facts_of
from k8sbench.model.kinds import KINDS, default_kind
from k8sbench.model.names import LABEL_DOMAIN, OWN_LABELS
from k8sbench.model.plan import RunPlan

UNKNOWN = "unknown"
"""GPU model of runs that report none."""
_JSON = msgspec.json.Encoder(order="deterministic")


Use = Literal["case", "group", "series", "baseline", "parity", "ratio", "published"]
"""Comparisons that a field takes part in.

- ``case``: the case key, hence whether a set has this repeat already (``--resume``, ``--run-id``).
  What is of the case and not of the group key is what repeats of a group are held to by
  ``mixed-plan``.
- ``group``: the group key, whose field of that name it is.
- ``series``: what stays the same over the sets of one case: ``results`` shows the latest set.
- ``baseline``: what a group shares with the 1x1 case that its speedup refers to.
- ``parity``: what Paddle and PyTorch share to stand in one row.
- ``ratio``: what they share, too, for a ratio to be given; without it the row shows the field's id.
- ``published``: what a group shares with a published figure for a deviation to be given.
"""


class CaseField(msgspec.Struct, frozen=True, kw_only=True):
    """A property of a run that decides if two runs have the same case."""

    name: str
    uses: frozenset[Use]
    why: str
    """One sentence: why it decides."""
    value: Callable[[Facts, RunPlan | None], object]
    """Function from the facts and the plan, if there is one, to the value, of builtin types.

    None leaves the field out of the key, so that runs from before the field keep their keys.
    """


def _field(
    name: str,
    uses: str,
    why: str,
    value: Callable[[Facts, RunPlan | None], object] | None = None,
) -> CaseField:
    """Build a field; its value is by default the fact of that name, else the plan's field."""
    named = frozenset(use for use in get_args(Use) if use in uses.split())
    is_fact = hasattr(Facts, name.partition(".")[0])
    default = _fact(name) if is_fact else _planned(name)
    return CaseField(name=name, uses=named, why=why, value=value or default)


def _fact(name: str) -> Callable[[Facts, RunPlan | None], object]:
    read = operator.attrgetter(name)
    return lambda facts, _: read(facts)


def _planned(name: str) -> Callable[[Facts, RunPlan | None], object]:
    """Read a field that only a plan has."""
    read = operator.attrgetter(name)
    return lambda _, plan: None if plan is None else read(plan)


def _parts(of: object, *names: str) -> object:
    """Return the named fields of a nested value.

    Fields that are added there later change no key.
    """
    if of is None or isinstance(of, str):
        return of
    return {name: getattr(of, name) for name in names}


def _log(facts: Facts, _: RunPlan | None) -> object:
    names = ("unit", "per", "record", "summary", "averaged", "first_iteration", "stamp_format")
    later = ("fields", "last", "first_epoch", "numbering", "evaluation", "metric", "metric_unit")
    newest = ("checkpoint", "thousands", "sequence_length", "includes_events")
    given = [name for name in (*later, *newest) if getattr(facts.log, name, None)]
    if getattr(facts.log, "iteration_counts", "steps") != "steps":
        given.append("iteration_counts")
    return _parts(facts.log, *names, *given)


def _rdma(facts: Facts, _: RunPlan | None) -> object:
    return _parts(facts.pool.rdma, "resource", "count", "capabilities")


def _networks(facts: Facts, _: RunPlan | None) -> object:
    """Return the pool's annotations that attach a network."""
    annotations = facts.pool.annotations
    return {
        key: annotations[key] for key in annotations if "network" in key or ".cni." in key
    } or None


def _program(facts: Facts, plan: RunPlan | None) -> str:
    """Return a digest of twelve digits of the trainers' sources or the command."""
    if plan is None:
        return NO_COMMAND
    return (plan.trainers_digest or _digest(_encoded(facts, plan.command)))[:12]


def _pool(facts: Facts, _: RunPlan | None) -> str:
    return facts.pool.name


def _window(facts: Facts, _: RunPlan | None) -> str | None:
    """Return what a benchmark or an option names of the window.

    The length of another program's run is no part of its case: its series has a range.
    """
    return facts.window.named


def _options(facts: Facts, _: RunPlan | None) -> str | None:
    return ",".join(f"{name}={facts.options[name]}" for name in sorted(facts.options)) or None


def _namespace(facts: Facts, plan: RunPlan | None) -> str | None:
    """Return the namespace of an observed job, or of the Benchmark of an operator's run."""
    if facts.job is not None:
        return facts.job.namespace
    return None if plan is None else plan.namespace


def _training(_: Facts, plan: RunPlan | None) -> str | None:
    """``80000 iterations, evaluated each 8000, ends at mIoU 78.5``."""
    if plan is None or plan.training is None:
        return None
    training = plan.training
    parts = [
        f"{training.length} {training.unit}",
        f"evaluated each {training.evaluate_every}",
    ]
    if training.target is not None:
        ends = "ends at" if training.stop_at_target else "to"
        parts.append(f"{ends} {training.metric} {training.target}")
    return ", ".join(parts)


def _command(_: Facts, plan: RunPlan | None) -> object:
    """Return the command without seeds and checkpoint folders.

    These differ between repeats.
    """
    if plan is None:
        return None
    words = tuple("0" if word == SEED else word for word in plan.command)
    if CHECKPOINTS_OPTION in words and (plan.trainer or plan.checkpoints):
        at = words.index(CHECKPOINTS_OPTION)
        words = (*words[:at], *words[at + 2 :])
    return words


def _unknown(_facts: Facts, _plan: RunPlan | None) -> str:
    return UNKNOWN


def _reported(_facts: Facts, _plan: RunPlan | None) -> None:
    """None, because only the run itself reports the field."""


CHECKPOINTS_OPTION = "--checkpoints"
"""Trainer option for the folder of a run's checkpoints."""
SEED = "$(K8SBENCH_SEED)"
"""Placeholder of the training's seed; each repeat has its own."""
NO_COMMAND = hashlib.sha256(b"[]").hexdigest()[:10]
"""Program of a run whose command nobody planned: the digest of no command, as 0.5 recorded it."""
IDENTITY_VERSION = 3
"""Version of :data:`CASE_FIELDS`.

Raise it with every change that alters the keys of existing runs, once in a release at most, and
have :meth:`GroupKey.former` return the keys of the release before. Raise the version of the store's
tables, too, because their rows hold keys.
"""

_EVERY = "case group series baseline"
CASE_FIELDS: tuple[CaseField, ...] = (
    _field("benchmark", f"{_EVERY} parity", "Another one computes something else."),
    _field("framework", _EVERY, "It is what the benchmark compares."),
    _field("variant", _EVERY, "A variant is a model or a program."),
    _field("impl", _EVERY, "Ours and upstream's are two programs."),
    _field("precision", f"{_EVERY} parity published", "AMP and FP32 are two speeds."),
    _field("precision_effective", "group baseline", "AMP without effect is FP32.", _unknown),
    _field("amp_dtype", _EVERY, "fp16 and bf16 are two speeds."),
    _field("replicas", "case group series", "Nodes talk over a network."),
    _field("processes_per_replica", "case group series", "GPUs of a node share its links."),
    _field("case", "case group series parity published", "Both, GPU or CPU, and shared nodes."),
    _field("batch_size", f"{_EVERY} ratio published", "It decides how well a GPU is used."),
    _field("preset", f"{_EVERY} parity", "A smoke run claims no speed."),
    _field("mode", f"{_EVERY} ratio", "Training to an accuracy evaluates, too."),
    _field(
        "training",
        "case group series",
        "Time to train is that to one target, in a training of one length.",
        _training,
    ),
    _field("weights", "case group series", "They decide what accuracy is reached, and when."),
    _field("data", f"{_EVERY} ratio", "Loading costs time."),
    _field("data_digest", "group baseline", "As the run itself reports its files.", _reported),
    _field("weights_digest", "group", "As the run itself reports the file.", _reported),
    _field("window", _EVERY, "It says which iterations are measured.", _window),
    _field("backend", f"{_EVERY} ratio", "Local replicas share one machine."),
    _field("pool", _EVERY, "A pool is one kind of node.", _pool),
    _field("gpu_model", "group baseline published", "As the run itself reports.", _unknown),
    _field("image", "case group baseline", "It holds the framework."),
    _field("program", "group baseline", "An edited program is another one.", _program),
    _field("options", _EVERY, "They change the speed; two also what is computed.", _options),
    _field("set_name", "group", "The repeats of one set are taken together."),
    _field("node", f"{_EVERY} parity", "A pinned run measures one node and joins no others."),
    _field(
        "namespace",
        _EVERY,
        "Teams name their jobs and sets alike; of observed jobs and an operator's runs.",
        _namespace,
    ),
    _field(
        "measured_by",
        "group series baseline",
        "Another program's figure may count something else.",
        _reported,
    ),
    _field("unit", "case", "It is what is counted per second."),
    _field("log", "case", "It decides how the figures are read.", _log),
    _field("trainer", "case", "It is the program that runs."),
    _field("command", "case", "It holds the program's options, the seed among them.", _command),
    _field("env", "case", "Variables change what libraries do."),
    _field("workdir", "case", "A command finds its files there."),
    _field("sync_bn", "case", "Synchronised batch norm communicates in every layer."),
    _field("window.log_interval", "case", "A log line costs time."),
    _field("window.min_steady_seconds", "case", "GPU metrics are those of this time."),
    _field("pool.gpu_model", "case", "It is the GPU."),
    _field("pool.gpus_per_node", "case", "They share a node's links and cores."),
    _field("pool.gpu_resource", "case", "A slice of a GPU is another resource."),
    _field("pool.selector", "case", "It chooses the nodes."),
    _field("pool.cpu_per_gpu", "case", "Loaders and launches need cores."),
    _field("pool.memory_per_gpu", "case", "Loaders and caches need memory."),
    _field("pool.shm", "case", "Loaders and NCCL talk through it."),
    _field("pool.runtime_class", "case", "It drives the GPUs."),
    _field("pool.nccl_env", "case", "It tunes the communication."),
    _field("pool.python_packages", "case", "The framework comes from there."),
    _field("pool.host_network", "case", "A pod's own network is slower."),
    _field("pool.ipc_lock", "case", "Locked memory is faster to send."),
    _field("pool.rdma", "case", "It is NCCL's way between nodes.", _rdma),
    _field("pool.annotations", "case", "Some attach a network; only those count.", _networks),
)
"""Fields that make two runs the same case; every comparison uses this list.

:data:`NOT_DECIDING` has the other fields of a plan.
"""
NOT_DECIDING = {
    "schema": "version of the document",
    "run_id": "names one run",
    "repeat": "repeats are grouped",
    "spec_digest": "a comment changes it",
    "spec_source": "a path",
    "program_digest": "the resulting command decides",
    "gpus_per_replica": "from processes and device",
    "image_reason": "the image decides",
    "trainers_by": "same sources",
    "trainers_digest": "`program` tells versions apart",
    "timeout_s": "a limit only",
    "wait_timeout_s": "before the start",
    "fingerprint": "from program and options",
    "queue": "before the start",
    "kind": "same pods",
    "checkpoints": "a location",
    "max_restarts": "the row shows restarts",
    "requested_by": "a Benchmark object or a command: the same job",
    "object_name": "names that object",
    "seed": "each repeat has one",
    "secret_env": "credentials",
    "notes": "remarks",
    "window.rule": "origin of the window",
    "log.name": "the format's name",
    "log.confirmed": "read alike",
    "log.framework": "same as `framework`",
    "training.start": "the report's; ours is `weights`",
    "log.facts": "already in the plan",
    "pool.tolerations": "the selector decides",
    "pool.priority_class": "when a job runs",
    "pool.image_pull_secrets": "access only",
    "pool.note": "a remark",
}
"""Fields of a plan that decide nothing → why not."""


@functools.cache
def fields_for(use: Use) -> tuple[str, ...]:
    """Return the names of the fields for one use, in the list's order."""
    return tuple(field.name for field in _fields(use))


@functools.cache
def _fields(use: Use, but: Use | None = None) -> tuple[CaseField, ...]:
    """Return the fields for one use, without those for another, in the list's order."""
    return tuple(field for field in CASE_FIELDS if use in field.uses and but not in field.uses)


def case_key(case: RunPlan | Facts) -> str:
    """Return a case's key, equal exactly for repeats of the case.

    ``case`` is a plan, or the facts of a run that nobody planned. The key is a readable head, and a
    digest of every field of the case. Two keys may be compared only if the same version of this
    list made both: compare keys of two runs, never a key that was stored.
    """
    facts, _ = _known(case)
    fields = case_values(case)
    lines = [str(IDENTITY_VERSION), *(f"{name} {fields[name]}" for name in sorted(fields))]
    named = (facts.benchmark, facts.framework, facts.case, facts.precision)
    head = "/".join(NOT_STATED if value is None else value for value in named)
    return f"{head}/{_digest(chr(10).join(lines).encode())}"


def case_values(case: RunPlan | Facts, *, but: Use | None = None) -> dict[str, str]:
    """Return the case's fields as JSON texts; ``but`` leaves out one use.

    Texts, so that values of any type can be compared and counted.
    """
    facts, plan = _known(case)
    return {
        field.name: _encoded(facts, value).decode()
        for field in _fields("case", but)
        if (value := field.value(facts, plan)) is not None
    }


def _known(case: RunPlan | Facts) -> tuple[Facts, RunPlan | None]:
    """Return the facts of a case, and its plan if it has one."""
    return (case, None) if isinstance(case, Facts) else (facts_of(case), case)


class GroupKey(
    msgspec.Struct, frozen=True, kw_only=True, order=True, omit_defaults=True, dict=True
):
    """Fields that are equal for all repeats of a group. Orders report rows.

    They are the fields of :data:`CASE_FIELDS` with the use ``group``.
    """

    benchmark: str
    framework: str
    variant: str
    impl: str
    precision: str
    """Requested precision. Requests without effect stay apart."""
    precision_effective: str
    amp_dtype: str
    replicas: int
    processes_per_replica: int
    case: str
    batch_size: int | float
    preset: str
    mode: str
    data: str
    window: str
    """``warmup+iterations``; ``-`` of another program's run, which ends where its log does."""
    backend: str
    pool: str
    gpu_model: str
    image: str
    """Digest where known, else the name; ``-`` for local runs."""
    program: str
    """Digest of the trainers' sources or of the command."""
    options: str
    set_name: str
    node: str = "-"
    """Node of a pinned run, else ``-``.

    The default is not part of any id, so that older groups keep theirs.
    """
    training: str = "-"
    """Length, evaluations and target of a run of ``--mode train``.

    Of an evaluated log of another program, the length that it states.
    """
    weights: str = "-"
    """Start weights; ``-`` from scratch."""
    data_digest: str = "-"
    """Digest of the files that the run read."""
    weights_digest: str = "-"
    namespace: str = "-"
    """Namespace of an observed job, or of an operator's Benchmark."""
    measured_by: str = "-"
    """Program that made the measurement; ``-`` for k8sbench."""

    @functools.cached_property
    def id(self) -> str:
        """Short stable name of the group in ``results -o wide`` and ``json``."""
        return "g-" + _digest(msgspec.json.encode(self))

    def former(self, window: str) -> GroupKey:
        """Return the key of the same runs by the release before, which printed its id.

        ``window`` is that of a run: that release had it in every key. It recorded FP32 for a log
        that is not read, and one CPU process for each replica of a job without GPUs.
        """
        values: dict[str, Any] = {**FORMER_DEFAULTS, "window": window}
        if self.framework == NOT_STATED:
            values |= {"framework": UNKNOWN, "precision": "fp32"}
        if self.case == NOT_STATED:
            values |= {"processes_per_replica": 1, "case": f"{self.replicas}x1-cpu"}
        return msgspec.structs.replace(self, **values)

    @functools.cached_property
    def series(self) -> str:
        """Digest of what stays the same over the sets of a case.

        Fields that the release before lacks are part of it only if they have a value, so that other
        cases keep their digest.
        """
        names = fields_for("series")
        named = {name: self._in_series(name) for name in names}
        values = [named[name] for name in names if name not in FORMER_DEFAULTS]
        added = {name: named[name] for name in names if name in FORMER_DEFAULTS}
        decide = [(name, value) for name, value in added.items() if value != NOT_STATED]
        return hashlib.sha256(msgspec.json.encode([*values, *decide])).hexdigest()[:16]

    def _in_series(self, name: str) -> object:
        """Return the value of a field as the series of the case takes it.

        The planned length is of the group, whose runs have one time to a target. It is no part of
        the series of runs whose window nothing names: their speed is compared over a range.
        """
        has_open_length = "+" not in self.window
        return NOT_STATED if name == "training" and has_open_length else getattr(self, name)

    def differs(self, other: GroupKey, name: str) -> bool:
        """Return True if two groups that are compared differ in a field of their series.

        A run of ``submit`` has no namespace, and may be compared with those of an operator's.
        """
        values = self._in_series(name), other._in_series(name)
        is_stated = name != "namespace" or NOT_STATED not in values
        return is_stated and values[0] != values[1]

    def only(self, use: Use) -> tuple[object, ...]:
        """The values of the fields that decide something."""
        return tuple(getattr(self, name) for name in fields_for(use))

    @property
    def sweep(self) -> tuple[object, ...]:
        """Values that the batch sizes of one sweep share."""
        names = {*fields_for("series"), "set_name"} - {"batch_size", "measured_by"}
        return tuple(getattr(self, name) for name in sorted(names))


NOT_STATED = "-"
"""Text of a key in place of a fact that nothing states; of a number it is 0."""
NUMBERS = frozenset({"replicas", "processes_per_replica", "batch_size"})
"""Fields of a group's key that are numbers."""
FORMER_DEFAULTS: Mapping[str, str] = {"namespace": NOT_STATED, "measured_by": NOT_STATED}
"""Fields of a group's key that the release before did not have → what it has without them."""


def group_key(
    case: RunPlan | Facts,
    *,
    precision_effective: str | None,
    gpu_model: str | None,
    image: str | None,
    data_digest: str | None = None,
    weights_digest: str | None = None,
    training: str | None = None,
    measured_by: str | None = None,
) -> GroupKey:
    """Build a group key from the plan or the facts, and the run's own report."""
    facts, plan = _known(case)
    reported = {"precision_effective": precision_effective, "gpu_model": gpu_model, "image": image}
    reported |= {"data_digest": data_digest, "weights_digest": weights_digest}
    reported |= {"training": training, "measured_by": measured_by}
    values = {
        field.name: reported.get(field.name) or field.value(facts, plan)
        for field in _fields("group")
    }
    not_stated = {name: 0 if name in NUMBERS else NOT_STATED for name in values}
    stated = {name: value for name, value in values.items() if value is not None}
    return msgspec.convert(not_stated | stated, GroupKey)


def labels(plan: RunPlan) -> dict[str, str]:
    """Labels of everything that belongs to a run."""
    return OWN_LABELS | {
        f"{LABEL_DOMAIN}/run": plan.run_id,
        f"{LABEL_DOMAIN}/set": plan.set_name,
        f"{LABEL_DOMAIN}/benchmark": plan.benchmark,
        f"{LABEL_DOMAIN}/framework": plan.framework,
        f"{LABEL_DOMAIN}/case": plan.case,
        f"{LABEL_DOMAIN}/repeat": str(plan.repeat),
    }


def _encoded(facts: Facts, value: object) -> bytes:
    """Return the value as JSON, without the run's id.

    A foreign command may hold host names, which begin with the id. Here they are those of the
    framework's usual job kind, so that the job kind makes no other case.
    """
    text = _JSON.encode(value)
    if facts.framework is None or facts.run_id.encode() not in text:
        return text
    usual = default_kind(facts.framework)
    kind = default_kind(facts.framework, facts.kind) if facts.kind in KINDS else usual
    known = [each.known_hosts(facts.run_id, facts.replicas) for each in (kind, usual)]
    for theirs, ours in zip(*known, strict=True):
        text = text.replace(theirs.encode(), ours.encode())
    types = "|".join(map(str.lower, usual.types))
    host = rf"\b{re.escape(facts.run_id)}(?=-(?:{types})-[0-9])".encode()
    return re.sub(host, b"RUN", text)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:10]
