"""The shape of a study: the keys of a study file and what each may hold.

What an option may hold is in :mod:`tuner.config.options`; what a value means for its knob is
checked by :mod:`tuner.config.study_file`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from tuner import knobs as table
from tuner.config.options import OPTIONS, WORDS
from tuner.knobs import domains
from tuner.model import (
    OFF,
    ON,
    Choice,
    Domain,
    Env,
    Flag,
    Knob,
    LauncherOption,
    ObjectiveSpec,
    Value,
)
from tuner.model.errors import UsageError


def _names(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names)):
        raise ValueError("must be a name or a list of names")
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is not the name of a variable")
    return tuple(names)


def _value(value: object) -> Value:
    if not isinstance(value, str) and type(value) is not int:
        raise ValueError("must be a whole number or a string")
    if isinstance(value, int) and abs(value) > domains.MAX_INT:
        raise ValueError("must be a whole number of up to 15 digits, or a string")
    return value


def _values(value: object) -> tuple[Value, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of whole numbers or strings")
    return tuple(_value(item) for item in value)


def _conditions(value: object) -> dict[str, tuple[Value, ...]]:
    """Per knob the values with which the entry's own exists."""
    if not isinstance(value, dict):
        raise ValueError("must be a table of knobs, each with its values")
    if [] in value.values():
        raise ValueError("must name at least one value of each knob")
    return {
        str(name): _values(listed if isinstance(listed, list) else [listed])
        for name, listed in value.items()
    }


Names = Annotated[Any, BeforeValidator(_names)]
AnyValue = Annotated[Any, BeforeValidator(_value)]
Values = Annotated[Any, BeforeValidator(_values)]
Conditions = Annotated[Any, BeforeValidator(_conditions)]
Words = Annotated[Any, BeforeValidator(WORDS.read)]


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
        """The objective; what the entry leaves out has its default."""
        return ObjectiveSpec(**self.model_dump(exclude_none=True))


class KnobEntry(_Table):
    """``[knobs.NAME]``: how a knob differs from the tool's own table."""

    range: str | None = None
    values: Values = None
    fix: AnyValue = None
    baseline: AnyValue = None
    env: Names = None
    flag: str | None = Field(default=None, min_length=1)
    switch: str | None = Field(default=None, min_length=1)
    launcher_option: str | None = Field(default=None, min_length=1)
    when: Conditions = {}
    changes_numerics: bool | None = None
    help: str | None = None

    @property
    def has_own_values(self) -> bool:
        """True if the entry says which values are tried."""
        return self.range is not None or self.values is not None or self.fix is not None

    def knob(self, name: str, where: str) -> Knob:
        """The knob: the tool's row with this entry's changes, or one of the file's own."""
        table_row = table.knob(name) if table.is_known(name) else None
        domain: Domain
        if self.fix is not None:
            domain = Choice((self.fix,))
        elif self.range is not None:
            domain = domains.parse_domain(self.range, where=f"{where}.range")
        elif self.values is not None:
            domain = domains.check_domain(Choice(self.values), where=f"{where}.values")
        elif table_row is not None:
            domain = table_row.domain
        elif self.switch is not None:
            domain = Choice((OFF, ON))
        else:
            raise UsageError(f"{where}: needs range, values or fix")
        row = table_row or Knob(name, domain, Flag())
        route = self.route()
        if route is not None:  # a route of the user's own does not need what the table's needs
            row = replace(row, route=route, launchers=(), needs=())
        numerics = self.changes_numerics
        return replace(
            row,
            domain=domain,
            help=self.help or row.help,
            default=self.baseline,
            when=tuple(self.when.items()) or row.when,
            changes_numerics=row.changes_numerics if numerics is None else numerics,
            neutral=OFF if self.switch is not None else row.neutral,
        )

    def route(self) -> Env | Flag | LauncherOption | None:
        """How the value reaches the program; ``None`` if the file does not say."""
        if self.env is not None:
            return Env(self.env)
        if self.switch is not None:
            return Flag(self.switch, switch=True)
        if self.launcher_option is not None:
            return LauncherOption(self.launcher_option)
        return Flag(self.flag) if self.flag is not None else None


class Study(_Table):
    """A study as the file and the command line say it; each option of the table is a field."""

    command: Words = ()
    job: Words = ()
    objective: ObjectiveEntry = ObjectiveEntry()
    knobs: dict[str, KnobEntry] = {}
    left_out: dict[str, str] = {}

    def option(self, key: str) -> Any:
        """The value of an option of :mod:`tuner.config.options`, or its default."""
        return getattr(self, key)


#: The same with the options as fields, so that one validation finds every mistake.
STUDY: type[Study] = create_model(
    "STUDY",
    __base__=Study,
    **{
        option.key: (Annotated[Any, BeforeValidator(option.kind.read)], option.default)
        for option in OPTIONS
    },  # type: ignore[call-overload]
)

#: The keys that each table knows, by the table's name; the file itself has none.
KEYS = {
    "": tuple(STUDY.model_fields),
    "knobs": tuple(KnobEntry.model_fields),
    "objective": tuple(ObjectiveEntry.model_fields),
}
