"""``tune init``: a study file, out of the answers to a few questions or to be edited."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.types import FuncParamType

from tuner.cli import console, exits
from tuner.cli.base import TuneCommand, tail
from tuner.cli.click_options import option
from tuner.config.options import WORDS
from tuner.hosts.typed_paths import require_text, typed_path
from tuner.model.errors import UsageError
from tuner.model.wording import failed_command

#: A ``--help`` that takes longer is ended, s: to import PyTorch may take a while.
HELP_LIMIT_S = 60.0


@click.command(
    "init",
    cls=TuneCommand,
    takes_tail=True,
    help="Write a study file. On a terminal tune asks for your command, reads the program's own"
    " --help, and puts placeholders after the options that it can set. Elsewhere, and for -"
    " (stdout), it writes an example with every key. Without --study, `tune` uses tune.toml in the"
    " current folder.",
    examples=(
        ("tune init && tune", "from no file to the first study"),
        ("tune init my.toml -- mpirun -n 8 python train.py", "for this command"),
    ),
)
@click.argument("file", required=False, default="tune.toml", type=click.Path())
@option("--force", is_flag=True, help="Overwrite a file that exists.")
@click.pass_context
def command(ctx: click.Context, file: str, force: bool) -> int:
    """Write a study file."""
    from tuner.cli import outfile, standard_input
    from tuner.config.study_file import parse, template
    from tuner.results.exporters import Export

    path, words = typed_path(file, "the file"), tail(ctx)
    to_stdout = file in ("-", "/dev/stdout")
    if path.exists() and not force and not to_stdout:
        raise UsageError(f"{file} exists already", "name another file, or add --force")
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not to_stdout
    is_template = words is None and not asks
    text = template(path.stem) if is_template else _study_text(words, asks)
    parse(text.encode(), file)
    if to_stdout:
        sys.stdout.write(text)
        return exits.OK
    # A study file does not name the program's input: that is the standard input of `tune`.
    input_file = None if is_template else standard_input.file_at_input()
    outfile.write(path, Export(text=text))
    study = "" if file == "tune.toml" else f" --study {shlex.quote(file)}"
    step = "edit its command; next" if is_template else "next"
    redirected = f" < {shlex.quote(str(input_file))}" if input_file else ""
    console.err(f"wrote {file}; {step}: tune{study} --dry-run, then: tune{study}{redirected}")
    return exits.OK


def _study_text(words: tuple[str, ...] | None, asks: bool) -> str:
    """Return a study file for a command; if it ``asks``, for what the user answers."""
    from tuner.config import first_study, program
    from tuner.config.spec import check_command
    from tuner.config.typed_launch import typed_launch
    from tuner.launch.command import OUT, placeholders
    from tuner.launch.launch_line import LAUNCHERS, launch_line
    from tuner.launch.secrets import refuse_secrets

    if words is None:
        default = next((f"python {x}" for x in ("train.py", "main.py") if Path(x).is_file()), None)
        kind = FuncParamType(WORDS.read)
        words = click.prompt("Command, as you type it today", default=default, type=kind, err=True)
    for word in words:
        require_text(word)
    refuse_secrets(words, os.environ)
    line = launch_line(words)
    keys: dict[str, Any] = {}
    command: Sequence[str] = words
    if line is not None and line.name in LAUNCHERS:
        keys, command = typed_launch(line, os.environ)
    check_command(command, "to tune")
    program.check(command, environ=os.environ, cwd=Path.cwd())
    options = _options(command) if asks else {}
    if line is None:
        ranks = click.prompt("Ranks", default=1, type=click.IntRange(1), err=True) if asks else 1
        keys["mpi_procs"] = ranks
        keys |= {"launcher": "none"} if ranks == 1 else {}  # no MPI need be installed
    source = Path(program.script_of(command) or os.devnull).read_text("utf-8", "replace")
    has_log = OUT in placeholders(command) or (OUT in options and "LogReport" in source)
    return first_study.study_text(keys, command, options, "logreport" if has_log else "wall")


def _options(command: Sequence[str]) -> dict[str, list[str]]:
    """Return the options of the program's ``--help`` that ``tune`` can set, if it may ask."""
    from tuner.config.first_study import proposals
    from tuner.hosts.process import run_tool
    from tuner.launch.command import OUT, shipped_dir, substitute

    values = {"python": sys.executable, "workloads": str(shipped_dir("workloads")), OUT: os.devnull}
    argv = (*substitute(command, values), "--help")
    if not click.confirm(f"Run `{shlex.join(argv)}` to find its options?", default=True, err=True):
        return {}
    options, problem = {}, ""
    try:
        process = run_tool(argv, timeout_s=HELP_LIMIT_S)
        options = proposals(process.stdout + process.stderr)
        if process.returncode:
            problem = f": {failed_command(process.returncode, process.stdout + process.stderr)}"
    except OSError as error:  # the program cannot be started, or takes too long
        problem = f": {error.strerror or error}"
    for placeholder, (name, *_) in options.items():
        console.err(f"  {name} {{{placeholder}}}")
    if not options:
        console.err(f"it names no option that tune can set{problem}")
    return options
