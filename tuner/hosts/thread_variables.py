"""Says whether a program can obey the variables of its number of threads, by what it runs.

A runtime of OpenMP, a BLAS with threads and a program that reads the variable itself all hold its
name in their text, linked statically or not. The knob is kept where there is any doubt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.untrusted_files import open_untrusted, read_untrusted

_VARIABLES = (b"OMP_NUM_THREADS", b"BLAS_NUM_THREADS", b"MKL_NUM_THREADS", b"BLIS_NUM_THREADS")

#: What runs modules, which are not mapped and may read any variable.
_INTERPRETERS = re.compile(
    r"/(?:lib)?(?:python|pypy|perl|ruby|jvm|java|node|julia|lua|octave|php|tcl|guile|mono|coreclr"
    r"|R\b)[^/]*$"
)
_SHELLS = re.compile(r"/(?:ba|da|z|k|a|mk)?sh$|/busybox$")

#: A shell's word for reading another script into this one.
_SOURCES = re.compile(rb"(?:^|[;&|({]|\b(?:then|do|else))[ \t]*(?:\.|source)[ \t]", re.MULTILINE)

#: A mapping of code in ``/proc/PID/maps``: its inode and its path.
_CODE = re.compile(rb"^\S+ ..x. \S+ \S+ (\d+) +(/.*)$", re.MULTILINE)

#: At most this much code is read; each file once (some 5 ms for 10 MB).
_MOST_CODE_BYTES = 1 << 27
_MOST_SCRIPT_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 22


class Code(NamedTuple):
    """A file that a process has mapped to run it."""

    path: str
    inode: int


def mapped_code(maps: bytes) -> set[Code]:
    """Return the files that ``/proc/PID/maps`` lists as code."""
    return {Code(os.fsdecode(path), int(inode)) for inode, path in _CODE.findall(maps)}


def script_may_read(folder: str) -> bool:
    """Return whether a process is a shell whose script names a variable, or cannot be known.

    Args:
        folder: The folder of the process, ``/proc/PID``.
    """
    try:
        if not _SHELLS.search(str(Path(folder, "exe").readlink())):
            return False
    except OSError:
        return True
    arguments = procfs.read(f"{folder}/cmdline").split(b"\0")[1:-1]
    texts = list(arguments)
    for argument in arguments:
        try:
            path = Path(Path(folder, "cwd").readlink(), os.fsdecode(argument)).resolve()
            texts.append(read_untrusted(path, _MOST_SCRIPT_BYTES))
        except (OSError, RuntimeError):  # no file, or a link to itself
            continue
    is_known = len(texts) > len(arguments) or any(a[:1] == b"-" and b"c" in a for a in arguments)
    return not is_known or any(_names_variable(text) or _SOURCES.search(text) for text in texts)


def code_may_read(files: Collection[Code]) -> bool:
    """Return whether one of the files names a variable, runs modules, or cannot be read."""
    if any(_INTERPRETERS.search(file.path) for file in files):
        return True
    try:
        statuses = [(file, os.stat(file.path)) for file in files]  # noqa: PTH116 - hundreds, quickly
    except OSError:
        return True
    if sum(status.st_size for _, status in statuses) > _MOST_CODE_BYTES:
        return True
    return any(
        status.st_ino != file.inode  # it was replaced, or is another file in a container
        or _file_may_read(file.path, file.inode, status.st_size, status.st_mtime_ns)
        for file, status in statuses
    )


@lru_cache(maxsize=4096)
def _file_may_read(path: str, _inode: int, _size: int, _changed_ns: int) -> bool:
    """Return whether a file names a variable or cannot be read; each version is read once."""
    kept = max(map(len, _VARIABLES)) - 1
    end = b""
    try:
        with open_untrusted(Path(path)) as file:
            while chunk := file.read(_CHUNK_BYTES):
                if _names_variable(end + chunk):
                    return True
                end = chunk[-kept:]
    except OSError:
        return True
    return False


def _names_variable(text: bytes) -> bool:
    return any(variable in text for variable in _VARIABLES)
