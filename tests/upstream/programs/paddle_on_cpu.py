"""Runs a program of Paddle's fleet on CPUs: ``paddle_on_cpu.py PROGRAM WORD...``.

gloo stores the ranks' addresses under names that lack the group's number. A second group of the
same ranks may find the addresses of the first, and cannot connect; here it takes its connections.
"""

import runpy
import sys
import zlib  # noqa: F401

import cv2  # noqa: F401
import paddle
from paddle.distributed import collective


def connections(*_: object, **__: object) -> object:
    """Return those of all ranks, of which every group of several is on CPUs."""
    return collective._get_default_group().process_group


collective._new_process_group_impl = connections
paddle.set_device("cpu")
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
