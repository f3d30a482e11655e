"""The manifests of a case's runs: rendered once, from the plan without an identity.

Repeats of a case differ by their run id, their set and their number, and by nothing else: in
names, labels, the annotation with the plan, and where a command or a variable holds the id. These
are filled in for each run, into the objects and into their text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from k8sbench.model.identity import LABEL_DOMAIN, PLAN_ANNOTATION
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import DRAFT_ID, with_identity
from k8sbench.render import job as jobs
from k8sbench.render.manifest import to_yaml
from k8sbench.render.pod import fitting

_LABELS = (f"{LABEL_DOMAIN}/set", f"{LABEL_DOMAIN}/repeat")
_PLACE = re.compile(re.escape(DRAFT_ID) + r"\.(\d+)\.")
_Fill = Callable[[str, str], str]
"""The key and the text of a value in the draft's objects → the value in those of a run."""


class Repeats:
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
        found: tuple[dict[str, Any], ...] = _filled(self._objects, _values(plan))
        fitting(found[-1]["metadata"]["annotations"])
        return found

    def text(self, plan: RunPlan) -> str:
        """Return what :func:`~k8sbench.render.manifest.to_yaml` writes of its manifests."""
        if not self._has(plan):
            return to_yaml(self._render(plan))
        pieces, places = self._pieces
        fill = _values(plan)
        values = [fill(key, text) for key, text in places]
        if any("\n" in value for value in values):  # its lines would have to be indented
            return to_yaml(self.manifests(plan))
        return pieces[0] + "".join(
            _scalar(values[int(place)]) + piece
            for place, piece in zip(pieces[1::2], pieces[2::2], strict=True)
        )

    def _has(self, plan: RunPlan) -> bool:
        """Whether a plan is of this case and differs from its draft by its identity alone."""
        return plan == with_identity(
            self._draft, run_id=plan.run_id, set_name=plan.set_name, repeat=plan.repeat
        )

    @functools.cached_property
    def _objects(self) -> tuple[dict[str, Any], ...]:
        return self._render(self._draft)

    @functools.cached_property
    def _pieces(self) -> tuple[list[str], list[tuple[str, str]]]:
        """The text between the values of a run and the numbers of these, in turn; what they are."""
        places: list[tuple[str, str]] = []

        def place(key: str, text: str) -> str:
            places.append((key, text))
            return f"{DRAFT_ID}.{len(places) - 1}."

        return _PLACE.split(to_yaml(_filled(self._objects, place))), places


def _values(plan: RunPlan) -> _Fill:
    """Return what fills in the values of a run."""
    labels = jobs.labels(plan)
    known = {PLAN_ANNOTATION: jobs.plan_text(plan)} | {key: labels[key] for key in _LABELS}
    return lambda key, text: known.get(key) or text.replace(DRAFT_ID, plan.run_id)


def _filled(found: Any, fill: _Fill, key: str = "") -> Any:
    """Copy plain data, with other values where those of a run differ from the draft's."""
    if isinstance(found, str):
        varies = DRAFT_ID in found or key in _LABELS
        return fill(key, found) if varies else found
    if isinstance(found, dict):
        return {name: _filled(value, fill, name) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(_filled(value, fill, key) for value in found)
    return found


@functools.lru_cache(maxsize=64)
def _scalar(text: str) -> str:
    """Write one value as it stands after its key."""
    return to_yaml([{"": text}]).removeprefix('---\n"": ').removesuffix("\n")
