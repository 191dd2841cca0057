"""Explains why a launch failed, by its exit code and the end of its output (pure).

A word alone proves nothing ("handles MemoryError gracefully"): it counts in Python's last
words, in lines of a form that only the failing library prints, and in a launcher's notice.
:func:`death` says whether a program died although its launch ended with exit code 0.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import NamedTuple

from tuner.model import FailureKind

#: How much of the output is kept with a failed trial, lines, and of each line, characters.
TAIL_LINES = 20
LINE_CHARACTERS = 500

#: So much of a notice of mpirun's is shown as a reason: some explain at length.
NOTICE_CHARACTERS = 240
#: Control characters: a tail is shown on the user's terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Sequences that colour a terminal, move its cursor or name its window (ECMA-48: CSI, OSC …).
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])"
)


def without_escapes(text: str) -> str:
    """Return the text without sequences that only steer the terminal."""
    return _ESCAPES.sub("", text)


def clean(text: str) -> str:
    """Return the text without terminal escapes and control characters, in short lines."""
    lines = without_escapes(text).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line[:LINE_CHARACTERS] for line in _CONTROL.sub("", lines).split("\n"))


def tail(text: str) -> str:
    """Return the last lines of a text, without blank ones at the end."""
    return "\n".join(text.rstrip().split("\n")[-TAIL_LINES:])


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

#: So many exceptions may tell the cause, from the end: those of other ranks come after it.
MOST_EXCEPTIONS = 64
#: This many lines at the end are a program's last words, if it has no exceptions.
LAST_WORD_LINES = 5


def _meaning(line: str, phrases: _Phrases) -> _Meaning | None:
    return next((meaning for meaning, pattern in phrases if re.search(pattern, line)), None)


def _cause(
    rank_lines: Sequence[str], notices: Sequence[str], exceptions: Sequence[tuple[str, str]]
) -> tuple[_Meaning, str] | None:
    """Return what ran out or is gone, and the line that tells it; the surest lines come first."""
    last_words = rank_lines[:0] if exceptions else rank_lines[-LAST_WORD_LINES:]
    causes = []
    for code, line in reversed(exceptions[-MOST_EXCEPTIONS:]):
        with_code = _meaning(f"{code}\n{line}", _IN_EXCEPTIONS[:2])  # the rows for both lines
        causes.append((with_code or _meaning(line, _IN_EXCEPTIONS), line))
    causes += [(_meaning(line, _IN_NOTICES), line) for line in notices]
    causes += [(_meaning(line, _IN_LINES), line) for line in reversed([*notices, *rank_lines])]
    causes += [(_meaning(line, _IN_EXCEPTIONS), line) for line in reversed(last_words)]
    return next(((meaning, line) for meaning, line in causes if meaning is not None), None)


# --- what else tells ------------------------------------------------------------------------------

_EXCEPTION = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|ProcessPool)(?::\s.*)?")
#: What Python draws below the code that raised an exception; a line of these alone is left out.
_MARKS = "~^ "
#: What Python says below an exception in whose place another one was raised.
_HANDLED = ("During handling of the above", "The above exception was the direct cause")
#: So close to the end an exception counts without its traceback (a program that prints the error).
LAST_LINES = 3
#: Open MPI's notices are between rules, one of them between shorter ones.
_NOTICE = re.compile(
    r"^(?:-{74}|-{60}(?=\nA daemon ))\n(.*?)(?:^(?:-{74}|-{60})$\n?|\Z)", re.MULTILINE | re.DOTALL
)
#: How such a notice names a host, once it is one line.
_REMOTE = re.compile(r"\bRemote (?:host|daemon) ?: (?:\[\S+\] on node )?(\S+)")
#: How the lines of MPICH's Hydra begin, which has no rules around them.
_HYDRA = (
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
#: SIGKILL, as exit codes and as the launchers say it.
_KILLED_CODES = (-9, 137)
_KILLED = re.compile(r"\b(?i:signal):? 9\b|SIGKILL")
#: What Python's libraries raise if one of their worker processes was killed.
_WORKER_LOST = re.compile(
    r"DataLoader worker .*(killed by signal: Killed|exited unexpectedly)"
    r"|\b(BrokenProcessPool|TerminatedWorkerError)\b"
)

#: How programs begin the line that tells what went wrong, if it is not their last one.
_ERROR = re.compile(r"(?:[\w.]+:? )?(?:fatal )?error: *\S", re.IGNORECASE)
#: Open MPI's words of a rank that crashed; its stack comes below.
_SIGNAL = re.compile(r"\[\S+\] Signal: .+ \(\d+\)")
#: What Open MPI says around the line that tells what it ended a rank for.
_FRAME = re.compile(r"\[\S+\] \*{3} +(reported by|on |Unknown error|MPI_ERRORS_ARE|and MPI will).*")

# torchrun always ends with exit code 1. Which rank failed first, and how, is in the table below
# its ChildFailedError (torch.distributed.elastic.multiprocessing.errors).
_TORCHRUN = re.compile(
    r"(?:^Traceback \(most recent call last\):\n(?:(?!Traceback )[^\n]*\n)*?)?"
    r"^torch\.distributed\.elastic\.multiprocessing\.(?:"
    r"errors\.ChildFailedError:\s*(?P<table>^={40,}$.*?(?:^={40,}$|\Z))?"
    r"|api\.SignalException: Process \d+ got signal: (?P<signal>\d+)[^\n]*)\n?",
    re.MULTILINE | re.DOTALL,
)
#: The rank that failed first, and its exit code, in that table.
_ROOT = re.compile(r"^Root Cause.*?^  rank +: (\d+)\b.*?^  exitcode +: (-?\d+)\b", re.M | re.S)
#: torchrun ended before it had a rank: a port that is taken, an option that it does not know.
_UNSTARTED = re.compile(
    r'  File ".*/torch/distributed/run\.py", line \d+, in |(torchrun|run\.py): error: '
)
#: What torch.distributed raises in a program that something else has started.
_NEEDS_TORCHRUN = re.compile(r"env:// rendezvous: environment variable \w+ expected")
#: The lines of torchrun's log, and its word on threads with the stars around it.
_TORCHRUN_LOG = re.compile(
    r"[DIWEC]\d{4} [\d:.]+ \d+ \S*torch/distributed/(elastic/|launcher/|run\.py)"
    r"|\[[-\d]+ [\d:,]+\] torch\.distributed\.(elastic|launcher|run)\b"
    r"|\*{41}|Setting OMP_NUM_THREADS environment variable for each process"
)
#: What torch puts before each line of an exception in a rank of a process group.
_RANK_TAG = re.compile(r"\[rank(\d+)\]: ?")


class Explanation(NamedTuple):
    """What kind of failure it was, the reason in words, and the line of the output that tells."""

    kind: FailureKind
    reason: str
    line: str = ""


def explain(code: int | None, text: str, *, oom_kills: int = 0) -> Explanation:
    """Return why a launch failed; ``text`` is the end of its output, as `clean` left it.

    A negative exit code is a signal, ``None`` is one that is not known, and 0 hides the real one.
    ``oom_kills`` counts the processes that the kernel ended for want of memory, others' too.
    """
    notices: list[str] = []
    rank = None  # the first that failed under torchrun
    for torchrun in [*_TORCHRUN.finditer(text)][-1:]:  # the last match, if there is one
        text = text[: torchrun.start()] + text[torchrun.end() :]
        if torchrun["signal"]:
            name = _signal_name(int(torchrun["signal"]))
            reason = f"torchrun was ended by {name} from outside"
            return Explanation(FailureKind.INTERRUPTED, reason)
        if root := _ROOT.search(torchrun["table"] or ""):
            rank, code = root[1], int(root[2])
            # "killed" is a reason. "the first to end" is shown only if no other line is telling.
            notices.append(f"rank {rank} was {'killed' if code < 0 else 'the first to end'}")
    notices += filter(None, map(_shortened, _NOTICE.findall(text)))
    lines = [line for line in _NOTICE.sub("", text).split("\n") if not _TORCHRUN_LOG.match(line)]
    notices += [line for line in lines if line.startswith(_HYDRA)]
    rank_lines = _of_ranks([line for line in lines if not line.startswith(_HYDRA)], rank)

    exceptions = _exceptions(rank_lines)
    cause = _cause(rank_lines, notices, exceptions)
    if cause is not None:
        (kind, meaning), line = cause
        return Explanation(kind, f"{ended(code)}: {meaning}: {line.strip()}", line)
    raised = [line for _, line in exceptions]
    if rank is not None and code is not None and code < 0:
        raised = []  # the other ranks only say that a killed one is gone
    line = _most_telling(rank_lines, notices, raised)
    reason = f"{ended(code)}: {line}" if line else f"{ended(code)}, and it printed nothing"
    if _NEEDS_TORCHRUN.search(line):
        reason += " (--launcher torchrun sets it for each rank)"
    if oom_kills:  # perhaps of another program: does this one say that it was killed?
        says_killed = any(map(_KILLED.search, notices)) or any(map(_WORKER_LOST.search, raised))
        if code in _KILLED_CODES or says_killed:
            detail = line or "it printed nothing"
            reason = f"{ended(code)}: ended by the kernel for want of memory: {detail}"
            return Explanation(FailureKind.OUT_OF_MEMORY, reason, line)
    unstarted = any(map(_UNSTARTED.match, rank_lines)) or any(map(_NOT_LAUNCHED.search, notices))
    if unstarted or (code in _SHELL_CODES and not exceptions):
        return Explanation(FailureKind.LAUNCHER, reason, line)
    return Explanation(FailureKind.CRASHED, reason, line)


def lost_host(text: str) -> str:
    """Return Open MPI's notice that a host is gone: 5.0 may end with exit code 0 after it."""
    notices = map(_shortened, _NOTICE.findall(text))
    return next((notice for notice in notices if _meaning(notice, _IN_NOTICES) == _HOST), "")


