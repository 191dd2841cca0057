"""What programs and launchers print if something ran out or a host is gone (pure).

A word alone proves nothing ("handles MemoryError gracefully"): it counts in Python's last
words, in lines of a form that only the failing library prints, and in a launcher's notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tuner.model import FailureKind

#: A failure's kind, what it means in words, and the line that tells.
Cause = tuple[FailureKind, str, str]

_MEMORY = (FailureKind.OUT_OF_MEMORY, "out of memory")
_SHARED = (FailureKind.OUT_OF_MEMORY, "the shared memory (/dev/shm) is full")
_BLAS = (FailureKind.THREADS, "the BLAS could not start its threads (too many for this system)")
_THREADS = (FailureKind.THREADS, "too many threads or processes for this system")
_DISK = (FailureKind.DISK_FULL, "the disk is full")
_HOST = (FailureKind.LOST_HOST, "a host is gone or cannot be reached")

Phrases = tuple[tuple[tuple[FailureKind, str], re.Pattern[str]], ...]


def _phrases(*rows: tuple[tuple[FailureKind, str], str]) -> Phrases:
    return tuple((what, re.compile(pattern)) for what, pattern in rows)


#: In an exception's own line.
_EXCEPTION = _phrases(
    (_SHARED, r"No space left on device.*/dev/shm|/dev/shm.*No space left on device"),
    (_SHARED, r"(</?torch_|shared memory object ).*No space left on device"),  # PyTorch's tensors
    (_SHARED, r"insufficient shared memory|dataloader's workers are out of shared memory"),
    (_MEMORY, r"^(\w+\.)*(\w*MemoryError|OutOfMemory\w*)\b"),
    (_MEMORY, r"\b[Oo]ut of memory\b|OUT_OF_MEMORY|Cannot allocate memory|\bbad_alloc\b"),
    (_MEMORY, r"Unable to allocate .* for an array"),
    (_THREADS, r"can't start new thread|pthread_create"),
    (_DISK, r"No space left on device|Disk quota exceeded"),
)

#: A line that only the failing library or tool prints.
_FORMS = _phrases(
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
    (_MEMORY, r"^forrtl: severe \(41\)|^Operating system error: Cannot allocate memory"),
    (_SHARED, r"^[\w./-]+: .*/dev/shm.*No space left on device$"),
    (_SHARED, r"^ERROR: Unexpected bus error encountered in worker\..* insufficient shared memory"),
    (_DISK, r"^[\w./-]+: .*(No space left on device|Disk quota exceeded)$"),
    (_HOST, r"^ssh: (connect to host|Could not resolve hostname) "),
    (_HOST, r"^Host key verification failed|^Connection to \S+ closed by remote host"),
    (_HOST, r"^\[mpiexec@.*(assert \(!closed\) failed|connection to proxy|lost)"),
)

#: In a notice of mpirun's.
_NOTICE = _phrases(
    (_HOST, r"(?i)\blost (communication|connection)\b|daemon has unexpectedly failed"),
    (_HOST, r"(?i)daemon .*(died unexpectedly|unexpectedly died)"),
    (_SHARED, r"(?i)shared memory .*(not enough|insufficient)|not enough space .*/dev/shm"),
    (_MEMORY, r"(?i)\bout of memory\b|oom[-_ ]kill|cannot allocate memory"),
    (_THREADS, r"(?i)(fork|clone|thread)\w*\b.*resource temporarily unavailable"),
    (_DISK, r"No space left on device|Disk quota exceeded"),
)

#: How far from the end an exception may stand (those of other ranks come behind it), lines.
EXCEPTIONS = 64
#: So many lines at the end are a program's last words, if it has no exceptions.
LAST_WORDS = 5


def in_exceptions(exceptions: Sequence[tuple[str, str]]) -> Cause | None:
    """What ran out, by the exceptions that Python printed.

    Args:
        exceptions: Each with the line before it, which is the code that raised it.
    """
    for before, line in reversed(exceptions[-EXCEPTIONS:]):
        # multiprocessing's fork fails with the very words of a socket that has nothing to read
        if line.startswith("BlockingIOError: [Errno 11]") and "fork" in before:
            return *_THREADS, line
        if "No space left on device" in line and "SharedMemory" in before:
            return *_SHARED, line
    return _first((line for _, line in reversed(exceptions[-EXCEPTIONS:])), _EXCEPTION)


def in_lines(own: Sequence[str], launcher: Sequence[str]) -> Cause | None:
    """What ran out or is gone, by lines of a known form and the launcher's notices."""
    return _first(launcher, _NOTICE) or _first(reversed([*launcher, *own]), _FORMS)


def in_last_words(own: Sequence[str]) -> Cause | None:
    """What ran out, by the last lines of a program that has no exceptions."""
    return _first(reversed(own[-LAST_WORDS:]), _EXCEPTION)


def _first(lines: Iterable[str], phrases: Phrases) -> Cause | None:
    for line in lines:
        for (kind, meaning), pattern in phrases:
            if pattern.search(line):
                return kind, meaning, line
    return None
