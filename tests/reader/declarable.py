"""Lines of programs that no family reads, and of which a file can declare the format."""

import datetime

STARTED = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC)


def moments(count: int, seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> list[str]:
    """Stamps some seconds apart."""
    return [
        (STARTED + datetime.timedelta(seconds=n * seconds)).strftime(form) for n in range(count)
    ]


def stamped(
    line: str, seconds: float, form: str = "%Y-%m-%d %H:%M:%S", every: int = 10
) -> list[str]:
    """Return 40 lines; ``{at}``, ``{step}`` and ``{loss}`` differ."""
    return [
        line.format(at=at, step=every * n, loss=f"{4 - n / 20:.4f}")
        for n, at in enumerate(moments(40, seconds, form), 1)
    ]


SHORT_DATE = [
    f"{at} - INFO - Iter(train) [{n:>2d}/30]  lr: 1.0e-02  time: 0.5000  "
    f"data_time: 0.0217  loss: 4.{n}"
    for n, at in enumerate(moments(30, 0.5, "%m/%d %H:%M:%S"), 1)
]
