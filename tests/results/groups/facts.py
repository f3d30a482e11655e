"""GPU series of a run."""

from k8sbench.model.measurement import GpuFigure, GpuMetrics


def gpu(**values: float) -> GpuMetrics:
    return GpuMetrics(
        figures={
            name: GpuFigure(value=value, unit="", source="dcgm", coverage=1.0, samples=9)
            for name, value in values.items()
        },
        gpus=(),
    )
