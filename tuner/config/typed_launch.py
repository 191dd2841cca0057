"""Makes the keys of a study out of a typed launch line: ``mpirun -n 8 -H h1:4,h2:4 ./x``."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from tuner.config.hosts import expand_nodes
from tuner.launch.launch_line import (
    LAUNCHERS,
    MPIRUN,
    SRUN,
    TORCHRUN,
    LaunchLine,
    LaunchOption,
    Role,
    Syntax,
    options_of,
)
from tuner.launch.launchers import in_slurm
from tuner.model.errors import UsageError

_COUNT = re.compile(r"[1-9][0-9]{0,8}")

_ByRole = Mapping[Role, Sequence[LaunchOption]]


def typed_launch(
    line: LaunchLine, environ: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keys of a study file that a launch line says, and the program of each rank."""
    if line.before:
        raise UsageError(
            f"a study has no place for `{shlex.join(line.before)}` before {line.name}: each launch"
            " inherits what tune itself was started with",
            f"leave it out: tune init -- {shlex.join((*line.launcher, *line.arguments))}\nSet"
            " variables, CPUs and priorities for tune itself; it times and ends the launches",
        )
    syntax = LAUNCHERS[line.name]
    options, program = options_of(syntax, line.arguments)
    keys: dict[str, Any] = {}
    if syntax in (SRUN, TORCHRUN):
        keys["launcher"] = syntax.name
    starter = line.launcher[0]
    is_on_path = syntax is MPIRUN and shutil.which(starter, path=environ.get("PATH"))
    if syntax is not TORCHRUN and ("/" in starter or is_on_path):
        keys["mpirun"] = starter
    by_role: dict[Role, list[LaunchOption]] = {}
    arguments: list[str] = []
    for option in options:
        if role := syntax.roles.get(option.name):
            by_role.setdefault(role, []).append(option)
        else:
            arguments += option.words
    _refuse_unsupported(syntax, by_role, program)
    keys |= _hosts(syntax, by_role)
    names_hosts = bool(keys.keys() & {"hosts", "hostfile"})
    if syntax is TORCHRUN:
        keys |= _ranks_of_torchrun(by_role)
        program = _with_python(line, {option.name for option in options}, program)
    else:
        keys |= _ranks(line, syntax, by_role, needs_no_number=names_hosts or in_slurm(environ))
    is_hydra = any(o.name in ("ppn", "perhost") for o in by_role.get(Role.RANKS_PER_HOST, ()))
    is_here = not (names_hosts or in_slurm(environ))
    if is_hydra and is_here and keys["ppn"] < keys.get("mpi_procs", 0):
        del keys["ppn"]  # Hydra ignores it on one host
    if names_hosts and syntax is MPIRUN:
        # tune fills the hosts itself, and must know that they may get more ranks than slots.
        others = [word for word in arguments if word.lstrip("-") != "oversubscribe"]
        keys |= {"more_ranks_than_slots": True} if len(others) < len(arguments) else {}
        arguments = others
    if arguments:
        keys["mpirun_args"] = arguments
    return keys, program


def _refuse_unsupported(syntax: Syntax, by_role: _ByRole, program: Sequence[str]) -> None:
    """Raise ``UsageError`` for what no key of a study can say."""
    if several := by_role.get(Role.SEVERAL):
        raise several_programs(" ".join(several[0].words))
    if syntax is not TORCHRUN and ":" in program:
        raise several_programs("`:`")
    if folders := by_role.get(Role.FOLDER):
        raise UsageError(
            f"{' '.join(folders[-1].words)} runs the program elsewhere, and each launch of a study"
            " runs in the folder that tune is started in",
            f"cd {shlex.join(folders[-1].value)}, and type the line there without it",
        )


