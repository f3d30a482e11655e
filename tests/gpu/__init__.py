"""What only a GPU can show: the trainers on CUDA and NCCL."""

LONG = 240.0
"""Seconds that a trainer may take: on a machine that has just come up, importing a framework and
making its first kernels ready take most of a minute."""
