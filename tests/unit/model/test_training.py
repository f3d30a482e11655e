"""``--mode train``: from catalog and request to plan and trainer options."""

from typing import Any

import msgspec
import pytest

from k8sbench.catalog import spec_files
from k8sbench.catalog.plan_choices import Site
from k8sbench.catalog.spec import BenchmarkSpec
from k8sbench.catalog.training import mounted_claims
from k8sbench.model import creation, identity
from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan
from k8sbench.model.speed_options import SPEED_ALONE
from k8sbench.render.pod import environment
from tests.unit.model import specs
from tests.unit.model.specs import CLUSTER, LAPTOP

DATA = "pvc:sets/streets"
TRAIN = {
    "length": 80_000,
    "unit": "iterations",
    "evaluate_every": {"one_gpu": 4_000, "many_gpus": 8_000},
    "metric": "mIoU",
    "rule": "upstream's",
    "start": "published weights",
    "args": {"poly": True},
}
SMALL = {
    "length": 4,
    "unit": "epochs",
    "evaluate_every": 2,
    "args": {"crop": "32x32", "width-divisor": 8},
}


def spec(**changes: Any) -> BenchmarkSpec:
    """The benchmark of the other tests, with a training of its first variant."""
    found: Any = msgspec.to_builtins(specs.spec())
    first = found["variants"][0]
    first |= {"train": TRAIN, "smoke": {**specs.SMOKE, "train": SMALL}} | changes
    target = {"metric": "mIoU", "value": 78.5}
    return msgspec.convert({**found, "target_accuracy": target}, BenchmarkSpec)


def planned(site: Site = CLUSTER, of: BenchmarkSpec | None = None, **asked: Any) -> RunPlan:
    return specs.planned(site, of or spec(), **asked)


def trained(site: Site = CLUSTER, **asked: Any) -> RunPlan:
    place = "/sets/streets" if site.backend == "local" else DATA
    return planned(site, **{"mode": "train", "data": place} | asked)


def told(plan: RunPlan) -> dict[str, str]:
    """The options of the trainer's command that have a value."""
    words = plan.command
    return {
        word.removeprefix("--"): words[at + 1]
        for at, word in enumerate(words[:-1])
        if word.startswith("--") and not words[at + 1].startswith("--")
    }


def test_no_gpu_takes_the_small_training_without_a_target() -> None:
    plan = trained(LAPTOP)
    options = told(plan)
    assert (options["length"], options["length-unit"], options["evaluate-every"]) == (
        *("4", "epochs", "2"),
    )
    assert (options["crop"], options["width-divisor"]) == ("32x32", "8")
    assert "--target" not in plan.command
    assert "--poly" not in plan.command
    assert plan.timeout_s == 7200
    assert told(planned(LAPTOP))["crop"] == "64x64"


def test_the_window_stays_within_the_length_and_needs_no_steps_after_it() -> None:
    plan = trained(iterations=50)
    assert (plan.window.warmup, plan.window.iterations) == (20, 30)
    assert plan.window.min_steady_seconds == 0.0
    assert (trained().window.warmup, trained().window.iterations) == (20, 80)
    assert trained(iterations=8).window.total == 8


def test_repeats_of_a_training_have_seeds_of_their_own_and_are_one_case() -> None:
    """With equal seeds the second would be the first again."""
    first, second = trained(), trained(repeat=2)
    assert environment(first)["K8SBENCH_SEED"] == "0"
    assert environment(second)["K8SBENCH_SEED"] == "1"
    assert told(first)["seed"] == "$(K8SBENCH_SEED)"
    assert identity.case_key(first) == identity.case_key(second)


def test_a_training_of_another_seed_is_the_same_case_also_as_earlier_versions_planned_it() -> None:
    plan = msgspec.structs.replace(trained(), seed=9)
    earlier = tuple("0" if word == "$(K8SBENCH_SEED)" else word for word in plan.command)
    assert identity.case_key(trained()) == identity.case_key(plan)
    before = msgspec.structs.replace(plan, command=earlier, seed=None)
    assert identity.case_key(before) == identity.case_key(plan)


def test_weights_and_checkpoints_of_claims_are_named_where_they_are_mounted() -> None:
    plan = trained(weights="pvc:w/r50/start.pth", checkpoints="pvc:kept/team//")
    assert told(plan)["weights"] == "/weights/start.pth"
    assert told(plan)["checkpoints"] == "/checkpoints/$(K8SBENCH_RUN_ID)"
    assert (plan.weights, plan.checkpoints) == ("pvc:w/r50/start.pth", "pvc:kept/team")
    assert mounted_claims(plan) == {"sets": False, "w": False, "kept": True}


