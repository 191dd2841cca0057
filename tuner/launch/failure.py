"""Why a launch failed, by its exit code and the end of its output (pure).

A word alone proves nothing ("handles MemoryError gracefully"): it counts in Python's last
words, in lines of a form that only the failing library prints, and in a launcher's notice.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import NamedTuple

from tuner.launch.escapes import without_escapes
from tuner.model import FailureKind

#: How much of the output is kept with a failed trial, lines, and of each line, characters.
TAIL_LINES = 20
LINE_CHARACTERS = 500

#: This much of a notice of mpirun's (some explain at length) is a reason.
NOTICE_CHARACTERS = 240
#: Control characters: a tail is shown on the user's terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """The text without terminal escapes and control characters, in short lines."""
    lines = without_escapes(text).replace("\r\n", "\n").replace("\r", "\n")
    plain = _CONTROL.sub("", lines)
    return "\n".join(line[:LINE_CHARACTERS] for line in plain.split("\n"))


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of `text`, without blank ones at the end."""
    return "\n".join(text.rstrip().split("\n")[-lines:])


# --- what ran out, or is gone ---------------------------------------------------------------------

#: A failure's kind, and what it means in words.
_Meaning = tuple[FailureKind, str]
_Phrases = tuple[tuple[_Meaning, str], ...]

_MEMORY = (FailureKind.OUT_OF_MEMORY, "out of memory")
_SHARED = (FailureKind.OUT_OF_MEMORY, "the shared memory (/dev/shm) is full")
_BLAS = (FailureKind.THREADS, "the BLAS could not start its threads (too many for this system)")
_THREADS = (FailureKind.THREADS, "too many threads or processes for this system")
_DISK = (FailureKind.DISK_FULL, "the disk is full")
_HOST = (FailureKind.LOST_HOST, "a host is gone or cannot be reached")

#: In an exception's own line; in the first two rows also in the line of code that raised it.
_IN_EXCEPTIONS: _Phrases = (
    # multiprocessing's fork fails with the very words of a socket that has nothing to read
    (_THREADS, r"fork.*\nBlockingIOError: \[Errno 11\]"),
    (_SHARED, r"SharedMemory.*\n.*No space left on device"),
    (_SHARED, r"No space left on device.*/dev/shm|/dev/shm.*No space left on device"),
    (_SHARED, r"(</?torch_|shared memory object ).*No space left on device"),  # PyTorch's tensors
    (_SHARED, r"insufficient shared memory|dataloader's workers are out of shared memory"),
    (_MEMORY, r"^(\w+\.)*(\w*MemoryError|OutOfMemory\w*)\b"),
    (_MEMORY, r"\b[Oo]ut of memory\b|OUT_OF_MEMORY|Cannot allocate memory|\bbad_alloc\b"),
    (_THREADS, r"can't start new thread|pthread_create"),
    (_DISK, r"No space left on device|Disk quota exceeded"),
)

#: A line that only the failing library or tool prints.
_IN_LINES: _Phrases = (
    (_BLAS, r"^OpenBLAS blas_thread_init: pthread_create failed"),
    (_THREADS, r"^libgomp: Thread creation failed"),
    (_THREADS, r"^OMP: (Error|System error) #\d+: .*(create thread|Resource temporarily)"),
    (_THREADS, r"^\s*what\(\):\s+(Resource temporarily unavailable|thread constructor)"),
    (_THREADS, r"^[\w./-]+:( line)?( \d+:)? ([Cc]annot fork|fork: .*Resource temporarily)"),
    (_MEMORY, r"^libgomp: Out of memory"),
    (_MEMORY, r"^terminate called after throwing an instance of 'std::bad_alloc'"),
    (_MEMORY, r"^\s*what\(\):\s+std::bad_alloc"),
    (_MEMORY, r"^[\w./-]+:( line)?( \d+:)? .*Cannot allocate memory$"),
    (_MEMORY, r"^(slurmstepd|srun): error: .*(oom[-_ ]kill|out[- ]of[- ]memory)"),
    (_SHARED, r"^[\w./-]+: .*/dev/shm.*No space left on device$"),
    (_SHARED, r"^ERROR: Unexpected bus error encountered in worker\..* insufficient shared memory"),
    (_DISK, r"^[\w./-]+: .*(No space left on device|Disk quota exceeded)$"),
    (_HOST, r"^ssh: (connect to host|Could not resolve hostname) "),
    (_HOST, r"^\[mpiexec@.*(assert \(!closed\) failed|connection to proxy|lost)"),
)

