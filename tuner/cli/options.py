"""The options that several commands share, and those of a study, made from their table."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tuner.cli.base import GroupedOption
from tuner.config.options import (
    BY_KEY,
    COMPARE,
    CONFIRM,
    LIMITS,
    OPTIONS,
    PRUNERS,
    SAMPLERS,
    SPACE,
    TERMINATORS,
    WHAT,
    WORDS,
    Option,
)
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tuner.model import StudySpec

Function = TypeVar("Function", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list["CompletionItem"] | list[str]]

PLACE = "Where it is kept"
OUTPUT = "Output"
COMPARED = "What to compare"


def option(
    *names: str, heading: str = "Options", **attributes: Any
) -> Callable[[Function], Function]:
    """A click option under ``heading`` in the help."""
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
    """``[STUDY]``: the latest one if none is named."""
    return click.argument("study", required=False, shell_complete=study_names, metavar="[STUDY]")


def study_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of stored studies; none if no database can be read at once."""

    from tuner.store.urls import study_names as stored_names

    names = stored_names(ctx.params.get("storage"), os.environ)
    return [name for name in names if name.startswith(incomplete)]


def files_and_studies(ctx: click.Context, param: click.Parameter, text: str) -> Any:
    """Complete files, and the names of stored studies."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(text, type="file"), *map(CompletionItem, study_names(ctx, param, text))]


def knob_names(ctx: click.Context, param: click.Parameter, text: str) -> list[CompletionItem]:
    """Complete the names of knobs; of an option with a value also its ``=``."""
    from click.shell_completion import CompletionItem

    from tuner.knobs import KNOBS

    end = "=" if isinstance(param, click.Option) else ""
    return [
        CompletionItem(f"{knob.name}{end}", help=knob.help)
        for knob in KNOBS
        if knob.name.startswith(text)
    ]


def _one_of(names: Collection[str]) -> Complete:
    return lambda ctx, param, text: [name for name in names if name.startswith(text)]


launcher_names = _one_of(("openmpi", "mpich", "srun", "torchrun"))


def launcher_options(function: Function) -> Function:
    """``--mpirun`` and ``--launcher``, for commands that are no study."""
    mpirun_help = "Which mpirun [TUNE_MPIRUN, else the one found]."
    kinds = "openmpi, mpich, srun or torchrun [what is found]."
    by_kind = option("--launcher", metavar="KIND", shell_complete=launcher_names, help=kinds)
    return option("--mpirun", metavar="PATH", help=mpirun_help)(by_kind(function))


#: Of the table, for commands that are no study.
HOST_OPTIONS = ("hosts", "hostfile", "hosts_from", "ssh")


def host_options(function: Function) -> Function:
    """What names hosts and reaches them, for commands that are no study."""
    rows = [replace(BY_KEY[key], heading="Options") for key in HOST_OPTIONS]
    return _all([_of_table(row) for row in rows])(function)


def _shipped_studies(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    from tuner.launch.command import shipped_dir

    names = sorted(path.stem for path in shipped_dir("studies").glob("*.toml"))
    return [name for name in names if text and name.startswith(text)]  # else files


def _lessons(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    names = [*study_names(ctx, param, text), "auto", "none"]
    return [name for name in names if name.startswith(text)]


#: What is completed after an option of the table.
_COMPLETIONS: dict[str, Complete] = {
    "launcher": launcher_names,
    "live": _one_of(("auto", "on", "off")),
    "confirm": _one_of(CONFIRM),
    "compare": _one_of(COMPARE),
    "sampler": _one_of(SAMPLERS),
    "learn_from": _lessons,
    "pruner": _one_of(PRUNERS),
    "terminator": _one_of(TERMINATORS),
}


def _split(_ctx: click.Context, _param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """The words of all the texts, each split as a shell would."""
    words: list[str] = []
    for text in texts:
        try:
            words += WORDS.read(text)
        except ValueError as error:
            raise UsageError(
                f"--mpirun-arg {text}: {error}", "quote a blank that belongs to a word"
            ) from error
    return tuple(words)


def _of_table(row: Option) -> Callable[[Function], Function]:
    """An option of :mod:`tuner.config.options`, which says all but how it is completed."""
    attributes: dict[str, Any] = {"type": row.kind.typed} if row.kind.metavar else {"is_flag": True}
    if row.repeatable:
        attributes["multiple"] = True
        attributes |= {"callback": _split} if row.kind is WORDS else {}
    usual = f" [{row.usual}]" if row.usual else ""
    return option(
        *(["-n"] if row.key == "mpi_procs" else []),
        row.flag,
        row.key,
        default=None,
        heading=row.heading,
        metavar=row.metavar or row.kind.metavar or None,
        help=f"{row.help}{usual}.",
        shell_complete=_COMPLETIONS.get(row.key),
        **attributes,
    )


#: What a study file says in tables of its own, or not at all: names, heading, metavar, help.
_OF_RUN: tuple[tuple[tuple[str, ...], str, str, str, dict[str, Any]], ...] = (
    (("--study", "study_file"), WHAT, "FILE",
     "Study file [tune.toml in this folder, else the shipped chainer_mnist.toml].",
     {"shell_complete": _shipped_studies}),
    (("--objective",), WHAT, "KIND",
     "Where the figure comes from: logreport[:KEY|:steady], pattern:REGEX or wall [logreport].",
     {"shell_complete": _one_of(("logreport", "logreport:steady", "pattern:", "wall"))}),
    (("--log",), WHAT, "FILE",
     "The log file inside {out} [log]; for a pattern: the file to search, not the output.", {}),
    (("--unit",), WHAT, "UNIT",
     "Unit of a key or a pattern: us, ms, s, min, h are times; any other is shown as it is.", {}),
    (("--maximize",), WHAT, "", "A larger figure is better (a rate).",
     {"is_flag": True, "default": None}),
    (("--knob", "knobs"), SPACE, "NAME[=DOMAIN]",
     "Tune a knob beside the usual ones: omp_threads=1..16, communicator=naive,flat, bind_to (see"
     " tune knobs); repeatable.", {"multiple": True, "shell_complete": knob_names}),
    (("--env-knob", "env_knobs"), SPACE, "VARIABLE=DOMAIN",
     "Tune a variable of the environment: MALLOC_ARENA_MAX=1,2,4; repeatable.",
     {"multiple": True}),
    (("--all-knobs",), SPACE, "", "Tune every knob that applies here and keeps the numerics.",
     {"is_flag": True}),
    (("--fix", "fixes"), SPACE, "NAME=VALUE", "Hold a knob at one value; repeatable.",
     {"multiple": True, "shell_complete": knob_names}),
    (("--baseline", "baselines"), SPACE, "NAME=VALUE",
     "The value of a placeholder in the baseline; repeatable.",
     {"multiple": True, "shell_complete": knob_names}),
    (("--no-confirm", "confirm"), LIMITS, "", "Short for --confirm none.",
     {"flag_value": "none", "default": None}),
)  # fmt: skip

_OF_PLACE: tuple[tuple[tuple[str, ...], str, str, str, dict[str, Any]], ...] = (
    (("--run-dir",), PLACE, "FOLDER", "Folder of the launches' own folders [beside the database].",
     {}),
    (("--join",), PLACE, "STUDY",
     "Measure a part of a study's search on this host; the study is on a server (--storage URL).",
     {"shell_complete": study_names}),
    (("--fresh",), PLACE, "", "Delete the stored study and start anew.", {"is_flag": True}),
    (("--wait",), PLACE, "", "Wait while another study runs on this host.", {"is_flag": True}),
)  # fmt: skip

OF_SCALE: tuple[tuple[tuple[str, ...], str, str, str, dict[str, Any]], ...] = (
    (("--setting",), COMPARED, "NAME=VALUE,...",
     "Tune nothing: launch this setting with each layout, by pairs; defaults: your own.", {}),
    (("--rounds",), COMPARED, "N", "Pairs of launches with --setting, at most [6].",
     {"type": click.IntRange(1, 1000), "default": 6}),
    (("--ppn",), COMPARED, "N,N,...", "Compare these numbers of ranks on each host.", {}),
    (("--weak",), COMPARED, "", "The program's work grows with the ranks.", {"is_flag": True}),
    (("--price-per-hour",), COMPARED, "X|FILE",
     "Price of a host, in any currency; or a file with a line `h1 1.20` for each.", {}),
    (("--job-iterations",), COMPARED, "N", "Iterations of the whole job: shows its time and cost.",
     {"type": click.IntRange(1)}),
    (("-o", "--output", "filename"), OUTPUT, "FILE", "Write a page with a figure as well.", {}),
)  # fmt: skip


def study_options(
    *, without: Collection[str] = (), more: Sequence[Any] = ()
) -> Callable[[Function], Function]:
    """``more`` rows, then every option of a study but for those of the table in ``without``."""
    first, *rest = [_of_table(row) for row in OPTIONS if row.key not in without]
    return _all([*_of_rows(more), first, *_of_rows(_OF_RUN), *rest])


def place_options(*, without: Collection[str] = ()) -> Callable[[Function], Function]:
    """Where a study is kept; without the flags that are named."""
    rows = [row for row in _OF_PLACE if row[0][0] not in without]
    return _all([storage_option(PLACE), *_of_rows(rows)])


def quiet_option() -> Callable[[Function], Function]:
    """``--quiet``."""
    return option(
        "--quiet", "-q", is_flag=True, heading=OUTPUT, help="No progress, only the result."
    )


def _of_rows(rows: Sequence[Any]) -> list[Callable[[Any], Any]]:
    return [
        option(*names, heading=heading, metavar=metavar or None, help=text, **more)
        for names, heading, metavar, text, more in rows
    ]


def _all(decorators: list[Callable[[Any], Any]]) -> Callable[[Function], Function]:
    """One decorator of several: the options stand in the order given."""

    def decorate(function: Function) -> Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def spec_of(given: dict[str, Any], words: tuple[str, ...] | None, **facts: Any) -> StudySpec:
    """Build the study from the options, the words after ``--``, the study file and ``facts``."""
    from tuner.cli import console
    from tuner.config import spec, study_file

    if words == ():
        raise UsageError("there is no program after `--`", "tune -- python train.py --out {out}")
    file, source = study_file.find_study_file(
        given["study_file"], cwd=Path.cwd(), has_command=words is not None
    )
    if source == study_file.LOCAL_NAME and given["study_file"] is None and not facts:
        console.err(f"tune: using ./{source} (another: --study FILE)")
    return spec.build_spec(file=file, source=source, command=words, options=given, **facts)