def _shortened(notice: str) -> str:
    """Return the first sentence of a notice that names a host, and the host; else the beginning."""
    notice = " ".join(notice.split())
    if host := _REMOTE.search(notice):
        return f"{notice.partition('. ')[0]}: {host[1]}"
    return shorten(notice, NOTICE_CHARACTERS, placeholder=" …")


def _of_ranks(lines: Iterable[str], first_rank: str | None) -> list[str]:
    """Return the lines of the ranks, without blank ones, marks and frames.

    torch marks exceptions with their rank: those of the ``first_rank`` to fail are kept.
    """
    tagged = [(_RANK_TAG.match(line), line) for line in lines]
    if any(tag and tag[1] == first_rank for tag, _ in tagged):
        tagged = [(tag, line) for tag, line in tagged if tag is None or tag[1] == first_rank]
    texts = (line[tag.end() :] if tag else line for tag, line in tagged)
    return [text for text in texts if text.strip().strip(_MARKS) and not _FRAME.fullmatch(text)]


def _exceptions(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the last lines of Python's tracebacks, each with the line above it.

    They stand below a line of code or at the very end. Exceptions that were handled are left out.
    """
    raised = []
    for number, line in enumerate(lines):
        if not _EXCEPTION.fullmatch(line):
            continue
        above = lines[number - 1] if number else ""
        is_handled = number + 1 < len(lines) and lines[number + 1].startswith(_HANDLED)
        if not is_handled and (above.startswith(" ") or number >= len(lines) - LAST_LINES):
            raised.append((above, line))
    return raised


def _most_telling(
    rank_lines: Sequence[str], notices: Sequence[str], exceptions: Sequence[str]
) -> str:
    complaints = [line for line in notices if not _SAYS_NOTHING.match(line)]
    errors = [line for line in rank_lines[-LAST_LINES:] if _ERROR.match(line)]
    signals = [line for line in rank_lines if _SIGNAL.fullmatch(line)]
    best_first = (*exceptions[-1:], *complaints, *signals, *errors[-1:], *rank_lines[-1:], *notices)
    return next(iter(best_first), "").strip()


def ended(code: int | None) -> str:
    """Return the exit code in words, with the signal's name if there was one."""
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
    """Return ``SIGTERM`` or the like; empty for no signal of this system."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


# --- a death behind exit code 0 -------------------------------------------------------------------
# A pipe (``train | tee log``), ``|| true`` or a last ``echo`` in a script hide the exit code. What
# is left is the end of the output. Only what cannot be the end of a program that went on counts: a
# traceback that was caught, logged and followed by other lines is none.

_FAULTS = (
    "(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception|Aborted"
    r"|Trace/breakpoint trap)(?: \(core dumped\))?"
)
#: A line that is printed for a program that has died, by the program or by what started it.
_DEATH = re.compile(
    "|".join(
        (
            # a shell; of signals that scripts send to their helpers (SIGKILL) it prints the like
            rf"[\w./-]+: line \d+: +\d+ {_FAULTS}\b|(?:[\w./-]+: )?{_FAULTS}$",
            # Open MPI
            r"(?:mpirun|mpiexec|orterun|prterun|prun) (?:noticed that process rank \d"
            r"|detected that one or more processes exited|has exited due to process rank \d)",
            r"MPI_ABORT was invoked on rank \d|Primary job +terminated normally, but",
            r"\[\S+\] (?:Local abort before MPI_INIT"
            r"|\*\*\* (?:Process received signal|An error occurred in MPI_))",
            # MPICH, Intel MPI and MVAPICH
            r"= +BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|Abort\(\d+\) on node \d",
            r"application called MPI_Abort\(|Fatal error in (?:internal_|P?MPI_)\w+",
            r"\[\S+\]\[error_sighandler\] Caught error: ",
            # Slurm
            r"srun: error: \S+: tasks? [\d,-]+: |srun: Job step aborted",
            r"slurmstepd: error: \*\*\* STEP ",
            # Fortran
            r"(?:ERROR )?STOP 0*[1-9]\d*$|ERROR STOP\b|Error termination\.|Fortran runtime error: ",
            r"forrtl: severe \(\d+\)|Program received signal SIG[A-Z]+: ",
            # C and C++
            r"terminate called (?:after throwing|without an active)|libc\+\+abi: terminating ",
            r"\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*|double free or corruption",
            r"corrupted (?:size vs|double-linked)|[\w./-]+: .*: Assertion [`'].*' failed\.$",
            r"(?:free|malloc|realloc|munmap_chunk)\(\): (?:inv|dou|corr)",
            r"[\w./-]+: error while loading shared libraries: ",
            # Python's argparse, and Python itself
            r"[\w./-]+: error: (?:argument |the following arguments |unrecognized arguments)",
            r"Fatal Python error: |torch\.distributed\.elastic\.\S+\.ChildFailedError",
        )
    )
)
#: What may stand below such a line: stacks, advice, what a shell and Python's helpers add.
_BELOW_DEATH = re.compile(
    r"#\d+ |\[\S+\] |[-=*]{10,}|Backtrace for this error:|Note: The following floating-point"
    r"|(?:Current thread|Thread) 0x|Extension modules: |\w+\(\d+\)\.*: |\S+:\d+: \w*Warning: "
    r"|Image +PC +Routine|\S+ +[0-9A-F]{16} |\[[WE]\d+ [\d:.]+ \S+\] "
    r"|srun: |slurmstepd: |(?:real|user|sys)\s+\d+m|make(?:\[\d+\])?: \*{3} "
)
_HEADER = re.compile(r"Traceback \(most recent call last\):$")
#: Any exception's last line, which stands below an indented one.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::\s.*)?")
#: What Python says above a traceback that did not end the program …
_IGNORED = ("Exception ignored ", "Error in atexit.", "Error in sys.")
#: … and above that of a thread or a child process, which ended only these.
_PART = re.compile(r"Exception in thread |Process \S+:$")


def death(text: str, *, has_figure: bool) -> str:
    """Return the line that shows that the program died; empty if the output does not end in one.

    With ``has_figure`` the program's own log or figure is complete. Then a thread or a child
    process that ended in a traceback is not taken for its death: its own exit was 0.
    """
    text = _TORCHRUN.sub("torch.distributed.elastic.errors.ChildFailedError\n", text)
    text = _NOTICE.sub(lambda notice: " ".join(notice[1].split()) + "\n", text)
    ending = above = ""  # the line that shows the death, so far; the line before this one
    may_indent = False  # whether an indented line belongs to what ends the output
    ends_program: list[bool] = []  # of each traceback whose last line is still to come
    for tagged in text.split("\n"):
        line = _RANK_TAG.sub("", tagged, count=1)
        if not line.strip():
            continue
        if _HEADER.match(line):
            is_part = _PART.match(above) is not None
            ends_program.append(not above.startswith(_IGNORED) and not (is_part and has_figure))
        elif line[0].isspace() and (ends_program or may_indent):
            pass  # code of a traceback, or of a stack
        elif ends_program and (
            _EXCEPTION.fullmatch(line) or (above[0].isspace() and _RAISED.fullmatch(line))
        ):
            ending = line if ends_program.pop(0) else ending
            may_indent = False
        elif _DEATH.match(line):
            ending, may_indent = ending or line, True
        elif _BELOW_DEATH.match(line) or (ending and line.startswith(_HYDRA)):
            may_indent = True
        elif not (line.startswith((*_HANDLED, *_IGNORED)) or _PART.match(line)):
            ending, may_indent = "", False  # the program printed this: it went on
        above = line
    return ending.strip()
