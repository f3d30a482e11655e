"""Credentials in text are masked, whatever their form, and nothing else is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.errors import BenchError, Finding
from k8sbench.model.masking import MASK, Masking, mask_pieces, masked
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.sample import Place
from tests.harness.credentials import INNOCENT, Written, written
from tests.reader.measuring.support import measured
from tests.tiers import ROOT

WRITTEN = written()
PAGES = sorted((ROOT / "docs").glob("*.md"))
LOGS = sorted(path for path in (ROOT / "tests/fixtures/logs").iterdir() if path.is_file())


@pytest.mark.parametrize("one", WRITTEN, ids=lambda one: one.text.partition("\n")[0][:40])
def test_each_form_is_masked_once_and_for_all(one: Written) -> None:
    for text in (one.text, f"[rank0]: {one.text} ended", f"{one.text}…"):
        found = masked(text)
        assert MASK in found
        assert not [secret for secret in one.secrets if secret in found]
        assert masked(found) == found
        assert found.count("\n") == text.count("\n")


@pytest.mark.parametrize("line", INNOCENT)
def test_lines_without_a_credential_stay_as_they_are(line: str) -> None:
    assert masked(line) == line


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_logs_of_programs_stay_as_they_are(path: Path) -> None:
    text = path.read_bytes()
    assert b"".join(mask_pieces([text])) == text


def test_pages_of_the_documentation_stay_as_they_are_but_for_a_given_password() -> None:
    pages = {path.name: path.read_text() for path in PAGES}
    changed = {name: masked(text) for name, text in pages.items() if masked(text) != text}
    assert set(changed) <= {"operator.md"}
    assert changed.get("operator.md", "").count(MASK) == pages["operator.md"].count(MASK) + 1


@given(st.text())
def test_any_text_can_be_masked_and_keeps_its_lines(text: str) -> None:
    found = masked(text)
    assert found.count("\n") == text.count("\n")
    assert masked(found) == found


# -- what may quote others -------------------------------------------------------------------------


def test_states_findings_evidence_and_errors_quote_no_credential() -> None:
    text, secret = "rank 0 failed: password=Zq8vKx2Lm9Tw, see above", "Zq8vKx2Lm9Tw"
    step = Transition(phase=Phase.FAILED, at=1.0, cause=text, action=text)
    replica = ReplicaState(replica="master-0", phase=Phase.FAILED, detail=text)
    finding = Finding(id="x", severity="warn", sentence=text, action=text)
    error = BenchError(text, text)
    shown = (
        *(step.cause, step.action, replica.detail, finding.sentence, finding.action),
        *(Place(file="a", line=1, text=text).text, error.message, error.action, f"{error}"),
        f"{error.args}",
    )
    assert all(part is not None and MASK in part and secret not in part for part in shown)


# -- logs, which come in parts ---------------------------------------------------------------------


LOG = "\n".join(line for one in WRITTEN for line in ("step 1 loss 2.5", one.text, INNOCENT[0]))
SECRETS = [secret for one in WRITTEN for secret in one.secrets]


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_pieces_of_any_size_are_masked_as_the_whole(size: int) -> None:
    data = LOG.encode()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert b"".join(mask_pieces(pieces)) == masked(LOG).encode()


def test_a_credential_in_a_log_of_equal_lines_is_found_among_them() -> None:
    masking = Masking()
    equal = [f"step {step} loss 2.{step}".encode() for step in range(100)]
    assert masking.lines(equal) == equal
    assert masking.lines([b"step 7 password=a1", equal[0]]) == [b"step 7 password=***", equal[0]]
    for line in (b"step 8 password=12", b"step 9 password=34"):
        assert masking.lines([line]) == [b"%s password=***" % line[:6]]


def test_a_private_key_is_masked_after_times_and_among_lines_of_other_replicas() -> None:
    (key, *_) = [one for one in WRITTEN if one.text.startswith("-----BEGIN")]
    stamp = "2026-11-20T08:15:30.123456Z [worker-0] "
    lines = [f"{stamp}{line}" for line in key.text.split("\n")]
    between = "2026-11-20T08:15:30.123457Z [worker-1] step 3 loss 2.5"
    mixed = [each for line in lines for each in (line, between)]
    drawn = random.Random(1)
    masking = Masking()
    shown: list[str] = []
    while mixed:
        some, mixed = mixed[: (size := drawn.randint(1, 3))], mixed[size:]
        shown += [line.decode() for line in masking.lines([line.encode() for line in some])]
    assert not [secret for secret in key.secrets if any(secret in line for line in shown)]
    assert shown[1::2] == [between] * len(lines)
    assert [line.partition("] ")[2] for line in shown[0::2]][1:-1] == [MASK] * (len(lines) - 2)
    assert masking.lines([b"done"]) == [b"done"]


def test_a_private_key_whose_beginning_was_cut_off_is_masked() -> None:
    (key, *_) = [one for one in WRITTEN if one.text.startswith("-----BEGIN")]
    tail = "\n".join(["ded", *key.text.split("\n")[2:], "done"])
    found = masked(tail)
    assert not [secret for secret in key.secrets if secret in found]
    assert found.endswith("\n-----END PRIVATE KEY-----\ndone")


def test_a_log_without_its_credentials_has_the_same_figures() -> None:
    lines = (ROOT / "tests/fixtures/logs/torchtitan.log").read_text().splitlines()
    printed = [line for one in WRITTEN for line in one.text.split("\n")]
    whole = [*lines[:20], *printed, *lines[20:]]
    shown = masked("\n".join(whole)).split("\n")
    assert not [secret for secret in SECRETS if any(secret in line for line in shown)]
    known: dict[str, Any] = {"format": "torchtitan", "gpus": 8, "batch_size": 1, "warmup": 40}
    found, again = (measured(each, **known) for each in (whole, shown))
    assert found.throughput is not None
    assert (again.throughput, again.window) == (found.throughput, found.window)
