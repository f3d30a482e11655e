"""The manifests of a case's runs: rendered once, from the plan without an identity.

Repeats of a case differ by their run id, their set and their number, and by nothing else: in
names, labels, the annotation with the plan, and where a command or a variable holds the id. These
are filled in for each run, which takes a twentieth of the time of rendering it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from k8sbench.model.identity import LABEL_DOMAIN, PLAN_ANNOTATION
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import DRAFT_ID, with_identity
from k8sbench.render import job as jobs
from k8sbench.render.pod import fitting

_LABELS = (f"{LABEL_DOMAIN}/set", f"{LABEL_DOMAIN}/repeat")
_Fill = Callable[[str, str], str]
"""The key and the text of a value in the draft's objects → the value in those of a run."""


class ManifestCache:
    """The manifests of the runs of one case."""

    def __init__(
        self, draft: RunPlan, render: Callable[[RunPlan], tuple[dict[str, Any], ...]]
    ) -> None:
        """``draft`` is under :data:`DRAFT_ID`; it is rendered when the first run is asked for."""
        self._draft, self._render = draft, render

    def manifests(self, plan: RunPlan) -> tuple[dict[str, Any], ...]:
        """Return what :func:`~k8sbench.render.manifest.manifests` renders of a plan."""
        if not self._has(plan):
            return self._render(plan)
        manifests: tuple[dict[str, Any], ...] = _filled(self._objects, _values(plan))
        fitting(manifests[-1]["metadata"]["annotations"])
        return manifests

    def _has(self, plan: RunPlan) -> bool:
        """Whether a plan is of this case and differs from its draft by its identity alone."""
        return plan == with_identity(
            self._draft, run_id=plan.run_id, set_name=plan.set_name, repeat=plan.repeat
        )

    @functools.cached_property
    def _objects(self) -> tuple[dict[str, Any], ...]:
        return self._render(self._draft)


def _values(plan: RunPlan) -> _Fill:
    """Return what fills in the values of a run."""
    labels = jobs.labels(plan)
    known = {PLAN_ANNOTATION: jobs.plan_text(plan)} | {key: labels[key] for key in _LABELS}
    return lambda key, text: known.get(key) or text.replace(DRAFT_ID, plan.run_id)


def _filled(value_in_draft: Any, fill: _Fill, key: str = "") -> Any:
    """Copy plain data, with other values where those of a run differ from the draft's."""
    if isinstance(value_in_draft, str):
        varies = DRAFT_ID in value_in_draft or key in _LABELS
        return fill(key, value_in_draft) if varies else value_in_draft
    if isinstance(value_in_draft, dict):
        return {name: _filled(value, fill, name) for name, value in value_in_draft.items()}
    if isinstance(value_in_draft, list | tuple):
        return type(value_in_draft)(_filled(value, fill, key) for value in value_in_draft)
    return value_in_draft