#: In a notice of mpirun's.
_IN_NOTICES: _Phrases = (
    (_HOST, r"(?i)\blost (communication|connection)\b|daemon has unexpectedly failed"),
    (_HOST, r"(?i)daemon .*(died unexpectedly|unexpectedly died|failed to report back)"),
    (_SHARED, r"(?i)shared memory .*(not enough|insufficient)|not enough space .*/dev/shm"),
    (_MEMORY, r"(?i)\bout of memory\b|oom[-_ ]kill|cannot allocate memory"),
    (_THREADS, r"(?i)(fork|clone|thread)\w*\b.*resource temporarily unavailable"),
    (_DISK, r"No space left on device|Disk quota exceeded"),
)

#: How far from the end an exception may stand (those of other ranks come after it), lines.
EXCEPTIONS = 64
#: This many lines at the end are a program's last words, if it has no exceptions.
LAST_WORDS = 5


def shortage(exception: str, code: str = "") -> _Meaning | None:
    """What ran out, by the last line of an exception and the line of code that raised it."""
    with_code = _match(f"{code}\n{exception}", _IN_EXCEPTIONS[:2])
    return with_code or _match(exception, _IN_EXCEPTIONS)


def _match(line: str, phrases: _Phrases) -> _Meaning | None:
    return next((meaning for meaning, pattern in phrases if re.search(pattern, line)), None)


def _cause(
    own: Sequence[str], launcher: Sequence[str], exceptions: Sequence[tuple[str, str]]
) -> tuple[_Meaning, str] | None:
    """What ran out or is gone, and the line that tells."""
    last_words = () if exceptions else own[-LAST_WORDS:]
    causes = [(shortage(line, code), line) for code, line in reversed(exceptions[-EXCEPTIONS:])]
    causes += [(_match(line, _IN_NOTICES), line) for line in launcher]
    causes += [(_match(line, _IN_LINES), line) for line in reversed([*launcher, *own])]
    causes += [(shortage(line), line) for line in reversed(last_words)]
    return next(((meaning, line) for meaning, line in causes if meaning is not None), None)


# --- what else tells ------------------------------------------------------------------------------

EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|ProcessPool)(?::\s.*)?")
#: What Python draws below the code that raised it; a line of nothing else says nothing.
_MARKS = "~^ "
#: What Python says below an exception in whose place another one was raised.
HANDLED = ("During handling of the above", "The above exception was the direct cause")
#: This many lines at the end may be its only ones (``python -S``, a program that prints the error).
LAST_LINES = 3
#: What mpirun puts before the lines of each rank if it is asked to (``--tag-output``).
TAG = re.compile(r"^(?:(?:\[[^\]\s]+\])+<std(?:err|out)>:?\s?|\[\d+\] )", re.MULTILINE)
#: Open MPI's notices are between rules, one of them between shorter ones.
NOTICE = re.compile(
    r"^(?:-{74}|-{60}(?=\nA daemon ))\n(.*?)(?:^(?:-{74}|-{60})$\n?|\Z)", re.MULTILINE | re.DOTALL
)
#: How such a notice names a host, once it is one line.
_REMOTE = re.compile(r"\bRemote (?:host|daemon) ?: (?:\[\S+\] on node )?(\S+)")
#: How the lines of MPICH's Hydra begin, which has no rules around them.
HYDRA = (
    *("=", "YOUR APPLICATION TERMINATED", "This typically ", "Please see ", "[mpiexec@", "[proxy"),
)
#: Open MPI's paragraph that only repeats the exit code, and Hydra's frame and advice.
_SAYS_NOTHING = re.compile(
    r"\w+ detected that one or more processes exited|=|Please see the FAQ page"
    r"|This typically refers|MPI_ABORT was invoked|.* has exited due to process rank"
    r"|rank \d+ was the first to end|Primary job +terminated normally"
)
#: What launchers say when no rank could be started at all.
_NOT_LAUNCHED = re.compile(
    r"unable to launch|not enough slots|unrecognized (option|argument)|execvp error"
    r"|could not (access|find) an executable|HYDU_create_process"
    r"|listener thread failed to start"  # PMIx on a busy host, now and then
)
#: Exit codes of a shell for a program that cannot be run, and one that is not there (POSIX).
_SHELL_CODES = (126, 127)
#: SIGKILL and SIGSEGV, as exit codes and as the launchers say them.
_KILLED_CODES = (-9, 137)
_KILLED = re.compile(r"\bsignal:? 9\b|SIGKILL")
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
#: Open MPI's words of a rank that crashed; its stack comes below.
_SIGNAL = re.compile(r"\[\S+\] Signal: .+ \(\d+\)")
#: What Open MPI says around the line that tells what it ended a rank for.
_FRAME = re.compile(r"\[\S+\] \*{3} +(reported by|on |Unknown error|MPI_ERRORS_ARE|and MPI will).*")

