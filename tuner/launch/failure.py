"""Why a launch failed, by its exit code and the end of its output (pure)."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tuner.launch import resource_errors
from tuner.model import FailureKind

#: How much of the output is kept with a failed trial, lines, and of each line, characters.
TAIL_LINES = 20
LINE_CHARACTERS = 500

#: Of mpirun's notices (some explain at length) so much is a reason.
NOTICE_CHARACTERS = 240

_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|ProcessPool)(?::\s.*)?")
#: What Python draws below the code that raised it; a line of nothing else says nothing.
_MARKS = "~^ "
#: What Python says below an exception in whose place another one was raised.
_HANDLED = ("During handling of the above", "The above exception was the direct cause")
#: So many lines at the end may be its only ones (``python -S``, a program that prints the error).
LAST_LINES = 3
#: What mpirun puts before the lines of each rank if it is asked to (``--tag-output``).
_TAG = re.compile(r"^(?:(?:\[[^\]\s]+\])+<std(?:err|out)>:?\s?|\[\d+\] )")
_RULE = re.compile(r"-{74}")  # Open MPI's, around each of its notices
#: Terminal escapes and other control characters: a tail is shown on the user's terminal.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

#: What mpirun says when no rank could be started at all.
_NOT_LAUNCHED = (
    "unable to launch",
    "not enough slots",
    "unrecognized option",
    "unrecognized argument",
    "could not access an executable",
    "could not find an executable",
    "execvp error",
    "HYDU_create_process",
    "listener thread failed to start",  # PMIx on a busy host, now and then
)
#: Exit codes of a shell for a program that cannot be run, and one that is not there (POSIX).
_SHELL_CODES = (126, 127)
#: SIGKILL, as an exit code and as the launchers say it.
_KILLED_CODES = (-9, 137)
_KILLED = re.compile(r"\bsignal:? 9\b|SIGKILL")
#: The same of SIGSEGV.
_FAULT_CODES = (-11, 139)
_FAULT = re.compile(r"\bsignal:? 11\b|SIGSEGV")
#: What Python's libraries raise if one of their worker processes was killed.
_WORKER_LOST = re.compile(
    r"DataLoader worker .*(killed by signal: Killed|exited unexpectedly)"
    r"|\b(BrokenProcessPool|TerminatedWorkerError)\b"
)

#: How programs begin the line that says what went wrong, if it is not their last one.
_ERROR = re.compile(r"(?:[\w.]+:? )?(?:fatal )?error: *\S", re.IGNORECASE)
#: Where programs send who has called them wrongly, below the line that says what was wrong.
_ADVICE = re.compile(r"Try \W.+ --?h(?:elp)?\W for .*")
#: Open MPI's paragraph that only repeats the exit code, and Hydra's frame and advice.
_SAYS_NOTHING = re.compile(
    r"\w+ detected that one or more processes exited|=|Please see the FAQ page"
    r"|This typically refers|MPI_ABORT was invoked|.* has exited due to process rank"
    r"|rank \d+ was the first to end|Primary job +terminated normally"
)
#: How the lines of MPICH's Hydra begin, which has no rules around them.
_HYDRA = (
    "=",
    "YOUR APPLICATION TERMINATED",
    "This typically ",
    "Please see ",
    "[mpiexec@",
    "[proxy",
)


def clean(text: str) -> str:
    """The text without terminal escapes and control characters, in short lines."""
    plain = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return "\n".join(line[:LINE_CHARACTERS] for line in plain.split("\n"))


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of `text`, without blank ones at the end."""
    return "\n".join(text.rstrip().split("\n")[-lines:])


