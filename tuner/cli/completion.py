"""``tune completion``: the script for a shell, and the answers to what that script asks."""

from __future__ import annotations

import os
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
    _use_whole_words()
    return shell_complete(cli, {}, "tune", "_TUNE_COMPLETE", instruction)


def _use_whole_words() -> None:
    """Complete the value in ``--option=value`` and ``name=value``, which click does in part."""
    from click import shell_completion as of_click

    class WholeWords(of_click.ShellComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[Any]:
            option, sign, value = incomplete.partition("=")
            if not (sign and option.startswith("--")):
                return super().get_completions(args, incomplete)
            found = super().get_completions([*args, option], value)
            return [of_click.CompletionItem(f"{option}={x.value}", x.type, x.help) for x in found]

    class Bash(WholeWords, of_click.BashComplete):
        # Bash cuts words at = and : and replaces the last part only: the whole line and that part
        # are handed over. After `omp_threads=` no space: what follows is part of the same word.
        source_template = of_click.BashComplete.source_template.replace(
            '"${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD',
            '"${COMP_LINE:0:COMP_POINT}" COMP_CWORD="$2"',
        ).replace(
            "    return 0\n",
            "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n    return 0\n",
        )
        cut = 0

        @staticmethod
        def _check_version() -> None:
            """The script is printed for whichever bash will read it, not for the one here."""

        def get_completion_args(self) -> tuple[list[str], str]:
            line = os.environ["COMP_WORDS"]
            words = [*of_click.split_arg_string(line), *([""] if line[-1:].isspace() else [])]
            self.cut = max(0, len(words[-1]) - len(os.environ["COMP_CWORD"]))
            return words[1:-1], words[-1]

        def format_completion(self, item: Any) -> str:
            return f"{item.type},{item.value[self.cut :]}"

    class Zsh(WholeWords, of_click.ZshComplete):
        source_template = of_click.ZshComplete.source_template.replace(
            "        _describe -V unsorted completions_with_descriptions -U\n",
            "        local -a suffix\n"
            "        [[ $completions_with_descriptions[1] == *=:* ]] && suffix=(-S '')\n"
            '        _describe -V unsorted completions_with_descriptions -U "${suffix[@]}"\n',
        )

        def format_completion(self, item: Any) -> str:
            item.value = item.value or "_"  # the script takes three lines that are not empty
            return super().format_completion(item)

    class Fish(WholeWords, of_click.FishComplete):
        # Texts have commas, too.
        source_template = of_click.FishComplete.source_template.replace(
            'string split ","', 'string split -m 1 ","'
        )

    for each in (Bash, Zsh, Fish):
        of_click.add_completion_class(each)
