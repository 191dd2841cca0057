"""Every command that ``tune`` prints works as it stands."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

import tuner
from tuner.cli.app import COMMANDS, cli
from tuner.cli.base import split_tail


def printed_commands() -> set[str]:
    """``tune …`` in every text of the source, what is filled in as ``X``."""
    found: set[str] = set()
    for path in Path(tuner.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        filled = [node.values for node in nodes if isinstance(node, ast.JoinedStr)]
        parts = {id(part) for values in filled for part in values}
        texts = ["".join(str(part.value) if isinstance(part, ast.Constant) else "X"
                         for part in values) for values in filled]  # fmt: skip
        texts += [str(node.value) for node in nodes
                  if isinstance(node, ast.Constant) and id(node) not in parts]  # fmt: skip
        for text in texts:
            found |= set(re.findall(r"`(tune(?: [^`]*)?)`", text))
            found |= set(re.findall(r"(?m)(?:^|: )(tune (?:-|[a-z]+ )[^`\n]*)$", text))
    return found


def test_every_command_in_a_message_is_one_that_tune_takes() -> None:
    commands = printed_commands()
    assert len(commands) > 15
    for text in commands:
        line = re.split(r" [|>] | && | +# |[;,] ", text.replace("…", "").replace("...", ""))[0]
        if line.count("'") % 2 or line.count('"') % 2:
            continue  # the rest of a shell's line stands outside
        args = shlex.split(re.sub(r"\[([A-Z]+)\]", r"\1", line))[1:]
        args = ["3" if arg in ("RANKS", "X") and before.startswith("-") else arg
                for before, arg in zip(["", *args], args, strict=False)]  # fmt: skip
        if args and (args[0] in COMMANDS or args[0].startswith("-")):
            words_, rest = split_tail(args)
            name = words_.pop(0) if words_ and words_[0] in COMMANDS else "run"
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            parser = command.make_parser(click.Context(command))
            try:
                parser.parse_args([word for word in words_ if word != "--help"])
            except click.UsageError as error:
                pytest.fail(f"{text}: {error.message}")
            assert rest is None or getattr(command, "takes_tail", False)
