"""Names of runs and sets."""

import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k8sbench.app.objects import drawn_name
from k8sbench.catalog import imported_logs
from k8sbench.model import names
from k8sbench.model.benchmark_object import LONGEST_NAME, MOST_RUNS
from k8sbench.model.errors import UsageError
from tests.unit.model.benchmark_objects import an_object

DNS_1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


@example(name="a" * 40)
@given(name=st.from_regex(r"\A[a-z][a-z0-9-]{0,39}\Z"))
def test_run_ids_name_jobs_with_room_for_replicas(name: str) -> None:
    drawn = drawn_name(name)
    run_id = msgspec.structs.replace(an_object(), name=drawn).run_id(MOST_RUNS)
    assert DNS_1035.match(run_id)
    assert len(drawn) <= LONGEST_NAME
    assert len(run_id + names.LONGEST_SUFFIX) <= 63
    assert names.checked_run_id(run_id) == run_id


@pytest.mark.parametrize("bad", ["", "1st", "Upper", "a_b", "a-", "-a", "a" * 60, "a b", "ä"])
def test_a_run_id_that_cannot_name_a_job_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="--run-id"):
        names.checked_run_id(bad)


@pytest.mark.parametrize("bad", ["", ".x", "x-", "a/b", "a" * 64, "a b", "../up", "ä"])
def test_a_set_name_that_cannot_be_a_label_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match="cannot name a set"):
        names.checked_set_name(bad)


def test_an_imported_run_has_an_id_that_can_name_a_run() -> None:
    run_id = imported_logs.run_id("llm.c", "march", ["0" * 64])
    assert names.checked_run_id(run_id).startswith("llm-c-")


def test_the_name_of_an_object_is_its_run_if_it_has_one_alone() -> None:
    ids = ["night-1", "night-b-1", "day-1", "day-2", "noon"]
    assert names.resolve(ids, "night") == "night-1"
    assert names.resolve(ids, "night-b") == "night-b-1"
    assert names.resolve([*ids, "noon-1"], "noon") == "noon"
    with pytest.raises(UsageError, match=r"day-1.*day-2|day-2.*day-1"):
        names.resolve(ids, "day")
    assert names.resolve(ids, "noo") == "noon"
    # The end of an imported run's id is no number of a repeat.
    with pytest.raises(UsageError, match="2 runs begin with"):
        names.resolve(["resnet50-968672832314", "resnet50-0a1b2c3d4e5f"], "resnet50")
