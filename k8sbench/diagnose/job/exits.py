"""One sentence on why a job ended, from its replicas' ends.

Training processes fail together: when one dies, its peers lose their connections and die too, and
the launchers around them write long tables. The sentence names the replica that failed by itself
and the line that says why, which is seldom the last one; of several ranks in one replica, the rank
that its launcher saw end first. A rank that waited in vain for a collective has failed because of
another one, as has a rank that lost its connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.diagnose.job.advice import SHARED_MEMORY
from k8sbench.model.kinds import rank_order
from k8sbench.model.run import GPU_OUT_OF_MEMORY

# Signals by number, as Linux has them: containers run there, whatever this program runs on.
_SIGNALS = (
    *("HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2"),
    *("PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG"),
    *("XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR", "SYS"),
)
ABORT, KILL, TERMINATE = 6, 9, 15
EXIT_BASE = 128
"""Exit code minus signal number, as shells and container runtimes count."""
HIGHEST_SIGNAL = 64
"""The last of the real-time signals."""


def signal_text(number: int) -> str:
    """Return a signal's number and name: ``signal 9 (SIGKILL)``."""
    name = f" (SIG{_SIGNALS[number - 1]})" if number <= len(_SIGNALS) else ""
    return f"signal {number}{name}"


def signal_of(code: int) -> int | None:
    """Return the signal that an exit code stands for; None without one."""
    return code - EXIT_BASE if EXIT_BASE < code <= EXIT_BASE + HIGHEST_SIGNAL else None


REPLICA_FAILED, USAGE_ERROR = "replica-failed", "usage-error"
"""Ids of causes: a program failed, or rejected its arguments."""
_USAGE_CODE = 2
"""Exit code of a usage error.

Our trainers, argparse, and Python without its file use it.
"""
SHOWN = 300
"""Longest line that is quoted, characters."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """End of one replica's main process."""

    replica: str
    code: int | None
    """Exit code, 128 + N for signal N; None while it runs."""
    last: Sequence[str]
    """Its last lines."""
    is_soon: bool = True
    """True if it ended within some seconds of the first, and not by what ends all."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Cause of a job's failure."""

    replica: str
    sentence: str
    id: str


