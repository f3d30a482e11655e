"""A job kind as data: what its operator fixes.

:mod:`.kinds` has the entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from k8sbench.model.operators import TRAINING_OPERATOR, Operator
from k8sbench.model.phase import Phase
from k8sbench.model.spec_values import Framework

Variables = list[tuple[str, str]]
"""Variables in a container's order.

A later one may refer to an earlier one; the last of a name counts.
"""

CONDITIONS = (
    ("Failed", Phase.FAILED),
    ("Succeeded", Phase.SUCCEEDED),
    ("Running", Phase.RUNNING),
    ("Restarting", Phase.RUNNING),
    ("Suspended", Phase.QUEUED),
    ("Created", Phase.CREATED),
)
"""Conditions of the training operator (v1.9) and the run's phase.

If several are true, the first one here counts.
"""


class InjectedVariable(msgspec.Struct, frozen=True):
    """A variable of one replica's container."""

    name: str
    value: str
    """With placeholders: see :meth:`JobKind.injected_variables` and :attr:`JobKind.local`."""
    of: Literal["all", "first", "others"] = "all"
    """Replicas that get the variable; the first is that of rank 0."""


class JobRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The separate object with the pod template of a job."""

    name: str
    plural: str
    template: str
    """The file in ``manifests/`` that lays it out."""


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of job."""

    name: str
    """Value of ``kind:`` in a manifest."""
    plural: str
    """Resource name in paths of the API server."""
    group: str = "kubeflow.org"
    version: str = "v1"
    frameworks: tuple[Framework, ...] = ()
    """Frameworks that this entry serves, if several entries have its name."""
    default_for: tuple[Framework, ...] = ()
    """Frameworks that use this kind unless the plan names another."""
    operator: Operator = TRAINING_OPERATOR
    template: str = "job.yaml.j2"
    """The file in ``manifests/`` that lays the job out."""
    runtime: JobRuntime | None = None
    """Separate object that holds the pod template; None: the job holds it."""
    replicas_key: str
    """Field of ``spec`` that maps replica types to replicas.

    With a runtime, the field with the number of replicas, their image and their resources.
    """
    policy_key: str | None = "runPolicy"
    """Field of ``spec`` that suspends the job and limits its time; None: ``spec`` itself."""
    pod_suffix: str = r"-[a-z]+-[0-9]+"
    """Pattern of a pod's name after the job's name.

    It also matches the objects that create the pods. The group ``rank`` is present if the pod's
    name does not end with its replica's; the groups ``role`` and ``job`` in kinds of others' jobs.
    """
    pod_label: str = ""
    """Label of a pod with the name of its job."""
    templates: Literal["roles", "jobs", "pod"] = "roles"
    """Place of the pod templates: by role, in a list of jobs, or one in ``spec``."""
    child: str = ""
    """Kind, by its singular name, of the object of the job's name with its list of jobs."""
    refusals: tuple[str, ...] = ()
    """Event reasons for objects of the job that could not be created."""
    makers: frozenset[str] = frozenset()
    """Kinds between the job and its pods; their events count as the job's."""
    maker: str | None = None
    """Name of the batch/v1 Job that creates the pods; None: the operator creates them."""
    host: str = "{job}-{replica}"
    """Host name of a replica, from the names of job and replica."""
    own_host: str = "$(POD_NAME)"
    """Host name of a replica in its own container, from its variables."""
    after_name: str = ""
    """Longest suffix that counts towards the limit of the job's name."""
    lead: str | None
    """Type of the leading replica; None if all replicas are alike."""
    others: str = "Worker"
    container: str
    """The operator's webhook wants a container of exactly this name."""
    port_name: str
    port: int
    """Port of the rendezvous on the leading replica; see :func:`.kinds.rendezvous_port`."""
    is_port_fixed: bool = False
    """True if the operator sets the port itself."""
    processes_field: str | None = None
    """Field of ``spec`` for the processes per replica."""
    processes_env: str | None = None
    """Variable for the processes per replica; None: the operator has a field."""
    launcher: tuple[str, ...]
    """Command that starts one of our trainers.

    ``{module}`` is its file stem, ``{mount}`` the folder of the trainers. Launchers take nodes,
    rank and rendezvous from the injected variables.
    """
    variables: tuple[InjectedVariable, ...]
    """Variables that the operator appends to the containers of k8sbench's jobs."""
    variables_of_others: frozenset[str] = frozenset()
    """Variables that the operator appends only to jobs of others."""
    local: tuple[InjectedVariable, ...] = ()
    """Variables for replicas that share a machine, which a pod has by itself."""
    fields: Mapping[str, str] = {}
    """Variables that the kubelet fills in → the pod's field."""
    env: tuple[InjectedVariable, ...] = ()
    """Variables that k8sbench adds for the operator; may refer to ``fields``."""
    init_container: bool = False
    """True if the operator adds an init container to replicas that do not lead."""
    conditions: tuple[tuple[str, Phase], ...] = CONDITIONS
    verbs: tuple[str, ...] = ("get", "list", "watch", "create", "patch", "delete")
    """Verbs that k8sbench needs on jobs of this kind."""

    @property
    def api_version(self) -> str:
        """Value of ``apiVersion:`` in a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def singular(self) -> str:
        """Singular resource name, for kubectl."""
        return self.name.lower()

    @property
    def types(self) -> tuple[str, ...]:
        """Its replica types, the leading one first."""
        return (self.others,) if self.lead is None else (self.lead, self.others)

    @property
    def reserved(self) -> frozenset[str]:
        """Names of all variables that the operator sets itself."""
        set_for_all = {variable.name for variable in (*self.variables, *self.env)}
        return self.variables_of_others | set_for_all | self.fields.keys()

    def policy(self, **settings: object) -> dict[str, Any]:
        """Return the part of ``spec`` with suspension and time limits."""
        return settings if self.policy_key is None else {self.policy_key: settings}

    def replica_specs(self, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the replicas of a job's ``spec`` by type; None without them."""
        replicas = spec.get(self.replicas_key)
        if replicas is None or self.runtime is None or self.others in replicas:
            return replicas
        container = {
            "name": self.container,
            "image": replicas.get("image"),
            "resources": replicas.get("resourcesPerNode"),
        }
        template = {"spec": {"containers": [container]}}
        return {self.others: {"replicas": replicas.get("numNodes"), "template": template}}

    def runtime_name(self, job: str, nonce: str) -> str:
        """Return the name of a job's runtime.

        Each record has a name of its own, because the operator may have the runtime cached.
        """
        return f"{job}-{nonce[:8]}"

    def replica_of(self, pod: str, job: str) -> str:
        """Name the replica of a job, given its pod's name."""
        # Not one pattern with the job's name in it: it would be compiled for each job.
        suffix = pod.removeprefix(job)
        match = re.fullmatch(self.pod_suffix, suffix) if suffix != pod else None
        parts = {} if match is None else match.groupdict()
        rank = parts.get("rank")
        if "role" in parts:
            role = parts["role"] or self.others.lower()
            return replica_name(role, int(parts["job"] or 0), int(rank or 0))
        return pod.removeprefix(f"{job}-") if rank is None else f"{self.others.lower()}-{rank}"

    def replicas(self, count: int) -> tuple[tuple[str, int], ...]:
        """Split ``count`` replicas into (type, number), the leading one first."""
        if self.lead is None:
            return ((self.others, count),)
        others = ((self.others, count - 1),) if count > 1 else ()
        return ((self.lead, 1), *others)

    def names(self, count: int) -> list[str]:
        """Return replica names as the operator makes them, rank 0 first.

        For example master-0, worker-0, …
        """
        return [f"{role.lower()}-{i}" for role, many in self.replicas(count) for i in range(many)]

    def hosts(self, job: str, count: int) -> list[str]:
        """Return the host names of a job's replicas, rank 0 first."""
        return [
            self.host.format(job=job, replica=name, number=name.rpartition("-")[2])
            for name in self.names(count)
        ]

    def known_hosts(self, job: str, count: int) -> list[str]:
        """Return the texts by which a command may refer to hosts of its job."""
        return [self.own_host.format(job=job), *self.hosts(job, count)]

    def start(self, module: str, mount: str) -> tuple[str, ...]:
        """Return the command that starts ``module`` of the trainers below ``mount``."""
        return tuple(word.format(module=module, mount=mount) for word in self.launcher)

    def injected_variables(self, values: Mapping[str, object]) -> Variables:
        """Return the variables that the operator appends to a container.

        ``values`` are the placeholders: ``job`` (its name), ``rank`` of the replica, ``replicas``
        of the job, ``processes`` of each, ``address`` and ``port`` of the rendezvous, ``pod_ip``.
        ``{world_size}`` counts all processes; ``processes`` that are no number count as one.
        """
        processes = str(values["processes"])
        replicas = int(str(values["replicas"]))
        per_replica = int(processes) if re.fullmatch(r"[+-]?\d+", processes) else 1
        return fill_variables(self.variables, {**values, "world_size": replicas * per_replica})

    def phase(self, conditions: Iterable[str]) -> Phase | None:
        """Return the phase for a job's true conditions; None if unknown."""
        true = set(conditions)
        return next((phase for name, phase in self.conditions if name in true), None)

    def pod_counts(self, status: Mapping[str, Any]) -> Iterable[Mapping[str, int]]:
        """Count the pods of the job's objects, for a job without conditions."""
        return status.get("jobsStatus") or ()

    def condition(
        self, status: Mapping[str, Any], phase: Phase, *, only_true: bool = True
    ) -> Mapping[str, Any] | None:
        """Return the condition in ``status`` that means ``phase``; None without one."""
        types = [name for name, of_condition in self.conditions if of_condition is phase]
        matching = [
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] in types and (not only_true or condition.get("status") == "True")
        ]
        return min(matching, key=lambda condition: types.index(condition["type"]), default=None)


def fill_variables(
    variables: Iterable[InjectedVariable], values: Mapping[str, object]
) -> Variables:
    """Return the variables of the replica ``rank`` with their values."""
    return [
        (variable.name, variable.value.format(**values))
        for variable in variables
        if variable.of in ("all", "first" if values["rank"] == 0 else "others")
    ]


def replica_name(role: str, job: int, rank: int) -> str:
    """Name a replica of a job that has several jobs of a role; the first job is not named."""
    return f"{role}-{rank}" if job == 0 else f"{role}-{job}-{rank}"
