"""Sets of a case over several nights."""

from k8sbench.model.run import Run
from tests.results.report.factory import START, repeats

FLAT = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 99.7, 100.4, 100.05, 99.95]


def dropped(share: float, sets: int) -> list[float]:
    return [(1 - share) * value for value in FLAT[:sets]]


def sets(levels: list[float], **fields: object) -> list[Run]:
    return [
        one
        for n, level in enumerate(levels)
        for one in repeats(
            (level, level * 1.001, level * 0.999), set_name=f"n{n:02}", at=START + 1e5 * n, **fields
        )
    ]
