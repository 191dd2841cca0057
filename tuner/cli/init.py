"""``tune init``: a study file, out of the answers to a few questions or to be edited."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path

import click

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
@option("--yes", "-y", is_flag=True, help="Ask nothing, and do not start the program.")
@click.pass_context
def command(ctx: click.Context, file: str, force: bool, yes: bool) -> int:
    """Write a study file."""
    from tuner.cli import outfile
    from tuner.config.study_file import parse, template
    from tuner.results.exporters import Export

    path, words = Path(file), tail(ctx)
    to_stdout = file in ("-", "/dev/stdout")
    if path.exists() and not force and not to_stdout:
        raise UsageError(f"{file} exists already", "name another file, or add --force")
    asks = sys.stdin.isatty() and sys.stderr.isatty() and not (yes or to_stdout)
    try:
        text = _study(words, asks) if asks or words is not None else template(path.stem)
    except (click.Abort, KeyboardInterrupt):
        console.err("\ntune: interrupted; nothing is written")
        return exits.by_signal(signal.SIGINT)
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
    """A study file for a command: if ``asks``, of what the user answers, else of what is usual."""
    from tuner.config import first_study, program
    from tuner.config.spec import check_command
    from tuner.hosts.process import run_tool
    from tuner.launch.command import OUT, placeholders, shipped_dir, substitute
    from tuner.model.wording import failed_command

    if words is None:
        usual = next((f"python {x}" for x in ("train.py", "main.py") if Path(x).is_file()), None)
        read = click.types.FuncParamType(WORDS.read)
        words = click.prompt("Command, as you type it today", usual, type=read, err=True)
    keys, command = first_study.without_launcher(words)
    check_command(command, "to tune")
    program.check(command, environ=os.environ, cwd=Path.cwd())
    own = {"python": sys.executable, "workloads": str(shipped_dir("workloads")), OUT: os.devnull}
    argv = (*substitute(command, own), "--help")
    source = Path(program.script_of(argv) or os.devnull).read_text("utf-8", "replace")
    if [*words] == command and re.search(r"(?m)^\s*(import|from) torch\b", source):
        keys["launcher"] = "torchrun"
    said, question = "", f"Run `{shlex.join(argv)}` to find its options?"
    if asks and click.confirm(question, True, err=True):
        try:
            done = run_tool(argv, timeout_s=HELP_LIMIT_S)
            said = done.stdout + done.stderr
            fails = done.returncode or not said.strip()
            problem = f": {failed_command(done.returncode, said)}" if fails else ""
        except OSError as error:  # it cannot be started, or takes too long
            problem = f": {error.strerror or error}"
        if not first_study.proposals(said):
            console.err(f"it names no option that tune can set{problem}")
    options = first_study.proposals(said)
    names = {each[0]: place for place, each in options.items() if place not in first_study.NUMERICS}
    for name, place in names.items():
        console.err(f"  {name} {{{place}}}")

    def chosen(answer: str) -> list[str]:
        if unknown := {*answer.split()} - {*names, "none"}:
            raise click.UsageError(f"{' '.join(unknown)}: not one of {' '.join(names)}, or none")
        return answer.split()

    if names:
        kept = click.prompt("For tune to set", " ".join(names), value_proc=chosen, err=True)
        kept += [options[place][0] for place in first_study.NUMERICS & options.keys()]
        options = {place: each for place, each in options.items() if each[0] in kept}
    if asks and "mpi_procs" not in keys:
        keys["mpi_procs"] = click.prompt("Ranks", 1, type=click.IntRange(1), err=True)
    has_log = OUT in placeholders(command) or (OUT in options and "LogReport" in source + said)
    usual = "logreport" if has_log else "wall"
    if asks:
        usual = click.prompt("Objective: wall, logreport or pattern:REGEX", usual, err=True)
    kind, colon, pattern = usual.partition(":")
    objective: dict[str, object] = {"kind": kind, **({"pattern": pattern} if colon else {})}
    if asks and colon:
        objective["maximize"] = click.confirm("Is a larger figure better?", err=True)
    return first_study.study_text(keys, command, options, objective)
