"""Every option of a study: one row each.

The command line's options, the keys of the study file and the template of ``tune init`` are made
from this table. It needs no library, so that ``tune --help`` is quick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tuner.model import StudySpec
from tuner.model.wording import parse_share, parse_time_s

#: No count or amount is larger: a float cannot hold every larger integer.
MOST_INTEGER, MOST_AMOUNT = 10**9, 1e15

#: The names for ``--sampler``, ``--pruner`` and ``--terminator``, each with its class in Optuna (of
#: a terminator, that of its evaluator); empty: it is not one of Optuna's.
SAMPLERS = {
    "tune": "",
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "random": "RandomSampler",
    "brute-force": "BruteForceSampler",
}
PRUNERS = {
    "race": "",
    "none": "NopPruner",
    "median": "MedianPruner",
    "hyperband": "HyperbandPruner",
}
TERMINATORS = {
    "tune": "",
    "none": "",
    "stagnation": "BestValueStagnationEvaluator",
    "emmr": "EMMREvaluator",
}

WHAT = "What to run"  # these three are headings of the help
SPACE = "What to try"
LIMITS = "How much"


@dataclass(frozen=True)
class Kind:
    """A kind of option: how its value is read, and what the help and the shell say of it.

    ``read`` makes the value of what a TOML file holds, and raises ValueError with what must be
    there. ``typed`` is what the command line makes of a word before that, and ``choices`` are the
    words that are completed.
    """

    read: Callable[[Any], Any]
    metavar: str
    typed: Callable[[str], Any] = str
    choices: tuple[str, ...] = ()


def _seconds(value: object) -> float:
    try:
        return parse_time_s("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        raise ValueError("must be a time above 0, such as 90, 90s, 1.5m or 2h") from error


def _share(value: object) -> float:
    try:
        return parse_share(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError('must be between 0 % and 100 %, with the sign, such as "2%"') from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if not value:
        raise ValueError("must not be empty")
    return value


def _texts(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise ValueError("must be a string or a list of strings")


def _words(value: object) -> tuple[str, ...]:
    """Return a command: a list of words, or one string split as a shell would."""
    if not isinstance(value, str):
        return _texts(value)
    import shlex

    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError("a quotation is not closed") from error


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _integer(low: int = 1, high: int = MOST_INTEGER) -> Kind:
    def read(value: object) -> int:
        if type(value) is not int:
            raise ValueError("must be a whole number")
        if not low <= value <= high:
            bounds = f"at least {low}" if value < low else f"at most {high}"
            raise ValueError(f"must be {bounds}")
        return value

    return Kind(read, "N", int)


def _ranks(value: object) -> int | str:
    """Return a number, or the text of the numbers to choose from (`tuner.knobs.domains`)."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if isinstance(value, bool | float) or not re.search(r"^\s*[+-]?\d+\s*$|\.\.|,", text):
        raise ValueError("must be a whole number, or several, such as 1..8 or 1,2,4")
    return text if re.search(r"\.\.|,", text) else _integer().read(int(text))


def _number(low: float, bound: str) -> Kind:
    def read(value: object) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and low <= value <= MOST_AMOUNT:  # type: ignore[operator]
            return float(value)  # type: ignore[arg-type]
        raise ValueError(f"must be a number {bound}")

    return Kind(read, "X", float)


def _one_of(metavar: str, *choices: str) -> Kind:
    def read(value: object) -> str:
        if value not in choices:
            *others, last = map(repr, choices)
            raise ValueError(f"must be {', '.join(others)} or {last}")
        return str(value)

    return Kind(read, metavar, choices=choices)


def _name_of(choices: Iterable[str], metavar: str = "NAME") -> Kind:
    """Return a text that is completed to one of the choices, and may be another."""
    return Kind(_text, metavar, choices=tuple(choices))


SECONDS = Kind(_seconds, "TIME")
SHARE = Kind(_share, "PERCENT")
TEXT = Kind(_text, "TEXT")
WORDS = Kind(_words, "ARG")
TEXTS = Kind(_texts, "TEXT")
AMOUNT = _number(1 / MOST_AMOUNT, "above 0")
SWITCH = Kind(_switch, "")
SECONDS_OR_NONE = Kind(lambda value: None if value == "none" else _seconds(value), "TIME")


