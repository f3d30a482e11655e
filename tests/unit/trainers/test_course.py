"""Length of a training, its evaluations and options; learning rates as upstream printed them."""

import pytest

from k8sbench.trainers.parts import settings, steps

DEFAULTS = settings.Defaults(benchmark="b", recipes=("v",), batch_size=2, warmup=20, iterations=100)
TRAIN = ("--mode", "train", "--data", "/data")


def read(*argv: str) -> settings.Settings:
    return settings.read("b", "", DEFAULTS, None, argv)[0]


def test_an_epoch_is_the_whole_global_batches_of_the_data() -> None:
    """Kinetics-400 as the report counts it, on 32 GPUs with 16 clips each."""
    found = steps.course(
        read(*TRAIN, "--length", "50", "--length-unit", "epochs", "--evaluate-every", "1"),
        234_584,
        512,
    )
    assert (found.epoch_steps, found.steps, found.epochs) == (458, 22_900, 50)
    assert [step for step in range(1, 1400) if found.evaluates(step)] == [458, 916, 1374]


def test_a_length_in_iterations_is_evaluated_at_its_end_in_any_case() -> None:
    found = steps.course(read(*TRAIN, "--length", "10", "--evaluate-every", "4"), 20, 4)
    assert [step for step in range(1, 11) if found.evaluates(step)] == [4, 8, 10]
    assert found.epochs == 2
    last = steps.course(read(*TRAIN, "--length", "10"), 20, 4)
    assert [step for step in range(1, 11) if last.evaluates(step)] == [10]


def test_throughput_has_its_window_and_no_evaluation() -> None:
    found = steps.course(read("--warmup", "3", "--iterations", "7"), 0, 4)
    assert (found.steps, found.epoch_steps, found.trains) == (10, 1, False)
    assert not any(found.evaluates(step) for step in range(1, 11))


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--mode", "train", "--length", "5"), "needs real data"),
        (("--mode", "train", "--data", "synthetic-host", "--length", "5"), "needs real data"),
        (TRAIN, "needs --length"),
    ],
)
def test_options_that_contradict_each_other_are_one_line_and_exit_code_2(
    argv: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*argv)
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert told in shown


@pytest.mark.parametrize(
    ("minimum", "total", "step", "printed"),
    [
        # mmsegmentation's logs: rate of the step that a line ends with.
        (1e-4, 100, 10, 9.194e-03),
        (1e-4, 100, 100, 2.569e-04),
        (1e-4, 40, 8, 8.426e-03),
        (1e-4, 20, 1, 1.000e-02),
        (1e-4, 80000, 50, 9.995e-03),
        # PaddleSeg's
        (0.0, 20, 2, 0.009549),
        (0.0, 20, 20, 0.000675),
        (0.0, 200, 10, 0.009594),
    ],
)
def test_a_polynomial_rate_is_upstreams(
    minimum: float, total: int, step: int, printed: float
) -> None:
    rate = steps.poly(0.01, total, power=0.9, minimum=minimum)
    assert rate(step - 1) == pytest.approx(printed, abs=1e-6)


def test_past_their_end_the_rules_stay_where_they_are() -> None:
    assert steps.poly(0.01, 10, minimum=1e-4)(50) == pytest.approx(1e-4)
    assert steps.warmup_cosine(0.1, warmup=2, total=4)(50) == pytest.approx(0.0)
