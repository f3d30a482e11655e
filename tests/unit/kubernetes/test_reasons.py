"""Every state and reason that Kubernetes is known to write has a meaning here, or says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from k8sbench.diagnose.job import reasons
from tests.unit.kubernetes import known_reasons as known
from tests.unit.kubernetes.objects import pod, read, seen, waits

MODULES = Path.home() / "go" / "pkg" / "mod"
KUBERNETES = MODULES / "k8s.io" / "kubernetes@v1.33.13" / "pkg" / "kubelet"
OPERATOR = (
    MODULES / "github.com" / "kubeflow" / "training-operator@v1.9.3" / "pkg" / "controller.v1"
)


def every(lists: Mapping[str, Iterable[str]]) -> set[str]:
    return {reason for listed in lists.values() for reason in listed}


def test_every_phase_of_a_pod_is_mapped() -> None:
    assert set(reasons.POD_PHASES) == set(known.POD_PHASES)


@pytest.mark.parametrize(
    ("listed", "table"),
    [
        (known.WAITING, reasons.WAITING),
        (known.TERMINATED, reasons.TERMINATED),
        (known.DISRUPTIONS, reasons.DISRUPTIONS),
    ],
    ids=["waiting", "terminated", "disruptions"],
)
def test_every_reason_is_mapped(
    listed: Mapping[str, tuple[str, ...]], table: Mapping[str, object]
) -> None:
    assert every(listed) - set(table) == set()


def test_every_reason_of_a_pod_says_who_ended_it() -> None:
    assert [one for one in every(known.POD_REASONS) if reasons.ended_by(one) is None] == []


def test_every_reason_of_an_event_is_mapped_or_says_nothing() -> None:
    assert set(reasons.EVENTS) & known.SILENT_EVENTS == set()
    assert set(reasons.EVENTS) | known.SILENT_EVENTS == every(known.EVENTS)


@pytest.mark.parametrize(
    ("file", "listed"),
    [
        (KUBERNETES / "events" / "event.go", known.EVENTS["pkg/kubelet/events/event.go"]),
        (
            OPERATOR / "control" / "pod_control.go",
            known.EVENTS["github.com/kubeflow/training-operator pkg/controller.v1"],
        ),
        (KUBERNETES / "images" / "types.go", known.WAITING["pkg/kubelet/images/types.go"]),
        (
            KUBERNETES / "container" / "sync_result.go",
            (*known.WAITING["pkg/kubelet/container/sync_result.go"], "no matching container"),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_the_lists_are_those_of_the_sources(file: Path, listed: tuple[str, ...]) -> None:
    if not file.exists():
        return  # without Go's modules the lists alone count
    text = file.read_text()
    found = re.findall(r'^\s+\w+ += "([A-Za-z]+)"', text, re.MULTILINE)
    found += re.findall(r'^(?:var)?\s*\w+ = errors\.New\("([^"]+)"\)', text, re.MULTILINE)
    assert found
    assert set(found) <= set(listed)


def test_an_image_without_the_wanted_signature_is_diagnosed() -> None:
    message = "image signature validation failed: no signature found"
    waiting = waits("SignatureValidationFailed", message)
    assert read(seen(pod(state=waiting))).cause_id == "pod-not-started"


def test_a_reason_that_nobody_knows_is_an_error_of_the_start_if_it_says_so() -> None:
    assert reasons.waiting("SomethingNewError") is reasons.Waiting.START
    assert reasons.waiting("SomethingNew") is reasons.Waiting.ROUTINE
