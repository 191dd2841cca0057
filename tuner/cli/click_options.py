"""The options that several commands share, and those of a study, made from their table."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuner.cli.base import GroupedOption
from tuner.config.options import BY_KEY, LIMITS, OPTIONS, WORDS, Option
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tuner.model import StudySpec

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]

PLACE = "Where it is kept"  # these three are headings of the help
OUTPUT = "Output"
COMPARED = "What to compare"


def option(
    *names: str, heading: str = "Options", **attributes: Any
) -> Callable[[Function], Function]:
    """Return a click option under ``heading`` in the help."""
    return click.option(*names, cls=GroupedOption, heading=heading, **attributes)


# --- what is completed -----------------------------------------------------------------------


def study_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of stored studies; none if no database can be read at once."""
    from tuner.store.urls import study_names as stored_names

    names = stored_names(ctx.params.get("storage"), os.environ)
    keywords = ["auto", "none"] if param.name == "learn_from" else []
    return [name for name in [*names, *keywords] if name.startswith(incomplete)]


def knob_names(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete the names of knobs."""
    from click.shell_completion import CompletionItem

    from tuner.knobs import KNOBS

    return [CompletionItem(k.name, help=k.help) for k in KNOBS if k.name.startswith(text)]


def _completion(choices: Sequence[str]) -> Callable[..., list[str]] | None:
    return (lambda _c, _p, text: [c for c in choices if c.startswith(text)]) if choices else None


# --- options of several commands, one row each -----------------------------------------------

_SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "storage": (("--storage",), {
        "metavar": "URL|FILE", "envvar": "TUNE_STORAGE",
        "help": "The database [TUNE_STORAGE, else studies/tune.db]."}),
    "run_dir": (("--run-dir",), {
        "metavar": "FOLDER", "help": "Folder of the launches' own folders [beside the database]."}),
    "join": (("--join",), {
        "metavar": "STUDY", "shell_complete": study_names,
        "help": "Measure a part of a study's search on this host; the study is on a server"
        " (--storage URL)."}),
    "fresh": (("--fresh",), {"is_flag": True, "help": "Delete the stored study and start anew."}),
    "wait": (("--wait",), {
        "is_flag": True, "help": "Wait while another study runs on this host."}),
    "json": (("--json", "as_json"), {
        "is_flag": True, "help": "Print JSON (docs/export-schema.md)."}),
    "quiet": (("--quiet", "-q"), {"is_flag": True, "help": "No progress, only the result."}),
}  # fmt: skip


def shared(*names: str, heading: str = "Options") -> Callable[[Function], Function]:
    """Return options that are the same for every command."""
    rows = map(_SHARED.__getitem__, names)
    return _in_order([option(*flags, heading=heading, **attributes) for flags, attributes in rows])


def study_argument() -> Callable[[Function], Function]:
    """Return the argument ``[STUDY]``: the latest study if none is named."""
    return click.argument("study", required=False, shell_complete=study_names, metavar="[STUDY]")


# --- the options of a study ------------------------------------------------------------------

#: The completions after options of the table that do not name their choices, by key.
_COMPLETIONS: dict[str, Callable[..., Any]] = {
    "learn_from": study_names,
    **dict.fromkeys(("knobs", "fixes", "baselines"), knob_names),
}


def _table_option(row: Option) -> Decorator:
    """Return an option of :mod:`tuner.config.options`."""
    attributes: dict[str, Any] = {"type": row.kind.typed, "multiple": row.repeatable}
    if not row.kind.metavar:
        attributes = {"is_flag": True}
    elif row.metavar in {"FILE", "PATH"}:
        attributes["type"] = click.Path()  # which the shell completes
    elif row.kind is WORDS and row.repeatable:  # the file splits it as a shell would
        attributes["callback"] = lambda _ctx, _param, texts: " ".join(texts) or None
    return option(
        *(["-n"] if row.key == "mpi_procs" else []),
        row.flag,
        row.key,
        default=None,
        heading=row.heading,
        metavar=row.metavar or row.kind.metavar or None,
        help=f"{row.help} [{row.usual}]." if row.usual else f"{row.help}.",
        shell_complete=_COMPLETIONS.get(row.key) or _completion(row.kind.choices),
        **attributes,
    )


def _in_order(decorators: Sequence[Decorator]) -> Callable[[Function], Function]:
    """Return one decorator of several: the options stand in the order given."""

    def decorate(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def table_options(*keys: str) -> Callable[[Function], Function]:
    """Return options of the table, for commands that are no study."""
    return _in_order([_table_option(replace(BY_KEY[key], heading="Options")) for key in keys])


HOST_OPTIONS = ("hosts", "hostfile", "hosts_from", "ssh")
LAUNCHER_OPTIONS = ("mpirun", "launcher")

SCALE_OPTIONS: tuple[Decorator, ...] = (
    option("--setting", heading=COMPARED, metavar="NAME=VALUE,...",
           help="Tune nothing: launch this (as by --fix) with each layout; defaults: your"
           " own."),
    option("--rounds", heading=COMPARED, metavar="N", type=click.IntRange(1, 1000), default=6,
           help="Pairs of launches of two layouts, at most [6]."),
    option("--weak", heading=COMPARED, is_flag=True,
           help="The program's work grows with the ranks."),
    option("--price-per-hour", heading=COMPARED, metavar="X", type=float,
           help="Price of a host, in any currency."),
)  # fmt: skip


def study_options(
    *, without: Collection[str] = (), extra: Sequence[Decorator] = ()
) -> Callable[[Function], Function]:
    """Return the ``extra`` options, then those of a study ``without`` some of the table."""
    rows = [_table_option(row) for row in OPTIONS if row.key not in without]
    no_confirm = option("--no-confirm", "confirm", flag_value="none", default=None,
                        heading=LIMITS, help="Short for --confirm none.")  # fmt: skip
    return _in_order([*extra, *rows, no_confirm])


def spec_of(options: dict[str, Any], words: tuple[str, ...] | None, **facts: Any) -> StudySpec:
    """Build the study from the options, the words after ``--``, the study file and ``facts``."""
    from tuner.cli import console
    from tuner.config import spec, study_file

    if words == ():
        raise UsageError("there is no program after `--`", "tune -- python train.py --out {out}")
    file, source = study_file.find_study_file(
        options["study_file"], cwd=Path.cwd(), has_command=words is not None
    )
    if source == study_file.LOCAL_NAME and options["study_file"] is None and not facts:
        console.err(f"tune: using ./{source} (another: --study FILE)")
    return spec.build_spec(file=file, source=source, command=words, options=options, **facts)
