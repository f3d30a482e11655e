"""What logs tell of their own run before the first training line."""

from __future__ import annotations

import pytest

from k8sbench.model.sample import Fact
from tests.unit.parse.support import items
from tests.unit.parse.test_records_by_family import ALL


def facts(family: str, *head: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in items(family, *head, ALL[family]):
        if isinstance(item, Fact):
            found.setdefault(item.name, item.value)
    return found


def test_mmseg_without_fp16_in_its_printed_configuration_is_taken_for_fp32() -> None:
    config = "2021-05-31 00:00:02,184 - mmseg - INFO - Config:"
    assert facts("mmseg", config)["precision_assumed"] == "fp32"
    amp = facts("mmseg", config, "optimizer_config = dict(type='Fp16OptimizerHook')")
    assert amp["precision"] == "amp"
    assert "precision_assumed" not in amp


def test_mmseg_without_a_configuration_says_nothing_of_precision() -> None:
    assert "precision_assumed" not in facts("mmseg", "PyTorch: 1.7.1")


@pytest.mark.parametrize(
    ("distributed", "ids", "gpus"),
    [("False", 1, "1"), ("False", 2, "2"), ("True", 8, "8"), ("True", 1, None)],
)
def test_mmseg_tells_its_gpus_only_where_the_list_is_the_jobs(
    distributed: str, ids: int, gpus: str | None
) -> None:
    found = facts(
        "mmseg",
        f"x - mmseg - INFO - Distributed training: {distributed}",
        f"gpu_ids = range(0, {ids})",
    )
    assert found.get("gpus") == gpus


def test_paddleseg_finds_the_model_among_many_types() -> None:
    found = facts(
        "paddleseg",
        "lr_scheduler:",
        "  type: PolynomialDecay",
        "model:",
        "  backbone:",
        "    type: ResNet50_vd",
        "  type: DeepLabV3P",
        "optimizer:",
        "  type: sgd",
    )
    assert found["model"] == "DeepLabV3P"


@pytest.mark.parametrize(
    ("lines", "precision"),
    [
        (["[INFO]\tuse amp to train"], "amp"),
        (["python train.py --precision=fp16 --amp_level=O2"], "amp"),
        (["training_script_args: ['--config', 'x', '--fp16']"], "amp"),
        (["python train.py --precision=fp32"], "fp32"),
        ([], None),
    ],
)
def test_paddleseg_precision(lines: list[str], precision: str | None) -> None:
    assert facts("paddleseg", *lines).get("precision") == precision


@pytest.mark.parametrize(
    ("lines", "stated", "assumed"),
    [
        (["ppcls INFO: AMP : ", "ppcls INFO:     level : O2"], "amp", None),
        (["ppcls INFO: AMP : ", "ppcls INFO:     use_amp : False"], "fp32", None),
        (["ppcls INFO: AMP : ", "ppcls INFO:     use_amp : True"], "amp", None),
        (["INFO: use_amp : False", "INFO: use_pure_fp16 : True"], "amp", None),
        (["PaddleClas is powered by PaddlePaddle"], None, "fp32"),
    ],
)
def test_paddleclas_precision(lines: list[str], stated: str | None, assumed: str | None) -> None:
    found = facts("paddleclas", *lines)
    assert (found.get("precision"), found.get("precision_assumed")) == (stated, assumed)


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        (["INFO: ARCHITECTURE : ", "INFO:     name : ResNet50"], "ResNet50"),
        (["INFO: Arch : ", "INFO:     pretrained : False", "INFO:     name : PPLCNet"], "PPLCNet"),
        # Other sections have names, too: before it, and behind the model's.
        (["INFO: Optimizer : ", "INFO:     name : Momentum"], None),
        (["INFO: Arch : ", "INFO:     name : ResNet50", "INFO:     name : Piecewise"], "ResNet50"),
        (
            ["INFO:     name : Momentum", "INFO: ARCHITECTURE : ", "INFO:     name : ResNet50"],
            "ResNet50",
        ),
    ],
)
def test_paddleclas_names_the_model_in_the_section_of_its_architecture(
    lines: list[str], model: str | None
) -> None:
    head = [f"2026-03-02 10:00:00 {line}" for line in lines]
    found = [
        item for item in items("paddleclas", *head, ALL["paddleclas"]) if isinstance(item, Fact)
    ]
    assert [each.value for each in found if each.name == "model"] == [model] * (model is not None)


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ("TRAIN", {"global_batch": "256"}),
        ("Train", {"batch_size": "256"}),
        ("Eval", {}),
        ("VALID", {}),
    ],
)
def test_paddleclas_batch_is_that_of_its_section(section: str, found: dict[str, str]) -> None:
    head = [f"x INFO: {section} : ", "x INFO:     batch_size : 256", "x INFO:     batch_size : 64"]
    stated = facts("paddleclas", *head)
    assert {
        name: stated[name] for name in ("global_batch", "batch_size") if name in stated
    } == found


