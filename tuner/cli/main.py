"""The entry point: the one place where errors become text and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli import console, exits, own_process
from tuner.cli.app import cli, nearest
from tuner.cli.base import BEHIND_DASHES, TuneCommand, tail
from tuner.model.errors import TunerError

if TYPE_CHECKING:
    from tuner.launch.secrets import Redactor
    from tuner.model import Result

#: How much of a traceback is kept: its last frames, and letters.
MOST_FRAMES, MOST_TEXT = 30, 20_000

#: The variable through which click's completion scripts call ``tune``.
COMPLETE = "_TUNE_COMPLETE"


def main(
    argv: Sequence[str] | None = None, command: click.Command = cli, program: str = "tune"
) -> int:
    """Run one command line; returns the exit code and never raises.

    Args:
        argv: The words after the program's name; without them the process is the command's own:
            its words, its streams and its signals.
        command: What runs them.
        program: What the command is called in its help.
    """
    _open_streams()
    if argv is None:
        own_process.take_over()
    try:
        return _answer(list(sys.argv[1:] if argv is None else argv), command, program, argv is None)
    except BrokenPipeError:
        return _quiet_pipe()


def _answer(args: list[str], command: click.Command, program: str, is_own: bool) -> int:
    try:
        try:
            code = _run(args, command, program)
            sys.stdout.flush()
        finally:
            if is_own:
                own_process.end_at_once()
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort) as interrupt:
        return _interrupted(interrupt)
    except Exception as error:  # the last place: a traceback is a defect, never an answer
        return _report(error)
    return code


def _open_streams() -> None:
    """Put /dev/null in the place of a closed stdin, stdout or stderr (``2>&-``).

    Otherwise the next file to be opened, a database perhaps, would take its number, and what is
    written to stderr would go into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest number
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _run(args: list[str], command: click.Command, program: str) -> int:
    if COMPLETE in os.environ:
        from tuner.cli.completion import complete

        return complete(os.environ[COMPLETE])
    try:
        with command.make_context(program, args) as ctx:
            own_process.require_usable()
            code = command.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return code if isinstance(code, int) else exits.OK


def _report(error: Exception) -> int:
    """Print an error the way all errors look, and give its exit code."""
    if os.environ.get("TUNE_DEBUG") == "1":
        import traceback

        write_error(_redactor().text("".join(traceback.format_exception(error))))
    if isinstance(error, TunerError):
        return say(error.message, error.hint, error.exit_code)
    if isinstance(error, click.ClickException):
        return say(*_click_error(error), exits.USAGE)
    if isinstance(error, MemoryError):
        return say(*own_process.out_of_memory(), exits.STOPPED)
    if isinstance(error, OSError) and error.errno in _NEXT:
        where = f": {error.filename}" if error.filename else ""
        return say(f"{error.strerror}{where}", _NEXT[error.errno], exits.USAGE)
    return _defect(error)


#: What to do about the errors of the system that no place foresaw but the user can mend.
_NEXT = {
    errno.ENOSPC: "free space there, or name another place with --storage, --run-dir or -o",
    errno.EDQUOT: "free space within your quota, or name another place with --storage or --run-dir",
    errno.EACCES: "give yourself the permission, or name another place",
    errno.EPERM: "give yourself the permission, or name another place",
    errno.EROFS: "name a place that can be written, with --storage, --run-dir or -o",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
    errno.ENFILE: "the whole machine has too many open files: close some programs",
    errno.ENOMEM: "free memory, and type the same command again",
}


def say(message: str, hint: str, code: int) -> int:
    """Write an error and its next step to stderr; returns ``code``."""
    red = bool(sys.stderr.isatty()) and not os.environ.get("NO_COLOR")
    label = "\x1b[1;31merror:\x1b[0m" if red else "error:"
    redactor = _redactor()
    lines = _lines(redactor.text(message)) or ["unknown"]
    text = f"tune: {label} " + "\n  ".join(lines) + "\n"
    for number, line in enumerate(_lines(redactor.text(hint))):
        text += f"  {'next:' if number == 0 else '     '} {line}\n"
    write_error(text)
    return code


def _lines(text: str) -> list[str]:
    return [console.harmless(line) for line in text.strip().split("\n") if text.strip()]


def _redactor() -> Redactor:
    """Knows the secrets of this process; loaded for errors only."""
    from tuner.launch.secrets import Redactor

    return Redactor.of(os.environ, sys.argv)


def write_error(text: str) -> None:
    """Write to stderr; an encoding that lacks a letter must not make a second error."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def _click_error(error: click.ClickException) -> tuple[str, str]:
    """The message and next step for what click found wrong."""
    context: click.Context | None = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tune"
    hint = f"`{path} --help` lists its options"
    if isinstance(error, click.NoSuchOption) and context is not None:
        options = [opt for param in context.command.get_params(context) for opt in param.opts]
        command = context.command
        if isinstance(command, TuneCommand) and command.takes_tail and tail(context) is None:
            hint += f"\n{BEHIND_DASHES}"
        meant = nearest(error.option_name, [opt for opt in options if opt.startswith("--")])
        message = f"unknown option: {error.option_name}"
        return message, f"did you mean {meant}? {hint}" if meant else hint
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:], hint


def _interrupted(interrupt: BaseException) -> int:
    """Say in one line what is kept and how to go on; gives the signal's code."""
    import signal

    from tuner.model import figures, wording

    number = getattr(interrupt, "signal_number", signal.SIGINT)
    result: Result | None = getattr(interrupt, "result", None)
    line = "interrupted"
    if result is not None:
        measured = result.launches_measured
        kept = f"{wording.count(measured, 'measurement')} kept"
        line += f"; {kept if measured else 'nothing was measured yet'}"
        if result.best is not None and result.best.elapsed_s is not None:
            shown = figures.shown(result.objective, result.best.elapsed_s)
            best = f"{result.best.setting}, {shown}"
            line += f", best so far: {best}"
        line += "; the same command continues (without --fresh, --remeasure)"
    write_error(f"\ntune: {console.harmless(line)}\n")
    return exits.by_signal(number)


def _quiet_pipe() -> int:
    """The reader has gone (``tune show | head``): end without a word, as other tools do."""
    import signal

    own_process.discard(sys.stdout.fileno())
    return exits.by_signal(signal.SIGPIPE)


def _defect(error: Exception) -> int:
    """An exception nobody foresaw: keep its traceback in a file and name the file."""
    import tempfile
    import traceback

    redactor = _redactor()
    text = f"argv: {redactor.words(sys.argv)!r}\npython: {sys.version}\n"
    text += redactor.text("".join(traceback.format_exception(error, limit=-MOST_FRAMES)))
    # One file a user, put in the place of the last one: nobody else's link there is followed.
    path = Path(tempfile.gettempdir()) / f"tune-error-{os.getuid()}.txt"
    try:
        handle, draft = tempfile.mkstemp(prefix="tune-error-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text[-MOST_TEXT:])
            Path(draft).replace(path)
        except OSError:
            Path(draft).unlink(missing_ok=True)
            raise
        hint = f"please report it with {path}; nothing that was measured is lost"
    except OSError:
        hint = "TUNE_DEBUG=1 shows where: please report it; nothing that was measured is lost"
    return say(f"a defect in tune: {type(error).__name__}: {error}", hint, exits.DEFECT)
