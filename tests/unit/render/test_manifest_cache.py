"""The manifests of a case's runs, rendered once, are those that each run's plan gives alone."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import pytest

from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.planning import DRAFT_ID, with_identity
from k8sbench.render import ManifestCache, manifests, to_yaml
from tests.unit.render import plans
from tests.unit.render.test_whole_catalog import EVERYTHING, IDS, every_plan

render = functools.partial(manifests, templates=plans.ready(), trainers=plans.SOURCES)
IDENTITIES: Sequence[tuple[str, str, int]] = [
    ("small-261120-081500-x7k2qd", "261120-081500-x7k2qd", 1000),
    ("true", "1e5", 17),
]


@pytest.mark.parametrize("name", EVERYTHING, ids=IDS)
def test_a_run_has_what_its_plan_alone_gives(name: str) -> None:
    for found in every_plan(name, run_id=DRAFT_ID):
        made = msgspec.structs.replace(found, trainers_digest=plans.SOURCES.digest)
        repeats = ManifestCache(made, render)
        for run_id, set_name, repeat in IDENTITIES:
            plan = with_identity(made, run_id=run_id, set_name=set_name, repeat=repeat)
            assert repeats.manifests(plan) == render(plan)


def draft(**given: object) -> RunPlan:
    return plans.plan(**plans.PROGRAMS["user"] | given, run_id=DRAFT_ID)


def test_a_command_of_several_lines_may_name_its_hosts() -> None:
    made = draft(command=("sh", "-c", f"ping {DRAFT_ID}-master-0\nexec train"))
    plan = with_identity(made, run_id="one", set_name="night", repeat=2)
    manifests = ManifestCache(made, render).manifests(plan)
    assert manifests == render(plan)
    assert "ping one-master-0" in to_yaml(manifests)


def test_a_plan_that_differs_by_more_is_rendered_itself() -> None:
    made = draft()
    other = msgspec.structs.replace(
        with_identity(made, run_id="one", set_name="night", repeat=2), queue="team"
    )
    assert ManifestCache(made, render).manifests(other) == render(other) != render(made)


def test_names_that_cannot_be_labels_are_refused() -> None:
    made = draft()
    plan = with_identity(made, run_id="one", set_name="-night", repeat=1)
    with pytest.raises(UsageError):
        ManifestCache(made, render).manifests(plan)
