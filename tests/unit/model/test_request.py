"""A request: what is wrong with it whatever the benchmark, and its flags."""

import shlex
from typing import Any

import pytest

from k8sbench.model import request
from k8sbench.model.errors import UsageError
from k8sbench.model.request import ClusterAccess, SubmitRequest
from tests.unit.model.specs import a_request


def test_every_field_has_a_flag_and_every_flag_a_field() -> None:
    fields = {*SubmitRequest.__struct_fields__} - {"benchmark", "object_file", "access", "command"}
    assert {*request.FLAGS} == fields
    assert {*request.ACCESS_FLAGS} == {*ClusterAccess.__struct_fields__}


BOUNDED = {name: flag.bounds for name, flag in request.FLAGS.items() if flag.bounds is not None}


@pytest.mark.parametrize(("name", "bounds"), BOUNDED.items(), ids=BOUNDED)
def test_a_number_is_accepted_up_to_its_bounds(name: str, bounds: tuple[int, int]) -> None:
    least, most = bounds
    for value in bounds:
        assert getattr(a_request(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        option = f"--{name.replace('_', '-')}"
        with pytest.raises(UsageError, match=f"{option} {value} is out of range") as refused:
            a_request(**{name: value})
        assert refused.value.action == f"Give {least} to {most}."


EXAMPLES: dict[str, Any] = {
    "amp": True,
    "precision": "fp32",
    "image": "a:b",
    "image_registry": "a/b",
    "set_name": "night",
    "resume": "day",
    "epochs": 2,
    "iterations": 9,
    "case": "1x8",
    "all_cases": True,
    "replicas": 2,
    "gpus": 4,
}


@pytest.mark.parametrize("pair", request.EXCLUDING, ids=" and ".join)
def test_fields_that_exclude_each_other_are_not_taken_together(pair: tuple[str, str]) -> None:
    given = {name: EXAMPLES[name] for name in pair}
    for name, value in given.items():
        a_request(**{name: value})
    with pytest.raises(UsageError) as refused:
        a_request(**given)
    options = [
        option for name in pair for option in request.option_names(name, request.FLAGS[name])
    ]
    assert any(option in refused.value.message for option in options)
    assert refused.value.action


def test_the_command_that_resumes_a_set_has_the_options_that_were_given() -> None:
    asked = a_request(
        access=ClusterAccess(namespace="team a"),
        amp=True,
        replicas=4,
        speed_options=("compile", "workers=8"),
        timeout_s=90.0,
        set_name="night",
        dry_run="client",
        store="postgresql://me:secret@db/runs",
    )
    assert shlex.split(asked.resume_command()) == [
        *("k8sbench", "submit", "seg", "--namespace", "team a", "--amp"),
        *("--speed-option", "compile", "--speed-option", "workers=8", "--timeout", "90s"),
        *("--replicas", "4", "--store", "postgresql://me:***@db/runs", "--resume", "night"),
    ]
