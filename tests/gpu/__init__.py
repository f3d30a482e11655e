"""Tests that need a GPU: the trainers on CUDA and NCCL."""

LONG = 240.0
"""Timeout of a trainer, seconds.

On a cold machine, importing a framework and compiling its first kernels take most of a minute.
"""
