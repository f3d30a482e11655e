"""Texts that users install: the CRD, and an init container."""

from __future__ import annotations


def init_template() -> str:
    """Return the text of the init container that passes the restricted Pod Security Standard."""
    from k8sbench.adapters.kubernetes.client.faults import ROLE

    return ROLE.with_name("init-container.yaml").read_text(encoding="utf-8")


def crd() -> str:
    """Return the text of the CRD of ``Benchmark``."""
    from k8sbench.catalog import packaged

    return packaged.read_crd()
