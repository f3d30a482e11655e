"""Every value passes through the quoting filter and stays quoted."""

import re
from collections.abc import Callable
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import given

from k8sbench.model.plan import RunPlan
from k8sbench.render.manifest import environment, quote, render
from tests.unit.render import plans
from tests.unit.render.hostile import plain, text
from tests.unit.render.plans import plan, pool


@pytest.mark.parametrize("template", ["a: {{ x }}", "a: {{ x | q ~ 'y' }}", "a: {{ 'fixed' }}"])
def test_an_unquoted_value_stops_the_rendering(template: str) -> None:
    with pytest.raises(TypeError, match="did not pass the filter q"):
        render(environment({"t": template}), "t", x="harmless")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ absent | q }}", "'absent' is undefined"),
        ("{{ none | q }}", "cannot quote None"),
        ("{{ 0.5 | q }}", "cannot quote 0.5"),
        ("{{ {1: 2} | q }}", "cannot quote the key 1"),
        ("{{ x | upper | q }}", "No filter named 'upper'"),
        ("{{ range(3) | q }}", "'range' is undefined"),
    ],
)
def test_a_missing_name_stops_the_rendering(template: str, words: str) -> None:
    with pytest.raises((jinja2.TemplateError, TypeError), match=re.escape(words)):
        render(environment({"t": template}), "t", x="x")


@given(value=plain)
def test_what_is_quoted_reads_back_as_it_was(value: Any) -> None:
    quoted = quote(value)
    assert quoted.isascii()
    assert "\n" not in quoted
    for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        assert yaml.load(f"a: {quoted}\nb: 1\n", Loader=loader) == {"a": value, "b": 1}


CONTAINER = ("containers", 0)
VARIABLE = (*CONTAINER, "env", -1)
WAYS: dict[str, tuple[Callable[[str], RunPlan], tuple[str | int, ...], str]] = {
    "a variable": (lambda x: plan(env={"N": x}), (*VARIABLE, "value"), "{}"),
    "the pool's": (lambda x: plan(pool=pool(nccl_env={"N": x})), (*VARIABLE, "value"), "{}"),
    "the command": (lambda x: plan(command=("run", x)), (*CONTAINER, "command", 1), "{}"),
    "the folder": (lambda x: plan(workdir=f"/{x}"), (*CONTAINER, "workingDir"), "/{}"),
    "the data's folder": (
        lambda x: plan(data=f"pvc:d/_{x.replace('/', '_')}"),
        (*CONTAINER, "volumeMounts", 2, "subPath"),
        "_{}",
    ),
}
"""Way of a value into a pod → its path and form."""


@pytest.mark.parametrize("way", WAYS)
@given(value=text)
def test_a_hostile_value_stays_where_it_was_put(way: str, value: str) -> None:
    """The pods differ from a harmless value's only in this place, exactly."""
    make, place, form = WAYS[way]
    if way == "the data's folder":
        value = value.replace("/", "_")
    found, expected = (plans.pod(make(each))["spec"] for each in (value, "harmless"))
    at = expected
    for step in place[:-1]:
        at = at[step]
    assert at[place[-1]] == form.format("harmless")
    at[place[-1]] = form.format(value)
    assert found == expected
