"""Figures of a machine with a GPU in less than nine minutes: ``python3 -m tests.gpu_figures``."""
