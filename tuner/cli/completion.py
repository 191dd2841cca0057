"""``tune completion``: the script for a shell, which click writes."""

from __future__ import annotations

import click
from click.shell_completion import shell_complete

from tuner.cli.app import cli
from tuner.cli.base import TuneCommand


@click.command(
    "completion",
    cls=TuneCommand,
    help="Print the completion script for a shell.",
    examples=(
        ('eval "$(tune completion bash)"', "in ~/.bashrc"),
        ('eval "$(tune completion zsh)"', "in ~/.zshrc, after compinit"),
        ("tune completion fish > ~/.config/fish/completions/tune.fish", "once"),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print a completion script."""
    return complete(f"{shell}_source")


def complete(instruction: str) -> int:
    """Answer a completion script (``bash_complete``) or print one (``bash_source``)."""
    return shell_complete(cli, {}, "tune", "_TUNE_COMPLETE", instruction)
