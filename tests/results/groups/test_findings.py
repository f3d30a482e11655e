"""Every integrity rule of a group, in one table: which runs have which findings.

The sentences stand in ``findings.txt`` alone, each of the first case that has the finding.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from k8sbench.model import rules as run_rules
from k8sbench.model.errors import Finding
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.results.groups import rejections as group_rules
from k8sbench.results.groups.grouping import groups
from tests.results.groups import group_members as members
from tests.results.groups import trained_groups
from tests.results.report import factory
from tests.unit import goldens

Found = Callable[[], Iterable[Finding]]
RULES = run_rules.ALL | group_rules.ALL


def group(*runs: Run) -> Found:
    """Reasons of the groups of runs and of their members."""

    def found() -> Iterable[Finding]:
        for each in groups(runs):
            yield from each.reasons
            for member in each.members:
                yield from member.reasons

    return found


def beside(**changes: Any) -> Found:
    """A third run of a case that differs from the two others."""
    return group(*factory.repeats([100.0, 100.1]), factory.run(100.5, repeat=3, **changes))


def trained_beside(**measured: Any) -> Found:
    """A third run that trained like two others, from something else."""
    two = (trained_groups.trained(repeat=number) for number in (1, 2))
    return group(*two, trained_groups.trained(repeat=3, measured=measured))


def ended(phase: Phase) -> Found:
    """A run that did not succeed."""
    return group(factory.run(None, phase=phase))


ESTIMATOR = {"throughput": factory.throughput(500.0, time_weighted=None), "estimator": "arithmetic"}
ONE_LOG = [factory.run(100.0, measured={"log_digest": "same"}, repeat=n) for n in (1, 2)]
ALONE = factory.run(100.0, case="1x1")
OTHER_DATA = replace(trained_groups.FILES, digest="d2")
OTHER_WEIGHTS = replace(trained_groups.WEIGHTS, digest="cd" * 32)

CASES: dict[str, tuple[Found, str]] = {
    **{f"beside others, {name}": (beside(**other), name) for name, other in members.MIXED.items()},
    "another estimator": (beside(measured=ESTIMATOR), "mixed-estimator"),
    "other data": (trained_beside(data_set=OTHER_DATA), "mixed-data"),
    "from scratch": (trained_beside(weights=None), "mixed-weights"),
    "from other weights": (trained_beside(weights=OTHER_WEIGHTS), "mixed-weights"),
    "one log twice": (group(*ONE_LOG), "log-counted-twice"),
    "far off": (group(*factory.repeats([100.0, 100.1, 40.0])), "outlier"),
    "unsteady runs": (group(*factory.repeats([100.0, 115.0, 135.0])), "unsteady-runs"),
    "two runs 1 % apart": (group(*factory.repeats([100.0, 101.0])), "wide-interval"),
    "4 % apart": (group(*factory.repeats([98.0, 100.0, 102.0])), ""),
    "a little more": (group(*factory.repeats([97.9, 100.0, 102.1])), "wide-interval"),
    "8.5 times as fast": (group(ALONE, factory.run(850.0)), "efficiency-above-limit"),
    "8.4 times": (group(ALONE, factory.run(840.0)), ""),
    "not measured": (group(factory.run(None)), "not-measured"),
    "cancelled": (ended(Phase.CANCELLED), "run-cancelled"),
    "failed": (ended(Phase.FAILED), "run-failed"),
    "without GPU memory": (group(factory.out_of_memory()), "run-out-of-memory"),
    "in progress": (ended(Phase.RUNNING), "run-in-progress"),
    "lost": (ended(Phase.LOST), "run-lost"),
}
"""Runs and the expected ids of findings."""


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_its_findings_with_the_actions_of_their_rules(case: str) -> None:
    make, expected = CASES[case]
    findings = [*make()]
    shown = [
        found.id if found.severity == RULES[found.id].severity else f"{found.severity} {found.id}"
        for found in findings
    ]
    assert " ".join(shown) == expected
    assert [found.action for found in findings] == [RULES[found.id].action for found in findings]


def test_every_rule_has_a_case_and_its_sentence_is_golden() -> None:
    first: dict[tuple[str, str], Finding] = {}
    for make, _ in CASES.values():
        for found in make():
            first.setdefault((found.id, found.severity), found)
    # The reader finds the exit code; a group only looks for it.
    assert {name for name, _ in first} == {*group_rules.ALL} - {run_rules.EXIT_CODE.id}
    made = "".join(
        f"{name} ({severity}): {found.sentence}\n"
        for (name, severity), found in sorted(first.items())
    )
    # Runs are numbered in the order in which tests make them.
    made = re.sub(r"\b(resnet50)-\d+", r"\1-N", made)
    goldens.check(Path(__file__).with_name("findings.txt"), made)
