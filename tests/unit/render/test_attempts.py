"""The objects of a run's later attempts: the same, with the attempt's number."""

from typing import Any

from k8sbench.model.kube import annotations_of, attempt_of, labels_of
from k8sbench.render.manifest import numbered
from tests.unit.render import plans

ATTEMPT = "k8sbench.io/attempt"


def without_number(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_number(value) for key, value in found.items() if key != ATTEMPT}
    return [without_number(one) for one in found] if isinstance(found, list) else found


def test_job_and_pods_bear_the_number_and_nothing_else_is_changed() -> None:
    first = plans.rendered(plans.plan("4x8"))
    second = numbered(first, 2)
    assert [attempt_of(one) for one in first] == [1] * len(first)
    assert second[0] == first[0]  # the trainers are of no run
    templates = [one["template"] for one in plans.replicas(dict(second[-1])).values()]
    for one in (second[-1], *templates):
        assert labels_of(one)[ATTEMPT] == annotations_of(one)[ATTEMPT] == "2"
    assert [without_number(one) for one in second] == [without_number(dict(one)) for one in first]
    assert numbered(second, 3)[-1]["metadata"]["labels"][ATTEMPT] == "3"