def explain(
    code: int | None, text: str, *, oom_kills: int = 0, certain: bool = False
) -> tuple[FailureKind, str]:
    """What kind of failure an exit code other than 0 is, and the most telling line.

    Args:
        code: The exit code, negative for a signal, None if it is not known.
        text: The (end of the) output, as `clean` left it.
        oom_kills: How many processes the kernel ended meanwhile for want of memory.
        certain: They were the launch's own: the host's others were not counted.
    """
    torchrun = _read_torchrun([_TAG.sub("", line, count=1) for line in text.split("\n")])
    if torchrun.signal is not None:
        reason = f"torchrun was ended by {_signal_name(torchrun.signal)} from outside"
        return FailureKind.INTERRUPTED, reason
    own, launcher = _split(torchrun.own)
    if torchrun.root is not None:
        code = torchrun.root.code
        # Of a signal that says all, of an exit code nothing.
        how = "killed" if code < 0 else "the first to end"
        launcher.append(f"rank {torchrun.root.rank} was {how}")
    own = [line for line in own if line.strip().strip(_MARKS) and not _ADVICE.fullmatch(line)]
    exceptions = _exceptions(own)
    found = resource_errors.in_exceptions(exceptions) or resource_errors.in_lines(own, launcher)
    if found is None and not exceptions:
        found = resource_errors.in_last_words(own)
    if found is not None:
        kind, meaning, said = found
        return kind, f"{ended(code)}: {meaning}: {said.strip()}"
    raised = [line for _, line in exceptions]
    # The other ranks only say that a killed one is gone.
    line = _most_telling(own, launcher, [] if torchrun.root and torchrun.root.code < 0 else raised)
    reason = f"{ended(code)}: {line}" if line else f"{ended(code)}, and it printed nothing"
    if oom_kills and _was_killed(code, launcher, raised, certain=certain):
        said = line or "it printed nothing"
        reason = f"{ended(code)}: ended by the kernel for want of memory: {said}"
        return FailureKind.OUT_OF_MEMORY, reason
    shell = code in _SHELL_CODES and not exceptions
    if (
        shell
        or torchrun.unstarted
        or any(words in said for said in launcher for words in _NOT_LAUNCHED)
    ):
        return FailureKind.LAUNCHER, reason
    return FailureKind.CRASHED, reason


def _was_killed(
    code: int | None, launcher: Sequence[str], raised: Sequence[str], *, certain: bool
) -> bool:
    """Whether a kill that the kernel counted is what ended this launch."""
    if code in _FAULT_CODES:
        return False
    told = any(map(_KILLED.search, launcher)) or any(map(_WORKER_LOST.search, raised))
    return code in _KILLED_CODES or told or (certain and not any(map(_FAULT.search, launcher)))


