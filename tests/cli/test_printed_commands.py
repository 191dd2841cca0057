"""Every command that ``tune`` prints works as it stands."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

import tuner
from tests.cli.conftest import Tune, store_study
from tests.study_samples import study
from tuner.cli import options
from tuner.cli.app import COMMANDS, cli
from tuner.cli.base import split_tail
from tuner.results import words
from tuner.results.dashboard import web_server


@pytest.mark.system
def test_the_commands_at_the_end_of_a_run_and_of_a_report_work_word_for_word(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = study()
    database = store_study(tmp_path / "my tune.db", data)
    monkeypatch.setattr(options, "spec_of", lambda *_: data.spec)
    monkeypatch.setattr("tuner.study.tuning.tune", lambda *_, **__: data.result)
    monkeypatch.setattr(web_server.DashboardServer, "serve", lambda self: None)
    end = tune("-q", "--storage", str(database)).out.partition("Next")[2]
    printed = re.findall(r"^  (tune .*?)(?:   .*)?$", end, re.MULTILINE)
    assert [line.split()[1] for line in printed] == ["export", "exec", "show", "dashboard"]
    reported = [line for line, _ in words.use(data, data.result.storage)]
    for line in (*printed, *reported):
        args = shlex.split(line.replace("COMMAND", "true"))[1:]
        if args[0] == "dashboard":
            args += ["--port", "0"]
        monkeypatch.setenv("TUNE_STORAGE", str(database))
        args = [str(database) if arg == data.result.storage else arg for arg in args]
        done = tune(*args)
        assert done.code == 0, (line, done.err)


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
