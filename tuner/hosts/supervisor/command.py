"""From a fork of the supervisor to the command that was asked for."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from typing import Any, NoReturn

from tuner.hosts.supervisor.cgroup import Cgroup

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """From now on orphans below this process become its children."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def start(request: dict[str, Any], group: Cgroup) -> tuple[int, OSError | None]:
    """Fork and exec the command in its group: its process id, or why that cannot be done."""
    problem, problem_end = os.pipe()
    supervisor = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:  # no memory, or too many processes
        return 0, OSError(error.errno, error.strerror, request["argv"][0])
    if pid == 0:
        _become(request, group, supervisor, problem_end)
    os.close(problem_end)
    text = os.read(problem, 4096).decode()
    os.close(problem)
    if not text:
        return pid, None
    code, _, name = text.partition(" ")
    return pid, OSError(int(code), os.strerror(int(code)), name)


def _become(request: dict[str, Any], group: Cgroup, supervisor: int, problem_end: int) -> NoReturn:
    """In the child: exec, or write ``ERRNO NAME`` to the pipe."""
    argv, env = request["argv"], request["env"]
    name = request["cwd"]
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs do not
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # should the supervisor be killed
        if os.getppid() != supervisor:
            os._exit(1)
        group.join()
        if not request["foreground"]:
            os.setpgid(0, 0)  # `kill 0` in a script must not reach the supervisor
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(name.encode("latin-1"))
        name = argv[0]
        os.execvpe(
            argv[0].encode("latin-1"),
            [each.encode("latin-1") for each in argv],
            {key.encode("latin-1"): value.encode("latin-1") for key, value in env.items()},
        )
    except OSError as error:
        os.write(problem_end, f"{error.errno} {name}".encode())
    except ValueError:  # a NUL, or a "=" in the name of a variable
        os.write(problem_end, f"{errno.EINVAL} {name}".encode())
    finally:
        os._exit(127)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
