"""The base of every command: how it reads its words, and how its help looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tuner.hosts.typed_paths import require_text
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Keys of ``ctx.meta``, which all contexts share: the words after the first ``--``; all words.
TAIL, TYPED = "tuner.tail", "tuner.typed"

#: The hint for a user who forgot the ``--``.
BEHIND_DASHES = "put the program and its options after `--`: tune -n 4 -- python train.py"

EXAMPLES = (
    ("tune --mpi-procs 8 --trials 50", "tune the shipped ChainerMN MNIST trainer"),
    ("tune -n 4 -- python train.py --out {out} -j {iterator_workers}", "tune your own trainer"),
    ("tune export --format sh -o job.sh", "the whole job with the best setting, as a script"),
)


def split_tail(args: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Cut ``args`` at the first ``--``; the second part is ``None`` if there is none.

    Click would otherwise take ``tune … -- export`` for its own command ``export``.
    """
    words = list(args)
    if "--" not in words:
        return words, None
    dashes = words.index("--")
    return words[:dashes], tuple(words[dashes + 1 :])


def tail(ctx: click.Context) -> tuple[str, ...] | None:
    """Return the words after the first ``--`` of the command line, ``None`` without one."""
    words: tuple[str, ...] | None = ctx.meta.get(TAIL)
    return words


class GroupedOption(click.Option):
    """An option that stands under a heading in the help."""

    def __init__(self, *args: Any, heading: str = "Options", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.heading = heading


class TuneCommand(click.Command):
    """A command whose help is grouped by heading and ends with examples."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[tuple[str, str]] = (),
        takes_tail: bool = False,
        **attributes: Any,
    ) -> None:
        attributes.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)
        self.takes_tail = takes_tail

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give back the words after ``--`` to a command that has no use for them as a tail."""
        words = tail(ctx)
        if words is not None and not self.takes_tail and not ctx.resilient_parsing:
            args = [*args, "--", *words]
        ctx.allow_extra_args = self.takes_tail
        for word in args:
            require_text(word)
        rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        for param in self.get_params(ctx):
            value = ctx.params.get(param.name or "")
            is_typed = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
            if is_typed and "" in (value if isinstance(value, tuple) else (value,)):
                is_option = isinstance(param, click.Option)
                name = param.opts[0] if is_option else param.human_readable_name
                hint = "leave it out, or give it a value: is a variable unset?"
                raise UsageError(f"{name.strip('[]')} is empty", hint)
        if ctx.args:
            raise UsageError(f"unexpected words: {' '.join(ctx.args)}", BEHIND_DASHES)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self.get_params(ctx), ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_pairs(formatter, "Examples", self.examples)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options; after ``--`` the words are the user's own command: files."""
        if tail(ctx) is not None:
            from click.shell_completion import CompletionItem

            return [CompletionItem(incomplete, type="file")]
        return super().shell_complete(ctx, incomplete)


def write_options(
    params: Sequence[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write options under their headings, in the order of declaration, in one column.

    Arguments are left out: the usage line names them, and the text says what they are.
    """
    options = [param for param in params if isinstance(param, click.Option)]
    headings = {option.heading for option in options if isinstance(option, GroupedOption)}
    default_heading = "Other options" if headings - {"Options"} else "Options"
    sections: dict[str, list[tuple[str, str]]] = {}
    for option in options:
        record = option.get_help_record(ctx)
        if record is not None:
            heading = option.heading if isinstance(option, GroupedOption) else default_heading
            sections.setdefault(heading, []).append(record)
    width = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
    for heading, rows in sections.items():
        with formatter.section(heading):
            formatter.write_dl([(name.ljust(width), text) for name, text in rows], col_max=40)


def write_pairs(
    formatter: click.HelpFormatter, heading: str, rows: Sequence[tuple[str, str]]
) -> None:
    """Write command lines, each with what it does below it: never wrapped, to be copied."""
    if rows:
        with formatter.section(heading):
            for line, meaning in rows:
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
                formatter.write(f"{'':>{formatter.current_indent}}    {meaning}\n")
