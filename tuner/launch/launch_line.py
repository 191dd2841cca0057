"""Finds the launcher in a command line, its options, and where the program begins. Pure.

The tables list the options that take words of their own; any other option is taken for a switch.
They come from ``mpirun --help all`` of Open MPI 4 and 5, ``mpiexec --help`` of MPICH, Intel
MPI's Developer Reference, srun(1), ``torchrun --help``, and the manual pages of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePath
from typing import NamedTuple

from tuner.model.errors import UsageError

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PYTHON_NAME = re.compile(r"(python|pypy)[\d.]*|\{python\}")
#: Programs that start another one.
_WRAPPERS = ("env", "nice", "numactl", "taskset", "time", "timeout", "stdbuf", "nohup")
#: Their options that may have the next word as their value (``-v`` of time and ``-i`` of env have
#: none), and their numbers: ``30s``, ``0-3``.
_VALUE_FOLLOWS = re.compile(r"-(?![ailpv])[A-Za-z]|--[^=]+")
_NUMBER = re.compile(r"[-+.,\d]+[smhd]?")
#: The number of ranks attached to its option, as people write it.
_ATTACHED = re.compile(r"--?(np?)([0-9]+)")


class Role(Enum):
    """What an option says that a study says in keys of its own."""

    RANKS = "how many ranks there are"
    NODES = "on how many hosts they run"
    RANKS_PER_HOST = "how many ranks a host has"
    HOSTS = "the hosts"
    HOSTFILE = "a file of the hosts"
    OURS = "what tune says itself"
    SEVERAL = "several programs"
    FOLDER = "where the program runs"


@dataclass(frozen=True)
class Syntax:
    """How the options of one program are written; option names are without dashes.

    With ``is_gnu`` one dash begins letters, the last of which may have its value attached
    (``-lN2``), and two dashes begin a name. Otherwise a name follows one dash or two.
    """

    name: str
    arity: Mapping[str, int] = field(repr=False)
    roles: Mapping[str, Role] = field(default_factory=dict, repr=False)
    is_gnu: bool = True


def _arity(one_word: str, two_words: str = "") -> dict[str, int]:
    return {name: n for n, names in enumerate((one_word, two_words), 1) for name in names.split()}


def _roles(**rows: str) -> dict[str, Role]:
    return {name: Role[role.upper()] for role, names in rows.items() for name in names.split()}


# --- launchers whose ranks tune starts ------------------------------------------------------------

MPIRUN = Syntax(
    "mpirun",
    _arity(
        # Open MPI
        "add-host add-hostfile am amca app app-pmix-prefix arch bind-to bindto cartofile cf"
        " cpu-list cpu-set slot-list cpus-per-proc cpus-per-rank debugger default-hostfile display"
        " file forward-signals gpu-support H host hnp hostfile initial-errhandler keepalive"
        " launch-agent machinefile map-by mapby max-restarts max-vm-size memory-alloc-kinds N n np"
        " c npernode npersocket ompi-server output output-directory output-filename path"
        " personality pmix-prefix ppr prefix preload-files pset rank-by rankby rankfile rf"
        " report-events report-pid report-uri rtos runtime-options spawn-timeout stdin"
        " stream-buffering timeout tmpdir tune unset-env wd wdir with-ft x xml-file xterm"
        # MPICH and Intel MPI
        " f machine machines machinelist hosts hostlist rankmap ppn perhost grr output-from"
        " prepend-pattern outfile-pattern outfile errfile-pattern errfile configfile genvlist"
        " genvexcl envlist envexcl launcher launcher-exec bootstrap bootstrap-exec"
        " bootstrap-exec-args rmk topolib binding membind demux localhost usize iface g"
        " gpus-per-proc gpu-subdevs-per-proc order-nodes nameserver gtool gtoolfile branch-count"
        " umask gdba use-app-topology hostos",
        "mca gmca omca gomca prtemca pmixmca append-env prepend-env genv env",
    ),
    _roles(
        ranks="n np c",
        ranks_per_host="N npernode pernode ppn perhost grr rr",
        hosts="H host add-host machine machines machinelist hosts hostlist",
        hostfile="hostfile machinefile default-hostfile add-hostfile f",
        ours="allow-run-as-root",
        several="app configfile",
        folder="wd wdir",
    ),
    is_gnu=False,
)
SRUN = Syntax(
    "srun",
    _arity(
        "accel-bind A account acctg-freq bb bbf bcast-exclude b begin D chdir workdir"
        " cluster-constraint M clusters comment C constraint container container-id S core-spec"
        " cores-per-socket cpu-bind cpu-freq cpus-per-gpu c cpus-per-task deadline delay-boot d"
        " dependency m distribution epilog e error x exclude export extra B extra-node-info gid"
        " gpu-bind gpu-freq G gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags"
        " het-group pack-group hint i input J job-name jobid L licenses mail-type mail-user"
        " mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout network F nodefile"
        " N nodes w nodelist n ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node"
        " ntasks-per-socket open-mode o output p partition power prefer priority profile prolog q"
        " qos r relative reservation segment signal slurmd-debug sockets-per-node switches"
        " task-epilog task-prolog thread-spec T threads threads-per-core t time time-min tmp"
        " topology tres-bind tres-per-task treewidth uid W wait wckey"
    ),
    _roles(
        ranks="n ntasks",
        nodes="N nodes",
        ranks_per_host="ntasks-per-node",
        hosts="w nodelist",
        hostfile="F nodefile",
        ours="overlap K kill-on-bad-exit",
        several="multi-prog het-group pack-group",
        folder="D chdir workdir",
    ),
)
#: Names with underscores, which torchrun takes too, are looked up with dashes.
TORCHRUN = Syntax(
    "torchrun",
    _arity(
        "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts"
        " monitor-interval start-method event-log-handler role log-dir r redirects t tee"
        " local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters node-rank"
        " master-addr master-port local-addr logs-specs numa-binding signals-to-handle"
        " shutdown-timeout"
    ),
    _roles(
        ranks="nproc-per-node",
        nodes="nnodes",
        ours="standalone rdzv-backend rdzv-endpoint rdzv-id rdzv-conf node-rank master-addr"
        " master-port local-addr m module no-python run-path use-env",
    ),
)

#: The launchers that tune drives, by the names of their programs.
LAUNCHERS: Mapping[str, Syntax] = {
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra"), MPIRUN),
    **dict.fromkeys((f"{name}.openmpi" for name in ("mpirun", "mpiexec")), MPIRUN),
    **dict.fromkeys((f"{name}.mpich" for name in ("mpirun", "mpiexec")), MPIRUN),
    "srun": SRUN,
    "torchrun": TORCHRUN,
}

#: Launchers that start the ranks of PyTorch, of which torchrun is the one that tune drives.
OF_TORCH = ("accelerate", "deepspeed", "composer", "colossalai", "fabric")
#: Launchers that tune does not drive.
OTHER_LAUNCHERS = (
    *OF_TORCH,
    *("horovodrun", "jsrun", "lrun", "aprun", "flux", "prun", "ibrun", "charmrun", "mpirun_rsh"),
    *("mpiexec_mpt", "mpiexec.slurm"),
)
#: Those that start ranks only with this word after their name.
SUBCOMMANDS = {"accelerate": "launch", "colossalai": "run", "fabric": "run", "flux": "run"}
#: The modules that ``python -m`` runs as a launcher.
MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.distributed.launcher": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "horovod.runner": "horovodrun",
    "horovod.runner.launch": "horovodrun",
}

# --- reading a line -------------------------------------------------------------------------------


class LaunchOption(NamedTuple):
    """One option of a launcher as it was typed.

    ``name`` is without dashes, ``value`` the words that follow, or what is behind its ``=``.
    """

    name: str
    value: tuple[str, ...]
    words: tuple[str, ...]


class LaunchLine(NamedTuple):
    """A command that starts ranks by itself.

    ``name`` is that of its launcher, as ``mpirun`` or ``torchrun``, and ``launcher`` the words that
    start it; ``arguments`` are its options and the program, ``before`` a wrapper as ``env A=1``.
    """

    name: str
    launcher: tuple[str, ...]
    arguments: tuple[str, ...]
    before: tuple[str, ...] = ()


def launch_line(words: Sequence[str]) -> LaunchLine | None:
    """Return the launcher that a command begins with, or that ``env``, ``time`` … in it starts."""
    words, before = tuple(words), ""
    for start, word in enumerate(words):
        if line := _launcher_at(words[start:]):
            return line._replace(before=words[:start])
        if not _is_of_wrapper(word, before):
            return None
        before = word
    return None


def _is_of_wrapper(word: str, before: str) -> bool:
    """Return whether a word still belongs to what starts the program, such as ``timeout -k 5 30``.

    ``before`` is the word before it; empty if it is the first one.
    """
    if PurePath(word).name in _WRAPPERS or ASSIGNMENT.fullmatch(word):
        return True
    is_value = _VALUE_FOLLOWS.fullmatch(before) or PurePath(before).name == "taskset"
    return bool(before) and bool(is_value or word.startswith("-") or _NUMBER.fullmatch(word))


def _launcher_at(words: tuple[str, ...]) -> LaunchLine | None:
    """Return the launcher whose name, or module of Python, the words begin with."""
    if not words:
        return None
    name, index = PurePath(words[0]).name, 0  # of the launcher's last word
    if _PYTHON_NAME.fullmatch(name):  # its script or its module is the launcher
        index = next((n for n, word in enumerate(words[1:], 1) if word[0:1] != "-"), 0)
        name = MODULES.get(words[index], PurePath(words[index]).name)
    if name not in LAUNCHERS and name not in OTHER_LAUNCHERS:
        return None
    subcommand = SUBCOMMANDS.get(name)
    is_module, arguments = words[index] in MODULES, words[index + 1 :]
    if subcommand and not is_module and arguments[:1] != (subcommand,):
        return None
    return LaunchLine(name, words[: index + 1], arguments)


def options_of(syntax: Syntax, words: Sequence[str]) -> tuple[list[LaunchOption], tuple[str, ...]]:
    """Return the options that follow a launcher's name, and the program with its arguments."""
    options: list[LaunchOption] = []
    rest = tuple(words)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        if rest[0] == "--":
            return options, rest[1:]
        if syntax.is_gnu and not rest[0].startswith("--"):
            options += _letters(syntax, rest)
        else:
            options.append(_named(syntax, rest))
        rest = rest[max(1, len(options[-1].words)) :]
    return options, rest


