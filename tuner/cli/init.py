"""``tune init``: a study file, out of the answers to a few questions or to be edited."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.types import FuncParamType

from tuner.cli import console, exits
from tuner.cli.base import TuneCommand, tail
from tuner.cli.options import option
from tuner.config.options import WORDS
from tuner.model.errors import UsageError

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
    from tuner.cli import outfile
    from tuner.config.study_file import parse, template
    from tuner.results.exporters import Export

    path, words = Path(file), tail(ctx)
    to_stdout = file in ("-", "/dev/stdout")
    if path.exists() and not force and not to_stdout:
        raise UsageError(f"{file} exists already", "name another file, or add --force")
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not to_stdout
    text = _study(words, asks) if asks or words is not None else template(path.stem)
    parse(text.encode(), file)
    if to_stdout:
        sys.stdout.write(text)
        return exits.OK
    outfile.write(path, Export(text=text))
    study = "" if file == "tune.toml" else f" --study {shlex.quote(file)}"
    then = "next" if asks or words is not None else "edit its command; next"
    console.err(f"wrote {file}; {then}: tune{study} --dry-run, then: tune{study}")
    return exits.OK


def _study(words: tuple[str, ...] | None, asks: bool) -> str:
    """A study file for a command; ``asks``: for what the user answers."""
    from tuner.config import first_study, program
    from tuner.config.spec import check_command
    from tuner.launch.command import OUT, placeholders

    if words is None:
        usual = next((f"python {x}" for x in ("train.py", "main.py") if Path(x).is_file()), None)
        read = FuncParamType(WORDS.read)
        words = click.prompt("Command, as you type it today", usual, type=read, err=True)
    keys, command = first_study.without_launcher(words)
    check_command(command, "to tune")
    program.check(command, environ=os.environ, cwd=Path.cwd())
    options = _options(command) if asks else {}
    if asks and "mpi_procs" not in keys:
        keys["mpi_procs"] = click.prompt("Ranks", 1, type=click.IntRange(1), err=True)
    source = Path(program.script_of(command) or os.devnull).read_text("utf-8", "replace")
    has_log = OUT in placeholders(command) or (OUT in options and "LogReport" in source)
    return first_study.study_text(keys, command, options, "logreport" if has_log else "wall")


def _options(command: Sequence[str]) -> dict[str, list[str]]:
    """The options that the program's ``--help`` names and ``tune`` may set, if the user agrees."""
    from tuner.config.first_study import proposals
    from tuner.hosts.process import run_tool
    from tuner.launch.command import OUT, shipped_dir, substitute
    from tuner.model.wording import failed_command

    own = {"python": sys.executable, "workloads": str(shipped_dir("workloads")), OUT: os.devnull}
    argv = (*substitute(command, own), "--help")
    if not click.confirm(f"Run `{shlex.join(argv)}` to find its options?", True, err=True):
        return {}
    found, problem = {}, ""
    try:
        done = run_tool(argv, timeout_s=HELP_LIMIT_S)
        found = proposals(done.stdout + done.stderr)
        if done.returncode:
            problem = f": {failed_command(done.returncode, done.stdout + done.stderr)}"
    except OSError as error:  # it cannot be started, or takes too long
        problem = f": {error.strerror or error}"
    for place, (name, *_) in found.items():
        console.err(f"  {name} {{{place}}}")
    if found:
        return found if click.confirm("Let tune set them?", True, err=True) else {}
    console.err(f"it names no option that tune can set{problem}")
    return {}
