"""Figures of a GPU machine in under nine minutes: ``python3 -m tests.gpu_figures``."""