@dataclass(frozen=True)
class Option:
    """A row of the table: one option of a study.

    ``key`` is its name in the study file, ``flag`` on the command line; ``stored_as`` that in
    :class:`tuner.model.StudySpec`, if it is another one. ``example`` is how the template of a study
    file sets it; without one the file says it in a table of its own, or not at all. ``usual`` names
    the default in the help.
    """

    key: str
    flag: str
    kind: Kind
    heading: str
    help: str
    example: str = ""
    usual: str = ""
    metavar: str = ""
    repeatable: bool = False
    stored_as: str = ""

    @property
    def field(self) -> str:
        """Return the field of :class:`tuner.model.StudySpec` for it; empty if there is none."""
        is_stored = self.example and hasattr(StudySpec, self.key)
        return self.stored_as or (self.key if is_stored else "")

    @property
    def default(self) -> Any:
        """Return the value if nobody sets the option; ``None`` if it depends on other options."""
        return getattr(StudySpec, self.field) if self.field else None


OPTIONS = (
    Option("mpi_procs", "--mpi-procs", Kind(_ranks, "N"), WHAT,
           "MPI ranks; several numbers (1..8, or 1,2,4) are tuned, as ranks on each host", "8",
           "one per GPU, without GPUs 2"),
    Option("global_batch", "--global-batch", _integer(), WHAT,
           "Samples of a step on all ranks together: {batch_per_rank} is the share of a rank",
           "256"),
    Option("study_file", "--study", TEXT, WHAT, "Study file",
           usual="tune.toml in this folder, else the shipped chainer_mnist.toml", metavar="FILE"),
    Option("objective", "--objective",
           _name_of(("logreport", "logreport:steady", "pattern:", "wall"), "KIND"), WHAT,
           "Where the figure comes from: logreport[:KEY|:steady], pattern:REGEX or wall",
           usual="logreport"),
    Option("log", "--log", TEXT, WHAT,
           "The log file inside {out} [log]; for a pattern: the file to search, not the output",
           metavar="FILE"),
    Option("unit", "--unit", TEXT, WHAT,
           "Unit of a key or a pattern: us, ms, s, min, h are times; any other is shown as it is",
           metavar="UNIT"),
    Option("maximize", "--maximize", SWITCH, WHAT, "A larger figure is better (a rate)"),
    Option("knobs", "--knob", TEXTS, SPACE,
           "Tune a knob beside the usual ones: omp_threads=1..16, communicator=naive,flat, bind_to"
           " (see tune knobs); repeatable", metavar="NAME[=DOMAIN]", repeatable=True),
    Option("env_knobs", "--env-knob", TEXTS, SPACE,
           "Tune a variable of the environment: MALLOC_ARENA_MAX=1,2,4; repeatable",
           metavar="VARIABLE=DOMAIN", repeatable=True),
    Option("all_knobs", "--all-knobs", SWITCH, SPACE,
           "Tune every knob that applies here and keeps the numerics"),
    Option("fixes", "--fix", TEXTS, SPACE, "Hold a knob at one value; repeatable",
           metavar="NAME=VALUE", repeatable=True),
    Option("baselines", "--baseline", TEXTS, SPACE,
           "The value of a placeholder in the baseline; repeatable", metavar="NAME=VALUE",
           repeatable=True),
    Option("hosts", "--hosts", TEXT, WHAT, "Hosts of the ranks, with their slots", '"h1:4,h2:4"',
           "this host; in a Slurm allocation its nodes", metavar="H1:N,H2:N"),
    Option("hostfile", "--hostfile", TEXT, WHAT, "The same from Open MPI's or MPICH's hostfile",
           '"hosts"', metavar="FILE"),
    Option("hosts_from", "--hosts-from", WORDS, WHAT,
           "The same from what a command prints; asked again if a host is lost", '"./hosts.sh"',
           metavar="COMMAND"),
    Option("ppn", "--ppn", Kind(_ranks, "N"), WHAT, "Ranks on each host, or several numbers", "4",
           "its slots"),
    Option("same_program", "--same-program", SWITCH, WHAT,
           "Go on with a study though its program was edited: it takes as long as before"),
    Option("more_ranks_than_slots", "--oversubscribe-hosts", SWITCH, WHAT,
           "Run more ranks on a host than it has slots", "true"),
    Option("ssh", "--ssh", WORDS, WHAT, "How other hosts are reached", '"ssh -F config"',
           "the launcher's own way", metavar="COMMAND"),
    Option("name", "--name", TEXT, WHAT, "The study's name", '"my_job"', "made from the program's",
           metavar="NAME"),
    Option("mpirun", "--mpirun", TEXT, WHAT, "Which mpirun starts the ranks",
           '"/opt/openmpi/bin/mpirun"', "TUNE_MPIRUN, else the program's own", metavar="PATH"),
    Option("launcher", "--launcher",
           _name_of(("openmpi", "mpich", "intelmpi", "srun", "torchrun", "none"), "KIND"), WHAT,
           "Kind of launcher: openmpi, mpich, intelmpi, srun, torchrun; none: one process",
           '"torchrun"', "what is found first"),
    Option("mpirun_args", "--mpirun-arg", WORDS, WHAT,
           "More arguments for mpirun, split as a shell would; repeatable",
           '["--mca", "pml", "ob1"]', repeatable=True),
    Option("run_in_out", "--run-in-out", SWITCH, WHAT,
           "Run each launch in its own folder {out}: for a program that writes where it runs",
           "true"),
    Option("prepare", "--prepare", WORDS, WHAT,
           "Command to run before each launch, untimed; a running job's windows come without",
           "['rm', '-rf', 'cache']", metavar="COMMAND"),
    Option("wait_for_children", "--wait-for-children", SWITCH, WHAT,
           "A launch lasts until all that it started has ended: for a command that starts its work"
           " in the background", "true"),
    Option("samples_per_run", "--samples-per-run", AMOUNT, WHAT,
           "Samples that one run (or iteration) processes: shows samples per second", "60000",
           stored_as="items", metavar="N"),
    Option("price_per_hour", "--price-per-hour", AMOUNT, WHAT,
           "Price of all the hardware, in any currency: shows what a run costs", "4.1"),
    Option("sampler", "--sampler", _name_of(SAMPLERS), SPACE,
           f"What suggests settings: {', '.join(SAMPLERS)}, or module:Class of yours", '"tpe"',
           "tune"),
    Option("pruner", "--pruner", _name_of(PRUNERS), SPACE,
           f"What stops a launch early: {', '.join(PRUNERS)}, or module:Class of yours", '"none"',
           "race"),
    Option("learn_from", "--learn-from", TEXT, SPACE,
           "Start from what an earlier study in the same database showed: auto (the newest of the"
           " same program), its name, or none", '"none"', "auto", metavar="STUDY"),
    Option("seed", "--seed", _integer(0, 2**32 - 1), SPACE, "Seed of the search", "0", "0"),
    Option("oversubscription", "--oversubscribe", _number(1, "of at least 1"), SPACE,
           "Skip settings that ask for more than X times the cores", "4",
           "4; with ranges of your own: no limit"),
    Option("require", "--require", TEXTS, SPACE,
           "Launch only settings for which this holds: a comparison of knobs and ranks, such as"
           " 'px * py * pz == ranks'; repeatable", '["px * py * pz == ranks"]',
           metavar="EXPRESSION", repeatable=True),
    Option("trials", "--trials", _integer(), LIMITS, "Try at most this many settings", "50", "50"),
    Option("budget_s", "--budget", SECONDS, LIMITS,
           "End the search after this time; warm-ups and confirmation come on top", '"10m"'),
    Option("min_gain", "--min-gain", SHARE, LIMITS,
           "End the search once the gain still expected is below this", '"1%"', "1%",
           stored_as="until"),
    Option("terminator", "--terminator", _name_of(TERMINATORS), LIMITS,
           f"What ends the search before --trials: {', '.join(TERMINATORS)}, or module:Class of"
           " yours", '"none"', "tune"),
    Option("precision", "--precision", SHARE, LIMITS,
           "Settings that differ by less than this count as equal", '"2%"', "2%"),
    Option("confirm", "--confirm", _one_of("HOW", "auto", "exact", "more", "none"), LIMITS,
           "Launch the best setting and the baseline again: auto (as few as prove a gain), exact"
           " (by ranks alone), more (until the interval is narrow) or none", '"none"', "auto"),
    Option("compare", "--compare", _one_of("HOW", "auto", "side-by-side", "in-turn"), LIMITS,
           "Launch these two side-by-side (both are there, and run by turns, in short slices), or"
           " in-turn (one after the other); auto: side by side unless something speaks against it",
           '"in-turn"', "auto"),
    Option("live", "--live", _one_of("WHEN", "auto", "on", "off"), LIMITS,
           "Measure many settings in one running job: auto (if it can), on or off", '"off"',
           "auto"),
    Option("max_time_s", "--max-time", SECONDS, LIMITS,
           "Stop a launch that is projected to take longer; it counts as slow", '"2m"'),
    Option("trial_limit_s", "--trial-limit", SECONDS, LIMITS,
           "End a launch that has taken longer; it counts as failed", '"5m"'),
    Option("stall_limit_s", "--stall-limit", SECONDS_OR_NONE, LIMITS,
           "Stop a launch in which nothing happens for this long; none: never", '"2m"', "2m"),
    Option("prepare_limit_s", "--prepare-limit", SECONDS, LIMITS,
           "End the study if --prepare takes longer before a launch", '"1h"', "10m"),
    Option("warm_ups", "--warm-ups", _integer(0), LIMITS, "Launches at the start that do not count",
           "1", "1"),
)  # fmt: skip
BY_KEY = {option.key: option for option in OPTIONS}
