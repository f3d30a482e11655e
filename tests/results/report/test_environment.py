"""Facts from an environment file."""

from k8sbench.results.report.environment import Given


def test_a_row_s_own_facts_go_before_its_program_s_and_these_before_its_set_s() -> None:
    row = "resnet50 pytorch/1x8 amp"
    given = Given(
        everywhere={"os": "all", "cpu": "all", "disk": "all", "network": "all"},
        sets={"a": {"os": "set", "cpu": "set", "disk": "set"}},
        rows={"resnet50 pytorch": {"os": "program", "cpu": "program"}, row: {"os": "row"}},
    )
    assert given.facts_for("a", row) == {
        "os": "row",
        "cpu": "program",
        "disk": "set",
        "network": "all",
    }
