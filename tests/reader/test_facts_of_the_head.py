"""Facts of a run before its first training line."""

import pytest

from k8sbench.model.sample import Fact
from tests.reader.family_logs import ALL
from tests.reader.support import items


def facts(family: str, *head: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in items(family, *head, ALL[family]):
        if isinstance(item, Fact):
            found.setdefault(item.name, item.value)
    return found


CONFIG = "2021-05-31 00:00:02,184 - mmseg - INFO - Config:"
DISTRIBUTED = "x - mmseg - INFO - Distributed training: "
MM_CONFIG = "2023/06/14 10:00:00 - mmengine - INFO - Config:"
MM_AMP = "optim_wrapper = dict({}type='AmpOptimWrapper')"
MM_BATCH, VAL_BATCH = ["    batch_size=1)"], ["val_dataloader = dict(", "    batch_size=1)"]
MM_HOOKS = ["default_hooks = dict(", "    checkpoint=dict(interval=1, type='CheckpointHook'),"]
MM_LATER_HOOK = ["    visualization=dict(", "        interval=7))"]
MM_MODEL = [
    *("model = dict(", "    backbone=dict(", "        type='Swin',", "        window_size=7),"),
    *("    decode_head=dict(", "        type='ASPPHead'),", "    type='EncoderDecoder')"),
]
SEG_MODEL = ["model:", "  backbone:", "    type: ResNet50_vd", "  type: DeepLabV3P", "optimizer:"]
LAUNCH = "LAUNCH INFO 2022-12-01 14:08:01,831 "
ARCH, NAME = "INFO: ARCHITECTURE : ", "INFO:     name : ResNet50"
OTHER_NAME = "INFO:     name : Momentum"
BATCHES = ["x INFO:     batch_size : 256", "x INFO:     batch_size : 64"]
PARAMETER = (
    "DLL 2021-03-23 09:24:42.127408 - PARAMETER data : /imagenet  arch : resnet50  batch_size : 256"
    "  prof : 121  {}  world_size : 8 "
)
PARAMETER_JSON = (
    'DLLL {"datetime": "2021-03-23 09:24:42.127408", "step": "PARAMETER", "data": {"arch": '
    '"resnet50", "optimizer_batch_size": -1, "batch_size": 256, "prof": 121, "amp": true, '
    '"memory_format": "nhwc", "lr": null, "world_size": 8}}'
)
MMCV_HEADER = (
    r'{"env_info": "sys.platform: linux\nPython: 3.7.10\nMMSegmentation: 0.11.0", "config": '
    r'"data = dict(\n    samples_per_gpu=4)\nmodel = dict(type='
    "'PSPHead')\"}"
)
ENTRY = "INFO 2026-03-02 10:00:00,000 entry.py:"
PLSC_DEFAULTS = [
    *("train_batch_size: 128", "test_batch_size: 120", "model_name: ResNet50"),
    *("loss_type: dist_arcface", "num_classes: 85742"),
]
TOLD: dict[str, tuple[str, list[str], dict[str, str | None]]] = {
    # A configuration without a word on FP16 is taken for one of FP32.
    "mmseg's configuration": ("mmseg", [CONFIG], {"precision_assumed": "fp32"}),
    "with FP16": (
        "mmseg",
        [CONFIG, "optimizer_config = dict(type='Fp16OptimizerHook')"],
        {"precision": "amp", "precision_assumed": None},
    ),
    "no configuration": ("mmseg", ["PyTorch: 1.7.1"], {"precision_assumed": None}),
    "mmcv's header in JSON": (
        "mmseg",
        [MMCV_HEADER],
        {"python": "3.7.10", "program_version": "0.11.0", "batch_size": "4", "model": "PSPHead"},
    ),
    "its precision": ("mmseg", [MMCV_HEADER], {"precision_assumed": "fp32"}),
    "a CPU": ("mmseg", ["CUDA available: False"], {"device": "cpu"}),
    # The list of GPUs is the job's, or that of each process.
    "one GPU": ("mmseg", [DISTRIBUTED + "False", "gpu_ids = range(0, 1)"], {"gpus": "1"}),
    "a logger's interval": (
        "mmseg",
        ["evaluation = dict(", "    interval=7,", "log_config = dict(", "    interval=50,"],
        {"log_interval": "50"},
    ),
    "a list of one": ("mmseg", [DISTRIBUTED + "False", "gpu_ids = [3]"], {"gpus": "1"}),
    "a list of two": ("mmseg", [DISTRIBUTED + "False", "gpu_ids = [0, 1]"], {"gpus": "2"}),
    "a process' list": ("mmseg", [DISTRIBUTED + "True", "gpu_ids = [0]"], {"gpus": None}),
    "two GPUs": ("mmseg", [DISTRIBUTED + "False", "gpu_ids = range(0, 2)"], {"gpus": "2"}),
    "eight processes": ("mmseg", [DISTRIBUTED + "True", "gpu_ids = range(0, 8)"], {"gpus": "8"}),
    "each its own": ("mmseg", [DISTRIBUTED + "True", "gpu_ids = range(0, 1)"], {"gpus": None}),
    # The section of mmengine's configuration decides what a setting is of.
    "mmengine's header": (
        "mmengine",
        ["    MMEngine: 0.10.3", "    GPU number: 16"],
        {"gpus": "16", "mmengine": "0.10.3", "program": "mmengine", "precision_assumed": None},
    ),
    "mmengine on a CPU": ("mmengine", ["    CUDA available: False"], {"device": "cpu"}),
    "its batches": (
        "mmengine",
        ["test_dataloader = dict(", *MM_BATCH, "train_dataloader = dict(batch_size=2)", *VAL_BATCH],
        {"batch_size": "2"},
    ),
    "its window": (
        "mmengine",
        ["log_processor = dict(", "    window_size=50)", *MM_MODEL],
        {"window_size": "50", "model": "ASPPHead"},
    ),
    "a loss's window": (
        "mmengine",
        [
            *("log_processor = dict(", "    custom_cfg=[dict(data_src='loss', window_size=200)],"),
            *("    custom=[", "        dict(window_size=100)],", "    window_size=20)"),
        ],
        {"window_size": "20"},
    ),
    "its log interval": (
        "mmengine",
        [*MM_HOOKS, "    logger=dict(interval=100, type='LoggerHook'),", *MM_LATER_HOOK],
        {"log_interval": "100"},
    ),
    "on a line of its own": (
        "mmengine",
        [*MM_HOOKS, "    logger=dict(", "        interval=100,", "        type='L'),"],
        {"log_interval": "100"},
    ),
    "all hooks in a line": (
        "mmengine",
        ["default_hooks = dict(logger=dict(type='LoggerHook', interval=100))"],
        {"log_interval": "100"},
    ),
    "the interval of another hook": ("mmengine", MM_HOOKS, {"log_interval": None}),
    "no window": ("mmengine", ["log_processor = dict(", *MM_MODEL], {"window_size": None}),
    "mmengine's FP32": ("mmengine", [MM_CONFIG], {"precision_assumed": "fp32", "amp_dtype": None}),
    "mmengine's FP16": (
        "mmengine",
        [MM_CONFIG, MM_AMP.format("")],
        {"precision": "amp", "amp_dtype": "fp16", "precision_assumed": None},
    ),
    "mmengine's BF16": (
        "mmengine",
        [MM_AMP.format("dtype='bfloat16', ")],
        {"precision": "amp", "amp_dtype": "bf16"},
    ),
    "a model among types": ("paddleseg", ["  type: A", *SEG_MODEL], {"model": "DeepLabV3P"}),
    "paddleseg's AMP": ("paddleseg", ["[INFO]\tuse amp to train"], {"precision": "amp"}),
    "its option": ("paddleseg", ["train.py --precision=fp16 --amp"], {"precision": "amp"}),
    "its arguments": ("paddleseg", ["training_script_args: ['--fp16']"], {"precision": "amp"}),
    "no word on it": (
        "paddleseg",
        ["---------------Config Information---------------", "batch_size: 2"],
        {"precision": None, "precision_assumed": None, "precision_default": "fp32"},
    ),
    "its FP32": ("paddleseg", ["python train.py --precision=fp32"], {"precision": "fp32"}),
    "nothing": ("paddleseg", [], {"precision": None}),
    "the newer launcher": (
        "paddleseg",
        [LAUNCH + "devices: 0,1", LAUNCH + "nnodes: 2"],
        {"gpus": "4"},
    ),
    # A job of four nodes prints one address: the environment overrules the arguments.
    "the older launcher": ("paddleclas", ["gpus: 0,1,2,3", "ips: 127.0.0.1"], {"gpus": None}),
    "its environment": ("paddleclas", ["| PADDLE_TRAINERS_NUM   32   |"], {"gpus": "32"}),
    "a level of AMP": (
        "paddleclas",
        ["INFO: AMP : ", "INFO:     level : O2"],
        {"precision": "amp"},
    ),
    "AMP is off": (
        "paddleclas",
        ["INFO: AMP : ", "INFO:     use_amp : False"],
        {"precision": "fp32"},
    ),
    "PaddleVideo's FP32": (
        "paddlevideo",
        ["[09/01 10:00:00] Training in fp32 mode."],
        {"precision": "fp32", "amp_dtype": None},
    ),
    "PaddleVideo's AMP": (
        "paddlevideo",
        ["[09/01 10:00:00] Training in amp mode, amp_level=O2."],
        {"precision": "amp", "amp_dtype": "fp16"},
    ),
    "a strategy for other GPUs": (
        "paddleclas",
        ["root WARNING: It is based on 4 gpus. But the number of gpus is 2 in current training."],
        {"gpus": "2"},
    ),
    "a strategy for other GPUs of 2022": (
        "paddleclas",
        ["It is based on 8 gpus. But the number of gpu is 16 in current training."],
        {"gpus": "16"},
    ),
    "a CPU of an older Paddle": (
        "paddleclas",
        ["root INFO: train with paddle 2.1.2 and device CPUPlace"],
        {"device": "cpu", "framework_version": None},
    ),
    "a CPU of a newer Paddle": (
        "paddleclas",
        ["ppcls INFO: train with paddle 2.4.1 and device Place(cpu)"],
        {"device": "cpu"},
    ),
    "a GPU": ("paddleclas", ["train with paddle 2.4.1 and device Place(gpu:0)"], {"device": None}),
    "AMP is on": ("paddleclas", ["INFO: AMP : ", "INFO:     use_amp : True"], {"precision": "amp"}),
    "pure FP16": (
        "paddleclas",
        ["INFO: use_amp : False", "INFO: use_pure_fp16 : True"],
        {"precision": "amp"},
    ),
    "no word on AMP": (
        "paddleclas",
        ["PaddleClas is powered by PaddlePaddle"],
        {"precision": None, "precision_assumed": "fp32"},
    ),
    # Other sections have names, too.
    "an architecture": ("paddleclas", [ARCH, NAME], {"model": "ResNet50"}),
    "a newer one": (
        "paddleclas",
        ["INFO: Arch : ", "INFO:     a : b", NAME],
        {"model": "ResNet50"},
    ),
    "another section": ("paddleclas", ["INFO: Optimizer : ", OTHER_NAME], {"model": None}),
    "a name behind it": ("paddleclas", [ARCH, NAME, OTHER_NAME], {"model": "ResNet50"}),
    "a name before it": ("paddleclas", [OTHER_NAME, ARCH, NAME], {"model": "ResNet50"}),
    "the job's batch": ("paddleclas", ["x INFO: TRAIN : ", *BATCHES], {"global_batch": "256"}),
    "a card's batch": ("paddleclas", ["x INFO: Train : ", *BATCHES], {"batch_size": "256"}),
    "an evaluation's": (
        "paddleclas",
        ["x INFO: Eval : ", *BATCHES],
        {"batch_size": None, "global_batch": None},
    ),
    "parameters": (
        "dle-resnet50",
        [PARAMETER.format("amp : True  fp16 : False")],
        {
            "precision": "amp",
            "batch_size": "256",
            "gpus": "8",
            "model": "resnet50",
            "planned_iterations": "120",
        },
    ),
    "fp16": ("dle-resnet50", [PARAMETER.format("fp16 : True  amp : False")], {"precision": "amp"}),
    "both off": ("dle-resnet50", [PARAMETER.format("amp : False")], {"precision": "fp32"}),
    "parameters in JSON": (
        "dle-resnet50",
        [PARAMETER_JSON],
        {"batch_size": "256", "gpus": "8", "model": "resnet50", "planned_iterations": "120"},
    ),
    "planned in each epoch": (
        "dle-resnet50",
        [" PARAMETER warmup_epochs : 5  epochs : 3  prof : 41 "],
        {"planned_iterations": "120"},
    ),
    "not planned": ("dle-resnet50", [" PARAMETER prof : -1 "], {"planned_iterations": None}),
    "NCHW": (
        "dle-resnet50",
        [PARAMETER.format("memory_format : nchw")],
        {"option.channels_last": "False"},
    ),
    "NHWC": (
        "dle-resnet50",
        [PARAMETER.format("memory_format : nhwc")],
        {"option.channels_last": "True"},
    ),
    "PLSC's defaults and what is set": (
        "plsc",
        [
            *(f"{ENTRY}157] \t{line}" for line in PLSC_DEFAULTS),
            f"{ENTRY}159] trainer_id: 0, num_trainers: 8",
            f"{ENTRY}349] Set loss_type to arcface.",
            f"{ENTRY}199] Set train batch size to 64.",
        ],
        {"batch_size": "64", "head": "arcface", "classes": "85742", "gpus": "8"},
    ),
    "plsc 2.4": (
        "plsc",
        [
            *(f"x plsc INFO: {line}" for line in ("    Eval : ", "    batch_size : 8")),
            *(f"x plsc INFO: {line}" for line in ("    Train : ", "    batch_size : 64")),
            *(f"x plsc INFO: {line}" for line in ("    level : O1", "    world_size : 4")),
            *(f"x plsc INFO: {line}" for line in ("Model : ", "    name : IResNet50")),
            "x plsc INFO: train with paddle 2.6.2, commit id 0123 and device Place(cpu)",
        ],
        {"batch_size": "64", "gpus": "4", "model": "IResNet50", "device": "cpu"},
    ),
    "plsc's FP32": ("plsc", ["x plsc INFO:     level : O0"], {"precision": "fp32"}),
    "epochs in a name": ("tsm", ["storing name: TSM_RGB_resnet50_e50"], {"planned_epochs": "50"}),
    "timm's epochs": ("timm", ["Scheduled epochs: 300."], {"planned_epochs": "300"}),
    **{
        f"mmcv: {line}": ("mmseg", [line], {"planned_iterations": steps, "planned_epochs": epochs})
        for line, steps, epochs in (
            ("workflow: [('train', 1)], max: 80 iters", "80", None),
            ("workflow: [('train', 1)], max: 12 epochs", None, "12"),
            ("runner = dict(type='IterBasedRunner', max_iters=80)", "80", None),
            ("runner = dict(type='EpochBasedRunner', max_epochs=12)", None, "12"),
            ("total_iters = 80", "80", None),
            ("total_epochs = 12", None, "12"),
        )
    },
}


@pytest.mark.parametrize("case", TOLD)
def test_a_head_tells_facts_of_its_run(case: str) -> None:
    family, head, expected = TOLD[case]
    found = facts(family, *head)
    assert {name: found.get(name) for name in expected} == expected


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
def test_paddles_gpu_counts_have_an_order_of_trust(head: list[str], gpus: list[str]) -> None:
    found = [item for item in items("paddleseg", *head, ALL["paddleseg"]) if isinstance(item, Fact)]
    by_belief = sorted(found, key=lambda fact: fact.name)
    counts = [fact.value for fact in by_belief if fact.name.startswith("gpus")]
    assert list(dict.fromkeys(counts)) == gpus


@pytest.mark.parametrize(
    ("head", "batch"),
    [([], 128), (["  model_parallel_size ............... 4"], 32)],
)
def test_megatron_s_first_generation_states_the_batch_of_a_replica_of_the_model(
    head: list[str], batch: int
) -> None:
    line = (
        " iteration       10/     300 | elapsed time per iteration (ms): 500.0 | "
        "learning rate: 1.0E-04 | lm loss: 2.5E+00 |"
    )
    found = items(
        "megatron", "using world size: 16", "  batch_size ........................ 8", *head, line
    )
    stated = {one.name: one.value for one in found if isinstance(one, Fact)}
    assert stated["global_batch"] == str(batch)
