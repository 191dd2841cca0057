"""Find the launcher in a command line, its options, and where the program begins. Pure.

The tables list the options that take words of their own; any other option is taken for a switch.
They were made from ``mpirun --help all`` of Open MPI 4 and 5, ``mpiexec --help`` of MPICH, Intel
MPI's Developer Reference, srun(1), ``torchrun --help``, and the manual pages of the others.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import dropwhile
from pathlib import PurePath
from typing import NamedTuple

from tuner.model.errors import UsageError

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_PYTHON_NAME = re.compile(r"(python|pypy)[\d.]*|\{python\}")
#: A command of a shell: comments, quotations and words up to what ends it.
_COMMAND = re.compile(
    r"""(?:(?<![^\s;&|()])#[^\n]*|'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^;&|()\n'"\\])+""", re.DOTALL
)
#: Words that may stand before one.
_KEYWORDS = frozenset(
    ["exec", "command", "if", "then", "elif", "else", "do", "while", "until", "!", "{", "}"]
)
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
    ``operands`` words stand between the options and the program.
    """

    name: str
    arity: Mapping[str, int] = field(repr=False)
    roles: Mapping[str, Role] = field(default_factory=dict, repr=False)
    is_gnu: bool = True
    operands: int = 0


def _arity(one: str, two: str = "") -> dict[str, int]:
    return {name: n for n, names in enumerate((one, two), 1) for name in names.split()}


def _roles(**names: str) -> dict[str, Role]:
    return {name: Role[role.upper()] for role, row in names.items() for name in row.split()}


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

#: Per name of a program the launcher that it is.
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

# --- programs that start another ------------------------------------------------------------------

PYTHON = Syntax("python", _arity("X W check-hash-based-pycs c m"))
#: Programs that start another with something that its processes keep: variables, CPUs, a priority.
KEEPS = {
    "env": Syntax("env", _arity("u unset C chdir S split-string a argv0")),
    "nice": Syntax("nice", _arity("n adjustment")),
    "numactl": Syntax(
        "numactl",
        _arity(
            "c cpubind i interleave w weighted-interleave p preferred P preferred-many N"
            " cpunodebind m membind C physcpubind"
        ),
    ),
    "taskset": Syntax("taskset", {}, operands=1),
}
#: Programs that start another and leave no trace in how it runs.
TRACELESS = {
    "time": Syntax("time", _arity("f format o output")),
    "timeout": Syntax("timeout", _arity("k kill-after s signal"), operands=1),
    "stdbuf": Syntax("stdbuf", _arity("i input o output e error")),
    "nohup": Syntax("nohup", {}),
}
SHELL = Syntax("sh", _arity("o O rcfile init-file"))
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


# --- reading a line -------------------------------------------------------------------------------


class Option(NamedTuple):
    """One option of a launcher as it was typed.

    ``name`` is without dashes, ``value`` the words that follow, or what is behind its ``=``.
    """

    name: str
    value: tuple[str, ...]
    words: tuple[str, ...]


class LaunchLine(NamedTuple):
    """A command that begins with a launcher.

    Its ``name`` is such as ``mpirun`` or ``torchrun``, started by the words ``launcher``;
    ``arguments`` are its options and the program, ``before`` the programs before it, each with its
    own arguments. With ``in_shell`` it stands in the script of a ``sh -c``, in which more may be.
    """

    name: str
    launcher: tuple[str, ...]
    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    in_shell: bool = False


def launch_line(words: Sequence[str]) -> LaunchLine | None:
    """Return the launcher that a command begins with, also behind ``env``, ``time``, ``sh -c``, …

    Raises:
        UsageError: See :func:`options_of`.
    """
    before: list[tuple[str, ...]] = []
    words = tuple(words)
    while words:
        name = PurePath(words[0]).name
        if ASSIGNMENT.fullmatch(words[0]):
            before.append(words[:1])
            words = words[1:]
        elif name in SHELLS:
            return _in_shell(words, before)
        elif wrapper := KEEPS.get(name) or TRACELESS.get(name):
            _, rest = options_of(wrapper, words[1:])
            rest = rest[wrapper.operands :]
            while name == "env" and rest and ASSIGNMENT.fullmatch(rest[0]):
                rest = rest[1:]
            before.append(words[: len(words) - len(rest)])
            words = rest
        else:
            starter = _starter(words)
            return starter._replace(before=tuple(before)) if starter else None
    return None


def _starter(words: tuple[str, ...]) -> LaunchLine | None:
    """Return the launcher whose name, or module of Python, is the first word."""
    name, length = PurePath(words[0]).name, 1
    if _PYTHON_NAME.fullmatch(name):
        options, rest = options_of(PYTHON, words[1:], last=("m", "c"))
        last = options[-1] if options else Option("", (), ())
        target = last.value[0] if last.name == "m" else ""
        if rest and last.name not in ("m", "c"):
            target, rest = PurePath(rest[0]).name, rest[1:]
        name, length = MODULES.get(target, target), len(words) - len(rest)
    if name not in LAUNCHERS and name not in OTHER_LAUNCHERS:
        return None
    subcommand = SUBCOMMANDS.get(name)
    is_module = length > 1 and words[length - 1] in MODULES
    if subcommand and not is_module and words[length : length + 1] != (subcommand,):
        return None
    return LaunchLine(name, words[:length], words[length:])


def _in_shell(words: tuple[str, ...], before: Sequence[tuple[str, ...]]) -> LaunchLine | None:
    """Return the first launcher in the script of ``sh -c SCRIPT``; no file is read."""
    options, rest = options_of(SHELL, words[1:])
    if not rest or "c" not in {option.name for option in options}:
        return None
    commands = list(_commands(rest[0]))
    line = next(filter(None, map(launch_line, commands)), None)
    if line is None:
        return None
    is_all = len(commands) == 1 and not set(rest[0]) & set("$`<>*?")
    shell = words[: len(words) - len(rest)]
    return line._replace(before=(*before, shell, *line.before), in_shell=not is_all)


def _commands(script: str) -> Iterator[tuple[str, ...]]:
    """Yield the simple commands of a shell's script, as far as no shell is needed to tell them."""
    for part in filter(str.strip, _COMMAND.findall(script.replace("\\\n", ""))):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:  # a quotation is not closed
            words = part.split()
        yield tuple(dropwhile(_KEYWORDS.__contains__, words))


