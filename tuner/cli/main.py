"""The entry point: the one place where errors become text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tuner.cli import exits
from tuner.cli.app import cli, nearest
from tuner.model.errors import TunerError

if TYPE_CHECKING:
    from tuner.launch.secrets import Redactor
    from tuner.model import Result

#: The variable through which click's completion scripts call ``tune``.
COMPLETE = "_TUNE_COMPLETE"


def main(
    argv: Sequence[str] | None = None, command: click.Command = cli, program: str = "tune"
) -> int:
    """Run one command line; returns the exit code and never raises.

    Args:
        argv: The words after the program's name; those of the process by default.
        command: What runs them.
        program: What the command is called in its help.
    """
    _open_streams()
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run(args, command, program)
        sys.stdout.flush()
    except BrokenPipeError:
        return _quiet_pipe()
    except Exception as error:  # the last place: a traceback is a defect, never an answer
        return _report(error)
    except KeyboardInterrupt as interrupt:
        return _interrupted(interrupt)
    return code


def _open_streams() -> None:
    """Put /dev/null where stdin, stdout or stderr is closed (``2>&-``).

    Otherwise nothing could be said, and the next file to be opened, a database perhaps, would
    take the number 2 and with it all that is written to stderr.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode, number in (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _run(args: list[str], command: click.Command, program: str) -> int:
    if COMPLETE in os.environ:
        from tuner.cli.completion import complete

        return complete(os.environ[COMPLETE])
    try:
        with command.make_context(program, args) as ctx:
            code = command.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return code if isinstance(code, int) else exits.OK


def _report(error: Exception) -> int:
    """Print an error the way all errors look, and give its exit code."""
    if os.environ.get("TUNE_DEBUG") == "1":
        import traceback

        write_error(_hider().text("".join(traceback.format_exception(error))))
    if isinstance(error, TunerError):
        return say(error.message, error.hint, error.exit_code)
    if isinstance(error, click.ClickException):
        return say(*_click_error(error), exits.USAGE)
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return say(f"{error.strerror}{where}", "free space or change the path", exits.USAGE)
    return _defect(error)


def say(message: str, hint: str, code: int) -> int:
    """Write an error and its next step to stderr; returns ``code``."""
    red = bool(sys.stderr.isatty()) and not os.environ.get("NO_COLOR")
    label = "\x1b[1;31merror:\x1b[0m" if red else "error:"
    hider = _hider()
    lines = harmless(hider.text(message)).strip().splitlines() or ["unknown"]
    text = f"tune: {label} " + "\n  ".join(lines) + "\n"
    for number, line in enumerate(harmless(hider.text(hint)).strip().splitlines()):
        text += f"  {'next:' if number == 0 else '     '} {line}\n"
    write_error(text)
    return code


def _hider() -> Redactor:
    """Knows the secrets of this process; loaded for errors only."""
    from tuner.launch.secrets import Redactor

    return Redactor.of(os.environ, sys.argv)


def harmless(text: str) -> str:
    """Text of others without what would steer the terminal: control characters become ``?``."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)


def write_error(text: str) -> None:
    """Write to stderr; an encoding that lacks a letter must not make a second error."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def _click_error(error: click.ClickException) -> tuple[str, str]:
    """The message and next step for what click found wrong."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "tune"
    hint = f"`{path} --help` lists what it takes"
    if isinstance(error, click.NoSuchOption) and context is not None:
        known = [opt for param in context.command.get_params(context) for opt in param.opts]
        meant = nearest(error.option_name, [opt for opt in known if opt.startswith("--")])
        message = f"unknown option: {error.option_name}"
        return message, f"did you mean {meant}? {hint}" if meant else hint
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:], hint


def _interrupted(interrupt: KeyboardInterrupt) -> int:
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
    write_error(harmless(f"\ntune: {line}\n"))
    return exits.by_signal(number)


def _quiet_pipe() -> int:
    """The reader has gone (``tune show | head``): end without a word, as other tools do."""
    import signal

    # Python flushes stdout at its exit; that must not fail a second time.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.by_signal(signal.SIGPIPE)


def _defect(error: Exception) -> int:
    """An exception nobody foresaw: keep its traceback in a file and name the file."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="tune-error-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        hider = _hider()
        file.write(f"argv: {hider.words(sys.argv)!r}\npython: {sys.version}\n")
        file.write(hider.text("".join(traceback.format_exception(error))))
    return say(
        f"a defect in tune: {type(error).__name__}: {error}",
        f"please report it with {file.name}; nothing that was measured is lost",
        exits.DEFECT,
    )
