"""Every option of a study that both the command line and the study file know: one row each.

The command line's options, the keys of the study file and the template of ``tune init`` are made
from this table. It needs no library, so that ``tune --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.model import StudySpec
from tuner.model.wording import parse_share, parse_time_s

#: More than any count or amount that makes sense; a longer integer may be no float.
MOST_WHOLE, MOST_AMOUNT = 10**9, 1e15

#: What ``--sampler``, ``--pruner`` and ``--terminator`` name, with Optuna's class for it, if it
#: is one: of a terminator that of its evaluator.
SAMPLERS = {
    "tune": "",
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "random": "RandomSampler",
    "grid": "GridSampler",
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

#: What ``--confirm`` names.
CONFIRM = ("auto", "exact", "more", "none")

#: What ``--compare`` names.
COMPARE = ("auto", "side-by-side", "in-turn")

WHAT = "What to run"
SPACE = "What to try"
LIMITS = "How much"


@dataclass(frozen=True)
class Kind:
    """What an option's value is.

    ``read`` makes the value of what a TOML file holds, and raises ValueError with what is wanted.
    ``typed`` is what the command line makes of a word before that.
    """

    read: Callable[[Any], Any]
    metavar: str
    typed: Callable[[str], Any] = str


def _seconds(value: object) -> float:
    try:
        return parse_time_s("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        raise ValueError("must be a time above 0, such as 90, 90s, 1.5m or 2h") from error


def _seconds_or_none(value: object) -> float | None:
    return None if value == "none" else _seconds(value)


def _share(value: object) -> float:
    try:
        return parse_share(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError('must be between 0 % and 100 %, with the sign, such as "2%"') from error


def _multiple(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST_AMOUNT:
        return float(value)
    raise ValueError("must be a number of at least 1")


def _amount(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 1 / MOST_AMOUNT <= value <= MOST_AMOUNT:  # type: ignore[operator]
        return float(value)  # type: ignore[arg-type]
    raise ValueError("must be a number above 0")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if not value:
        raise ValueError("must not be empty")
    return value


def _live(value: object) -> str:
    if not isinstance(value, str) or value not in {"auto", "on", "off"}:
        raise ValueError("must be 'auto', 'on' or 'off'")
    return value


def _compare(value: object) -> str:
    if value not in COMPARE:
        raise ValueError("must be 'auto', 'side-by-side' or 'in-turn'")
    return str(value)


def _confirm(value: object) -> str:
    if isinstance(value, bool):
        return "auto" if value else "none"
    if value not in CONFIRM:
        raise ValueError("must be 'auto', 'exact', 'more' or 'none'")
    return str(value)


def _words(value: object) -> tuple[str, ...]:
    """A command: a list of words, or one string split as a shell would."""
    if isinstance(value, str):
        import shlex

        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError("a quotation is not closed") from error
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise ValueError("must be a string or a list of strings")


def _texts(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        return tuple(texts)
    raise ValueError("must be a string or a list of strings")


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _whole(low: int = 1, high: int = MOST_WHOLE) -> Kind:
    def read(value: object) -> int:
        if type(value) is not int:
            raise ValueError("must be a whole number")
        if not low <= value <= high:
            bounds = f"at least {low}" if value < low else f"at most {high}"
            raise ValueError(f"must be {bounds}")
        return value

    return Kind(read, "N", int)


SECONDS = Kind(_seconds, "TIME")
SECONDS_OR_NONE = Kind(_seconds_or_none, "TIME")
SHARE = Kind(_share, "PERCENT")
TEXT = Kind(_text, "TEXT")
WORDS = Kind(_words, "ARG")
TEXTS = Kind(_texts, "TEXT")
MULTIPLE = Kind(_multiple, "X", float)
AMOUNT = Kind(_amount, "X", float)
SWITCH = Kind(_switch, "")


@dataclass(frozen=True)
class Option:
    """One option.

    ``key`` is its name in the study file, ``flag`` on the command line; ``field`` that of
    :class:`tuner.model.StudySpec`, empty if it has none of its own. ``example`` is how the
    template of a study file sets it; ``usual`` names the default in the help. One
    that is ``repeatable`` takes a list.
    """

    key: str
    flag: str
    kind: Kind
    heading: str
    help: str
    example: str
    usual: str = ""
    field: str = ""
    metavar: str = ""
    repeatable: bool = False

    @property
    def default(self) -> Any:
        """Its value if nobody sets it; ``None``: it depends on the rest, or there is none."""
        return getattr(StudySpec, self.field) if self.field else None


OPTIONS = (
    Option(
        "mpi_procs", "--mpi-procs", _whole(), WHAT, "MPI ranks", "8", "one per GPU, without GPUs 2"
    ),
    Option("hosts", "--hosts", TEXT, WHAT, "Hosts of the ranks, with their slots", '"h1:4,h2:4"',
           "this host; in a Slurm allocation its nodes", metavar="H1:N,H2:N"),
    Option("hostfile", "--hostfile", TEXT, WHAT, "The same from Open MPI's or MPICH's hostfile",
           '"hosts"', metavar="FILE"),
    Option("hosts_from", "--hosts-from", WORDS, WHAT,
           "The same from what a command prints; asked again if a host is lost",
           '"./hosts.sh"', field="hosts_from", metavar="COMMAND"),
    Option("ppn", "--ppn", _whole(), WHAT, "Ranks on each host", "4", "its slots"),
    Option("more_ranks_than_slots", "--oversubscribe-hosts", SWITCH, WHAT,
           "Run more ranks on a host than it has slots", "true"),
    Option("ssh", "--ssh", WORDS, WHAT, "How other hosts are reached", '"ssh -F config"',
           "the launcher's own way", metavar="COMMAND"),
    Option("name", "--name", TEXT, WHAT, "The study's name", '"my_job"', "made from the program's",
           metavar="NAME"),
    Option("mpirun", "--mpirun", TEXT, WHAT, "Which mpirun starts the ranks",
           '"/opt/openmpi/bin/mpirun"', "TUNE_MPIRUN, else the program's own", metavar="PATH"),
    Option("launcher", "--launcher", TEXT, WHAT,
           "Kind of launcher: openmpi, mpich, srun or torchrun", '"torchrun"',
           "what is found first", metavar="KIND"),
    Option("mpirun_args", "--mpirun-arg", WORDS, WHAT,
           "More arguments for mpirun, split as a shell would; repeatable",
           '["--mca", "pml", "ob1"]', repeatable=True),
    Option("run_in_out", "--run-in-out", SWITCH, WHAT,
           "Run each launch in its own folder {out}: for a program that writes where it runs",
           "true"),
    Option("prepare", "--prepare", WORDS, WHAT,
           "Command to run before each launch, untimed; a running job's windows come without",
           "['rm', '-rf', 'cache']", field="prepare", metavar="COMMAND"),
    Option("wait_for_children", "--wait-for-children", SWITCH, WHAT,
           "A launch lasts until all that it started has ended: for a command that starts its work"
           " in the background", "true", field="wait_for_children"),
    Option("samples_per_run", "--samples-per-run", AMOUNT, WHAT,
           "Samples that one run (or iteration) processes: shows samples per second", "60000",
           field="items", metavar="N"),
    Option("price_per_hour", "--price-per-hour", AMOUNT, WHAT,
           "Price of all the hardware, in any currency: shows what a run costs", "4.1",
           field="price_per_hour"),
    Option("sampler", "--sampler", TEXT, SPACE,
           f"What suggests settings: {', '.join(SAMPLERS)}, or module:Class of yours",
           '"tpe"', "tune", field="sampler", metavar="NAME"),
    Option("pruner", "--pruner", TEXT, SPACE,
           f"What stops a launch early: {', '.join(PRUNERS)}, or module:Class of yours",
           '"none"', "race", field="pruner", metavar="NAME"),
    Option("learn_from", "--learn-from", TEXT, SPACE,
           "Start from what an earlier study in the same database showed: auto (the newest of the"
           " same program), its name, or none", '"none"', "auto", field="learn_from",
           metavar="STUDY"),
    Option("seed", "--seed", _whole(0, 2**32 - 1), SPACE, "Seed of the search", "0", "0",
           field="seed"),
    Option("oversubscription", "--oversubscribe", MULTIPLE, SPACE,
           "Skip settings that ask for more than X times the cores", "4",
           "4; with ranges of your own: no limit", field="oversubscription"),
    Option("require", "--require", TEXTS, SPACE,
           "Launch only settings for which this holds: a comparison of knobs and ranks, such as"
           " 'px * py * pz == ranks'; repeatable", '["px * py * pz == ranks"]', field="require",
           metavar="EXPRESSION", repeatable=True),
    Option("trials", "--trials", _whole(), LIMITS, "Try at most this many settings", "50", "50",
           field="trials"),
    Option("budget_s", "--budget", SECONDS, LIMITS,
           "End the search after this time; warm-ups and confirmation come on top", '"10m"',
           field="budget_s"),
    Option("min_gain", "--min-gain", SHARE, LIMITS,
           "End the search once the gain still expected is below this", '"1%"', "1%",
           field="until"),
    Option("terminator", "--terminator", TEXT, LIMITS,
           f"What ends the search before --trials: {', '.join(TERMINATORS)}, or module:Class of"
           " yours",
           '"none"', "tune", field="terminator", metavar="NAME"),
    Option("precision", "--precision", SHARE, LIMITS,
           "Settings that differ by less than this count as equal", '"2%"', "2%",
           field="precision"),
    Option("confirm", "--confirm", Kind(_confirm, "HOW"), LIMITS,
           "Launch the best setting and the baseline again: auto (as few as prove a gain), exact"
           " (by ranks alone), more (until the interval is narrow) or none",
           '"none"', "auto", field="confirm"),
    Option("compare", "--compare", Kind(_compare, "HOW"), LIMITS,
           "Launch these two side-by-side (both are there, and run by turns, in short slices), or"
           " in-turn (one after the other); auto: side by side unless something speaks against it",
           '"in-turn"', "auto", field="compare"),
    Option("live", "--live", Kind(_live, "WHEN"), LIMITS,
           "Measure many settings in one running job: auto (if it can), on or off", '"off"', "auto",
           field="live"),
    Option("max_time_s", "--max-time", SECONDS, LIMITS,
           "Stop a launch that is projected to take longer; it counts as slow",
           '"2m"', field="max_time_s"),
    Option("trial_limit_s", "--trial-limit", SECONDS, LIMITS,
           "End a launch that has taken longer; it counts as failed", '"5m"',
           field="trial_limit_s"),
    Option("stall_limit_s", "--stall-limit", SECONDS_OR_NONE, LIMITS,
           "Stop a launch in which nothing happens for this long; none: never", '"2m"', "2m",
           field="stall_limit_s"),
    Option("prepare_limit_s", "--prepare-limit", SECONDS, LIMITS,
           "End the study if --prepare takes longer before a launch", '"1h"', "10m",
           field="prepare_limit_s"),
    Option("warm_ups", "--warm-ups", _whole(0), LIMITS, "Launches at the start that do not count",
           "1", "1", field="warm_ups"),
)  # fmt: skip
BY_KEY = {option.key: option for option in OPTIONS}