def options_of(
    syntax: Syntax, words: Sequence[str], last: Sequence[str] = ()
) -> tuple[list[Option], tuple[str, ...]]:
    """Return the options before a program, and the program with its arguments.

    Args:
        syntax: Whose options they are.
        words: All that follows its name.
        last: Options that end the list, such as ``-m`` of Python.

    Raises:
        UsageError: The value of an option is missing.
    """
    options: list[Option] = []
    rest = tuple(words)
    while rest and rest[0].startswith("-") and len(rest[0]) > 1:
        if rest[0] == "--":
            return options, rest[1:]
        if syntax.is_gnu and not rest[0].startswith("--"):
            options += _letters(syntax, rest)
        else:
            options.append(_named(syntax, rest))
        rest = rest[max(1, len(options[-1].words)) :]
        if options[-1].name in last:
            break
    return options, rest


def _named(syntax: Syntax, words: tuple[str, ...]) -> Option:
    """Return ``--name``, ``--name VALUE`` or ``--name=VALUE``."""
    attached = _ATTACHED.fullmatch(words[0])
    if attached and syntax.roles.get(attached[1]) is Role.RANKS:
        return Option(attached[1], (attached[2],), words[:1])
    name, has_value, value = words[0].lstrip("-").partition("=")
    if name not in syntax.arity and name not in syntax.roles:
        name = name.replace("_", "-")
    values, number = (value,) if has_value else (), syntax.arity.get(name, 0)
    if number == 2 and "=" in (value or "".join(words[1:2])):
        number = 1  # NAME=VALUE in place of NAME VALUE
    missing = max(number - len(values), 0)
    return Option(name, values + _following(syntax, words, missing), words[: 1 + missing])


def _letters(syntax: Syntax, words: tuple[str, ...]) -> Iterator[Option]:
    """Yield the options of ``-lN2``: a letter that takes a value ends the word."""
    for at, letter in enumerate(words[0][1:], 2):
        behind = words[0][at:]
        if behind and (letter in syntax.arity or behind[0].isdigit()):
            yield Option(letter, (behind,), (f"-{letter}{behind}",))
            return
        value = _following(syntax, words, syntax.arity.get(letter, 0))
        yield Option(letter, value, (f"-{letter}", *value))


def _following(syntax: Syntax, words: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Return this many words, which follow an option as its value."""
    if len(words) <= number:
        raise UsageError(
            f"{words[0]} of {syntax.name} takes another word, and the line ends there",
            "check the line",
        )
    return words[1 : 1 + number]
