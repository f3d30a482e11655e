"""Runs that count in their group, and reasons of the others."""

import re
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.messages import quoted
from k8sbench.model.group import Group, Member
from k8sbench.model.identity import UNKNOWN
from k8sbench.model.measurement import MeasuredWindow, SteadyPart
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import ObservedJob
from k8sbench.model.pool import NodePool
from k8sbench.model.rules import EXIT_CODE
from k8sbench.model.run import Location, Run
from k8sbench.results.groups import rejections
from k8sbench.results.groups.grouping import groups
from k8sbench.results.report import group_words
from tests.results.groups.group_members import MIXED, only
from tests.results.report.factory import (
    START,
    V100_16,
    V100_32,
    changed,
    measurement,
    repeats,
    run,
    throughput,
)
from tests.results.said import text
from tests.unit.presence import present


def ids(member: Member) -> list[str]:
    return [reason.id for reason in member.reasons]


def rejected(group: Group) -> dict[float | None, list[str]]:
    return {m.unverified: ids(m) for m in group.members if m.rate is None}


def observed(run: Run, namespace: str) -> Run:
    """Return the run as that of a job that somebody else created."""
    job = ObservedJob(
        kind="Job", namespace=namespace, name="llama", replicas=("pod-0",), container="trainer"
    )
    plan = msgspec.structs.replace(run.plan, observed=job, backend="observed")
    return msgspec.structs.replace(run, planned=plan)


def of_operator(run: Run, namespace: str) -> Run:
    """Return the run as that of a Benchmark of the API server."""
    plan = msgspec.structs.replace(run.plan, requested_by="0b5f6c1e", object_name="night")
    place = Location(server="https://192.0.2.1", namespace=namespace)
    return msgspec.structs.replace(run, planned=plan, location=place)


@pytest.mark.parametrize("placed", [observed, of_operator])
def test_equal_names_in_two_namespaces_are_two_rows(placed: Callable[[Run, str], Run]) -> None:
    names = ("team-a", "team-b")
    alone = groups(repeats([100.0]))[0]
    runs = [placed(run, name) for run, name in zip(repeats([100.0, 101.0]), names, strict=True)]
    found = groups(runs)
    assert [group.key.namespace for group in found] == [*names]
    assert [group.spread.median for group in found if group.spread] == [100.0, 101.0]
    assert len({group.row.series for group in found}) == 2
    former = {(group.row.former_id, group.row.former_series) for group in found}
    assert len(former) == 1, "the release before took them for one"
    if placed is of_operator:
        assert former == {(alone.key.id, alone.row.series)}
    assert alone.row.former_id == "", "it kept its id"
    assert runs[0].case_key != runs[1].case_key


def test_a_failed_repeat_stays_with_those_that_another_program_measured() -> None:
    of_others = {"measured_by": "meter 1.3"}
    measured = [run(rate, repeat=n, measured=of_others) for n, rate in ((1, 100.0), (2, 101.0))]
    (group,) = groups([*measured, run(repeat=3, phase=Phase.FAILED)])
    assert (group.key.measured_by, group.counted, len(group.members)) == ("meter 1.3", 2, 3)


def test_unstated_batches_are_told_apart_by_the_tokens_of_a_step() -> None:
    steps = (98_304, 98_304, 196_608)
    runs = [
        run(
            100.0,
            repeat=repeat,
            backend="imported",
            batch_size=0,
            measured={"environment": {"tokens_per_step": tokens}},
        )
        for repeat, tokens in enumerate(steps, 1)
    ]
    (group,) = groups(runs)
    assert group.facts.batch_size is None
    assert [ids(member) for member in group.members] == [[], [], ["mixed-plan"]]


def test_a_measurement_of_another_program_is_a_row_of_its_own() -> None:
    ours, theirs = repeats([100.0, 101.0])
    assert theirs.measurement is not None
    measured = msgspec.structs.replace(theirs.measurement, measured_by="meter 1.3")
    found = groups([ours, msgspec.structs.replace(theirs, measurement=measured)])
    assert [group.key.measured_by for group in found] == ["-", "meter 1.3"]


