"""Programs that end as trainers end, each in its own way."""

import atexit
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from k8sbench.trainers.parts import ending, settings
from k8sbench.trainers.parts.samples import Read


def run(name: str, *given: object) -> None:
    """Run one of the functions below as a trainer."""
    ending.run(partial(globals()[name], *given))


def break_beside_a_thread() -> NoReturn:
    threading.Thread(target=threading.Event().wait).start()
    print("before")
    raise ValueError("rank 1 broke")


def block_in_native_code() -> None:
    reader, _ = os.pipe()
    print("ready", flush=True)
    while True:
        ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)


def block_beside_a_loader(blocked: str) -> None:
    """Wait for a signal or in a read, while a loader process outlives signals."""
    reader, _ = os.pipe()
    ready, tells = os.pipe()
    if os.fork() == 0:
        ending.outlive_signals()
        os.write(tells, b".")
        signal.pause()
    os.read(ready, 1)
    print("ready", flush=True)
    while True:
        if blocked == "pause":
            signal.pause()
        else:
            os.read(reader, 1)


def end_a_loader() -> None:
    """Print the signal that has ended a loader process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b".")
        signal.pause()
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status))


def end_beside_a_loader(way: str, is_read: bool) -> None:
    """End in one of the ways of :data:`WAYS`; perhaps nobody reads what it says."""
    atexit.register(threading.Event().wait, 60)
    reader, writer = os.pipe()
    if os.fork() == 0:
        signal.alarm(60)
        os.write(writer, b".")
        while True:
            signal.pause()
    os.read(reader, 1)
    if not is_read:
        closed, out = os.pipe()
        os.close(closed)
        os.dup2(out, 1)
        os.dup2(out, 2)
    WAYS[way]()


def _break() -> NoReturn:
    raise ValueError


def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(60)


WAYS: dict[str, Callable[[], None]] = {
    "done": lambda: print("done", end=""),
    "broken": _break,
    "told": _terminate,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def refuse(message: str, passing: bool) -> None:
    settings.refuse(message, passing=passing)


def refuse_words(word: str) -> None:
    settings.Parser(prog="x").parse_args([word])


class _Data:
    def __getitem__(self, number: int) -> Read:
        return Read(number, (np.zeros((64, 64)), np.zeros(1)), ())


def load_batches(workers: int) -> None:
    """Print the loader processes of Paddle once they write batches, and wait."""
    from k8sbench.trainers.parts import paddle_session

    paddle_session._end_by_signals()
    data: Any = _Data()
    batches = iter(paddle_session.Batches(data, [[number] for number in range(400)], workers))
    for _ in range(8):
        next(batches)
    print(*[each.pid for each in multiprocessing.active_children()], flush=True)
    signal.pause()
