"""A figure, or the reason why there is none."""

from k8sbench.messages import note, quoted
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


def test_a_reason_of_a_store_without_messages_is_quoted() -> None:
    found = measurement(missing={"final_loss": "Some text."}, missing_notes={})
    assert found.why("final_loss") == quoted("Some text.")
    assert found.missing_notes == {}