_EXCEPTION = re.compile(
    # torch writes "[rank1]: " in front; PaddlePaddle's C++ writes "Error: " and the like.
    r"^(?:\[[^\]]*\]:?\s*)?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b(?::.*)?$"
    # What a command line says that is refused, and our trainers of what may pass.
    r"|^[\w./-][\w./ -]*: error: |^k8sbench: failed: "
    # A C++ exception, nccl-tests, and what _said makes of NCCL's lines.
    r"|^\s*what\(\): +\S|\bTest (?:NCCL|CUDA) failure "
    r"|^(?:\[\w+\]:?\s*)*(?:(?:NCCL|CUDA)(?: error)?: |the collective )"
)
_NO_GPU_MEMORY = re.compile(
    # torch, whose 1.x has a plain RuntimeError; TensorFlow, MXNet, JAX
    r"\b(?:CUDA|HIP) (?:error: )?out of memory|OOM when allocating tensor"
    r"|\bcudaMalloc\b.*: out of memory|RESOURCE_EXHAUSTED: Out of memory"
    r"|Cuda failure (?:\d+ )?'out of memory'"  # NCCL
    r"|Out of memory error on GPU \d"  # PaddlePaddle, two lines after "ResourceExhaustedError:"
)
_ALLOCATOR = re.compile(r"CUDA out of memory|Out of memory error on GPU \d")
"""A line of an error of GPU memory, without its type."""
_SHARED_MEMORY = re.compile(SHARED_MEMORY)
_LOADER_KILLED = re.compile(r"DataLoader .*killed by signal: (?:Killed|9\b)")
_OF_THE_LAUNCHER = re.compile(
    r"ChildFailedError|SignalException|\bgot signal:"
    # torch.distributed.launch of torch 1.x; the signal that ended a rank stands nowhere else.
    r"|^subprocess\.CalledProcessError: Command '\[.*'-u', (?!.*died with <)"
)
_LOST_PEER = re.compile(
    r"connection (?:was )?(?:closed|reset|refused)|broken pipe|socket (?:closed|timeout)|"
    r"DistNetworkError|remote (?:process|peer) (?:exited|closed)|ncclRemoteError|"
    r"ncclSystemError|peer (?:closed|reset)|failed to (?:recv|send)|wait for .*store|"
    r"timeout self_rank|timed out (?:after|waiting|on rank)|remote process exiting|"
    # InfiniBand's end of a peer, torch's other waits, JAX
    r"got completion from peer|NCCL communicator was aborted on rank|wait timeout after|"
    r"failed to pass monitoredBarrier|DEADLINE_EXCEEDED: Barrier timed out|another task died",
    re.IGNORECASE,
)
_KILLED = re.compile(
    # torchrun, its table (twice), Paddle's launcher
    r"exitcode: -(\d+)\b|exitcode\s+: -(\d+)\b|\bSignal (\d+) \(SIG|code -(\d+)\b"
)
_SILENT = re.compile(r"^k8sbench: failed: rank (\d+) of (\d+)( (?:\(|has|hangs|is).*)$")
"""Line of a rank's watch (k8sbench.trainers.parts.watch)."""
_CLIENTS = re.compile(r"Timed out .* waiting for clients\. (\d+/\d+ clients joined)")
"""Line of torchrun after its wait for the other replicas."""
_OUT_OF_MEMORY = ": it was possibly out of memory."
_REPORT_BEGINS = re.compile(r"\bapi\.py:\d+\] failed \(exitcode: ")
_REPORT_RULES = 2
"""Rules of equals signs around torchrun's table."""
_RULE = re.compile(r"[\W_]*")
"""A line of no letter and no digit: the frame of a table."""
_FRAME = re.compile(
    r"^\s*(?:\[[^\]]*\]:?\s*)*(?:"
    # c10, glog, gdb, Open MPI, Paddle, Python
    r"frame #\d+: |@ +0x|#\d+ +0x|/\S+\(.*\)\s*\[0x|\d+ +(?:paddle|phi|std)::"
    r"|File \"[^\"]+\", line \d"
    # What stands around the frames, and a signal's name alone.
    r"|.*\(most recent call (?:first|last)\):$|Extension modules: |<no Python frame>"
    r"|\*\*\* (?:Process received signal|End of error message|Check failure stack)"
    r"|Aborted(?: \(core dumped\))?$"
    r"|terminate called after throwing )"
)
"""A line of a stack: it is no message."""


class _RankReport(msgspec.Struct, frozen=True, kw_only=True):
    """The rank of a replica that ended first, as its launcher reports it."""

    name: str
    """``rank 3``, as the job counts."""
    code: int
    """Negative where a signal ended it."""
    error: str
    """The last line of its own error; empty where none is known."""
    launcher_code: int
    """Launcher's exit code for this report; another code means another attempt."""

    @property
    def is_error(self) -> bool:
        """True if that rank is known to have failed by itself."""
        return self.code < 0 or bool(self.error)

    @property
    def line(self) -> str:
        """Its error as torch writes it, else how it ended."""
        if self.error:
            return f"[{self.name.replace('rank ', 'rank')}]: {self.error}"
        return f"{self.name} {_by(self.code)}"


class TorchrunReport:
    """Recognizes torchrun's reports of its ranks, which give no cause."""

    def __init__(self) -> None:
        self._rules: int | None = None
        """Rules of the report's table so far; None outside a report."""

    def has(self, line: str) -> bool:
        """True if the next output line belongs to a report."""
        if self._rules is None:
            if not _REPORT_BEGINS.search(line):
                return False
            self._rules = 0
        elif line.startswith("====") and _RULE.fullmatch(line):
            self._rules += 1
            if self._rules == _REPORT_RULES:
                self._rules = None
        return True


def cause_id(code: int | None, line: str = "") -> str:
    """Return the cause's id by exit code and telling line."""
    if _NO_GPU_MEMORY.search(line):
        return GPU_OUT_OF_MEMORY
    if _LOADER_KILLED.search(line):
        return "oom"
    return USAGE_ERROR if code == _USAGE_CODE else REPLICA_FAILED


def telling(lines: Sequence[str]) -> str:
    """Return the line with the cause.

    The last exception, else the last line with a message. If the launcher reports which rank ended
    first, only that rank's.
    """
    rank = _first_rank(lines)
    return _last_message(lines) if rank is None else rank.line


def lost_its_peer(lines: Sequence[str]) -> bool:
    """True if the replica seems to have failed because its peer was gone."""
    return _LOST_PEER.search(telling(lines)) is not None


