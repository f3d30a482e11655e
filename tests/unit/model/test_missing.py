"""A figure, or the reason why there is none."""

import msgspec
import pytest

from k8sbench import messages
from k8sbench.messages import Note, note, quoted
from k8sbench.model.errors import Finding
from k8sbench.model.measurement import GpuMetrics
from k8sbench.model.missing import Missing, figure_of, reasons_of, written
from tests.unit.model.measurements import measurement


def test_a_figure_of_zero_is_not_missing() -> None:
    assert figure_of(0.0) == 0.0
    assert figure_of(Missing(quoted("No line."))) is None


def test_the_reasons_are_those_of_the_missing_figures_in_their_order() -> None:
    line, stamp = quoted("No line."), quoted("No stamp.")
    answers = {"b": Missing(line), "a": 0.0, "c": None, "d": Missing(stamp)}
    assert list(reasons_of(answers).items()) == [("b", line), ("d", stamp)]


REASON = note("no-final-loss")


def test_a_measurement_writes_the_text_of_its_reason_and_forgets_the_former_one() -> None:
    found = measurement(missing={"final_loss": "Some text."}, missing_notes={})
    again = found.without({"final_loss": REASON})
    assert (again.why("final_loss"), again.missing) == (REASON, written({"final_loss": REASON}))
    gone = again.without({}, instead_of=["final_loss"])
    assert (gone.why("final_loss"), gone.missing, gone.missing_notes) == (None, {}, {})


@pytest.mark.parametrize("notes", [{}, {"final_loss": Note("of-a-later-version")}])
def test_a_reason_without_a_message_of_this_version_is_quoted(notes: dict[str, Note]) -> None:
    found = measurement(missing={"final_loss": "Some text."}, missing_notes=notes)
    assert found.why("final_loss") == quoted("Some text.")
    assert found.missing_notes == notes


def test_a_judgement_without_a_message_of_this_version_is_quoted() -> None:
    metrics = GpuMetrics(figures={}, gpus=(), judgement="Some limit.")
    later = msgspec.structs.replace(metrics, judgement_note=Note("of-a-later-version"))
    assert metrics.said == later.said == quoted("Some limit.")


def test_a_finding_keeps_the_message_of_a_later_version_and_quotes_its_sentence() -> None:
    later = Note("of-a-later-version", {"count": 2})
    found = Finding(id="odd", severity="warn", sentence="Two are odd.", note=later)
    assert (found.note, found.sentence) == (later, "Two are odd.")
    assert found.said == note("finding-quoted", id="odd", text="Two are odd.")


def test_a_credential_that_spans_two_arguments_is_masked() -> None:
    parts = note("of-file", place="DB_PASSWORD", problem="hunter2!x")
    found = Finding(id="odd", severity="warn", note=parts)
    assert "hunter2" not in found.sentence
    assert "hunter2" not in messages.text("zh", found.said)