@pytest.mark.parametrize(
    ("rates", "state", "counted"),
    [
        ((100.0, 101.0, 102.0, 125.0), "valid", 4),
        # No winner on a tie: each neighbour of 115 might be the wrong one.
        ((100.0, 115.0, 135.0), "unsteady-runs", 3),
        ((100.0, 130.0), "unsteady-runs", 2),
        ((100.0, 160.0), "rejected", 0),
        # Of few runs one is dropped where the others agree within 5 %, and it lies 25 % off.
        ((100.0, 101.0, 102.0, 126.0), "unsteady-runs", 4),
        ((100.0, 101.0, 102.0, 127.0), "valid", 3),
        ((100.0, 105.0, 74.9), "valid", 2),
        ((100.0, 106.0, 74.0), "rejected", 0),
        ((100.0, 101.0, 300.0, 301.0), "rejected", 0),
        ((50.0, 100.0, 101.0, 200.0), "rejected", 0),
        # Of more the majority counts, if the others are farther off than it is wide.
        ((100.0, 101.0, 102.0, 103.0, 126.0), "valid", 4),
        ((100.0, 108.0, 115.0, 124.0, 134.0), "unsteady-runs", 5),
    ],
)
def test_outliers_count_if_ambiguous(rates: tuple[float, ...], state: str, counted: int) -> None:
    group = only(repeats(rates))
    assert (group.state, group.counted) == (state, counted)
    is_unsteady = state == "unsteady-runs"
    assert ("unsteady-runs" in group.ids("warn")) is is_unsteady
    if group.spread is not None and is_unsteady:
        assert group.spread.median == statistics.median(rates)
        assert (group.spread.low, text(group.spread.interval_reason)) == (
            None,
            "the runs are unsteady",
        )


@pytest.mark.parametrize(
    ("rates", "figures", "is_of_one"),
    [
        ((854.0, 1449.0), {"854.00", "1449.00"}, False),
        ((100.0, 101.0, 102.0, 103.0, 40.0), {"40.00", "101.50"}, True),
        ((100.0, 101.0, 102.0, 103.0, 40.0, 200.0), {"40.00", "200.00", "101.50"}, False),
    ],
)
def test_an_outliers_sentence_is_true_of_each_outlier(
    rates: tuple[float, ...], figures: set[str], is_of_one: bool
) -> None:
    found = group_words.footnotes(only(repeats(rates)), "reject")
    (note,) = [one for one in found if one.head == "outlier"]
    assert figures <= set(re.findall(r"\d+\.\d\d", text(note)))
    reasons = [one for member in only(repeats(rates)).members for one in member.reasons]
    assert len({reason.sentence for reason in reasons}) == 1
    assert (len(reasons) == 1) is is_of_one


@given(st.lists(st.floats(1.0, 1e5), min_size=1, max_size=9))
def test_what_stays_agrees_and_is_a_clear_majority_apart_from_the_rest(rates: list[float]) -> None:
    inside = rejections.agreeing(rates)
    if not inside:
        return
    low, high = inside[0], inside[-1]
    assert inside == sorted(rate for rate in rates if low <= rate <= high)
    assert high <= 1.25 * low
    assert 3 * len(inside) >= 2 * len(rates)
    for rate in rates:
        if not low <= rate <= high:
            assert max(rate / high, low / rate) > high / low


def test_a_run_that_is_given_twice_is_one_run() -> None:
    runs = repeats([100.0, 101.0])
    early = changed(runs[0], history=runs[0].history[:2], measurement=None)
    assert groups([early, *runs, runs[1]]) == groups(runs)


def test_a_run_that_failed_when_its_window_was_complete_counts() -> None:
    reasons = (EXIT_CODE.finding(quoted("The window is complete.")),)
    group = only([run(100.0, phase=Phase.FAILED, measured={"reasons": reasons})])
    assert (group.counted, group.members[0].rate, group.state) == (1, 100.0, "valid")


def test_an_imported_run_without_a_date_is_of_the_time_of_its_set() -> None:
    def at(started: float | None, **fields: Any) -> Run:
        window = MeasuredWindow(
            first_iteration=21, last_iteration=120, seconds=1.0, started_at=started
        )
        return run(100.0, at=START, backend="imported", measured={"window": window}, **fields)

    broken = at(None, repeat=2)
    assert only([at(50.0), broken]).began == (50.0, 50.0)
    alone = {group.key.case: group.began for group in groups([at(50.0, case="1x1"), broken])}
    assert alone == {"1x1": (50.0, 50.0), "1x8": (50.0, 50.0)}
    assert only([broken]).began == (START, START)
    other = {group.began[0] for group in groups([at(50.0, set_name="other"), broken])}
    assert other == {50.0, START}