def failed_by_itself(lines: Sequence[str]) -> bool:
    """True if the lines hold an error that no other replica explains."""
    rank = _first_rank(lines)
    line = telling(lines)
    is_error = _is_error(line) or bool(_killed_by(lines)) if rank is None else rank.is_error
    return is_error and not _LOST_PEER.search(line)


def cause(first: Ended, others: Sequence[Ended]) -> Failure:
    """Name what failed the job.

    ``first`` ended first; ``others`` are the rest, each with the lines that it had written by
    then.
    """
    if found := _silent([first, *others]):
        return found
    failed = first
    # A watchdog aborts its process; another signal is a cause of its own.
    is_own = first.code is None or (first.code >= EXIT_BASE and first.code != _ABORTED)
    if lost_its_peer(first.last) and not is_own:
        own = (other for other in others if failed_by_itself(other.last))
        failed = next(own, next(filter(_was_killed, others), first))
    rank = _first_rank(failed.last)
    if rank is None or failed.code not in (None, rank.launcher_code):
        sentence, id_ = _describe_replica(failed)
    else:
        sentence, id_ = _describe_rank(failed, rank)
    return Failure(replica=failed.replica, sentence=sentence, id=id_)


def _was_killed(ended: Ended) -> bool:
    """Return True if a signal ended a replica that no process of the job sends."""
    number = None if ended.code is None else signal_of(ended.code)
    return ended.is_soon and number not in (None, ABORT, TERMINATE)