def test_the_older_paddle_launcher_does_not_tell_how_many_nodes_there_are() -> None:
    """A job of four nodes prints one address: the environment overrules the arguments."""
    assert "gpus" not in facts("paddleclas", "gpus: 0,1,2,3,4,5,6,7", "ips: 127.0.0.1")
    assert facts("paddleclas", "| PADDLE_TRAINERS_NUM        32        |")["gpus"] == "32"


def test_the_newer_paddle_launcher_does() -> None:
    found = facts(
        "paddleseg",
        "LAUNCH INFO 2022-12-01 14:08:01,831 devices: 0,1,2,3",
        "LAUNCH INFO 2022-12-01 14:08:01,831 nnodes: 2",
    )
    assert found["gpus"] == "8"


USED = "GPUs used: 4"
NCCL = "I0402 12:00:00.905133 388 nccl_context.cc:74] init nccl context nranks: 4 local rank: 0"
BOX = "    |                     PADDLE_TRAINERS_NUM              4            |"
DUMPED = "PADDLE_TRAINERS_NUM=1"


@pytest.mark.parametrize(
    ("head", "gpus"),
    [
        ([DUMPED, USED, NCCL], ["4"]),
        ([DUMPED, NCCL + " gpu id: 0 ring id: 0"], ["4", "1"]),
        ([DUMPED, BOX], ["4", "1"]),
        (["'PADDLE_TRAINERS_NUM': '8',", BOX.replace("4", "2"), USED], ["4", "2", "8"]),
        ([USED, NCCL, BOX, "PADDLE_TRAINERS_NUM=4"], ["4"]),
        ([DUMPED], ["1"]),
        (["trainers_endpoints: a,b , node_id: 0 , num_nodes: 2 , nranks: 8"], ["8"]),
        # A communicator of a part of the job.
        ([NCCL.replace("4", "2") + " gpu id: 0 ring id: 10", BOX], ["4"]),
    ],
)
def test_paddle_believes_the_program_then_the_launcher_then_the_environment(
    head: list[str], gpus: list[str]
) -> None:
    found = [item for item in items("paddleseg", *head, ALL["paddleseg"]) if isinstance(item, Fact)]
    by_belief = sorted(found, key=lambda fact: fact.name)
    counts = [fact.value for fact in by_belief if fact.name.startswith("gpus")]
    assert list(dict.fromkeys(counts)) == gpus


@pytest.mark.parametrize(
    ("parameters", "precision"),
    [
        ("amp : True  fp16 : False", "amp"),
        ("fp16 : True  amp : False", "amp"),
        ("amp : False  fp16 : False", "fp32"),
        ("amp : True", "amp"),
        ("amp : False", "fp32"),
    ],
)
def test_dle_parameters(parameters: str, precision: str) -> None:
    line = (
        "DLL 2021-03-23 09:24:42.127408 - PARAMETER data : /imagenet  arch : resnet50  "
        f"batch_size : 256  prof : 121  {parameters}  world_size : 8 "
    )
    found = facts("dle-resnet50", line)
    assert found["precision"] == precision
    assert (found["batch_size"], found["gpus"], found["model"]) == ("256", "8", "resnet50")
    assert found["planned_iterations"] == "120"


@pytest.mark.parametrize(
    ("layout", "channels_last"), [("nchw", "False"), ("nhwc", "True"), ("other", None)]
)
def test_dle_states_its_layout_as_our_own_trainers_do(
    layout: str, channels_last: str | None
) -> None:
    line = f"DLL 2021-03-23 09:24:42.127408 - PARAMETER data : /i  memory_format : {layout}  lr : 1"
    assert facts("dle-resnet50", line).get("option.channels_last") == channels_last


def test_tsm_tells_its_epochs_by_the_name_it_stores_under() -> None:
    assert facts("tsm", "storing name: TSM_kinetics_RGB_resnet50_e50")["planned_epochs"] == "50"
