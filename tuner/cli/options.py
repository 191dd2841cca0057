"""Options and value types that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuner.cli.base import GroupedOption
from tuner.errors import UsageError
from tuner.units import parse_share, parse_time_s

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    NumberType = click.ParamType[float]
    TextType = click.ParamType[str]
else:  # generic from click 8.4 on only
    NumberType = TextType = click.ParamType

Function = TypeVar("Function", bound=Callable[..., Any])


class Seconds(NumberType):
    """A time limit: ``90``, ``90s``, ``1.5m``, ``2h``; gives seconds."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the text; anything but a positive finite time is refused."""
        if isinstance(value, float):
            return value
        try:
            return parse_time_s(str(value))
        except ValueError as error:
            where = param.opts[0] if param is not None else "time"
            raise UsageError(
                f"{where}: not a positive time: {value!r}", "examples: 90, 90s, 1.5m, 2h"
            ) from error


class Percent(NumberType):
    """A share in per cent: ``2%``, ``0.5 %``; gives 0.02, 0.005."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the text; anything but a percentage above 0 and below 100 is refused."""
        if isinstance(value, float):
            return value
        try:
            return parse_share(str(value))
        except ValueError as error:
            where = param.opts[0] if param is not None else "percentage"
            raise UsageError(
                f"{where}: not a percentage between 0 % and 100 %: {value!r}", "examples: 2%, 0.5%"
            ) from error


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
