"""Plans or errors of every built-in benchmark with each option: golden files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.catalog import packaged, plan_choices, planning, pool_files, spec_files
from k8sbench.catalog.plan_choices import Site
from k8sbench.model import identity
from k8sbench.model.errors import BenchError
from k8sbench.model.pool import CPU_POOL
from k8sbench.model.request import SubmitRequest
from k8sbench.model.speed_options import parse_speed_options
from tests.unit import goldens

FOLDER = Path(__file__).parent / "golden" / "plans"
ASKED: dict[str, dict[str, Any]] = {
    "one node": {"replicas": 1},
    "four nodes": {"replicas": 4},
    "one GPU": {"replicas": 1, "gpus": 1},
    "nine GPUs": {"gpus": 9},
    "all cases and replicas": {"all_cases": True, "replicas": 4},
    "AMP": {"amp": True},
    "AMP in bf16": {"precision": "bf16"},
    "another batch": {"batch_sizes": (3,)},
    "a longer window": {"iterations": 300, "warmup": 7},
    "smoke": {"preset": "smoke"},
    "a folder of data": {"data": "/data"},
    "a claim": {"data": "pvc:data/sets"},
    "a claim that cannot be": {"data": "pvc:"},
    "speed options": {"speed_options": ("tf32", "workers=3")},
    "a switch off": {"speed_options": ("cudnn_benchmark=false",)},
    "an unknown switch": {"speed_options": ("faster",)},
    "an image": {"image": "registry.example.com/a:1"},
    "a registry": {"image_registry": "registry.example.com/team"},
    "a queue": {"queue": "team", "timeout_s": 90.0},
    "training": {"mode": "train", "data": "pvc:data", "epochs": 3, "target": 20.0},
    "training in steps": {"mode": "train", "data": "pvc:data", "iterations": 500},
    "training to its end": {
        "mode": "train",
        "data": "pvc:data",
        "to_the_end": True,
        "evaluate_every": 2,
        "checkpoints": "pvc:kept",
        "max_restarts": 2,
    },
    "training without a target": {"mode": "train", "data": "pvc:data", "target": "none"},
    "training without data": {"mode": "train"},
    "with weights": {"weights": "pvc:weights/start.pth"},
    "with Paddle's weights": {"framework": "paddle", "weights": "pvc:weights/start.pdparams"},
    "upstream": {"impl": "upstream", "image": "upstream:1"},
    "upstream without an image": {"impl": "upstream"},
    "another variant": {"variant": "no-such"},
    "the other framework": {"framework": "paddle"},
}
POOLS, IMAGES = pool_files.load_pools(environ={}), packaged.read_image_table()
SITES = {
    **{
        name: Site(backend="kubernetes", pool=POOLS.pool(name), images=IMAGES)
        for name in ("v100-32gb", "v100-16gb", "a100", "h100")
    },
    "laptop": Site(backend="local", pool=CPU_POOL, cores=4, images=IMAGES),
}


def planned(name: str, site: Site, **asked: Any) -> dict[str, Any]:
    """Return the plan's fields, its description and its case fields."""
    loaded = spec_files.load_spec(name)
    try:
        plan = planning.make_plan(
            msgspec.structs.replace(loaded, digest="d" * 64),
            SubmitRequest(benchmark=name, **asked),
            site,
            run_id=f"{name}-1",
            set_name="s",
            repeat=1,
            trainers_digest="t" * 64,
        )
    except BenchError as error:
        return {"error": f"{type(error).__name__} {goldens.numbers(error.message)}"}
    case = identity.case_values(plan)
    command, of_case = options(plan.command), options(json.loads(case.pop("command")))
    found = dict(goldens.flat(msgspec.structs.replace(plan, command=())))
    found |= {"described": planning.describe_plan(plan)}
    found |= {f"command.{key}": value for key, value in command.items()}
    found |= {
        f"case.command.{key}": of_case.get(key, "none")
        for key in command.keys() | of_case.keys()
        if command.get(key) != of_case.get(key)
    }
    labels = identity.labels(plan).items()
    found |= {f"labels.{key.rpartition('/')[2]}": value for key, value in labels}
    return found | {f"case.{key}": value for key, value in case.items()}


def options(command: Sequence[str]) -> dict[str, str]:
    """Return a command's options with their values; repeated ones by place."""
    found = dict[str, str]()
    for each in " ".join(("program", *command)).split(" --"):
        name, _, value = each.partition(" ")
        found[f"{name}:{len(found)}" if name in found else name] = value
    return found


@pytest.mark.parametrize("name", spec_files.names())
def test_what_a_built_in_benchmark_plans(name: str) -> None:
    rows = {"plain": planned(name, SITES["v100-32gb"])}
    rows |= {what: planned(name, SITES["v100-32gb"], **asked) for what, asked in ASKED.items()}
    rows |= {f"on {where}": planned(name, site) for where, site in SITES.items()}
    rows["AMP on a laptop"] = planned(name, SITES["laptop"], amp=True, replicas=2)

    goldens.check(FOLDER / f"{name}.txt", goldens.table(rows.items()))


def test_what_a_shape_and_speed_options_are_read_from() -> None:
    shapes = ("1x1", "4x8", "0x1", "1x0", "x", "4", "4x", "64x16", "1000000x1", "4X8", " 4x8")
    switches = ("tf32", "workers=2", "compile", "workers=x", "tf32=false", "workers=-1", "workers")
    readers: dict[str, Callable[[str], object]] = {
        **dict.fromkeys(shapes, plan_choices.parse_case),
        **dict.fromkeys(switches, lambda text: parse_speed_options([text])),
    }
    lines = []
    for text, read in readers.items():
        try:
            lines.append(f"{text!r}: {read(text)}\n")
        except BenchError as error:
            lines.append(f"{text!r}: {type(error).__name__}\n")
    goldens.check(FOLDER / "shapes.txt", "".join(lines))
