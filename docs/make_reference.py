"""Writes docs/reference.md, docs/tune.1 and docs/schema.json from the program itself.

python docs/make_reference.py            (or: make docs)
"""

from __future__ import annotations

import os
from configparser import ConfigParser
from pathlib import Path

from click import Command
from click.testing import CliRunner

from make_schema import schema
from tuner.cli.app import COMMANDS, cli
from tuner.cli.exits import MEANINGS
from tuner.cli.knobs import conditions, values
from tuner.knobs import KNOBS
from tuner.model import Env, IntRange, Knob

DOCS = Path(__file__).resolve().parent


def reference() -> str:
    """The whole page."""
    parts = [
        "# Reference\n\nMade from `tune --help` and the table of knobs by `make docs`.\n",
        "## `tune`\n\n" + _help(),
        *(f"## `tune {name}`\n\n" + _help(name) for name in COMMANDS if name != "run"),
        "## Knobs\n\n" + _knobs(),
        "## Study files\n\n`tune init` writes this; every key is optional but `command`.\n\n"
        + _fenced("toml", _template()),
    ]
    return "\n".join(parts)


def man_page() -> str:
    """The same commands for ``man tune``: their help as it is printed."""
    parts = [
        f'.TH TUNE 1 "" "tuner {_version()}" "User Commands"\n.SH NAME\n'
        "tune \\- find the fastest runtime setting for a distributed training job, and prove it\n",
        _section("SH", "COMMANDS", ()),
        *(_section("SS", f"tune {name}", (name,)) for name in COMMANDS if name != "run"),
        ".SH EXIT STATUS\n",
        *(f".TP\n.B {code}\n{_escaped(meaning)}\n" for code, meaning in MEANINGS),
        ".SH SEE ALSO\n.BR mpirun (1)\n",
    ]
    return "".join(parts)


def _section(level: str, title: str, words: tuple[str, ...]) -> str:
    text = _escaped(_printed(*words, width=71))
    # A point or an apostrophe at the start of a line would be a request.
    lines = (f"\\&{line.rstrip()}" for line in text.strip("\n").splitlines())
    return f".{level} {title}\n.nf\n" + "\n".join(lines) + "\n.fi\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def _version() -> str:
    """That of this checkout, whichever is installed."""
    setup = ConfigParser()
    setup.read(DOCS.parent / "setup.cfg")
    return setup["metadata"]["version"]


def _help(*words: str) -> str:
    return _fenced("text", _printed(*words))


def _printed(*words: str, width: int = 96) -> str:
    os.environ["NO_COLOR"] = "1"
    command: Command = cli
    done = CliRunner().invoke(command, [*words, "--help"], prog_name="tune", terminal_width=width)
    assert done.exit_code == 0, done.output
    return done.output


def _fenced(language: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return f"```{language}\n{lines}\n```\n"


def _knobs() -> str:
    rows = [
        "`tune knobs` says which of them apply on a host. Those that change numerics are tuned only"
        " if they are asked for by name.\n",
        "| knob | values | reaches the program by | what it sets |",
        "| --- | --- | --- | --- |",
        *(f"| `{k.name}` | {_domain(k)} | {_route(k)} | {_meaning(k)} |" for k in KNOBS),
        "",
        *(f"- **`{k.name}`**: {k.why} Source: {k.source}." for k in KNOBS),
    ]
    return "\n".join(rows) + "\n"


def _meaning(knob: Knob) -> str:
    where = conditions(knob)
    return "; ".join(
        [knob.help, *["changes numerics"] * knob.changes_numerics, *[where] * bool(where)]
    )


def _domain(knob: Knob) -> str:
    if isinstance(knob.domain, IntRange):
        return values(knob)
    return ", ".join(f"`{value}`" for value in knob.domain.values)


def _route(knob: Knob) -> str:
    if isinstance(knob.route, Env):
        return ", ".join(f"`{name}`" for name in knob.route.names)
    return knob.way_to_program


def _template() -> str:
    from tuner.config.study_file import template

    return template("tune")


#: What makes each file of the docs.
FILES = {"reference.md": reference, "tune.1": man_page, "schema.json": schema}

if __name__ == "__main__":
    for name, text_of in FILES.items():
        (DOCS / name).write_text(text_of())
