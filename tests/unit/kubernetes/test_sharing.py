"""Who has a use for a job: the word of each store on it. Taking it back is the cluster tier's."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

from k8sbench.adapters.kubernetes import sharing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.sharing import User
from k8sbench.ports import Manifest
from tests.unit.render import plans

OURS = User(store="0123456789", host="lab-7")
THEIRS = User(store="abcdef0123", host="ci-2")
NO_API = cast("Api", None)
"""Nothing is to be asked."""


def job(*users: User) -> dict[str, Any]:
    made: Sequence[Manifest] = plans.rendered(plans.plan())
    for user in users:
        made = sharing.marked(made, user)
    return dict(made[-1])


def test_the_word_stands_on_the_job_alone_and_nothing_that_was_given_changes() -> None:
    manifests = list(plans.rendered(plans.plan()))
    before = copy.deepcopy(manifests)
    *others, marked = sharing.marked(manifests, OURS)
    assert manifests == before
    assert others == manifests[:-1]
    annotations = dict(marked["metadata"]["annotations"])
    assert annotations.pop("k8sbench.io/used-by-0123456789") == '{"host":"lab-7","keep":false}'
    assert annotations == before[-1]["metadata"]["annotations"]


def test_who_follows_a_job_for_nobody_leaves_no_word() -> None:
    manifests = list(plans.rendered(plans.plan()))
    assert sharing.marked(manifests, None) == manifests


def test_a_job_that_nobody_else_uses_may_go() -> None:
    assert sharing.keeper(NO_API, "PyTorchJob", job(), OURS) is None
    assert sharing.keeper(NO_API, "PyTorchJob", job(OURS), OURS) is None


def test_a_job_that_somebody_else_uses_stays_and_they_are_named() -> None:
    assert sharing.keeper(NO_API, "PyTorchJob", job(THEIRS), OURS) == (
        "k8sbench on ci-2 follows it, too, and deletes it at its end."
    )
    keeping = User(store="fedcba9876", host="desk", keep=True)
    assert sharing.keeper(NO_API, "PyTorchJob", job(THEIRS, keeping), OURS) == (
        "k8sbench on desk keeps it (--keep)."
    )


def test_a_word_that_cannot_be_read_counts_all_the_same() -> None:
    spoiled = job()
    spoiled["metadata"]["annotations"]["k8sbench.io/used-by-x"] = "?"
    assert "another machine" in str(sharing.keeper(NO_API, "PyTorchJob", spoiled, OURS))


def test_a_job_that_is_to_wait_says_so_to_everybody_who_follows_it() -> None:
    *_, marked = sharing.marked([job()], None, waits=True)
    assert sharing.waits(dict(marked))
    assert not sharing.waits(job())
