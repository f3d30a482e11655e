"""Who a run is: run ids, set names, case keys, group keys, labels.

A *run id* is drawn once per run from a clock reading and random text that the caller passes in,
and names the job, its pods and its folder. A *case key* says which case a plan is, before it ran;
``(set, case key, repeat)`` is unique. A *group key* says which measurements may be taken
together, and needs what only the run itself can tell (GPU model, precision in effect).
"""

from __future__ import annotations

import datetime
import hashlib
import re

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan

LABEL_DOMAIN = "k8sbench.io"
PLAN_ANNOTATION = f"{LABEL_DOMAIN}/plan"
LONGEST_SUFFIX = "-worker-9999"
"""The longest that the training operator appends to a job's name for a pod or service."""
NAME_LIMIT = 63 - len(LONGEST_SUFFIX)
"""DNS-1035 label limit, less the suffix: the job's own name may be this long."""
RUN_ID = re.compile(r"^[a-z]([a-z0-9-]*[a-z0-9])?$")
SET_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
TOKEN_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
"""Letters of the random part: no vowels, so no words; none that read alike."""
TOKEN_LENGTH = 6


def draw_run_id(benchmark: str, *, at: float, token: str) -> str:
    """Build a run id from a benchmark's name, a time (Unix seconds, UTC) and random text.

    DNS-1035, and short enough for every replica's suffix: ``deeplabv3p-261120-081500-x7k2qd``.
    """
    stamp = _stamp(at)
    room = NAME_LIMIT - len(stamp) - len(token) - 2
    return f"{benchmark[:room].rstrip('-')}-{stamp}-{token}"


def draw_set_name(*, at: float, token: str) -> str:
    """Name the set that a submit opens when none is given: ``261120-081500-x7k2qd``."""
    return f"{_stamp(at)}-{token}"


def checked_run_id(text: str) -> str:
    """Return ``text`` if it may name a job, else raise :class:`UsageError`."""
    if len(text) > NAME_LIMIT or not RUN_ID.fullmatch(text):
        raise UsageError(
            f"--run-id {text!r} cannot name a job.",
            f"Use at most {NAME_LIMIT} lower-case letters, digits and '-', a letter first.",
        )
    return text


def checked_set_name(text: str) -> str:
    """Return ``text`` if it may name a set (a Kubernetes label value), else raise."""
    if not SET_NAME.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot name a set.",
            "Use at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends.",
        )
    return text


def case_key(plan: RunPlan) -> str:
    """Identify the case of a plan within its set: equal exactly for repeats of one case.

    A readable head and a digest of every field that decides what runs, without the run's own id,
    set and repeat, and without what cannot change the figures (time limit, notes).
    """
    decisive = msgspec.to_builtins(plan)
    for field in ("run_id", "set_name", "repeat", "timeout_s", "notes", "image_reason", "schema"):
        decisive.pop(field)
    text = _without_id(plan, msgspec.json.encode(decisive, order="deterministic"))
    return f"{plan.benchmark}/{plan.framework}/{plan.case}/{plan.precision}/{_digest(text)}"


class GroupKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What must be equal for measurements to be repeats of one thing. Orders rows in reports."""

    benchmark: str
    framework: str
    variant: str
    impl: str
    precision: str
    """As requested: two requests of which one had no effect stay apart."""
    precision_effective: str
    amp_dtype: str
    replicas: int
    processes_per_replica: int
    case: str
    batch_size: int
    preset: str
    mode: str
    data: str
    window: str
    """``warmup+iterations``."""
    backend: str
    pool: str
    gpu_model: str
    image: str
    """Digest where known, else the name; ``-`` for local runs."""
    program: str
    """Digest of the trainers' sources or of the command: an edited program is another group."""
    options: str
    set_name: str

    @property
    def id(self) -> str:
        """Short stable name of the group, as printed by ``results -o wide`` and ``json``."""
        return "g-" + _digest(msgspec.json.encode(self))


def group_key(
    plan: RunPlan, *, precision_effective: str | None, gpu_model: str | None, image: str | None
) -> GroupKey:
    """Build the group key of a run from its plan and what the run itself told."""
    program = plan.trainers_digest or _digest(_without_id(plan, msgspec.json.encode(plan.command)))
    return GroupKey(
        benchmark=plan.benchmark,
        framework=plan.framework,
        variant=plan.variant,
        impl=plan.impl,
        precision=plan.precision,
        precision_effective=precision_effective or "unknown",
        amp_dtype=plan.amp_dtype or "-",
        replicas=plan.replicas,
        processes_per_replica=plan.processes_per_replica,
        case=plan.case,
        batch_size=plan.batch_size,
        preset=plan.preset,
        mode=plan.mode,
        data=plan.data,
        window=f"{plan.window.warmup}+{plan.window.iterations}",
        backend=plan.backend,
        pool=plan.pool.name,
        gpu_model=gpu_model or "unknown",
        image=image or plan.image or "-",
        program=program[:12],
        options=",".join(f"{k}={plan.options[k]}" for k in sorted(plan.options)) or "-",
        set_name=plan.set_name,
    )


def labels(plan: RunPlan) -> dict[str, str]:
    """Labels of everything that belongs to a run."""
    return {
        "app.kubernetes.io/name": "k8sbench",
        "app.kubernetes.io/managed-by": "k8sbench",
        "app.kubernetes.io/part-of": "dlperf",
        f"{LABEL_DOMAIN}/run": plan.run_id,
        f"{LABEL_DOMAIN}/set": plan.set_name,
        f"{LABEL_DOMAIN}/benchmark": plan.benchmark,
        f"{LABEL_DOMAIN}/framework": plan.framework,
        f"{LABEL_DOMAIN}/case": plan.case,
        f"{LABEL_DOMAIN}/repeat": str(plan.repeat),
    }


def _without_id(plan: RunPlan, text: bytes) -> bytes:
    """A foreign command may hold host names, and they begin with the run's own id."""
    host = rb"\b%b(?=-(?:master|worker)-[0-9])" % re.escape(plan.run_id).encode()
    return re.sub(host, b"RUN", text)


def _stamp(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%y%m%d-%H%M%S")


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:10]
