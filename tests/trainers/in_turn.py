"""Trainers one after the other in one process."""

import importlib
import os

from k8sbench.trainers.parts import ending


def train(lines: str) -> None:
    """Run the trainer of each line, NAME PORT OPTIONS.

    It ends as trainers end: PyTorch's own clean-up at the end of a process, after a backward pass,
    now and then aborts it ("terminate called without an active exception").
    """
    for name, port, *options in (line.split() for line in lines.splitlines()):
        os.environ["MASTER_PORT"] = port  # each run of PyTorch meets anew
        importlib.import_module(f"k8sbench.trainers.{name}").main(options)
    ending.run(lambda: None)
