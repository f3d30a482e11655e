"""Where a run takes place: this machine or a pool of a cluster, and how that was decided."""

from __future__ import annotations

import os

import msgspec

from k8sbench.cli.plan_options import Typed
from k8sbench.model.choices import Site
from k8sbench.model.errors import NotAvailableYet
from k8sbench.model.pool import CPU_POOL


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A site, and in one line which and why."""

    site: Site
    why: str


def for_submit(typed: Typed) -> Chosen:
    """Choose where ``submit`` runs: here, as long as there is no Kubernetes backend."""
    if typed.backend == "kubernetes":
        raise NotAvailableYet(
            "--backend kubernetes", "Use render for the manifest, or --backend local to run here."
        )
    return local("the Kubernetes backend is not available yet" if typed.backend == "auto" else None)


def for_render(typed: Typed) -> Chosen:
    """Choose what ``render`` renders for: a pool of a cluster, unless ``--backend local``."""
    if typed.backend == "local":
        return local(None)
    from k8sbench.adapters import image_table, pools

    found = pools.load(typed.pools_file)
    pool = found.pool(typed.node_pool)
    return Chosen(
        site=Site(backend="kubernetes", pool=pool, images=image_table.load()),
        why=f"pool {pool.name} from {found.source}",
    )


def local(reason: str | None) -> Chosen:
    """Describe this machine: its GPUs as a pool of one node, or none."""
    from k8sbench.adapters import image_table
    from k8sbench.adapters.local import gpus

    here = gpus.inventory()
    pool = CPU_POOL
    if here.gpus:
        pool = msgspec.structs.replace(
            CPU_POOL, gpus_per_node=len(here.gpus), gpu_model=here.gpus[0].model
        )
    found = f"{len(here.gpus)} × {here.gpus[0].model}" if here.gpus else f"no GPU ({here.reason})"
    why = f"backend local: {found}" + (f"; {reason}" if reason else "")
    site = Site(backend="local", pool=pool, cores=len(os.sched_getaffinity(0)))
    if here.gpus:
        site = msgspec.structs.replace(
            site, images=image_table.load(), installed=image_table.installed()
        )
    return Chosen(site=site, why=why)
