"""Defines what a launcher is, and the shipped ones: how each is told what a study asks for.

Other packages add theirs by entry points of the group ``tuner.launchers``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tuner.hosts.observe import RANK_VARIABLES, SIZE_VARIABLES
from tuner.hosts.untrusted_files import read_untrusted
from tuner.launch.command import shipped_dir
from tuner.model import LauncherInfo, Layout, Value, plugins
from tuner.model.errors import UsageError, suggestion
from tuner.model.wording import one_line

GROUP = "tuner.launchers"

_CLASSES = {
    "openmpi": "OpenMPI",
    "mpich": "MPICH",
    "intelmpi": "IntelMPI",
    "srun": "Srun",
    "torchrun": "Torchrun",
    "none": "NoLauncher",
}
_SHIPPED = {kind: f"tuner.launch.launchers:{name}" for kind, name in _CLASSES.items()}

Options = Mapping[str, Value]
Words = Sequence[str]
Argv = tuple[str, ...]


class Launcher:
    """One way to start ranks: how it is found, and its options."""

    kind: str
    #: The names of the program that starts its ranks, the best one first, without a version.
    programs: tuple[str, ...]
    #: Regular expressions for the answer to :meth:`question`, with a group for the version.
    versions: tuple[str, ...]
    #: File name patterns of its MPI library, the best one first.
    mpi_files: tuple[str, ...] = ()

    def question(self, program: Path) -> Argv:
        """Return the command that says which version a program is; empty if none is known."""
        return (str(program), "--version")

    def version(self, text: str) -> str | None:
        """Return the version in what that command printed; ``None`` for another launcher."""
        matches = (re.search(pattern, text) for pattern in self.versions)
        return next((one_line(match[1], 60) for match in matches if match), None)

    def default_place(self, layout: Layout) -> str:  # noqa: ARG002
        """Return what ranks are bound to without an option, or ``none``; empty: it is not known."""
        return "none"

    def host_list(self, layout: Layout) -> str:
        """Return the one word by which its command names several hosts, if it has such a word."""
        return layout.listed

    def argv(self, info: LauncherInfo, layout: Layout, options: Options, program: Words) -> Argv:
        """Return the whole command, in which each host gets the number of ranks in the layout.

        ``options`` may have ``bind_to`` (none, core, socket, numa), ``map_by`` (slot, socket, numa)
        if ranks are bound, or without both ``cores_per_rank`` (the number of cores that each is
        bound to), and ``rank_by`` (slot, node) for several hosts. What has no option is
        left to the launcher. A study calls this with every value before its first launch.

        Raises:
            UsageError: An option, or a value of one, that this launcher does not have, or that the
                user's own arguments set; hosts that it cannot reach.
        """
        raise NotImplementedError

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        """Return what the launcher's environment must hold besides the user's own.

        mpi4py is to load the library of this mpirun. It would split a path with a colon in two.
        """
        if info.libmpi is None or os.pathsep in info.libmpi:
            return {}
        return {"MPI4PY_LIBMPI": info.libmpi}


def launchers() -> Iterator[Launcher]:
    """Yield every launcher, the shipped ones first; a broken package raises ``UsageError``."""
    for entry in plugins.entries(GROUP, _SHIPPED).values():
        launcher: Launcher = plugins.load(entry)()
        yield launcher


def launcher_for(kind: str) -> Launcher:
    """Return the launcher of a kind; ``UsageError`` if there is none or its package is broken."""
    launcher: Launcher = plugins.find(GROUP, _SHIPPED, kind, what="kind of launcher")()
    return launcher


def wrapper_argv() -> Argv:
    """Return the words that start ``task_wrapper.sh``, whether or not the file kept its x bit."""
    return ("/bin/sh", str(shipped_dir("wrappers") / "task_wrapper.sh"))


def ssh_wrapper() -> tuple[Argv, dict[str, str]]:
    """Return the words that start ``ssh_wrapper.sh``, and the variable that they need.

    Launchers split what they take for ssh at blanks and know no quotes, so the path, which may have
    some, goes through the environment, and ``${IFS}`` is the blank before it.
    """
    variable, path = "TUNE_SSH_WRAPPER", str(shipped_dir("wrappers") / "ssh_wrapper.sh")
    return ("/bin/sh", "-c", f'.${{IFS}}"${variable}"', "ssh"), {variable: path}


def in_slurm(environ: Mapping[str, str]) -> bool:
    """Return whether this is an allocation of Slurm, whose own way starts processes on nodes."""
    return "SLURM_JOB_ID" in environ


# --- MPI ------------------------------------------------------------------------------------------

#: For each option the flag, and this launcher's word for each value that the option can have; more
#: flags with their words may follow after blanks.
OptionWords = Mapping[str, tuple[str, Mapping[str, str]]]

#: In place of a value: any number from 1 on, which replaces ``{}`` in the word.
_NUMBER = "a number"

_PLACES = ("core", "socket", "numa")
_OPENMPI: OptionWords = {
    # A study may have ranks share cores, which Open MPI refuses without the word after the colon.
    "bind_to": (
        "--bind-to",
        {"none": "none", **{place: f"{place}:overload-allowed" for place in _PLACES}},
    ),
    "map_by": ("--map-by", {"slot": "slot", "socket": "socket", "numa": "numa"}),
    "cores_per_rank": ("--map-by", {_NUMBER: "slot:PE={} --bind-to core:overload-allowed"}),
    "rank_by": ("--rank-by", {"slot": "slot", "node": "node"}),
}
_MPICH: OptionWords = {
    "bind_to": ("-bind-to", {place: place for place in ("none", *_PLACES)}),
    # Hydra's slots have no certain order on a host: by core is what other MPIs call by slot.
    "map_by": ("-map-by", {"slot": "core", "socket": "socket", "numa": "numa"}),
    "cores_per_rank": ("-bind-to", {_NUMBER: "core:{}"}),
    # One rank on each host in turn, until all hosts have the same number.
    "rank_by": ("-ppn", {"slot": "", "node": "1"}),
}
_DOMAIN = "I_MPI_PIN 1 -genv I_MPI_PIN_DOMAIN"
_INTELMPI: OptionWords = {
    "bind_to": (
        "-genv",
        {"none": "I_MPI_PIN 0", **{place: f"{_DOMAIN} {place}" for place in _PLACES}},
    ),
    # Neighbours share as much of the caches as they can, or as little. NUMA nodes have no word.
    "map_by": ("-genv", {"slot": "I_MPI_PIN_ORDER compact", "socket": "I_MPI_PIN_ORDER scatter"}),
    # The size of a domain counts hardware threads unless its cells are cores.
    "cores_per_rank": ("-genv", {_NUMBER: f"I_MPI_PIN_CELL core -genv {_DOMAIN} {{}}"}),
    "rank_by": _MPICH["rank_by"],
}


class OpenMPI(Launcher):
    """mpirun of Open MPI; Debian's calls itself ``mpirun.openmpi (OpenRTE) 4.1.4``."""

    kind = "openmpi"
    programs = ("mpirun", "mpirun.openmpi")
    versions = (r"\((?:Open MPI|OpenRTE)\) (\S+)",)
    # The file with the library's version first: ``libmpi.so`` may be a linker script.
    mpi_files = ("libmpi.so.40", "libmpi.so.[0-9]*", "libmpi.so")

    def default_place(self, layout: Layout) -> str:
        """Return a core for two ranks; for more a NUMA node by the manual, a core in 5.0.11."""
        if layout.oversubscribed or layout.is_single_process:
            return "none"
        return "core" if layout.ranks <= 2 else ""

    def argv(self, info: LauncherInfo, layout: Layout, options: Options, program: Words) -> Argv:
        if layout.is_single_process:  # the user typed no mpirun, which would bind it to one core
            must_unbind = not _sets_option(info.extra_args, "bind-to", "map-by", "cpu-set")
        else:  # 5.0 refuses to bind more ranks than cores
            is_crowded = layout.oversubscribed and not layout.is_local
            must_unbind = is_crowded and not _sets_option(info.extra_args, "bind-to")
        if must_unbind and "cores_per_rank" not in options:
            options = {"bind_to": "none", **options}
        return (
            info.mpirun,
            *(("--allow-run-as-root",) if os.geteuid() == 0 else ()),
            *self._hosts(info, layout),
            *_flags(_OPENMPI, info, options),
            *info.extra_args,
            *("-n", str(layout.ranks), *program),
        )

    def _hosts(self, info: LauncherInfo, layout: Layout) -> tuple[str, ...]:
        """Return the words for where the ranks run.

        ``--oversubscribe`` is given only if mpirun would refuse so many ranks: 5.0 binds none then.
        """
        if layout.is_local:
            is_set = _sets_option(info.extra_args, "oversubscribe", "nooversubscribe")
            return ("--oversubscribe",) if layout.oversubscribed and not is_set else ()
        words: tuple[str, ...] = ("--host", layout.listed)
        if info.ssh:
            if any(set(word) & set(" \t") for word in info.ssh):
                raise UsageError(
                    f"--ssh {' '.join(info.ssh)}: Open MPI cannot take a blank in a word of it",
                    "put what has one into ~/.ssh/config",
                )
            is_old = info.version.startswith(("1.", "2.", "3.", "4."))
            option = ("--mca", "plm_rsh_agent") if is_old else ("--prtemca", "plm_ssh_agent")
            words += (*option, " ".join(info.ssh))
        return words


