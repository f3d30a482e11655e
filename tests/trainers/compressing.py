"""A trainer on Paddle that compresses. This module imports nothing before the trainers' parts."""


def compress() -> None:
    import k8sbench.trainers.parts  # noqa: I001 - before Paddle
    import paddle  # noqa: F401
    import zlib

    zlib.compress(k8sbench.trainers.parts.__name__.encode())