# torchrun always ends with exit code 1. Which rank failed first, and how, is in the table below
# its ChildFailedError (torch.distributed.elastic.multiprocessing.errors).
TORCHRUN = re.compile(
    r"(?:^Traceback \(most recent call last\):\n(?:(?!Traceback )[^\n]*\n)*?)?"
    r"^torch\.distributed\.elastic\.multiprocessing\.(?:"
    r"errors\.ChildFailedError:\s*(?P<table>^={40,}$.*?(?:^={40,}$|\Z))?"
    r"|api\.SignalException: Process \d+ got signal: (?P<signal>\d+)[^\n]*)\n?",
    re.MULTILINE | re.DOTALL,
)
_ROOT = re.compile(r"^Root Cause.*?^  rank +: (\d+)\b.*?^  exitcode +: (-?\d+)\b", re.M | re.S)
#: It ended before it had a rank: a port that is taken, an option that it does not know.
_UNSTARTED = re.compile(
    r'  File ".*/torch/distributed/run\.py", line \d+, in |(torchrun|run\.py): error: '
)
#: What torch.distributed raises in a program that something else has started.
_NEEDS_TORCHRUN = re.compile(r"env:// rendezvous: environment variable \w+ expected")
#: Its log, as torch 2.5, 2.2 and 1.13 begin a line, and the stars around its word on threads.
_LOG = re.compile(
    r"[DIWEC]\d{4} [\d:.]+ \d+ \S*torch/distributed/(elastic/|launcher/|run\.py)"
    r"|\[[-\d]+ [\d:,]+\] torch\.distributed\.(elastic|launcher|run)\b"
    r"|[A-Z]+:torch\.distributed\.(elastic|launcher|run)\b"
    r"|\*{41}|Setting OMP_NUM_THREADS environment variable for each process"
)
#: What torch puts before each line of an exception in a rank of a process group.
_RANK_TAG = re.compile(r"\[rank(\d+)\]: ?")


class Explanation(NamedTuple):
    """What kind of failure it was, the reason in words, and the line of the output that tells."""

    kind: FailureKind
    reason: str
    line: str = ""


