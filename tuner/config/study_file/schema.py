"""The shape of a study file: its keys and what each may hold.

What a value is (a word, a time, a list) is checked by
:mod:`tuner.config.study_file.kinds`; what it means for a knob by
:mod:`tuner.config.study_file.mistakes`.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from tuner import knobs as table
from tuner.config.study_file.kinds import (
    Amount,
    AnyValue,
    Names,
    Number,
    Seconds,
    SecondsOrNone,
    Share,
    Values,
    When,
    Words,
)
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
    Live,
    ObjectiveSpec,
)
from tuner.model.errors import UsageError


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