def _named(syntax: Syntax, words: tuple[str, ...]) -> LaunchOption:
    """Return ``--name``, ``--name VALUE`` or ``--name=VALUE``."""
    attached = _ATTACHED.fullmatch(words[0])
    if attached and syntax.roles.get(attached[1]) is Role.RANKS:
        return LaunchOption(attached[1], (attached[2],), words[:1])
    name, has_value, value = words[0].lstrip("-").partition("=")
    if name not in syntax.arity and name not in syntax.roles:
        name = name.replace("_", "-")
    values, arity = (value,) if has_value else (), syntax.arity.get(name, 0)
    if arity == 2 and "=" in (value or "".join(words[1:2])):
        arity = 1  # NAME=VALUE in place of NAME VALUE
    missing = max(arity - len(values), 0)
    return LaunchOption(name, values + _following(syntax, words, missing), words[: 1 + missing])


def _letters(syntax: Syntax, words: tuple[str, ...]) -> Iterator[LaunchOption]:
    """Yield the options of ``-lN2``: a letter that takes a value ends the word."""
    for end, letter in enumerate(words[0][1:], 2):
        attached = words[0][end:]
        if attached and (letter in syntax.arity or attached[0].isdigit()):
            yield LaunchOption(letter, (attached,), (f"-{letter}{attached}",))
            return
        value = _following(syntax, words, syntax.arity.get(letter, 0))
        yield LaunchOption(letter, value, (f"-{letter}", *value))


def _following(syntax: Syntax, words: tuple[str, ...], arity: int) -> tuple[str, ...]:
    """Return this many words, which follow an option as its value."""
    if len(words) <= arity:
        raise UsageError(
            f"{words[0]} of {syntax.name} takes another word, and the line ends there",
            "check the line",
        )
    return words[1 : 1 + arity]