def explain(
    code: int | None, text: str, *, oom_kills: int = 0, certain: bool = False
) -> Explanation:
    """Why a launch failed whose program did not end by itself as it should.

    Args:
        code: The exit code, negative for a signal, None if it is not known; 0 if something hid it.
        text: The (end of the) output, as `clean` left it.
        oom_kills: How many processes the kernel ended meanwhile for want of memory.
        certain: They were the launch's own: the host's others were not counted.
    """
    text = TAG.sub("", text)
    launcher: list[str] = []
    rank = None  # the first that failed under torchrun
    for torchrun in [*TORCHRUN.finditer(text)][-1:]:
        text = text[: torchrun.start()] + text[torchrun.end() :]
        if torchrun["signal"]:
            name = _signal_name(int(torchrun["signal"]))
            reason = f"torchrun was ended by {name} from outside"
            return Explanation(FailureKind.INTERRUPTED, reason)
        if root := _ROOT.search(torchrun["table"] or ""):
            rank, code = root[1], int(root[2])
            # Of a signal that says all, of an exit code nothing.
            launcher.append(f"rank {rank} was {'killed' if code < 0 else 'the first to end'}")
    for notice in NOTICE.findall(text):
        launcher += [_shortened(" ".join(notice.split()))] if notice.strip() else []
    lines = [line for line in NOTICE.sub("", text).split("\n") if not _LOG.match(line)]
    launcher += [line for line in lines if line.startswith(HYDRA)]
    own = _of_ranks([line for line in lines if not line.startswith(HYDRA)], rank)

    exceptions = _exceptions(own)
    cause = _cause(own, launcher, exceptions)
    if cause is not None:
        (kind, meaning), line = cause
        return Explanation(kind, f"{ended(code)}: {meaning}: {line.strip()}", line)
    raised = [line for _, line in exceptions]
    # The other ranks only say that a killed one is gone.
    was_killed = rank is not None and code is not None and code < 0
    line = _most_telling(own, launcher, [] if was_killed else raised)
    reason = f"{ended(code)}: {line}" if line else f"{ended(code)}, and it printed nothing"
    if _NEEDS_TORCHRUN.search(line):
        reason += " (--launcher torchrun sets it for each rank)"
    if oom_kills and code not in _FAULT_CODES:
        says_killed = any(map(_KILLED.search, launcher)) or any(map(_WORKER_LOST.search, raised))
        certain = certain and not any(map(_FAULT.search, launcher))
        if code in _KILLED_CODES or says_killed or certain:
            said = line or "it printed nothing"
            reason = f"{ended(code)}: ended by the kernel for want of memory: {said}"
            return Explanation(FailureKind.OUT_OF_MEMORY, reason, line)
    unstarted = any(map(_UNSTARTED.match, own)) or any(map(_NOT_LAUNCHED.search, launcher))
    if unstarted or (code in _SHELL_CODES and not exceptions):
        return Explanation(FailureKind.LAUNCHER, reason, line)
    return Explanation(FailureKind.CRASHED, reason, line)


def lost_host(text: str) -> str:
    """Open MPI's notice that a host is gone, else empty: 5.0 may end with exit code 0 after it."""
    notices = (" ".join(notice.split()) for notice in NOTICE.findall(text))
    lost = (notice for notice in notices if _match(notice, _IN_NOTICES) == _HOST)
    return _shortened(next(lost, ""))


def _shortened(notice: str) -> str:
    """The first sentence of a notice that names a host, and the host; of others the beginning."""
    if host := _REMOTE.search(notice):
        return f"{notice.partition('. ')[0]}: {host[1]}"
    return shorten(notice, NOTICE_CHARACTERS, placeholder=" …")


def _of_ranks(lines: Iterable[str], first: str | None) -> list[str]:
    """The ranks' own lines that say something.

    torch marks exceptions with their rank. Those of the first to fail are kept: the others' are of
    its absence.
    """
    tagged = [(_RANK_TAG.match(line), line) for line in lines]
    if any(tag and tag[1] == first for tag, _ in tagged):
        tagged = [(tag, line) for tag, line in tagged if tag is None or tag[1] == first]
    own = (line[tag.end() :] if tag else line for tag, line in tagged)
    said = (line for line in own if line.strip().strip(_MARKS))
    return [line for line in said if not (_ADVICE.fullmatch(line) or _FRAME.fullmatch(line))]


def _exceptions(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Python's last words, each with the line before it: those that ended something.

    They stand below a line of code or at the very end; what else looks like one was printed.
    One that was handled (another one was raised meanwhile) ended nothing.
    """
    raised = []
    for number, line in enumerate(lines):
        if not EXCEPTION.fullmatch(line):
            continue
        before = lines[number - 1] if number else ""
        handled = number + 1 < len(lines) and lines[number + 1].startswith(HANDLED)
        if not handled and (before.startswith(" ") or number >= len(lines) - LAST_LINES):
            raised.append((before, line))
    return raised


def _most_telling(own: Sequence[str], launcher: Sequence[str], exceptions: Sequence[str]) -> str:
    complaints = [line for line in launcher if not _SAYS_NOTHING.match(line)]
    errors = [line for line in own[-LAST_LINES:] if _ERROR.match(line)]
    signals = [line for line in own if _SIGNAL.fullmatch(line)]
    sources = (exceptions[-1:], complaints[:1], signals[:1], errors[-1:], own[-1:], launcher[:1])
    for lines in sources:
        if lines:
            return lines[0].strip()
    return ""


def ended(code: int | None) -> str:
    """The exit code in words, with the signal's name if there was one."""
    if code is None:
        return "ended in a way that is not known"
    if code == 0:
        return "the program died, though the exit code is 0"
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
