"""Lines of both mmcv and mmengine: records as JSON, the environment, checkpoints."""

from __future__ import annotations

from k8sbench.model.sample import Shape
from k8sbench.reader.family import FactRule, MarkRule, RecordRule, padded, rule
from k8sbench.reader.json_fields import JsonFields


def json_record(
    needle: str, shape: Shape, iteration: str = "iter", where: str = "", prefix: str = ""
) -> RecordRule:
    """Build the rule for training lines of the JSON of mmcv or of mmengine."""
    own = {"step_seconds": "time", "data_seconds": "data_time", "loss": "loss"}
    paths = {name: prefix + path for name, path in own.items()}
    paths |= {"iteration": iteration, "epoch": "epoch", "memory": "memory"}
    return RecordRule(needle, JsonFields(paths, f"^(?=.*{needle}).*{where}"), shape)


def environment(begin: str) -> tuple[FactRule, ...]:
    """Build the rules for the environment that mmcv and mmengine print."""
    return (
        rule("Python: ", begin + r"Python: (?P<python>\d[\d.]*)"),
        rule("CUDA available: ", begin + "CUDA available: False", device="cpu"),
        rule("GPU 0", begin + r"GPU (?P<visible_gpus>\d+(?:,\d+)*): (?P<gpu_model>\S.*)"),
        rule("PyTorch: ", begin + r"PyTorch: (?P<framework_version>\S+)"),
        rule("CUDA Runtime", r"- CUDA Runtime (?P<cuda>[\d.]+)"),
        rule("CuDNN", r"- CuDNN (?P<cudnn>[\d.]+)"),
        rule(" - Config:", r" - INFO - Config:", _config="True"),
    )


SAVED = MarkRule(
    "Saving checkpoint at",
    "checkpoint",
    padded(r"Saving checkpoint at \d+ (?:iterations|epochs)"),
)