def test_an_imported_run_began_with_its_window_else_with_its_first_line_else_by_its_log() -> None:
    undated = MeasuredWindow(first_iteration=21, last_iteration=120, seconds=1.0)
    received = SteadyPart(started_at=60.0, ended_at=90.0)
    cases: list[tuple[MeasuredWindow | None, SteadyPart | None, float]] = [
        (msgspec.structs.replace(undated, started_at=50.0), received, 50.0),
        (undated, received, 60.0),
        (undated, None, 70.0),
        (None, None, 70.0),
    ]
    for window_of, steady, began in cases:
        measured = {"window": window_of, "steady": steady, "begun_at": 70.0}
        imported = run(100.0, at=START, backend="imported", measured=measured)
        assert only([imported]).began == (began, began)


STATED: dict[str, Any] = {"model": "wide_resnet50_2", "global_batch": 512, "classes": 21}


@pytest.mark.parametrize("name", STATED)
def test_a_run_that_states_another_configuration_does_not_count(name: str) -> None:
    usual = run(100.0).measurement
    stated = {name: "usual", **present(usual).environment}
    runs = [run(100.0, repeat=n, measured={"environment": stated}) for n in (1, 2)]
    other = run(100.5, repeat=3, measured={"environment": {**stated, name: STATED[name]}})
    silent = run(100.2, repeat=4)
    assert rejected(only([*runs, other, silent])) == {100.5: ["mixed-plan"]}


@pytest.mark.parametrize("reason", MIXED)
def test_without_a_majority_nothing_mixed_counts_unless_it_was_accepted(reason: str) -> None:
    runs = [run(100.0), run(100.5, repeat=2, **MIXED[reason])]
    assert rejected(only(runs)) == {100.0: [reason], 100.5: [reason]}
    assert only(runs, accept={reason}).counted == 2


def test_runs_of_other_sequence_lengths_are_no_repeats() -> None:
    def of(length: int, rate: float, repeat: int) -> Run:
        stated = {"environment": {"sequence_length": length}}
        return run(rate, repeat=repeat, backend="imported", measured=stated)

    runs = [of(8192, 100.0, 1), of(8192, 101.0, 2), of(4096, 104.0, 3)]
    assert rejected(only(runs)) == {104.0: ["mixed-plan"]}


@pytest.mark.parametrize("backend", ["imported", "observed"])
def test_runs_of_others_are_a_group_for_each_gpu_model(backend: str) -> None:
    def of(model: str | None, rate: float, **fields: Any) -> Run:
        pool = NodePool(name=backend, gpus_per_node=8, gpu_model=model)
        return run(rate, pool=pool, backend=backend, measured={"gpu_model": model}, **fields)

    def counted(*runs: Run) -> dict[str, int]:
        return {group.key.gpu_model: group.counted for group in groups(runs)}

    fleet = [of(V100_16, 100.0), of(V100_16, 101.0, repeat=2), of(V100_32, 104.0, repeat=3)]
    assert counted(*fleet) == {V100_16: 2, V100_32: 1}
    silent = of(None, 100.5, repeat=4)
    assert counted(*fleet, silent) == {V100_16: 2, V100_32: 1, UNKNOWN: 1}
    # Beside one model alone it is a repeat that states less.
    assert rejected(only([*fleet[:2], silent])) == {100.5: ["mixed-plan"]}
    copy = changed(fleet[0], planned=changed(fleet[0].plan, repeat=5, run_id="resnet50-copy"))
    assert counted(*fleet, copy) == {V100_16: 2, V100_32: 1}


def test_a_figure_of_printed_steps_is_none_of_all_steps() -> None:
    printed = run(100.0, repeat=3)
    figures = throughput(100.0, printed_steps=100.0)
    of_them = measurement(100.0, printed.plan, throughput=figures, estimator="printed_steps")
    printed = changed(printed, measurement=of_them)
    assert only([printed]).estimator == "printed_steps"
    assert "time_weighted" not in only([printed]).by_estimator
    assert rejected(only([*repeats([100.0, 101.0]), printed])) == {None: ["mixed-estimator"]}


def waiting(*shares: float | None) -> Group:
    return only(
        run(100.0, repeat=number, measured={"data_fraction": share})
        for number, share in enumerate(shares, 1)
    )


