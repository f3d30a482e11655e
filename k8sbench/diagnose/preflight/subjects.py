"""Subjects of the checks of the preflight: for each check, the things that it looks at.

A fact that is not known raises :class:`~k8sbench.diagnose.preflight.facts.Unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import SimpleNamespace as Subject

import msgspec

from k8sbench import __version__
from k8sbench.catalog.training import mounted_claims
from k8sbench.diagnose.preflight import deployment, nodes
from k8sbench.diagnose.preflight.facts import (
    LEVELS,
    ClusterFacts,
    ObserverFacts,
    Permission,
    PreflightFacts,
    Unknown,
    known,
)
from k8sbench.model import benchmark_object, times
from k8sbench.model.errors import list_few
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import ServingOperator, conditions, name_of
from k8sbench.model.operators import OPERATORS
from k8sbench.model.plain_text import counted, share
from k8sbench.model.pool import OTHER_VENDOR, gpu_remark, parse_quantity, write_number
from k8sbench.render.pod import security

KUEUE = "kueue.x-k8s.io"
"""API group."""
LEASES = "coordination.k8s.io"
"""API group."""
MOST_NAMES = 5
"""Nodes that a sentence names."""


def api_server(facts: ClusterFacts) -> Iterator[Subject]:
    """Yield the version that answers."""
    yield Subject(version=known(facts.version))


def namespace(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the namespace of the runs."""
    yield Subject(found=known(facts.namespace))


