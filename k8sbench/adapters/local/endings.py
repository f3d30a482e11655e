"""Says in one sentence why a job ended, from how its replicas did and what they last wrote.

Training processes fail together: when one dies, its peers lose their connections and die too, and
the launchers around them write long tables. The sentence names the replica that failed by itself
and the line that says why, which is seldom the last one.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

import msgspec

SHOWN = 300
"""Longest line that is quoted, characters."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica's main process ended."""

    replica: str
    code: int | None
    """As Kubernetes and shells count: 128 + N where signal N ended it. None: it still ran."""
    last: Sequence[str]
    """Its last lines."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why the job failed."""

    replica: str
    sentence: str
    id: str


_EXCEPTION = re.compile(
    # torch writes "[rank1]: " in front; PaddlePaddle's C++ writes "Error: " and the like.
    r"^(?:\[[^\]]*\]:?\s*)?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b(?::.*)?$"
)
_OF_THE_LAUNCHER = re.compile(r"ChildFailedError|SignalException|\bgot signal:")
_LOST_PEER = re.compile(
    r"connection (?:was )?(?:closed|reset|refused)|broken pipe|socket (?:closed|timeout)|"
    r"DistNetworkError|remote (?:process|peer) (?:exited|closed)|ncclRemoteError|"
    r"ncclSystemError|peer (?:closed|reset)|failed to (?:recv|send)|wait for .*store|"
    r"timeout self_rank|timed out (?:after|waiting)",
    re.IGNORECASE,
)
_KILLED = re.compile(
    # torchrun, its table (twice), Paddle's launcher
    r"exitcode: -(\d+)\b|exitcode\s+: -(\d+)\b|\bSignal (\d+) \(SIG|code -(\d+)\b"
)
_PORT_TAKEN = re.compile(r"EADDRINUSE|address already in use", re.IGNORECASE)
_RULE = re.compile(r"[\W_]*")
"""A line of no letter and no digit: the frame of a table."""


def telling(lines: Sequence[str]) -> str:
    """Return the line that says why: the last exception's, else the last that says anything."""
    spoken = [line.strip() for line in lines if not _RULE.fullmatch(line)]
    errors = (line for line in reversed(spoken) if _is_error(line))
    return next(errors, spoken[-1] if spoken else "")


def _is_error(line: str) -> bool:
    """Whether an exception's last line stands here that is not only a launcher's report of one."""
    return bool(_EXCEPTION.match(line)) and not _OF_THE_LAUNCHER.search(line)


def lost_its_peer(lines: Sequence[str]) -> bool:
    """Whether the replica seems to have failed because another one was gone."""
    return _LOST_PEER.search(telling(lines)) is not None


def failed_by_itself(lines: Sequence[str]) -> bool:
    """Whether the lines hold an error that no other replica explains."""
    line = telling(lines)
    return (_is_error(line) or bool(_killed_by(lines))) and not _LOST_PEER.search(line)


def cause(first: Ended, others: Sequence[Ended], *, kills: int | None = None) -> Cause:
    """Name what failed the job.

    ``first`` ended first; ``others`` are the rest, each with the lines that it had written by
    then. ``kills`` counts the processes that the kernel killed meanwhile for want of memory,
    anywhere on the machine; None where that is unknown.
    """
    culprit = first
    if lost_its_peer(first.last) and first.code is not None and first.code < 128:
        culprit = next((other for other in others if failed_by_itself(other.last)), first)
    how = _how(culprit)
    line = telling(culprit.last)
    quoted = f": {line if len(line) <= SHOWN else line[: SHOWN - 1] + '…'}" if line else "."
    if culprit.code == 128 + signal.SIGKILL or signal.SIGKILL in _killed_by(culprit.last):
        known = (
            "the kernel killed a process for want of memory meanwhile, so it was" if kills else ""
        )
        return Cause(
            replica=culprit.replica,
            sentence=f"{culprit.replica} {_killed(culprit)}: {known or 'it was possibly'} out of "
            f"memory. Its last line{quoted if line else ' is empty.'}",
            id="oom",
        )
    if _PORT_TAKEN.search(line):
        return Cause(
            replica=culprit.replica,
            sentence=f"{culprit.replica} found its port taken by another program, although it was"
            f" free when the job started; run it again. It {how}{quoted}",
            id="port-taken",
        )
    return Cause(
        replica=culprit.replica, sentence=f"{culprit.replica} {how}{quoted}", id="replica-failed"
    )


def _how(ended: Ended) -> str:
    if ended.code is None:
        return "had an error"
    if ended.code > 128:
        return f"was killed by {_name(ended.code - 128)}"
    return f"exited with code {ended.code}"


def _killed(ended: Ended) -> str:
    if ended.code == 128 + signal.SIGKILL:
        return f"was killed by {_name(signal.SIGKILL)}"
    return f"{_how(ended)} after {_name(signal.SIGKILL)} had killed a process of it"


def _killed_by(lines: Sequence[str]) -> set[int]:
    """Signals that ended processes of a replica, by the words of its launcher."""
    found = (match for line in lines for match in _KILLED.finditer(line))
    return {int(next(filter(None, match.groups()))) for match in found}


def _name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
