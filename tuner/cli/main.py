"""The entry point: the one place where errors become text and an exit code."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tuner.cli import console, exits
from tuner.cli.app import cli
from tuner.cli.base import BEHIND_DASHES, TuneCommand, tail
from tuner.model.errors import TunerError, UsageError, nearest

if TYPE_CHECKING:
    from tuner.model import Result

#: At most so many frames of a traceback are shown: its last ones.
MOST_FRAMES = 30

#: The variable through which click's completion scripts call ``tune``.
COMPLETE = "_TUNE_COMPLETE"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code, and never raise.

    Without ``argv``, the words after the program's name, the process is the command's own.
    """
    _open_streams()
    owns_process = argv is None
    if owns_process:
        # SIGHUP and SIGINT stay ignored if they are: the user means it (`nohup`, `&`). With SIGTERM
        # ignored nobody could end `tune`; with SIGCHLD ignored it could not wait for its children.
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
    try:
        code = _run_or_report(list(sys.argv[1:] if argv is None else argv), owns_process)
    except BrokenPipeError:  # the reader has gone (`tune show | head`)
        code = exits.by_signal(signal.SIGPIPE)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            console.discard(stream)  # Python writes what is left at its exit
    return code


def _run_or_report(args: list[str], owns_process: bool) -> int:
    """Run a command line; return its exit code, or that of the error that it ended with."""
    try:
        try:
            code = _run(args)
            sys.stdout.flush()
        finally:
            if owns_process and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                # From now on Ctrl-C ends the process without a traceback, while Python exits.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort) as interrupt:
        return _report_interrupt(interrupt)
    except Exception as error:  # the last place: a traceback is a defect, never an answer
        return _report(error)
    return code


def _open_streams() -> None:
    """Put /dev/null in the place of a closed stdin, stdout or stderr (``2>&-``).

    Otherwise the next file to be opened, a database perhaps, would take its number. A letter that
    an encoding lacks (a log in latin-1) must not end the study.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # stderr does the same by default


def _run(args: list[str]) -> int:
    """Run the command that the words name, and return its exit code."""
    if COMPLETE in os.environ:
        from tuner.cli.completion import complete

        return complete(os.environ[COMPLETE])
    try:
        with cli.make_context("tune", args) as ctx:
            try:
                os.getcwd()  # noqa: PTH109 (pathlib costs start-up time)
            except OSError as error:
                raise UsageError(
                    f"the current folder cannot be used: {error.strerror} (it was deleted or"
                    " moved)",
                    "cd to a folder that exists, and type the command again",
                ) from error
            code = cli.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return code if isinstance(code, int) else exits.OK


def _report(error: Exception) -> int:
    """Print an error the way all errors look, and give its exit code."""
    is_foreseen = True
    message, hint, code = str(error), "", exits.USAGE
    if isinstance(error, TunerError):
        message, hint, code = error.message, error.hint, error.exit_code
    elif isinstance(error, click.ClickException):
        message, hint = _click_error(error)
    elif isinstance(error, OSError) and error.errno in _NEXT_STEPS:
        where = f": {error.filename}" if error.filename else ""
        message, hint = f"{error.strerror}{where}", _NEXT_STEPS[error.errno]
    else:
        is_foreseen, code = False, exits.DEFECT
        message = f"a defect in tune: {type(error).__name__}: {error}"
        hint = "please report it with the lines above; nothing that was measured is lost"
    from tuner.launch.secrets import Redactor

    redactor = Redactor.of(os.environ, sys.argv)
    if not is_foreseen or os.environ.get("TUNE_DEBUG") == "1":
        import traceback

        trace = traceback.format_exception(error, limit=-MOST_FRAMES)
        for line in redactor.text("".join(trace)).splitlines():
            console.err(line)
    is_red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = "\x1b[1;31merror:\x1b[0m" if is_red else "error:"
    text = "\n  ".join(_lines(redactor.text(message))) or "unknown"
    next_steps = "\n        ".join(_lines(redactor.text(hint)))
    console.write_error(f"tune: {label} {text}\n" + (next_steps and f"  next: {next_steps}\n"))
    return code


def _lines(text: str) -> list[str]:
    return [console.harmless(line) for line in text.strip().split("\n") if text.strip()]


#: What the user can do about errors of the system that no other code has handled.
_NEXT_STEPS = {
    **dict.fromkeys(
        (
            *(errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS),
            *(errno.EIO, errno.ESTALE),
        ),
        "free space or give yourself the permission, or name another place with --storage,"
        " --run-dir or -o",
    ),
    errno.EFBIG: "raise the limit of a file's size: ulimit -f unlimited",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files: ulimit -n 4096"),
    errno.ENOMEM: "free memory, and type the same command again",
}


def _click_error(error: click.ClickException) -> tuple[str, str]:
    """Return the message and the next step for an error that click has raised."""
    context: click.Context | None = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tune"
    hint = f"`{path} --help` lists its options"
    if isinstance(error, click.NoSuchOption) and context is not None:
        options = [opt for param in context.command.get_params(context) for opt in param.opts]
        command = context.command
        if isinstance(command, TuneCommand) and command.takes_tail and tail(context) is None:
            hint += f"\n{BEHIND_DASHES}"
        suggestion = nearest(error.option_name, [opt for opt in options if opt.startswith("--")])
        message = f"unknown option: {error.option_name}"
        return message, f"did you mean {suggestion}? {hint}" if suggestion else hint
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:], hint


def _report_interrupt(interrupt: BaseException) -> int:
    """Say in one line what is kept and how to go on; return the exit code of the signal."""
    from tuner.model import figures, wording

    result: Result | None = getattr(interrupt, "result", None)
    line = "interrupted"
    if result is not None:
        measured = result.launches_measured
        kept = f"{wording.count(measured, 'measurement')} kept"
        line += f"; {kept if measured else 'nothing was measured yet'}"
        if result.best is not None and result.best.elapsed_s is not None:
            time = figures.shown(result.objective, result.best.elapsed_s)
            line += f", best so far: {result.best.setting}, {time}"
        line += "; the same command continues (without --fresh, --remeasure)"
    console.write_error(f"\ntune: {console.harmless(line)}\n")
    return exits.by_signal(getattr(interrupt, "signal_number", signal.SIGINT))