def _exceptions(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Python's last words, each with the line before it: those that ended something.

    They stand below a line of code or at the very end; what else looks like one was printed.
    One that was handled (another one was raised meanwhile) ended nothing.
    """
    found = []
    for number, line in enumerate(lines):
        if not _EXCEPTION.fullmatch(line):
            continue
        before = lines[number - 1] if number else ""
        handled = number + 1 < len(lines) and lines[number + 1].startswith(_HANDLED)
        if not handled and (before.startswith(" ") or number >= len(lines) - LAST_LINES):
            found.append((before, line))
    return found


def ended(code: int | None) -> str:
    """The exit code in words, with the signal's name if there was one."""
    if code is None:
        return "ended in a way that is not known"
    # Shells and launchers pass a signal on as 128 + its number.
    name = _signal_name(-code if code < 0 else code - 128)
    if not name:
        return f"exit code {code}"
    return f"killed by {name}" if code < 0 else f"exit code {code} ({name})"


def _signal_name(number: int) -> str:
    """``SIGTERM``; empty for no signal of this system."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _most_telling(own: Sequence[str], launcher: Sequence[str], exceptions: Sequence[str]) -> str:
    complaints = [line for line in launcher if not _SAYS_NOTHING.match(line)]
    errors = [line for line in own[-LAST_LINES:] if _ERROR.match(line)]
    for found in (exceptions[-1:], complaints[:1], errors[-1:], own[-1:], launcher[:1]):
        if found:
            return found[0].strip()
    return ""


def _split(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """The program's own lines, and what mpirun says, each of its notices as one line."""
    own: list[str] = []
    said: list[str] = []
    notice: list[str] | None = None  # None outside of mpirun's horizontal rules
    for line in lines:
        if _RULE.fullmatch(line):
            said += _joined(notice)
            notice = [] if notice is None else None
        elif line.startswith(_HYDRA):
            said.append(line)
        elif notice is None:
            own.append(line)
        else:
            notice.append(line)
    return own, said + _joined(notice)


def _joined(notice: Sequence[str] | None) -> list[str]:
    text = " ".join(" ".join(notice or ()).split())
    return [text[:NOTICE_CHARACTERS]] if text else []


# --- torchrun ------------------------------------------------------------------------------------
# It always ends with exit code 1. Which rank failed first, and how, stands in the table below its
# ChildFailedError (torch.distributed.elastic.multiprocessing.errors).

_PACKAGE = r"torch\.distributed\.elastic\.multiprocessing"
_FAILED = re.compile(rf"{_PACKAGE}\.errors\.ChildFailedError:\s*")
_SIGNALLED = re.compile(rf"{_PACKAGE}\.api\.SignalException: Process \d+ got signal: (\d+)")
#: It ended before it had a rank: a port that is taken, an option that it does not know.
_UNSTARTED = re.compile(
    r'  File ".*/torch/distributed/run\.py", line \d+, in |(torchrun|run\.py): error: '
)
_TRACEBACK = "Traceback (most recent call last):"
_ROOT = "Root Cause"
_TABLE_RULE = re.compile(r"={40,}")
_FIELD = re.compile(r"  (rank|exitcode)\s+: (-?\d+)\b")
#: Its log, as torch 2.5, 2.2 and 1.13 begin a line, and the stars around its word on threads.
_LOG = re.compile(
    r"[DIWEC]\d{4} [\d:.]+ \d+ \S*torch/distributed/(elastic/|launcher/|run\.py)"
    r"|\[[-\d]+ [\d:,]+\] torch\.distributed\.(elastic|launcher|run)\b"
    r"|[A-Z]+:torch\.distributed\.(elastic|launcher|run)\b"
    r"|\*{41}|Setting OMP_NUM_THREADS environment variable for each process"
)
#: What torch puts before each line of an exception in a rank of a process group.
_RANK_TAG = re.compile(r"\[rank(\d+)\]: ?")


class FirstFailure(NamedTuple):
    """The rank that failed first, and its exit code, negative for a signal."""

    rank: int
    code: int


class TorchrunOutput(NamedTuple):
    """A launch's output, without torchrun's part in it."""

    own: list[str]  # the ranks' lines
    root: FirstFailure | None = None
    signal: int | None = None  # that torchrun itself was sent
    unstarted: bool = False  # torchrun failed by itself, as its lines say


def _read_torchrun(lines: Sequence[str]) -> TorchrunOutput:
    # torch marks exceptions with their rank. Those of the first to fail are kept: the others' are
    # of its absence.
    own, table, number = _without_traceback([line for line in lines if not _LOG.match(line)])
    root = _root(table)
    if root is not None and any(line.startswith(f"[rank{root.rank}]:") for line in own):
        own = [line for line in own if _rank(line) in (None, root.rank)]
    unstarted = any(map(_UNSTARTED.match, own))
    return TorchrunOutput(
        [_RANK_TAG.sub("", line, count=1) for line in own], root, number, unstarted
    )


def _without_traceback(lines: list[str]) -> tuple[list[str], list[str], int | None]:
    """(the ranks' lines, the table of failures, the signal torchrun was sent)."""
    for end in range(len(lines) - 1, -1, -1):
        failed, signalled = _FAILED.fullmatch(lines[end]), _SIGNALLED.match(lines[end])
        if failed or signalled:
            start = max((n for n in range(end) if lines[n] == _TRACEBACK), default=end)
            rules = [n for n in range(end + 1, len(lines)) if _TABLE_RULE.fullmatch(lines[n])]
            last = rules[1] + 1 if failed and len(rules) > 1 else end + 1
            number = int(signalled[1]) if signalled else None
            return lines[:start] + lines[last:], lines[end:last], number
    return lines, [], None


def _root(table: Sequence[str]) -> FirstFailure | None:
    starts = [number for number, line in enumerate(table) if line.startswith(_ROOT)]
    fields = [_FIELD.match(line) for line in table[starts[0] :]] if starts else []
    found = {field[1]: int(field[2]) for field in fields if field}
    return FirstFailure(found["rank"], found["exitcode"]) if len(found) == 2 else None


def _rank(line: str) -> int | None:
    found = _RANK_TAG.match(line)
    return int(found[1]) if found else None
