"""A figure, or the reason why there is none."""

from k8sbench.model.missing import Missing, figure_of, reasons_of


def test_a_figure_of_zero_is_not_missing() -> None:
    assert figure_of(0.0) == 0.0
    assert figure_of(Missing("No line.")) is None


def test_the_reasons_are_those_of_the_missing_figures_in_their_order() -> None:
    answers = {"b": Missing("No line."), "a": 0.0, "c": None, "d": Missing("No stamp.")}
    assert list(reasons_of(answers).items()) == [("b", "No line."), ("d", "No stamp.")]
