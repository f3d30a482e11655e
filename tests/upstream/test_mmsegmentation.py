"""mmsegmentation, old and new, trains unchanged; rows match its logs."""

from pathlib import Path

import pytest

from tests.harness import upstream
from tests.upstream.runs import BATCH, ITERATIONS, PROGRAMS, Bench

pytestmark = pytest.mark.timeout(1500)
ON_CPU = PROGRAMS / "on_cpu.py"
# No synchronised batch norm on a CPU, and no weights, which it would download.
SMALL = (
    "model.pretrained=None",
    *(f"model.{part}.norm_cfg.type=BN" for part in ("backbone", "decode_head", "auxiliary_head")),
)


def mim(packages: str, name: str) -> Path:
    """Return a file that stands beside the library in its wheel."""
    folder = Path(upstream.installed(packages), "mmseg", ".mim")
    (found,) = folder.rglob(name)
    return found


def test_version_0_30_on_one_process(bench: Bench, streets: Path) -> None:
    packages = "mmsegmentation-0"
    command: list[str | Path] = [
        *("python3", ON_CPU, mim(packages, "train.py")),
        mim(packages, "deeplabv3plus_r18-d8_512x1024_80k_cityscapes.py"),
        *("--no-validate", "--work-dir=work", "--cfg-options", *SMALL),
        "data.samples_per_gpu={batch_size}",
        "data.workers_per_gpu=1",
        "data.train.data_root={data}",
        "data.train.pipeline.2.img_scale=(128,64)",
        "data.train.pipeline.3.crop_size=(64,64)",
        "data.train.pipeline.7.size=(64,64)",
        "runner.max_iters={total_iterations}",
        "log_config.interval={log_interval}",
    ]
    run = bench.submit(command, "mmseg", f"--data={streets}", packages=[packages])
    seconds = run.numbers(r" - mmseg - INFO - Iter \[\d/\d\]\t.* time: ([\d.]+)")
    assert run.row["throughput"] == pytest.approx(BATCH * ITERATIONS / sum(seconds), rel=1e-3)


def test_version_1_2_on_two_replicas(bench: Bench, streets: Path) -> None:
    packages = "mmsegmentation-1"
    command: list[str | Path] = [
        *("python3", "-m", "torch.distributed.run"),
        "--nnodes={replicas}",
        "--nproc-per-node={gpus_per_replica}",
        "--node-rank=$(RANK)",
        "--master-addr=$(MASTER_ADDR)",
        "--master-port=$(MASTER_PORT)",
        *(ON_CPU, mim(packages, "train.py")),
        mim(packages, "deeplabv3plus_r18-d8_4xb2-80k_cityscapes-512x1024.py"),
        *("--launcher=pytorch", "--work-dir=work", "--cfg-options", *SMALL),
        *("val_cfg=None", "val_dataloader=None", "val_evaluator=None"),
        "train_cfg.max_iters={total_iterations}",
        # It is compared with the length even where nothing is validated.
        "train_cfg.val_interval=1000",
        "default_hooks.logger.interval={log_interval}",
        "log_processor.window_size={log_interval}",
        "train_dataloader.batch_size={batch_size}",
        "train_dataloader.num_workers=0",
        "train_dataloader.persistent_workers=False",
        "train_dataloader.dataset.data_root={data}",
        "train_dataloader.dataset.pipeline.2.scale=(128,64)",
        "train_dataloader.dataset.pipeline.3.crop_size=(64,64)",
        "model.data_preprocessor.size=(64,64)",
        "env_cfg.dist_cfg.backend=gloo",
    ]
    run = bench.submit(
        command, "mmengine", f"--data={streets}", "--replicas=2", packages=[packages]
    )
    seconds = run.numbers(r" - mmengine - INFO - Iter\(train\) +\[\d/\d\].* time: ([\d.]+)")
    assert run.row["throughput"] == pytest.approx(2 * BATCH * ITERATIONS / sum(seconds), rel=1e-3)