def test_what_the_row_cannot_be_compared_by_is_noted() -> None:
    notes = trained(replicas=4, precision="amp").notes
    assert any("from scratch, where the report starts from published weights" in n for n in notes)
    assert any("no --checkpoints" in note for note in notes)
    notes = trained(weights="pvc:w/a.pth", checkpoints="pvc:c").notes
    assert not any("from scratch" in note or "no --checkpoints" in note for note in notes)
    start = spec(train={**TRAIN, "start": None})
    assert not any("scratch" in note for note in trained(of=start).notes)
    assert not any("scratch" in note for note in trained(LAPTOP).notes)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"data": "synthetic"}, "--mode train needs real data"),
        ({"data": "synthetic-host"}, "no accuracy follows from --data synthetic-host"),
        ({"epochs": 2, "evaluate_every": 3}, "--evaluate-every 3 is beyond the length of 2 epochs"),
        ({"max_restarts": 1}, "--max-restarts without --checkpoints"),
        ({"target": 101.0}, "--target 101 is not a percentage"),
        ({"target": 0.0}, "--target 0 is not a percentage"),
        ({"data": "/mnt/streets"}, "--data /mnt/streets: a path of the nodes"),
        ({"weights": "/mnt/a.pth"}, "--weights /mnt/a.pth: a path of the nodes"),
        ({"checkpoints": "/mnt"}, "--checkpoints /mnt: a path of the nodes"),
        ({"data": "pvc:A"}, "--data 'pvc:A' names no volume claim"),
        ({"data": ""}, "--data '' is not a source of samples"),
        ({"weights": "pvc:w/a.npz"}, "--weights pvc:w/a.npz is not a .pth file"),
        ({"framework": "paddle"}, "The catalog does not say how seg (ps) trains"),
        ({"impl": "upstream", "image": "a:1"}, "has no words for seg (mm) of upstream"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        trained(**asked)
    assert says in refused.value.message
    assert refused.value.action
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("trainer", sorted(SPEED_ALONE))
def test_a_trainer_that_evaluates_nothing_is_refused_whatever_its_file_says(trainer: str) -> None:
    first, *others = spec().variants
    own = msgspec.structs.replace(first, trainer=trainer)
    assert own.train is not None
    of = msgspec.structs.replace(spec(), variants=(own, *others))
    with pytest.raises(UsageError, match="measures speed and evaluates nothing") as refused:
        trained(of=of)
    assert refused.value.action == "Leave out --mode train."


@pytest.mark.parametrize(
    "asked",
    [
        {"epochs": 1},
        {"evaluate_every": 1},
        {"target": 70.0},
        {"to_the_end": True},
        {"checkpoints": "pvc:c"},
        {"max_restarts": 1},
    ],
)
def test_options_of_a_training_are_refused_without_one(asked: dict[str, Any]) -> None:
    (name,) = asked
    with pytest.raises(UsageError, match="is for --mode train") as refused:
        planned(**asked)
    assert f"--{name.replace('_', '-')} " in refused.value.message


def test_claims_are_for_clusters_and_paths_absolute_here() -> None:
    with pytest.raises(UsageError, match="is a volume of a cluster, and this run is local"):
        trained(LAPTOP, data=DATA)
    with pytest.raises(UsageError, match="not an absolute path"):
        trained(LAPTOP, data="streets")


UPSTREAM: dict[str, Any] = {"impl": "upstream", "image": "a:1"}


def of_upstream() -> BenchmarkSpec:
    first: Any = msgspec.to_builtins(specs.spec())["variants"][0]
    return spec(upstream={**first["upstream"], "added": {"train": ["--eval", "{data}"]}})


def test_upstream_s_program_trains_by_its_own_words() -> None:
    plan = trained(of=of_upstream(), **UPSTREAM)
    assert plan.command == ("python", "train.py", "--batch", "2", "--eval", "/data")
    assert plan.training is not None
    assert (plan.training.length, plan.training.target) == (80_000, 78.5)
    assert not plan.training.stop_at_target


@pytest.mark.parametrize(("gpus", "every"), [(1, 4000), (8, 8000)])
def test_the_published_program_evaluates_and_saves_as_often_as_planned(
    gpus: int, every: int
) -> None:
    """Its configuration file has other intervals."""
    plan = trained(of=spec_files.load_spec("deeplabv3p").spec, **UPSTREAM, gpus=gpus)
    assert plan.training is not None
    assert plan.training.evaluate_every == every
    assert {f"evaluation.interval={every}", f"checkpoint_config.interval={every}"} <= {
        *plan.command
    }


@pytest.mark.parametrize("name", ["epochs", "iterations"])
def test_options_of_our_trainers_are_refused_for_upstream_s(name: str) -> None:
    with pytest.raises(UsageError, match="is for k8sbench's own trainers"):
        trained(of=of_upstream(), **(UPSTREAM | {name: 1}))


@pytest.mark.parametrize(
    ("asked", "is_longer"),
    [
        ({"epochs": 5}, True),
        ({"epochs": 4, "target": 60.0}, False),
        ({"epochs": 3, "to_the_end": True}, False),
        ({"epochs": 4, "target": 70.0}, False),
        ({"epochs": 4, "target": 70.5}, True),
        ({"epochs": 4, "to_the_end": True}, True),
    ],
)
def test_a_training_goes_on_to_a_greater_length_or_a_higher_target(
    asked: dict[str, Any], is_longer: bool
) -> None:
    before = trained(epochs=4, target=70.0)
    assert creation.is_longer(trained(**asked), before) is is_longer
