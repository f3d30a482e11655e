"""How often a process of k8sbench looks for garbage."""

import subprocess
import sys

import pytest

from k8sbench.__main__ import GARBAGE, USUAL
from tests.tiers import ROOT

MAKING = """
import gc
import k8sbench.cli.main
from k8sbench.__main__ import run
def main():
    kept = [[] for _ in range({objects})]
    print(gc.get_threshold()[0])
    return 0
k8sbench.cli.main.main = main
run()
"""
"""Keeps objects, and prints the threshold of the search for garbage."""


@pytest.mark.parametrize(("objects", "threshold"), [(1_000, GARBAGE), (GARBAGE, USUAL[0])])
def test_garbage_is_looked_for_as_usual_once_a_process_goes_on(
    objects: int, threshold: int
) -> None:
    program = MAKING.format(objects=objects)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout == f"{threshold}\n", done.stderr