def requeued(waits: Sequence[float]) -> Run:
    """Return a run with an hour on GPUs, interrupted by ``waits``."""
    at, phases = 0.0, [(Phase.CREATED, 0.0)]
    for wait in waits:
        phases += [(Phase.QUEUED, at), (Phase.RUNNING, at + wait)]
        at += wait + 3600.0 / len(waits)
    steps = [Transition(phase=phase, at=at, cause="Because.") for phase, at in phases]
    end = Transition(phase=Phase.SUCCEEDED, at=at, cause="Because.")
    made: Run = changed(run(100.0), history=(*steps, end))
    return made


def test_the_wait_in_queues_is_told_and_is_no_part_of_gpu_hours() -> None:
    group = only([requeued([60.0]), changed(requeued([30.0, 90.0]), created_at=5.0), run(100.0)])
    assert sorted(member.queued_s or 0.0 for member in group.members) == [0.0, 60.0, 120.0]
    assert group.queued_s == 90.0
    assert only([requeued([30.0, 90.0])]).gpu_hours == 8.0
    group = only([run(100.0)])
    assert group.queued_s is None
    assert "waited in a queue" in text(group.missing["queued_s"])


def test_hours_that_the_history_does_not_tell_are_missing_and_not_zero() -> None:
    done = run(100.0)
    group = only([changed(done, history=(done.history[0], done.history[2]))])
    assert group.gpu_hours is None
    assert "when the runs started" in text(group.missing["gpu_hours"])
    back = changed(done.history[2], at=0.0)
    assert only([changed(done, history=(*done.history[:2], back))]).gpu_hours == 0.0


def test_runs_that_report_models_of_different_size_have_no_number_of_parameters() -> None:
    runs = [*repeats([100.0, 101.0]), run(100.5, repeat=3, measured={"parameters": 5})]
    assert rejected(only(runs)) == {100.5: ["mixed-plan"]}
    group = only(runs, accept={"mixed-plan"})
    assert group.parameters is None
    assert text(group.missing["parameters"]) == "the runs report different numbers of parameters"


def test_the_same_records_at_other_times_are_another_log() -> None:
    # Runs of constant rates print the same records; a log without times may be any of theirs.
    def timed(repeat: int, began: float | None) -> Run:
        steady = None if began is None else SteadyPart(started_at=began, ended_at=began + 60)
        return run(100.0, measured={"log_digest": "same", "steady": steady}, repeat=repeat)

    assert only([timed(n, 1000.0 * n) for n in range(1, 61)]).counted == 60
    assert only([timed(1, 1000.0), timed(2, 2000.0), timed(3, 1000.0)]).counted == 2
    assert only([timed(1, 1000.0), timed(2, None)]).counted == 1
    assert only([timed(1, None), timed(2, None)]).counted == 1


def test_a_group_names_the_driver_and_the_nodes_of_its_runs_unless_there_are_many() -> None:
    def on(*nodes: str) -> Group:
        environments = ({"driver": "550", "node": node} for node in nodes)
        return only(
            run(800.0 + n, repeat=n, measured={"environment": one})
            for n, one in enumerate(environments, 1)
        )

    group = on("n2, n1", "n2")
    assert (group.driver, group.nodes) == ("550", ("n1", "n2"))
    assert on(", ".join(f"n{n}" for n in range(9)), "n0").nodes == ()
    assert only([run(800.0, measured={"environment": {}})]).driver is None


def test_two_cases_in_one_row_are_named_with_their_logs() -> None:
    """Five side runs among five others: the row of a published report that was wrong."""
    rates = (2806.66, 2833.72, 2800.71, 2808.11, 2803.56, 672.63, 682.28, 688.8, 701.07, 674.42)
    group = only(repeats(rates))
    assert (group.state, group.counted) == ("rejected", 0)
    sentence = group.members[0].reasons[0].sentence
    for expected in ("5 runs from 672.63 to 701.07", "5 runs from 2800.71 to 2833.72"):
        assert expected in sentence
    logs = [f"{member.run_id}.log" for member in group.members]
    first, _, second = sentence.partition("5 runs from 2800.71")
    assert [name in second for name in logs] == [True] * 5 + [False] * 5
    assert [name in first for name in logs] == [False] * 5 + [True] * 5
