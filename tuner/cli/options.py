"""Options and value types that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuner.cli.base import GroupedOption
from tuner.model.errors import UsageError
from tuner.model.units import parse_limit_s, parse_share, parse_time_s

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    NumberType = click.ParamType[float]
    TextType = click.ParamType[str]
else:  # generic from click 8.4 on only
    NumberType = TextType = click.ParamType

Function = TypeVar("Function", bound=Callable[..., Any])


class _Measure(NumberType):
    """A number as text with its unit; what cannot be read is the user's error."""

    meaning: str
    examples: str
    parse: Callable[[str], float]

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the text; a number is a default, and stays."""
        if isinstance(value, float):
            return value
        try:
            return self.parse(str(value))
        except ValueError as error:
            where = param.opts[0] if param is not None else self.name
            raise UsageError(
                f"{where}: not a {self.meaning}: {value!r}", f"examples: {self.examples}"
            ) from error


class Seconds(_Measure):
    """A time: ``90``, ``90s``, ``1.5m``, ``2h``; gives seconds."""

    name = "time"
    meaning, examples = "positive time", "90, 90s, 1.5m, 2h"
    parse = staticmethod(parse_time_s)


class SecondsOrNone(_Measure):
    """A time, or ``none``: infinity."""

    name = "time"
    meaning, examples = "positive time", "90, 90s, 1.5m, 2h, none"
    parse = staticmethod(parse_limit_s)


class Percent(_Measure):
    """A share in per cent: ``2%``, ``0.5 %``; gives 0.02, 0.005."""

    name = "percent"
    meaning, examples = "percentage between 0 % and 100 %", "2%, 0.5%"
    parse = staticmethod(parse_share)


class StudyName(TextType):
    """The name of a stored study; only its completion is special."""

    name = "study"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names of the studies in the database, the latest first."""
        from tuner.cli.completion import study_names

        return study_names(ctx.params.get("storage"), incomplete)


class KnobDomain(TextType):
    """``NAME=DOMAIN`` or ``NAME=VALUE``; only its completion is special."""

    name = "name=value"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names of the knobs."""
        from tuner.cli.completion import knob_names

        return knob_names(incomplete)


def option(
    *names: str, heading: str = "Options", **attributes: Any
) -> Callable[[Function], Function]:
    """A click option that stands under ``heading`` in the help."""
    return click.option(*names, cls=GroupedOption, heading=heading, **attributes)


def storage_option(heading: str = "Options") -> Callable[[Function], Function]:
    """``--storage``, the same for every command."""
    return option(
        "--storage",
        metavar="URL|FILE",
        envvar="TUNE_STORAGE",
        heading=heading,
        help="The database [TUNE_STORAGE, else studies/tune.db].",
    )


def json_option(heading: str = "Options") -> Callable[[Function], Function]:
    """``--json``, the same for every command."""
    return option(
        "--json",
        "as_json",
        is_flag=True,
        heading=heading,
        help="Print JSON (docs/export-schema.md).",
    )


def study_argument() -> Callable[[Function], Function]:
    """``[STUDY]``: the latest one where it is not given."""
    return click.argument("study", required=False, type=StudyName(), metavar="[STUDY]")
