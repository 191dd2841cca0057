"""The ``tune`` command group: finds commands lazily, and takes ``tune [options]`` as ``tune run``.

Only click is imported here: ``tune --help`` and completion answer before anything heavy loads.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import click

from tuner.cli.base import EXAMPLES, TAIL, TYPED, split_tail, write_options, write_pairs
from tuner.model.errors import UsageError, nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Each command with its line in the help; its module is ``tuner.cli.<name>``.
COMMANDS = {
    "run": "Find the fastest setting (also without the word `run`).",
    "show": "Show a study: result, settings, what each knob contributes, failures.",
    "studies": "List the studies in the database, or delete one.",
    "export": "Export the best setting, for a shell, a program or a table.",
    "exec": "Run any command with the best setting.",
    "compare": "Compare two studies of one job, before and after a change.",
    "report": "Write a study as one HTML page with its figures.",
    "scale": "Measure how far a job scales over hosts or ranks, and what each is worth.",
    "dashboard": "Open the studies in the browser, behind a token.",
    "doctor": "Check this host: what would make a study fail, slow or noisy, and how to mend it.",
    "knobs": "List the knobs: what applies here, what does not, and why.",
    "init": "Write a study file for your command.",
    "demo": "Tune a small program that ships with tune, in about 30 seconds.",
    "explain": "Name what held a run back: best setting and baseline side by side.",
    "completion": "Print the completion script for bash, zsh or fish.",
}


class TuneGroup(click.Group):
    """The group ``tune`` imports its commands when they are asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, tail = split_tail(args)
        ctx.meta[TAIL], ctx.meta[TYPED] = tail, tuple(args)
        flags = ("-h", "--help", "--version")
        # While the first word is being completed, it may become a command.
        is_undecided = ctx.resilient_parsing and not words and tail is None
        if not is_undecided and (not words or (words[0].startswith("-") and words[0] not in flags)):
            words.insert(0, "run")
        return super().parse_args(ctx, words)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"tuner.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            suggestion = nearest(args[0], COMMANDS)
            hint = f"did you mean `tune {suggestion}`? " if suggestion else ""
            raise UsageError(
                f"unknown command: {args[0]}",
                f"{hint}the program to tune goes after `--`: tune -- {args[0]} ...",
            )
        return super().resolve_command(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for use in ("[OPTIONS]", "[OPTIONS] -- PROGRAM [ARGUMENTS]", "COMMAND [ARGUMENTS]"):
            formatter.write_usage("tune", use, prefix="Usage: " if use == "[OPTIONS]" else " " * 7)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, commands, then the options of ``tune run``, which are ``tune``'s own."""
        from tuner.cli.exits import MEANINGS

        write_pairs(formatter, "Examples", EXAMPLES)
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        run = self.get_command(ctx, "run")
        assert run is not None
        write_options([*run.params, *self.get_params(ctx)], ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl(MEANINGS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands, and the options of ``tune run``."""
        items = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            run = self.get_command(ctx, "run")
            assert run is not None
            items += run.shell_complete(click.Context(run, parent=ctx), incomplete)
        return items


cli = TuneGroup(
    name="tune",
    help=(
        "Find the fastest runtime setting for a distributed training job, compare it with"
        " your defaults, and hand it over ready to run."
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
click.version_option(
    package_name="runtime-tuner", message="tune %(version)s", help="Show the version."
)(cli)
