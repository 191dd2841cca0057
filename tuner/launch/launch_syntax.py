"""The options of launchers and of programs that start another: how many words follow each. Data.

Each table was made from what the program itself says:

- Open MPI 4 and 5: ``mpirun --help all`` of 4.1.8, and the option tables in the libraries of
  4.1.8 (``libopen-rte``) and 5.0.11 (``libprrte``, which also knows what its help leaves out).
- MPICH: ``HYD_mpiexec_match_table`` in ``src/pm/hydra/mpiexec/options.c`` and ``mpiexec --help`` of
  5.0.2. Intel MPI: "Global Hydra Options", "Local Hydra Options" and "Extended Device Control
  Options" in its Developer Reference for Linux (2018 to 2021.14).
- srun: srun(1) of Slurm 20.11 to 25.05. torchrun: ``torchrun --help`` of 2.9, and
  ``torch.distributed.launch``.
- The others: their manual pages (GNU coreutils 9, util-linux 2.38, numactl 2.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


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
    """How the options of one program are written.

    Attributes:
        name: The program, for messages.
        arity: Per option, without its dashes, how many words follow it.
        roles: The options that a study says in keys of its own.
        optional: Options whose value, if any, is part of the word (``-K1``, ``--x11=all``).
        is_gnu: One dash begins letters, the last of which may have its value attached (``-lN2``);
            two dashes begin a name. Otherwise a name follows one dash or two.
        has_prefixes: The unambiguous begin of a name after two dashes is enough.
        operands: How many words stand between the options and the program.
    """

    name: str
    arity: Mapping[str, int] = field(repr=False)
    roles: Mapping[str, Role] = field(default_factory=dict, repr=False)
    optional: frozenset[str] = field(default=frozenset(), repr=False)
    is_gnu: bool = True
    has_prefixes: bool = True
    operands: int = 0


def _arity(none: str, one: str, two: str = "") -> dict[str, int]:
    return {name: n for n, names in enumerate((none, one, two)) for name in names.split()}


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _roles(**names: str) -> dict[str, Role]:
    return {name: Role[role.upper()] for role, row in names.items() for name in row.split()}


# --- launchers whose ranks tune starts ------------------------------------------------------------

_OPEN_MPI_ROLES = _roles(
    ranks="n np c",
    ranks_per_host="N npernode pernode",
    hosts="H host add-host",
    hostfile="hostfile machinefile default-hostfile add-hostfile",
    ours="allow-run-as-root",
    several="app",
    folder="wd wdir",
)
OPEN_MPI_4 = Syntax(
    "Open MPI 4",
    _arity(
        "h help V version v verbose q quiet allow-run-as-root bind-to-core bind-to-socket"
        " bind-to-none bycore bynode byslot bysocket continuous d debug debug-devel debug-daemons"
        " debug-daemons-file disable-recovery display-allocation display-devel-allocation"
        " display-devel-map display-diffable-map display-map display-topo do-not-launch"
        " do-not-resolve dvm enable-instant-on-support enable-recovery fwd-mpirun-port"
        " get-stack-traces index-argv-by-rank leave-session-attached merge-stderr-to-stdout nolocal"
        " nooversubscribe noprefix novm output-proctable oversubscribe pernode s preload-binary"
        " report-bindings report-child-jobs-separately report-state-on-timeout"
        " set-cwd-to-session-dir show-progress tag-output timestamp-output tv use-hwthread-cpus"
        " use-regexp xml",
        "am app bind-to cartofile cf cpu-list cpu-set slot-list cpus-per-proc cpus-per-rank"
        " debugger default-hostfile H host hnp hostfile launch-agent machinefile map-by"
        " max-restarts max-vm-size N n np c npernode npersocket ompi-server output-filename path"
        " personality ppr prefix preload-files rank-by rankfile rf report-events report-pid"
        " report-uri stdin stream-buffering timeout tmpdir tune wd wdir x xml-file xterm",
        "mca gmca omca",
    ),
    _OPEN_MPI_ROLES,
    is_gnu=False,
    has_prefixes=False,
)
OPEN_MPI_5 = Syntax(
    "Open MPI 5",
    _arity(
        "h help V version v verbose p parseable parsable allow-run-as-root bind-to-core bycore"
        " bynode byslot continuous debug debug-daemons debug-daemons-file disable-recovery"
        " display-allocation display-comm display-comm-finalize display-devel-allocation"
        " display-devel-map display-map do-not-launch enable-recovery fwd-environment"
        " get-stack-traces hetero-nodes leave-session-attached merge-stderr-to-stdout"
        " no-aggregate-help no-app-prefix no-ready-msg nolocal nooversubscribe noprefix"
        " output-proctable oversubscribe pernode s preload-binary report-bindings"
        " report-child-jobs-separately report-state-on-timeout set-cwd-to-session-dir set-sid"
        " show-progress soft stop-in-app stop-in-init stop-on-exec system-server tag-output"
        " timestamp-output use-hwthread-cpus xml",
        "add-host add-hostfile am amca app app-pmix-prefix arch bind-to bindto cpu-list cpu-set"
        " cpus-per-proc cpus-per-rank default-hostfile display display-topo dvm file"
        " forward-signals gpu-support H host hostfile initial-errhandler keepalive launch-agent"
        " machinefile map-by mapby max-restarts max-vm-size memory-alloc-kinds N n np c npernode"
        " npersocket output output-directory output-filename path personality pmix-prefix ppr"
        " prefix preload-files pset rank-by rankby rankfile report-pid report-uri rtos"
        " runtime-options spawn-timeout stdin stream-buffering timeout tmpdir tune unset-env wd"
        " wdir with-ft x xterm",
        "mca gmca omca gomca prtemca pmixmca append-env prepend-env",
    ),
    _OPEN_MPI_ROLES,
    is_gnu=False,
)
HYDRA = Syntax(
    "MPICH or Intel MPI",
    _arity(
        "h help v verbose debug version V info genvall genvnone envall envnone profile l"
        " prepend-rank enable-x disable-x disable-auto-cleanup enable-auto-cleanup"
        " disable-hostname-propagation enable-hostname-propagation hybrid-hosts pmi-port"
        " print-all-exitcodes skip-launch-node rr nolocal noconf ordered-output silent-abort"
        " prepend-timestamp print-rank-map localroot localuser pmi-aggregate pmi-noaggregate mps"
        " aps trace-pt2pt trace-collectives gdb check_mpi rdma RDMA dapl DAPL ib IB tmi TMI mx MX"
        " psm PSM psm2 PSM2 psm3 PSM3 ofi OFI ofa OFA",
        "f hostfile machinefile machine machines machinelist host hosts hostlist rankmap ppn"
        " perhost grr output-from prepend-pattern outfile-pattern outfile errfile-pattern errfile"
        " wdir configfile genvlist genvexcl envlist envexcl n np launcher launcher-exec bootstrap"
        " bootstrap-exec bootstrap-exec-args rmk topolib binding bind-to map-by membind demux"
        " localhost usize iface g gpus-per-proc gpu-subdevs-per-proc order-nodes nameserver"
        " memory-alloc-kinds gtool gtoolfile tune s branch-count tmpdir umask path gdba"
        " use-app-topology hostos",
        "genv env",
    ),
    _roles(
        ranks="n np",
        ranks_per_host="ppn perhost grr rr",
        hosts="machine machines machinelist host hosts hostlist",
        hostfile="f hostfile machinefile",
        several="configfile",
        folder="wdir",
    ),
    is_gnu=False,
    has_prefixes=False,
)
SRUN = Syntax(
    "srun",
    _arity(
        "h help usage V version v verbose Q quiet contiguous X disable-status exact H hold"
        " l label multi-prog Z no-allocate O overcommit overlap s oversubscribe share E"
        " preserve-env pty quit-on-interrupt reboot spread-job test-only u unbuffered"
        " use-min-nodes whole stepmgr consolidate-segments spread-segments external-launcher"
        " wait-for-children async I immediate K kill-on-bad-exit k no-kill bcast compress"
        " exclusive nice propagate resv-ports send-libs x11 oom-kill-step",
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
        " topology tres-bind tres-per-task treewidth uid W wait wckey",
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
    optional=_names(
        "I immediate K kill-on-bad-exit k no-kill bcast compress exclusive nice propagate"
        " resv-ports send-libs x11 oom-kill-step"
    ),
)
#: Names with underscores, which torchrun takes too, are looked up with dashes.
TORCHRUN = Syntax(
    "torchrun",
    _arity(
        "h help standalone m module no-python run-path virtual-local-rank use-env",
        "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts"
        " monitor-interval start-method event-log-handler role log-dir r redirects t tee"
        " local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters node-rank"
        " master-addr master-port local-addr logs-specs numa-binding signals-to-handle"
        " shutdown-timeout",
    ),
    _roles(
        ranks="nproc-per-node",
        nodes="nnodes",
        ours="standalone rdzv-backend rdzv-endpoint rdzv-id rdzv-conf node-rank master-addr"
        " master-port local-addr m module no-python run-path use-env",
    ),
)

#: The MPIs that a plain ``mpirun`` may be of.
MPIS = (OPEN_MPI_5, OPEN_MPI_4, HYDRA)


def open_mpi_syntax(version: str) -> Syntax:
    """Return the options of an Open MPI by its version, such as ``4.1.8``."""
    return OPEN_MPI_4 if version.startswith(("1.", "2.", "3.", "4.")) else OPEN_MPI_5


#: Per name of a program the launchers that it may be.
LAUNCHERS: Mapping[str, tuple[Syntax, ...]] = {
    **dict.fromkeys(("mpirun", "mpiexec"), MPIS),
    **dict.fromkeys(("orterun", "mpirun.openmpi", "mpiexec.openmpi"), (OPEN_MPI_4, OPEN_MPI_5)),
    "prterun": (OPEN_MPI_5,),
    **dict.fromkeys(("mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich"), (HYDRA,)),
    "srun": (SRUN,),
    "torchrun": (TORCHRUN,),
}

#: Launchers that start the ranks of PyTorch, of which torchrun is the one that tune drives.
OF_TORCH = ("accelerate", "deepspeed", "composer", "colossalai", "fabric")
#: Launchers that tune does not drive.
OTHER_LAUNCHERS = (
    *OF_TORCH,
    *("horovodrun", "jsrun", "lrun", "aprun", "flux", "prun", "ibrun", "yhrun", "charmrun"),
    *("mpirun_rsh", "mpiexec_mpt", "mpiexec.slurm", "mpiexec.gforker", "oshrun", "shmemrun"),
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

PYTHON = Syntax(
    "python",
    _arity("b B d E h i I O P q s S t u v V x version help", "X W check-hash-based-pycs c m"),
)
_VERSION = " help version"
#: Programs that start another with something that its processes keep: variables, CPUs, a priority.
KEEPS = {
    "env": Syntax(
        "env",
        _arity(
            "i ignore-environment 0 null v debug list-signal-handling" + _VERSION,
            "u unset C chdir S split-string a argv0",
        ),
    ),
    "nice": Syntax("nice", _arity("0 1 2 3 4 5 6 7 8 9" + _VERSION, "n adjustment")),
    "ionice": Syntax("ionice", _arity("t ignore" + _VERSION, "c class n classdata")),
    "numactl": Syntax(
        "numactl",
        _arity(
            "a all b balancing l localalloc",
            "c cpubind i interleave w weighted-interleave p preferred P preferred-many N"
            " cpunodebind m membind C physcpubind",
        ),
    ),
    "taskset": Syntax("taskset", _arity("a all-tasks c cpu-list" + _VERSION, ""), operands=1),
    "chrt": Syntax(
        "chrt",
        _arity(
            "a all-tasks b batch d deadline f fifo i idle o other r rr R reset-on-fork v verbose",
            "T sched-runtime P sched-period D sched-deadline",
        ),
        operands=1,
    ),
}
#: Programs that start another and leave no trace in how it runs.
TRACELESS = {
    "time": Syntax(
        "time", _arity("p portability v verbose a append q quiet" + _VERSION, "f format o output")
    ),
    "timeout": Syntax(
        "timeout",
        _arity("foreground preserve-status v verbose f p" + _VERSION, "k kill-after s signal"),
        operands=1,
    ),
    "stdbuf": Syntax("stdbuf", _arity("help version", "i input o output e error")),
    "nohup": Syntax("nohup", _arity("help version", "")),
    "setsid": Syntax("setsid", _arity("c ctty f fork w wait" + _VERSION, "")),
    "exec": Syntax("exec", _arity("c l", "a")),
    "command": Syntax("command", _arity("p", "")),
}
SHELL = Syntax(
    "sh",
    _arity(
        "a b c e f h i k l m n p r s t u v x B C E H P T D login noprofile norc posix restricted"
        " verbose",
        "o O rcfile init-file",
    ),
)
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