class MPICH(Launcher):
    """mpirun of MPICH: Hydra's mpiexec, which takes no ``--`` before the program."""

    kind = "mpich"
    programs: tuple[str, ...] = ("mpirun", "mpirun.mpich", "mpiexec.hydra")
    versions = (r"HYDRA build details:\s+Version:\s+(\S+)",)
    mpi_files = ("libmpi.so.12", "libmpich.so.12", "libmpi.so.[0-9]*", "libmpi.so")
    option_words: OptionWords = _MPICH
    #: The options before the path of an ssh command, and the variable for its arguments.
    ssh_options: tuple[str, ...] = ("-launcher", "ssh", "-launcher-exec")
    ssh_arguments = "HYDRA_LAUNCHER_EXTRA_ARGS"

    def argv(self, info: LauncherInfo, layout: Layout, options: Options, program: Words) -> Argv:
        hosts: tuple[str, ...] = ()
        if not layout.is_local:
            hosts = ("-hosts", self.host_list(layout), *self._ranks_a_host(layout, options))
            if info.ssh:
                hosts += (*self.ssh_options, info.ssh[0])
        flags = _flags(self.option_words, info, options)
        return (info.mpirun, *hosts, *flags, *info.extra_args, "-n", str(layout.ranks), *program)

    def _ranks_a_host(self, layout: Layout, options: Options) -> Argv:
        """Return what must be said of it beside the hosts and ``rank_by``."""
        if options.get("rank_by") == "node":
            evenly(layout, "MPICH with rank_by=node")
        return ()

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        # ``-launcher-exec`` takes the path of the ssh command alone, without its options.
        variables = {self.ssh_arguments: " ".join(info.ssh[1:])} if info.ssh[1:] else {}
        return super().environment(info) | variables


