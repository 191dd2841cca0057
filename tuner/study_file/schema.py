"""The shape of a study file: its keys and what each may hold.

What a value is (a word, a time, a list) is checked here; what it means for a knob in
:mod:`tuner.study_file.mistakes`.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tuner import domains
from tuner import knobs as table
from tuner.errors import UsageError
from tuner.model import (
    OFF,
    ON,
    Choice,
    Domain,
    Env,
    Flag,
    Knob,
    LauncherOption,
    Live,
    ObjectiveSpec,
    Value,
)
from tuner.units import parse_share, parse_time_s

#: More than any figure that is asked for; a longer integer may be no float.
MOST = 1e15

# --- kinds of values -----------------------------------------------------------------------


def words(value: object) -> tuple[str, ...]:
    """A command: a list of words, or one string split as a shell would."""
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise PydanticCustomError("words", "a quotation is not closed") from error
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise PydanticCustomError("words", "must be a string or a list of strings")


def _names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        bad = [name for name in names if not re.fullmatch(r"[A-Za-z_]\w*", name)]
        if not bad:
            return tuple(names)
        raise PydanticCustomError("names", f"{bad[0]!r} is not the name of a variable")
    raise PydanticCustomError("names", "must be a name or a list of names")


def _value(value: object) -> Value:
    if isinstance(value, str):
        return value
    if type(value) is not int:
        raise PydanticCustomError("value", "must be a whole number or a string")
    if abs(value) > domains.MAX_INT:
        raise PydanticCustomError("value", "must be a whole number of up to 15 digits, or a string")
    return value


def _values(value: object) -> tuple[Value, ...]:
    if isinstance(value, list):
        return tuple(_value(item) for item in value)
    raise PydanticCustomError("values", "must be a list of whole numbers or strings")


def _conditions(value: object) -> dict[str, tuple[Value, ...]]:
    """Per knob the values with which the entry's own exists."""
    if isinstance(value, dict):
        if [] in value.values():
            raise PydanticCustomError("when", "must name at least one value of each knob")
        return {
            str(name): _values(listed if isinstance(listed, list) else [listed])
            for name, listed in value.items()
        }
    raise PydanticCustomError("when", "must be a table of knobs, each with its values")


def _seconds(value: object) -> float:
    """``90``, ``1.5`` or ``"90s"``, ``"2m"``, ``"1h"``, in seconds."""
    try:
        return parse_time_s("" if isinstance(value, bool) else str(value))
    except ValueError as error:
        message = 'must be a time above 0, such as 90, "90s" or "2m"'
        raise PydanticCustomError("seconds", message) from error


def _limit(value: object) -> float:
    """A time, or ``"none"``: infinity."""
    return math.inf if value == "none" else _seconds(value)


def _share(value: object) -> float:
    """``"2%"`` as 0.02."""
    try:
        return parse_share(value if isinstance(value, str) else "")
    except ValueError as error:
        message = 'must be a percentage between 0 % and 100 %, such as "2%"'
        raise PydanticCustomError("share", message) from error


def _number(value: object) -> float:
    """A finite number of at least 1."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= MOST:
        return float(value)
    raise PydanticCustomError("number", "must be a number of at least 1")


def _amount(value: object) -> float:
    """A finite number above 0."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST:
        return float(value)
    raise PydanticCustomError("amount", "must be a number above 0")


Words = Annotated[tuple[str, ...], BeforeValidator(words)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
AnyValue = Annotated[Any, BeforeValidator(_value)]
When = Annotated[dict[str, Any], BeforeValidator(_conditions)]
Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
SecondsOrNone = Annotated[float, BeforeValidator(_limit)]
Share = Annotated[float, BeforeValidator(_share)]
Amount = Annotated[float, BeforeValidator(_amount)]
Number = Annotated[float, BeforeValidator(_number)]


# --- the model -----------------------------------------------------------------------------


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ObjectiveEntry(_Table):
    """``[objective]``: how a launch's figure is read."""

    kind: str | None = None
    key: str | None = None
    statistic: str | None = None
    pattern: str | None = None
    unit: str | None = None
    maximize: bool | None = None
    filename: str | None = None
    loss_key: str | None = None

    def spec(self) -> ObjectiveSpec:
        """The objective, what is not said as it is by default."""
        return ObjectiveSpec(**self.model_dump(exclude_none=True))


class KnobEntry(_Table):
    """``[knobs.NAME]``: what of a knob is to differ from the tool's own table."""

    range: str | None = None
    values: Values | None = None
    fix: AnyValue | None = None
    default: AnyValue | None = None
    env: Names | None = None
    flag: str | None = Field(default=None, min_length=1)
    switch: str | None = Field(default=None, min_length=1)
    launcher_option: str | None = Field(default=None, min_length=1)
    when: When = {}
    changes_numerics: bool | None = None
    help: str | None = None

    def domain(self, where: str) -> Domain | None:
        """The values to try; ``None`` where the file leaves them to the tool."""
        if self.range is not None:
            return domains.parse_domain(self.range, where=f"{where}.range")
        if self.values is not None:
            return domains.check_domain(Choice(self.values), where=f"{where}.values")
        return None

    def route(self) -> Env | Flag | LauncherOption | None:
        """How the value reaches the program; ``None`` where the file does not say."""
        if self.env is not None:
            return Env(self.env)
        if self.switch is not None:
            return Flag(self.switch, switch=True)
        if self.launcher_option is not None:
            return LauncherOption(self.launcher_option)
        return Flag(self.flag) if self.flag is not None else None

    def knob(self, name: str, where: str) -> Knob:
        """The knob: the tool's row with this entry's changes, or one of the file's own."""
        known = table.knob(name) if table.is_known(name) else None
        domain = self.domain(where)
        if self.fix is not None:
            domain = Choice((self.fix,))
        if domain is None:
            if known is None and self.switch is None:
                raise UsageError(f"{where}: needs range, values or fix.")
            domain = known.domain if known else Choice((OFF, ON))
        row = known or Knob(name, domain, Flag())
        route = self.route()
        if route is not None:  # its own way is not the table's: it has other needs
            row = replace(row, route=route, launchers=(), needs=())
        return replace(
            row,
            domain=domain,
            help=self.help or row.help,
            default=self.default,
            when=tuple(self.when.items()) or row.when,
            changes_numerics=_first(self.changes_numerics, row.changes_numerics),
            neutral=OFF if self.switch is not None else row.neutral,
        )


def _first(given: bool | None, known: bool) -> bool:
    return known if given is None else given


class StudyFile(_Table):
    """A study file; what it leaves out comes from the command line or the defaults."""

    name: str | None = Field(default=None, min_length=1)
    command: Words | None = None
    job: Words | None = None
    mpirun: str | None = Field(default=None, min_length=1)
    launcher: str | None = Field(default=None, min_length=1)
    mpirun_args: Words = ()
    mpi_procs: int | None = Field(default=None, ge=1)
    trials: int | None = Field(default=None, ge=1)
    budget_s: Seconds | None = None
    until: Share | None = None
    precision: Share | None = None
    oversubscription: Number | None = None
    confirm: bool | None = None
    warm_ups: int | None = Field(default=None, ge=0)
    trial_limit_s: Seconds | None = None
    stall_limit_s: SecondsOrNone | None = None
    live: Live | None = None
    seed: int | None = Field(default=None, ge=0, lt=2**32)
    items: Amount | None = None
    price_per_hour: Amount | None = None
    objective: ObjectiveEntry = ObjectiveEntry()
    knobs: dict[str, KnobEntry] = {}
    left_out: dict[str, str] = {}
