"""Logs with epochs, of PaddleClas and PaddleVideo."""

import itertools


def paddleclas(mean: float, total: float, epoch: int = 0) -> list[str]:
    """An epoch whose lines reach iteration 91, and its total."""
    lines = [
        f"[2026/03/02 1{epoch}:00:{s // 10:02d}] ppcls INFO: epoch:{epoch}   train step:{s:<4} "
        f"lr: 0.1, loss:  5.0000 top1:  0.0 batch_cost: 0.10000 s, reader_cost: 0.00100 s, "
        "ips: 640.00000 samples/sec."
        for s in range(0, 100, 10)
    ]
    lines.append(
        f"[2026/03/02 1{epoch}:00:10] ppcls INFO: END epoch:{epoch}   train  loss:  4.0 top1:  0.0 "
        f"batch_cost: {mean:.5f} s, reader_cost: 0.00100 s, batch_cost_sum: {total:.5f} s, "
        "ips: 21.60906 images/sec."
    )
    return lines


def paddlevideo(epoch: int, seconds: list[float], total: float, steps: int = 161) -> list[str]:
    """Return an epoch of 16 clips a step.

    The first step took 4 s; every 20th is printed.
    """
    ends = itertools.accumulate([4.0, *(20 * each for each in seconds)])
    lines = [
        f"[03/02 10:{epoch:02d}:{at:02.0f}] epoch:[ {epoch:2}/50 ] train step:{index * 20} "
        f"loss: 6.0 lr: 0.08 top1: 0.1 top5: 0.2 elapse: {each:.3f} reader: 0.001s "
        f"ips: {16 / each:.5f} instance/sec."
        for index, (each, at) in enumerate(zip([4.0, *seconds], ends, strict=True))
    ]
    lines.append(
        f"[03/02 10:{epoch:02d}:{4 + total:02.0f}] END epoch:{epoch} train loss_avg: 5.0 "
        f"top1_avg: 0.1 elapse_avg: {total / steps:.3f} reader_avg: 0.010 elapse_sum: {total:.3f}s "
        f"ips: {16 * steps / total:.5f} instance/sec."
    )
    return lines
