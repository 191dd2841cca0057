"""Where the processes of a job that hangs stand: a text for each, taken before it is ended.

It has the Python stack of each thread, if py-spy is installed and allowed, or else says how to.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tuner.hosts.process import run_tool
from tuner.hosts.untrusted_files import create, make_folder

#: The folder of the stacks, in that of the trial.
FOLDER = "stacks"
#: At most this long is taken for one process, and for all of them, s.
ONE_S = 5.0
ALL_S = 15.0

_HOW_TO_ALLOW = (
    "For the Python stack: pip install 'runtime-tuner[stacks]', and allow it to look at processes"
    " (kernel.yama.ptrace_scope = 0, run as root, or docker run --cap-add SYS_PTRACE)."
)


def take(ranks: Mapping[int, int | None]) -> dict[str, str]:
    """Return the stack of each process of a rank, the lowest ranks first, by the name of its file.

    ``ranks`` has the rank of each process; those of ``None`` are mpirun's own, and left out.
    """
    deadline_s = time.monotonic() + ALL_S
    stacks: dict[str, str] = {}
    for rank, pid in sorted((rank, pid) for pid, rank in ranks.items() if rank is not None):
        name = f"rank-{rank}.txt"
        if name in stacks:
            name = f"rank-{rank}-worker-{pid}.txt"
        try:
            stacks[name] = py_spy(pid, min(ONE_S, deadline_s - time.monotonic()))
        except OSError as error:  # TimeoutError too
            stacks[name] = f"No stack of process {pid}: {error}. {_HOW_TO_ALLOW}\n"
    return stacks


def keep(folder: Path, stacks: Mapping[str, str]) -> str:
    """Write a file for each stack of :func:`take`, and say where they are or why there are none."""
    try:
        make_folder(folder)
        if folder.is_symlink():  # a program may have put it there
            raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
        for name, text in stacks.items():
            with os.fdopen(create(folder / name), "w", errors="replace") as file:
                file.write(text)
    except OSError as error:
        return f"no stacks: {error.strerror}"
    return f"stacks in {folder}" if stacks else "no rank to take a stack of"


#: The first line of py-spy, which repeats the command: that may hold secrets (and line breaks).
_COMMAND = re.compile(r"\A(Process [0-9]+):.*?\n(?=Python v)", re.DOTALL)


def find_py_spy() -> str | None:
    """Return the path of py-spy: beside our interpreter, else on ``PATH``."""
    program = Path(sys.executable).with_name("py-spy")
    return str(program) if program.exists() else shutil.which("py-spy")


def py_spy(pid: int, timeout_s: float) -> str:
    """Return the Python stack of a process as py-spy prints it; ``OSError`` if it cannot."""
    program = find_py_spy()
    if program is None:
        raise OSError("py-spy is not installed")
    if timeout_s <= 0:
        raise OSError("there was no time left")
    deadline_s = time.monotonic() + timeout_s
    for options in ((), ("--nonblocking",)):  # py-spy cannot stop what a signal has stopped
        argv = [program, "dump", *options, "--pid", str(pid)]
        result = run_tool(argv, timeout_s=max(0.1, deadline_s - time.monotonic()))
        if result.returncode == 0:
            return _COMMAND.sub(r"\1\n", result.stdout)
    raise OSError((result.stderr.strip().splitlines() or ["py-spy failed"])[0])
