"""k8sbench: how fast a training job really is on a GPU cluster, on PyTorch and on Paddle.

Imports nothing, so that ``k8sbench --help`` and the trainers (which travel into pods with this
file) start at once. ``docs/architecture.md`` shows the packages and what each may import.
"""

__version__ = "0.2.0"
