"""Generated parts of the chart equal their sources.

Renew them with ``make golden``.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml

from k8sbench.adapters import templates
from k8sbench.model.kinds import KINDS
from k8sbench.model.pool import NodePool
from k8sbench.render import manifest
from tests.unit import goldens
from tests.unit.chart import values
from tests.unit.chart.values import CHART

CATALOG = templates.PACKAGE
SCHEMA = CHART / "values.schema.json"
UNKNOWN = {"global", "collector", "operator.postgresql"}
"""Values that the schema accepts and the chart does not have.

The first is Helm's. A template refuses the others, which earlier versions had, by a sentence.
"""


def rules(text: str, kind: str, name: str = "") -> str:
    """Return the rules of a role.

    Rules for the operator's objects are left out, because their names vary.
    """
    found = next(
        each
        for each in yaml.safe_load_all(text)
        if each["kind"] == kind and each["metadata"]["name"].endswith(name)
    )
    unnamed = [rule for rule in found["rules"] if "resourceNames" not in rule]
    return yaml.safe_dump(unnamed, sort_keys=False, width=100)


def test_the_chart_grants_what_k8sbench_asks_for_golden() -> None:
    loaded = templates.load_templates()
    role = manifest.role(loaded)
    found = {
        "user": rules(role, "Role"),
        "operated-user": rules(manifest.role(loaded, operated=True), "Role"),
        "node": rules(role, "ClusterRole", "-nodes"),
        "queue": rules(role, "ClusterRole", "-queues"),
        "operator": rules(manifest.operator_role(loaded), "Role"),
    }
    for name, text in found.items():
        goldens.check(CHART / "files" / f"{name}-rules.yaml", text)


def test_observing_adds_only_rights_to_read_that_its_role_has() -> None:
    rules_of_jobs = yaml.safe_load((CHART / "files" / "observe-rules.yaml").read_text())
    granted = {
        (resource, verb)
        for rule in rules_of_jobs
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {verb for _, verb in granted} <= {"get", "list", "watch"}
    observer = next(yaml.safe_load_all((CATALOG / "observer.yaml").read_text()))
    assert granted <= {
        (resource, verb)
        for rule in observer["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_operator_may_nothing_with_jobs_that_a_user_may_not() -> None:
    granted = {
        name: {
            (group, resource, verb)
            for rule in yaml.safe_load((CHART / "files" / f"{name}-rules.yaml").read_text())
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for name in ("user", "operator")
    }
    of_objects = {right for right in granted["operator"] if right[0] == "k8sbench.io"}
    of_objects.add(("", "events", "create"))
    assert granted["operator"] - of_objects < granted["user"]
    created = {resource for _, resource, verb in granted["operator"] if verb == "create"}
    runtimes = {kind.runtime.plural for kind in KINDS.values() if kind.runtime is not None}
    assert created == {"configmaps", "events", *runtimes, *(kind.plural for kind in KINDS.values())}


def pool_schema() -> dict[str, Any]:
    """The types of a pools file, in the words that Helm's checker knows."""
    (_,), parts = msgspec.json.schema_components([NodePool], ref_template="#/$defs/{name}")
    # The end of the text, which Go's regular expressions call otherwise.
    return dict(json.loads(json.dumps(parts).replace("\\\\Z", "$")))


def test_node_pools_have_the_types_of_a_pools_file_golden() -> None:
    schema = json.loads(SCHEMA.read_text())
    goldens.check(SCHEMA, json.dumps({**schema, "$defs": pool_schema()}, indent=2) + "\n")


def test_the_table_of_the_readme_says_what_the_values_file_says_golden() -> None:
    readme = CHART / "README.md"
    before, _, rest = readme.read_text().partition(values.BEGIN)
    _, _, after = rest.partition(values.END)
    goldens.check(readme, f"{before}{values.BEGIN}\n\n{values.table()}\n\n{values.END}{after}")


def test_every_value_is_described_and_the_schema_knows_no_other() -> None:
    assert values.undescribed() == []
    assert all(len(value.about) > 10 for value in values.described())
    leaves = {value.path for value in values.described()}

    def declared(part: dict[str, Any], known: dict[str, Any], above: str) -> None:
        assert part["additionalProperties"] is False, above
        assert {above + key for key in part["properties"]} - UNKNOWN == {
            above + key for key in known
        }
        for key, value in known.items():
            if above + key not in leaves:
                declared(part["properties"][key], value, f"{above}{key}.")

    declared(json.loads(SCHEMA.read_text()), values.defaults(), "")