def several_programs(what: str) -> UsageError:
    """Return the error for a line that starts several programs (MPMD)."""
    return UsageError(
        f"{what} starts several programs in one job (MPMD), and a study has one program, whose"
        " ranks all get the same setting",
        "tune one of them by itself; or start a script in each rank that runs the program for"
        " it, such as sh -c 'if [ $OMPI_COMM_WORLD_RANK = 0 ]; then exec ./a; else exec ./b; fi'",
    )


def _hosts(syntax: Syntax, by_role: _ByRole) -> dict[str, Any]:
    """Return the key that names the hosts; none if the line names none."""
    files = [option.value[0] for option in by_role.get(Role.HOSTFILE, [])]
    names: list[str] = []
    for option in by_role.get(Role.HOSTS, []):
        if syntax is not SRUN:
            names += option.value[0].split(",")
        elif "/" in option.value[0]:
            files.append(option.value[0])
        else:
            names += expand_nodes(option.value[0], " ".join(option.words))
    if len(files) + bool(names) > 1:
        raise UsageError(
            "the line names hosts more than once", "name them once, with their slots: h1:4,h2:4"
        )
    if any(":" in name for name in names):  # a launcher gives the others one slot
        names = [name if ":" in name else f"{name}:1" for name in names]
    if names:
        return {"hosts": ",".join(names)}
    return {"hostfile": files[0]} if files else {}


def _ranks(
    line: LaunchLine, syntax: Syntax, by_role: _ByRole, *, needs_no_number: bool
) -> dict[str, Any]:
    """Return the keys that say how many ranks there are."""
    ranks, nodes, per_host = (
        _count(by_role[role][-1]) if role in by_role else 0  # the last one counts
        for role in (Role.RANKS, Role.NODES, Role.RANKS_PER_HOST)
    )
    if nodes:  # of srun: one rank a node if nothing else is said
        ranks = ranks or nodes * (per_host or 1)
        if per_host * nodes != ranks and ranks % nodes:
            raise UsageError(
                f"srun puts {ranks} ranks on {nodes} nodes unevenly",
                f"a multiple of {nodes} as --ntasks",
            )
        per_host = per_host or ranks // nodes
    if not (ranks or per_host or needs_no_number):
        if syntax is MPIRUN:
            raise UsageError(
                f"{line.name} without a number of ranks starts as many as it finds cores, and the"
                " study is to be of a fixed number",
                f"say it: {line.name} -n 4 …",
            )
        ranks = 1
    return {key: n for key, n in (("mpi_procs", ranks), ("ppn", per_host)) if n}


def _ranks_of_torchrun(by_role: _ByRole) -> dict[str, Any]:
    nodes = by_role[Role.NODES][-1].value[0] if Role.NODES in by_role else "1"
    if nodes not in ("1", "1:1"):
        raise UsageError(
            f"torchrun --nnodes {nodes} is typed once on each host, and tune starts all of them",
            'leave --nnodes out, and name the hosts in the study file: hosts = "h1:8,h2:8"',
        )
    return {"mpi_procs": _count(by_role[Role.RANKS][-1]) if Role.RANKS in by_role else 1}


def _count(option: LaunchOption) -> int:
    """Return the number that an option says; ``-pernode`` and ``-rr`` stand for 1."""
    text = option.value[0] if option.value else "1"
    if _COUNT.fullmatch(text):
        return int(text)
    raise UsageError(
        f"{' '.join(option.words)}: {text!r} is no fixed number above 0, which a study needs",
        "a whole number, such as 4",
    )


def _with_python(line: LaunchLine, options: set[str], program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the program as torchrun starts it: by its own Python, unless by ``--no-python``."""
    if "no-python" in options or not program:
        return program
    starter = line.launcher[0]
    if len(line.launcher) > 1:  # python -m MODULE, or python SCRIPT
        python = line.launcher[: -2 if "-m" in line.launcher else -1]
    else:
        python = (str(PurePath(starter).with_name("python")),) if "/" in starter else ("python",)
    return (*python, *(("-m",) if options & {"m", "module"} else ()), *program)