class IntelMPI(MPICH):
    """mpirun of Intel MPI: a Hydra of its own, whose options are environment variables.

    Its Developer Reference says all of it, in the chapters ``mpiexec.hydra`` and Process Pinning
    <https://www.intel.com/content/www/us/en/docs/mpi-library/developer-reference-linux/current/>.
    """

    kind = "intelmpi"
    programs = ("mpirun", "mpiexec.hydra")
    # "2021.13" and the older "2019 Update 8"
    versions = (r"Intel\(R\) MPI Library.*Version (\d\S*(?: Update \d+)?)",)
    option_words = _INTELMPI
    # Of ``ssh`` it would put ``-q`` before the arguments, which is no option of a shell.
    ssh_options = ("-bootstrap", "rsh", "-bootstrap-exec")
    ssh_arguments = "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"

    def default_place(self, layout: Layout) -> str:
        """Return ``none`` for one rank a host: the cores are divided among the ranks."""
        return "none" if layout.ranks_per_host == 1 else ""

    def host_list(self, layout: Layout) -> str:
        return ",".join(layout.hosts)

    def _ranks_a_host(self, layout: Layout, options: Options) -> Argv:
        per_host = evenly(layout, "Intel MPI")
        return () if options.get("rank_by") == "node" else ("-ppn", str(per_host))

    def environment(self, info: LauncherInfo) -> dict[str, str]:
        # Inside a job of a scheduler ``-ppn`` is ignored otherwise.
        return super().environment(info) | {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0"}


def _flags(words: OptionWords, info: LauncherInfo, options: Options) -> Argv:
    """Return the flags of the options, none of which the user's own arguments may set too."""
    flags: list[str] = []
    for option in sorted(options, key=[*words, *options].index):
        if option not in words:
            raise UsageError(
                f"launcher_option {option!r}: {info.kind} knows no such option",
                suggestion(option, list(words)),
            )
        (flag, word_of_value), value = words[option], str(options[option])
        key = _NUMBER if re.fullmatch("[1-9][0-9]*", value) else value
        if key not in word_of_value:
            raise UsageError(
                f"{option}={value}: {info.kind} knows {', '.join(word_of_value)}",
                suggestion(value, word_of_value),
            )
        option_words = (flag, *word_of_value[key].format(value).split())
        flag_names = [word.lstrip("-") for word in option_words if word.startswith("-")]
        names = [word for word in option_words if word.startswith("I_MPI_")] or flag_names
        if _sets_option(info.extra_args, *names):
            raise UsageError(
                f"{option}={value}, but the arguments for mpirun say it too:"
                f" {' '.join(info.extra_args)}",
                f"leave {' and '.join(names)} out of --mpirun-arg, or do not tune {option}",
            )
        flags += option_words if len(option_words) > 1 else ()  # "": no flag
    return tuple(flags)


def _sets_option(args: Sequence[str], *names: str) -> bool:
    """Return whether an option, or a variable of ``-genv``, is among the arguments."""
    words = {word.split("=", 1)[0].lstrip("-") for word in args if word.startswith(("-", "I_MPI_"))}
    return not words.isdisjoint(names)


# --- srun -----------------------------------------------------------------------------------------

_SRUN: OptionWords = {
    "bind_to": (
        "--cpu-bind",
        {"none": "none", "core": "cores", "socket": "sockets", "numa": "ldoms"},
    ),
    "cores_per_rank": ("--cpus-per-task", {_NUMBER: "{} --cpu-bind cores"}),
    "rank_by": ("--distribution", {"slot": "block", "node": "cyclic"}),
}


class Srun(Launcher):
    """srun of Slurm, which starts the ranks itself; their MPI needs its PMIx (or PMI2)."""

    kind = "srun"
    programs = ("srun",)
    versions = (r"(?m)^slurm\S* (\S+)",)

    def default_place(self, layout: Layout) -> str:  # noqa: ARG002
        return ""  # Slurm's configuration says whether ranks are bound

    def argv(self, info: LauncherInfo, layout: Layout, options: Options, program: Words) -> Argv:
        per_host = evenly(layout, "srun")
        nodes = () if layout.is_local else ("--nodelist", ",".join(layout.hosts))
        mpi_type = () if _sets_option(info.extra_args, "mpi") else ("--mpi=pmix",)
        return (
            *(info.mpirun, "--overlap", "--kill-on-bad-exit=1", *nodes),
            *("--nodes", str(len(layout.hosts)), "--ntasks", str(layout.ranks)),
            *("--ntasks-per-node", str(per_host), *mpi_type),
            *_flags(_SRUN, info, options),
            *info.extra_args,
            *program,
        )


def evenly(layout: Layout, launcher: str) -> int:
    """Return the number of ranks on each host; ``UsageError`` if hosts differ in it."""
    if len({ranks for _, ranks in layout.slots}) > 1:
        slots = ", ".join(f"{name}:{ranks}" for name, ranks in layout.slots[:4])
        raise UsageError(
            f"{launcher} starts as many ranks on each host, not {slots}",
            f"a multiple of {len(layout.hosts)} as --mpi-procs, or --ppn",
        )
    return layout.ranks_per_host


# --- torchrun -------------------------------------------------------------------------------------

#: Prints torchrun's version: it has no ``--version``, and to import torch takes seconds.
_CODE = "from importlib.metadata import version; print('torchrun of torch', version('torch'))"


class Torchrun(Launcher):
    """torchrun, or the interpreter that runs it as a module."""

    kind = "torchrun"
    programs = ("python", "torchrun")
    versions = (r"(?m)^torchrun of torch (\S+)",)

    def question(self, program: Path) -> Argv:
        python = interpreter_of(program)
        return (python, "-c", _CODE) if python else ()

    def argv(self, info: LauncherInfo, layout: Layout, options: Options, program: Words) -> Argv:
        for option, value in options.items():
            raise UsageError(
                f"{option}={value}: torchrun has no such option; it starts ranks as they are",
                "leave this knob out, or tune it under an mpirun; --mpirun-arg"
                " --numa-binding=node binds each rank near its GPU (torch 2.9 and later)",
            )
        # torchrun also takes ``--rdzv_backend``.
        dashed_args = [word.replace("_", "-") for word in info.extra_args]
        per_host = evenly(layout, "torchrun")
        is_python = _PYTHON.fullmatch(Path(info.mpirun).name)
        module = ("-m", "torch.distributed.run") if is_python else ()
        if layout.is_local:
            rendezvous: tuple[str, ...] = ("--standalone",)  # with a free port of this host
        elif _sets_option(dashed_args, "rdzv-endpoint", "master-addr"):
            rendezvous = ()
        else:
            rendezvous = ("--rdzv-backend", "c10d", "--rdzv-endpoint", layout.hosts[0])
        words = (
            *(info.mpirun, *module, *rendezvous, *info.extra_args),
            *("--nnodes", str(len(layout.hosts)), "--nproc-per-node", str(per_host), "--no-python"),
            *program,
        )
        if layout.is_local or info.carrier is None:
            return words
        # The carrier numbers the hosts as its ranks: the program must not see these numbers.
        unset = (word for name in (*RANK_VARIABLES, *SIZE_VARIABLES) for word in ("-u", name))
        return once_per_host(carrier_of(info), layout.hosts, ("env", *unset, *words))


def once_per_host(info: LauncherInfo, names: Words, program: Words) -> Argv:
    """Return the command that runs a program once on each of these hosts, not bound."""
    one_rank_each = Layout(len(names), tuple(names), (1,) * len(names))
    is_set = _sets_option(info.extra_args, "bind-to", "cpu-bind", "I_MPI_PIN")
    options: dict[str, Value] = {} if is_set else {"bind_to": "none"}
    return launcher_for(info.kind).argv(info, one_rank_each, options, program)


def carrier_of(info: LauncherInfo) -> LauncherInfo:
    """Return what starts a program once on each host: the carrier of a torchrun, else `info`."""
    if info.carrier is None:
        return info
    args = ("--mpi=none",) if info.carrier.kind == "srun" else ()  # torchrun is no MPI program
    return replace(info, **asdict(info.carrier), extra_args=args, carrier=None)


# --- none -----------------------------------------------------------------------------------------


class NoLauncher(Launcher):
    """Starts the program as one process, which makes its own ranks or threads."""

    kind = "none"
    programs = ()
    versions = ()

    def question(self, program: Path) -> Argv:  # noqa: ARG002
        return ()

    def argv(self, info: LauncherInfo, layout: Layout, options: Options, program: Words) -> Argv:  # noqa: ARG002
        for option, value in options.items():
            raise UsageError(
                f"{option}={value}: without a launcher nothing binds or orders ranks",
                "leave this knob out, or tune it under an mpirun",
            )
        return tuple(program)


_PYTHON = re.compile(r"(python|pypy)[\d.]*")
#: The interpreter in the first line of a script, or in the second one: pip and uv have ``sh`` start
#: a path that is long or has a blank.
_INTERPRETER = re.compile(
    r"""\#!\s*(?: /bin/sh\n'''exec'\ | \S*/env\s+)?  ["']?( (?<=["'])[^"']+ | \S+ )""", re.VERBOSE
)


def interpreter_of(program: Path) -> str | None:
    """Return the Python that a program is, or runs in by its first lines; ``None``: neither."""
    if _PYTHON.fullmatch(program.name):
        return str(program)
    match = _INTERPRETER.match(head(program))
    return match[1] if match and _PYTHON.fullmatch(Path(match[1]).name) else None


def head(file: Path) -> str:
    """Return the first 1024 bytes of a file as text; empty if it cannot be read."""
    try:
        return read_untrusted(file.resolve(), 1024).decode("utf-8", "replace")
    except OSError:
        return ""