def permissions(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield what may not be done, by resource; without any one subject that says so."""
    others = {operator.group for operator in OPERATORS.values()} - {facts.operator.group}
    if not _has_kueue(facts):
        others.add(KUEUE)
    is_operated = isinstance(facts.serving, ServingOperator)
    if not is_operated:
        others.add(benchmark_object.GROUP)
    missing: dict[tuple[str, bool, bool], list[str]] = defaultdict(list)
    for one, is_allowed in known(facts.access).items():
        if not is_allowed and one.group not in others:
            missing[one.what, one.namespaced, one.needed].append(one.verb)
    for (what, namespaced, needed), verbs in missing.items():
        where = f"in the namespace {facts.home}" if namespaced else "of the cluster"
        role = "Role" if namespaced else "ClusterRole"
        grant = f"bind you to the {role} in {facts.role_file}"
        if namespaced and is_operated:  # the Role also lets them create jobs
            grant = "list you in users.subjects of the operator's chart"
        yield Subject(
            missing=f"{', '.join(verbs)} {what} {where}",
            needed=needed,
            role=role,
            grant=grant,
        )
    if not missing:
        yield Subject(missing=None)


def observing(facts: ObserverFacts) -> Iterator[Subject]:
    """Yield each resource that observing reads, but none of groups that are not served."""
    groups = {"", *known(facts.groups)}
    rights: dict[Permission, dict[str, bool]] = defaultdict(dict)
    for one, is_allowed in known(facts.rights).items():
        if one.group in groups:
            rights[msgspec.structs.replace(one, verb="")][one.verb] = is_allowed
    for of, verbs in rights.items():
        missing = [verb for verb, is_allowed in verbs.items() if not is_allowed]
        where = f"in the namespace {facts.home}" if of.namespaced else "of the cluster"
        yield Subject(
            may=f"{', '.join(verbs)} {of.what} {where}",
            may_not=f"{', '.join(missing)} {of.what} {where}" if missing else None,
            is_needed=of.namespaced and of.group not in {KUEUE, LEASES},
            role="Role" if of.namespaced else "ClusterRole",
        )


def serving(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the operator of k8sbench that serves the namespace."""
    if (found := known(facts.serving)) is None:
        yield Subject(found=None)
        return
    yield Subject(
        found=found,
        schema=known(facts.crd_schema),
        needed=benchmark_object.SCHEMA,
        age=times.duration(found.age_s),
        home=found.place.partition("/")[0],
        ours=__version__,
    )


def job_kinds(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the programs that are not installed, and the kinds that are asked for."""
    groups = known(facts.groups)
    served = known(facts.kinds)
    for program in (facts.operator, *facts.operator.needs):
        if program.group not in groups:
            yield Subject(lacks=program)
    some = any(KINDS[name].plural in served for name in facts.asked)
    for name in facts.asked if facts.operator.group in groups else ():
        is_served = KINDS[name].plural in served
        yield Subject(lacks=None, kind=KINDS[name], is_served=is_served, is_other_served=some)


def admission(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the answer to a job of each kind."""
    for kind, refusal in facts.refusals.items():
        message = (refusal or "").strip().rstrip(".")
        # Else permissions or namespace reports it. Quotas and admission plug-ins answer 403 as
        # well, in words of their own.
        is_news = facts.namespace is not None and "cannot create resource" not in message
        yield Subject(kind=kind, message=message, is_news=is_news)


def operator(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the Deployments of the operators of the jobs."""
    for program in (facts.operator, *facts.operator.needs):
        if (found := known(facts.deployments.get(program.name))) is not None:
            meta = found["metadata"]
            replicas = found["spec"].get("replicas", 1)
            available = found.get("status", {}).get("availableReplicas", 0)
            where = f"{meta['namespace']}/{meta['name']}"
            ready = f"{share(available, replicas, 'replica')} of {where}"
            verb = "is" if available == 1 else "are"
            image = deployment.container_of(found, program).get("image", "unknown")
            yield Subject(
                program=program,
                is_down=available < 1,
                is_tested=deployment.version(found, program) in (None, program.version),
                status=f"{ready} {verb} available, {image}",
            )


def pod_security(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the level that the namespace enforces beside that of the pods."""
    if (level := facts.enforced_level) is not None:
        pods = security(facts.plan.pool)
        yield Subject(
            is_refused=LEVELS.index(pods.level) < LEVELS.index(level),
            enforced=level,
            level=pods.level,
            reasons=f" ({', '.join(pods.reasons)})" if pods.reasons else "",
        )


def init_container(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the kind of job whose init container the namespace may refuse."""
    with_one = [name for name in facts.asked if KINDS[name].init_container]
    if facts.enforced_level != "restricted" or not with_one:
        return
    if (found := known(facts.deployments.get(facts.operator.name))) is not None:
        yield Subject(kind=with_one[0], has_own=deployment.has_init_template(found))


def quota(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield what the job needs beside the quotas of the namespace."""
    replicas, gpus = facts.plan.replicas, facts.plan.gpus_per_replica
    needs = {"pods": parse_quantity(str(replicas))}
    for name, need in nodes.replica(facts.plan).items():
        needs |= dict.fromkeys((name, f"requests.{name}", f"limits.{name}"), need * replicas)
    short = []
    seen = []
    for quota in known(facts.quotas):
        used = quota.get("status", {}).get("used", {})
        for key, hard in quota.get("status", {}).get("hard", {}).items():
            if (asked := needs.get(key.removeprefix("count/"))) is not None:
                seen.append(f"{key}: {used.get(key, '0')} of {hard} used ({name_of(quota)})")
                if parse_quantity(hard) - parse_quantity(used.get(key, "0")) < asked:
                    short.append(f"{seen[-1]}, {write_number(asked)} are needed")
    job = counted(replicas, "replica") + (f" of {counted(gpus, 'GPU')}" if gpus else "")
    yield Subject(job=job, short="; ".join(short), seen=f": {'; '.join(seen)}" if seen else "")


def pool_nodes(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the nodes of the pool, and their room."""
    if _is_denied(facts, "nodes"):
        return
    plan = facts.plan
    of_pool = known(facts.nodes)
    refusals = {name_of(node): nodes.refusal(node, plan) for node in of_pool}
    away = [f"{name} ({why})" for name, why in refusals.items() if why is not None]
    more = ", …" if len(away) > MOST_NAMES else ""
    room = nodes.room(of_pool, plan)
    fit = len(of_pool) - len(away)
    yield Subject(
        count=len(of_pool),
        labels=_listed(plan.pool.selector, "any label"),
        room=share(room, plan.replicas, "replica"),
        has_room=room >= plan.replicas,
        fit=share(fit, len(of_pool), "node"),
        take="takes" if fit == 1 else "take",
        away=f": not {', '.join(away[:MOST_NAMES])}{more}" if away else "",
    )


def gpu_resource(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield a GPU resource with which figures may not compare."""
    plan, pool = facts.plan, facts.plan.pool
    of_nodes = () if isinstance(facts.nodes, Unknown) else facts.nodes
    remarks = {name_of(node): nodes.remark(node, pool.gpu_resource) for node in of_nodes}
    by_node = [name for name, remark in remarks.items() if remark is not None]
    of_pool = gpu_remark(pool.gpu_resource, pool.selector)
    if plan.gpus_per_replica and (remark := of_pool or next(filter(None, remarks.values()), None)):
        where = "" if of_pool else f" on {list_few(by_node)}"
        lacks_image = remark == OTHER_VENDOR and plan.image_reason != "--image"
        yield Subject(remark=remark, where=where, lacks_image=lacks_image)


def gpu_metrics(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the fields that the source of GPU metrics lacks."""
    source = facts.prometheus
    missing = []
    fault = "no Prometheus was asked"
    if source is not None:
        names = {*source.fields}
        fault = source.fault or f"{source.name} has no field of DCGM"
        missing = [m for m in METRICS if m.dcgm and not names & {field.name for field in m.dcgm}]
    if facts.plan.pool.gpus_per_node:
        yield Subject(
            source=source,
            fault=fault,
            lacks=f" but {', '.join(metric.dcgm[0].name for metric in missing)}" if missing else "",
            is_wanted=any(metric.is_wanted for metric in missing),
        )


def volume_claims(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the volume claims of the runs."""
    several = facts.plan.replicas > 1
    written = mounted_claims(facts.plan)
    for name, found in facts.claims.items():
        claim = {} if found is None or isinstance(found, Unknown) else found
        status = claim.get("status", {})
        modes = set(status.get("accessModes") or claim.get("spec", {}).get("accessModes", ()))
        needed = {"ReadWriteMany"} if written.get(name) else {"ReadOnlyMany", "ReadWriteMany"}
        yield Subject(
            name=name,
            found=found,
            unseen=getattr(found, "why", ""),
            modes=", ".join(sorted(modes)),
            is_read_only=written.get(name) and not modes - {"ReadOnlyMany"},
            is_for_one=several and not modes & needed,
            phase=status.get("phase", "Pending"),
            fitting=" or ".join(sorted(needed)) if several else "ReadWriteOnce",
        )


def queue(facts: PreflightFacts) -> Iterator[Subject]:
    """Yield the queue of the runs."""
    if facts.plan.queue is not None:
        has_kueue = _has_kueue(facts)
        found = known(facts.queue) if has_kueue else None
        active = {} if found is None else conditions(found).get("Active", {})
        yield Subject(has_kueue=has_kueue, found=found, active=active)


def _has_kueue(facts: ClusterFacts) -> bool:
    return not isinstance(facts.groups, Unknown) and KUEUE in facts.groups


def queue_nodes(facts: PreflightFacts) -> Iterator[Subject]:
    """Compare flavors with a pool as Kueue does.

    Labels that no flavor has are ignored.
    """
    if _is_denied(facts, "clusterqueues") or _is_denied(facts, "resourceflavors"):
        return
    flavors = known(facts.flavors)
    pool = facts.plan.pool
    keys = {key for labels in flavors.values() for key in labels}
    wanted = {key: value for key, value in pool.selector.items() if key in keys}
    if flavors and not any(wanted.items() <= labels.items() for labels in flavors.values()):
        theirs = "; ".join(f"{name} {_listed(labels)}" for name, labels in flavors.items())
        yield Subject(wanted=_listed(wanted), theirs=theirs)


def _is_denied(facts: PreflightFacts, resource: str) -> bool:
    """Return whether a permission is missing, which the check ``permissions`` reports."""
    access = {} if isinstance(facts.access, Unknown) else facts.access
    return any(one.resource == resource and not allowed for one, allowed in access.items())


def _listed(labels: Mapping[str, str], none: str = "no such label") -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or none
