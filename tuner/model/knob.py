"""Knobs and settings: what can be varied, and one choice of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Value = int | str

#: The value of an environment knob that removes its variables instead of setting them.
UNSET = "unset"

#: The values of a switch: its option is given or left out.
ON, OFF = "on", "off"

#: The value that stands for an even share of a host's cores for each rank.
SHARE = "share"

#: The knob that counts the MPI ranks on each host, and the placeholder of their number.
RANKS = "ranks"

#: A knob exists if each of these other knobs, as far as it is tuned too, has one of these values.
When = tuple[tuple[str, tuple[Value, ...]], ...]


@dataclass(frozen=True)
class IntRange:
    """The integers ``low..high``, both included; ``high="cores"`` is the usable cores."""

    low: int
    high: int | str


@dataclass(frozen=True)
class Choice:
    """Named alternatives, the order as the user gave it."""

    values: tuple[Value, ...]


Domain = IntRange | Choice


@dataclass(frozen=True)
class Env:
    """The value goes into each of these environment variables of every rank.

    ``also`` are variables that are set along with them, always to the same text. ``texts`` are the
    texts of values in the variables, where that is not the value itself; an empty text removes the
    variables, as :data:`UNSET` does.
    """

    names: tuple[str, ...]
    also: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[Value, str], ...] = ()

    def assigned(self, value: Value) -> dict[str, str]:
        """Return the variables of a value; none if they are removed."""
        texts = {UNSET: "", **dict(self.texts)}
        if texts.get(value) == "":
            return {}
        return {**dict.fromkeys(self.names, texts.get(value, str(value))), **dict(self.also)}


@dataclass(frozen=True)
class Flag:
    """The value reaches the program by argument.

    ``option`` (``--loaderjob``) is appended with the value if the command has no
    ``{knob}`` placeholder; with ``option=None`` the command must have the placeholder.
    A ``switch`` takes no value: for :data:`ON` the option alone is given, for :data:`OFF` it is
    left out, be it appended or the one before the placeholder.
    """

    option: str | None = None
    switch: bool = False


@dataclass(frozen=True)
class LauncherOption:
    """An abstract option (``bind_to``) that each launcher puts into its MPI's own words."""

    option: str


@dataclass(frozen=True)
class Prefix:
    """The words of the value stand before the program of every rank; :data:`UNSET` has none.

    They call a program that changes its own process and becomes the rank's, as ``numactl`` does.
    """

    words: tuple[tuple[Value, tuple[str, ...]], ...]


@dataclass(frozen=True)
class RankCount:
    """The value is the number of MPI ranks on each host."""


Route = Env | Flag | LauncherOption | Prefix | RankCount


@dataclass(frozen=True)
class Knob:
    """One thing that can be set for a launch.

    ``default`` is used for the baseline if the command cannot do without a value
    (a positional placeholder); ``None`` leaves the knob out of the baseline.
    """

    name: str
    domain: Domain
    route: Route
    help: str = ""
    default: Value | None = None
    changes_numerics: bool = False
    live: bool = False
    gpu_values: tuple[Value, ...] = ()  # those that work only with a GPU for each rank
    why: str = ""  # why it can matter
    source: str = ""  # where that, or the knob's meaning, is documented
    neutral: Value | None = None  # the value that changes nothing
    when: When = ()  # in which settings it exists at all
    launchers: tuple[str, ...] = ()  # the kinds of launchers that it works with; empty: all
    needs: tuple[str, ...] = ()  # what a host must have, by names of tuner.config.applicability
    usual: bool = False  # it joins each study that names no knobs

    @property
    def way_to_program(self) -> str:
        """How its value reaches the program, in words."""
        match self.route:
            case Env(names):
                return " ".join(names)
            case Flag(option):
                return option or f"{{{self.name}}} in the command"
            case LauncherOption(option):
                return f"the launcher's {option.replace('_', '-')}"
            case Prefix():
                return "words before the program"
        return "the launcher's number of ranks, and {ranks} in the command"

    def departs(self, value: Value) -> bool:
        """Return whether the program computes something else with this value than by default."""
        return self.changes_numerics and value not in (self.neutral, self.default, UNSET)


@dataclass(frozen=True)
class Setting:
    """A value for each knob, sorted by knob name; hashable.

    The empty setting is the baseline: the user's environment untouched.
    """

    items: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> Setting:
        """Build a setting from a mapping or pairs, in any order."""
        return cls(tuple(sorted(dict(values).items())))

    def as_dict(self) -> dict[str, Value]:
        """Return the values by knob name."""
        return dict(self.items)

    @property
    def is_baseline(self) -> bool:
        """True if no knob is set."""
        return not self.items

    def to_json(self) -> str:
        """Return a canonical text form: the same setting gives the same text."""
        return json.dumps(dict(self.items), sort_keys=True)

    def __str__(self) -> str:
        if self.is_baseline:
            return "defaults"
        return " ".join(f"{name}={value}" for name, value in self.items)


BASELINE = Setting()
