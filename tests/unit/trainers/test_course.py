"""Length of a training, its evaluations and checkpoints, and their options."""

import pytest

from k8sbench.trainers.parts import schedules, settings

DEFAULTS = settings.Defaults(benchmark="b", recipes=("v",), batch_size=2, warmup=20, iterations=100)
TRAIN = ("--mode", "train", "--data", "/data")


def read(*argv: str) -> settings.Settings:
    return settings.read("b", "", DEFAULTS, None, argv)[0]


def test_an_epoch_is_the_whole_global_batches_of_the_data() -> None:
    """Kinetics-400 as the report counts it, on 32 GPUs with 16 clips each."""
    found = schedules.plan(
        read(*TRAIN, "--length", "50", "--length-unit", "epochs", "--evaluate-every", "1"),
        234_584,
        512,
    )
    assert (found.epoch_steps, found.steps, found.epochs) == (458, 22_900, 50)
    assert [step for step in range(1, 1400) if found.evaluates(step)] == [458, 916, 1374]


def test_a_length_in_iterations_is_evaluated_at_its_end_in_any_case() -> None:
    found = schedules.plan(read(*TRAIN, "--length", "10", "--evaluate-every", "4"), 20, 4)
    steps = range(1, 11)
    assert [step for step in steps if found.evaluates(step)] == [4, 8, 10]
    assert found.epochs == 2
    last = schedules.plan(read(*TRAIN, "--length", "10"), 20, 4)
    assert [step for step in steps if last.evaluates(step)] == [10]


def test_throughput_has_its_window_and_no_evaluation() -> None:
    found = schedules.plan(read("--warmup", "3", "--iterations", "7"), 0, 4)
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
