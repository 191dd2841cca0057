"""``tune completion``: the script for a shell, and the answers to what that script asks."""

from __future__ import annotations

from typing import Any

import click

from tuner.cli.app import cli
from tuner.cli.base import TuneCommand
from tuner.model.errors import UsageError

SHELLS = ("bash", "zsh", "fish")

_HOW = {
    "bash": 'eval "$(tune completion bash)"     in ~/.bashrc',
    "zsh": 'eval "$(tune completion zsh)"      in ~/.zshrc, after compinit',
    "fish": "tune completion fish > ~/.config/fish/completions/tune.fish",
}


@click.command(
    "completion",
    cls=TuneCommand,
    help="Print the completion script for a shell.",
    examples=tuple((line, f"for {shell}") for shell, line in _HOW.items()),
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a completion script."""
    complete(f"{shell}_source")


def complete(instruction: str) -> int:
    """Answer a completion script (``bash_complete``) or print one (``bash_source``)."""
    from click.shell_completion import shell_complete

    shell, _, action = instruction.partition("_")
    if shell not in SHELLS or action not in ("source", "complete"):
        raise UsageError(
            f"completion is asked for {instruction!r}, which is not a shell's",
            'eval "$(tune completion bash)" sets it up anew',
        )
    _mend_click()
    return shell_complete(cli, {}, "tune", "_TUNE_COMPLETE", instruction)


def _mend_click() -> None:
    """What click's own scripts lack."""
    from click import shell_completion as of_click

    class Bash(of_click.BashComplete):
        # After `omp_threads=` no space: what follows is part of the same word.
        source_template = of_click.BashComplete.source_template.replace(
            "    return 0\n",
            "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n    return 0\n",
        )

        @staticmethod
        def _check_version() -> None:
            """The script is printed for whichever bash will read it, not for the one here."""

    class Zsh(of_click.ZshComplete):
        def format_completion(self, item: Any) -> str:
            item.value = item.value or "_"  # the script takes three lines that are not empty
            return super().format_completion(item)

    for shell in (Bash, Zsh):
        of_click.add_completion_class(shell)