def _silent(replicas: Sequence[Ended]) -> Failure | None:
    """Return the rank or the replica that the others waited for."""
    for line in (line for replica in replicas for line in reversed(replica.last)):
        if found := _SILENT.match(line):
            names = sorted((replica.replica for replica in replicas), key=rank_order)
            name = names[min(int(found[1]) * len(names) // int(found[2]), len(names) - 1)]
            sentence = f"rank {found[1]} of {name}{found[3]}"
            return Failure(replica=name, sentence=f"{sentence}.", id=REPLICA_FAILED)
    absent = [replica.replica for replica in replicas if replica.code is None and not replica.last]
    if absent and (found := _CLIENTS.search(telling(replicas[0].last))):
        sentence = f"{' or '.join(absent)} has not come: {found[1]}."
        return Failure(replica=absent[0], sentence=sentence, id=REPLICA_FAILED)
    return None


def _describe_replica(failed: Ended) -> tuple[str, str]:
    """The sentence and the id where only the replica is known."""
    line = _last_message(failed.last)
    how = ending_text(failed.code)
    if failed.code != _KILLED_CODE and KILL not in _killed_by(failed.last):
        return f"{failed.replica} {how}{_quoted(line)}", cause_id(failed.code, line)
    if failed.code != _KILLED_CODE:
        how += f" after {signal_text(KILL)} had killed a process of it"
    last = f" Its last line{_quoted(line) if line else ' is empty.'}"
    return f"{failed.replica} {how}{_OUT_OF_MEMORY}{last}", "oom"


def _describe_rank(failed: Ended, rank: _RankReport) -> tuple[str, str]:
    """The same where the launcher reported the rank."""
    id_ = cause_id(rank.code, rank.error)
    if rank.code >= 0 and rank.error:
        return f"{failed.replica} {ending_text(failed.code)}{_quoted(rank.line)}", id_
    sentence = f"{rank.name} of {failed.replica} {_by(rank.code)}"
    if rank.code == -KILL:
        last = f" Its last line{_quoted(rank.error)}" if rank.error else ""
        return f"{sentence}{_OUT_OF_MEMORY}{last}", "oom"
    return f"{sentence}{_quoted(rank.error)}", id_


def _quoted(line: str) -> str:
    """Return the end of a sentence: colon and line, or a full stop."""
    return f": {line if len(line) <= SHOWN else line[: SHOWN - 1] + '…'}" if line else "."


# -- what launchers report of their ranks ---------------------------------------------------------

_PADDLE = re.compile(  # k8sbench.trainers.paddle_launch
    r"^paddle_launch\.py: (?P<name>(?:local )?rank \d+): "
    r"(?:Signal (?P<signal>\d+)(?: \(\w+\))?(?: received by PID \d+)?|exit code (?P<code>\d+))"
    r"(?:: (?P<error>.*))?$"
)
# torchrun's table of failures: two lines of each rank's entry, the root cause's entry last; and
# what it says beforehand of the processes that it ends itself.
_ENTRY_RANK = re.compile(r"^\s*rank\s+: (\d+) \(local_rank: \d+\)")
_ENTRY_CODE = re.compile(r"^\s*exitcode\s+: (-?\d+) \(pid: (\d+)\)")
_ENDED_BY_TORCHRUN = re.compile(
    r"(?:Sending|Closing|Unable to shutdown) process (\d+) (?:closing signal|via) "
)
_OF_A_RANK = re.compile(r"^\[rank(\d+)\]:?\s+(.*)$")
_BEGINNING = re.compile(r"^(?:\[\w+\]:?\s*)*")
"""Prefix of a rank's lines, by torch and its launcher."""
_KILLED_CODE = EXIT_BASE + KILL
_ABORTED = EXIT_BASE + ABORT
_TERMINATED = EXIT_BASE + TERMINATE
"""Exit code of our trainers after SIGTERM."""


def _first_rank(lines: Sequence[str]) -> _RankReport | None:
    """The rank that ended first, where the replica's launcher reports it."""
    for line in reversed(lines):
        if report := _PADDLE.match(line):
            code = -int(report["signal"]) if report["signal"] else int(report["code"])
            return _RankReport(
                name=report["name"],
                code=code,
                error=report["error"] or "",
                launcher_code=code if code >= 0 else 128 - code,
            )
        if "ChildFailedError" in line:
            return _find_first_rank(lines)
    return None


def _find_first_rank(lines: Sequence[str]) -> _RankReport | None:
    """The likeliest first of the ranks in torchrun's table.

    Its root cause is the lowest of those that it found dead at one look, a tenth of a second after
    the one before. So a rank that lost its peer there may hide the one that was killed.
    """
    entries: list[tuple[int, int, bool]] = []
    ended: set[str] = set()
    errors: dict[int | None, str] = {}
    rank = 0
    for line in _said(lines):
        if "ChildFailedError" in line:
            entries.clear()
        elif entry := _ENTRY_RANK.match(line):
            rank = int(entry[1])
        elif entry := _ENTRY_CODE.match(line):
            code = int(entry[1])
            code = -TERMINATE if code == _TERMINATED else code
            entries.append((rank, code, entry[2] in ended))
        elif ending := _ENDED_BY_TORCHRUN.search(line):
            ended.add(ending[1])
        elif _is_error(line):
            of_rank = _OF_A_RANK.match(line)
            whose, message = (int(of_rank[1]), of_rank[2]) if of_rank else (None, line.strip())
            # Of all ranks together, whoever wrote it: rather an error than what followed from it.
            if whose is not None or whose not in errors or not _LOST_PEER.search(message):
                errors[whose] = message
    if not entries:
        return None
    # The root cause is the last entry, and goes before those that are as likely.
    rank, code, is_ended = min(
        reversed(entries), key=lambda entry: _place(entry[1], entry[2], errors.get(entry[0]))
    )
    code = 1 if is_ended and rank in errors else code  # it had its own error before
    error = errors.get(rank) or (errors.get(None, "") if code >= 0 else "")
    return _RankReport(name=f"rank {rank}", code=code, error=error, launcher_code=1)


def _place(code: int, is_ended: bool, error: str | None) -> int:
    """Orders ranks that died together by how likely they died first, the likeliest lowest."""
    if error and not _LOST_PEER.search(error):
        return 1
    if is_ended:  # by torchrun
        return 4
    if code < 0 and code not in (-TERMINATE, -ABORT):
        return 0  # no process of the job does that to another one
    # NCCL's watchdog aborts a rank that has lost its peer.
    return 1 if code == _USAGE_CODE else 2 if code == -TERMINATE else 3


# -- sentences -----------------------------------------------------------------------------------


def _by(code: int) -> str:
    if code == -TERMINATE:
        return f"was ended by {signal_text(TERMINATE)}, not by its launcher"
    return f"exited with code {code}" if code >= 0 else f"was killed by {signal_text(-code)}"


def ending_text(code: int | None) -> str:
    """Say how a process ended, by its exit code; None: it has not."""
    if code is None:
        return "had an error"
    number = signal_of(code)  # None of 255, which is what becomes of exit(-1)
    return _by(code) if number is None else f"was killed by {signal_text(number)}"


def _killed_by(lines: Sequence[str]) -> set[int]:
    """Signals that ended processes of a replica, as its launcher wrote."""
    matches = (match for line in lines for match in _KILLED.finditer(line))
    return {int(next(filter(None, match.groups()))) for match in matches}


def _last_message(lines: Sequence[str]) -> str:
    kept = (line for line in _said(lines) if not _RULE.fullmatch(line) and not _FRAME.match(line))
    messages = [line.strip() for line in kept]
    errors = (line for line in reversed(messages) if _is_error(line))
    return next(errors, messages[-1] if messages else "")


def _is_error(line: str) -> bool:
    """True for an exception's last line that is not a launcher's report."""
    is_one = (
        _EXCEPTION.search(line) or _ALLOCATOR.match(line.lstrip()) or _SHARED_MEMORY.search(line)
    )
    return is_one is not None and not _OF_THE_LAUNCHER.search(line)


# -- errors that another line explains -----------------------------------------------------------

_TIMED_OUT = re.compile(
    r"\[(?:[^\]]*\b)?(?P<rank>\d+)\] Watchdog caught collective operation timeout:"
    r"(?:.*?\bOpType=(?P<what>\w+))?(?:.*?\bTimeout\(ms\)=(?P<limit>\d+))?"
    r"(?:.*?\bran for (?P<ran>\d+) milliseconds)?"
)
_WATCHDOG = re.compile(
    r"(?:\[(?:[^\]]*\b)?[Rr]ank (?P<rank>\d+)\] )?"
    r"(?:Process group|NCCL) watchdog thread terminated with exception: (?P<error>\S.*)$"
)
"""Lines of the watchdog of torch's NCCL process group."""
_NCCL_ERROR = re.compile(r"\bnccl\w*Error\b|\bNCCL error\b|\bTest (?:NCCL )?failure ")
_LAST_ERROR = re.compile(r"Last error:\s*(?P<error>.*)$")
"""NCCL's own words after that, in this line or the next one."""


class _Vague(NamedTuple):
    """An error that does not say why, and the line before it that does."""

    error: re.Pattern[str]
    why: re.Pattern[str]
    """Its group is what the line says."""
    by: str = ""


_VAGUE = (
    _Vague(
        _NCCL_ERROR,
        re.compile(r"\bNCCL WARN (\S.*)$"),
        by="NCCL: ",
    ),
    _Vague(
        re.compile(
            r"DataLoader worker \(pid\(s\).*exited unexpectedly|DataLoader \d+ workers? exit"
            r"|Pin memory thread exited unexpectedly"
        ),
        re.compile(r"^(.*(?:killed by signal: |bus error encountered in).*)$", re.IGNORECASE),
    ),
)


def _said(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines, and for errors that do not say why the line that does."""
    waiting: set[str] = set()
    took: dict[str, str] = {}
    known: dict[_Vague, str] = {}
    is_nccl = False
    for line in lines:
        begins = _BEGINNING.match(line)
        beginning = begins[0] if begins else ""
        rest = line[len(beginning) :]
        if by_watchdog := _WATCHDOG.search(line):
            rank = by_watchdog["rank"]
            beginning = f"[rank{rank}]: " if rank else beginning
            rest = by_watchdog["error"]
        last = _LAST_ERROR.match(rest) if is_nccl else None
        is_nccl = is_nccl or _NCCL_ERROR.search(rest) is not None
        if timed_out := _TIMED_OUT.search(line):
            yield _timeout(timed_out, took)
        elif last and not last["error"]:
            waiting.add(beginning)
        elif last or (beginning in waiting and rest.strip()):
            waiting.discard(beginning)
            yield f"{beginning}NCCL: {last['error'] if last else rest.strip()}"
        else:
            for vague in _VAGUE:
                if why := vague.why.search(rest):
                    known[vague] = f"{vague.by}{why[1]}"
                elif vague in known and vague.error.search(rest):
                    rest = known[vague]
            yield f"{beginning}{rest}"


def _timeout(found: re.Match[str], took: dict[str, str]) -> str:
    """Write a watchdog's timeout as an error of its rank.

    ``took``: how long each rank waited, as far as a line has said it.
    """
    rank = found["rank"]
    if waited := found["ran"] or found["limit"]:
        took[rank] = f" after {int(waited) / 1000:.0f} s"
    what = f"collective {found['what']}" if found["what"] else "collective"
    return f"[rank{rank}]: the {what} timed out on rank {rank}{took.get(rank, '')}"
