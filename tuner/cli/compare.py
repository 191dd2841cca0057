"""``tune compare``: two studies of one job, before and after a change."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tuner.cli import exits
from tuner.cli.base import TuneCommand
from tuner.cli.options import files_and_studies, json_option, storage_option
from tuner.config.options import SHARE
from tuner.model.errors import UsageError

#: The verdict says whether it is worse by more than this share unless --fail-if-slower names one.
WORSE = 0.05


@click.command(
    "compare",
    cls=TuneCommand,
    help="Compare two studies of one job, before and after a change: the best setting of each, and"
    " each setting that both have measured, with 95 % intervals; then what else differs. A study is"
    " named, or given as the JSON file of `tune export`.",
    examples=(
        ("tune compare mnist mnist-2", "two studies of the database"),
        (
            "tune compare main.json branch.json --fail-if-slower 5%",
            "exit code 6 if it is proven to be slower by more than 5 %",
        ),
    ),
)
@click.argument("before", shell_complete=files_and_studies)
@click.argument("after", shell_complete=files_and_studies)
@click.option(
    "--fail-if-slower",
    type=SHARE.read,
    metavar="PERCENT",
    help="Exit with 6 if the best of AFTER is proven to be worse than that of BEFORE by more.",
)
@storage_option()
@json_option()
def command(
    before: str, after: str, fail_if_slower: float | None, storage: str | None, as_json: bool
) -> int:
    """Compare them."""
    from tuner.cli import console
    from tuner.results.compare import compare, read
    from tuner.results.exporters.json import dumps

    share = WORSE if fail_if_slower is None else fail_if_slower
    found = compare(*(read(each, _export(each, storage)) for each in (before, after)))
    if as_json:
        sys.stdout.write(dumps(found.json(share)))
    else:
        unit = f" ({found.before.unit})" if found.before.unit else ""
        titles = ["setting", f"before{unit}", f"after{unit}", "times as fast"]
        console.print_table(titles, found.table())
        for each in found.differences:
            console.out(f"differs: {each}")
        console.out(found.verdict(share), bold=True)
    return exits.WORSE if fail_if_slower is not None and found.is_worse(share) else exits.OK


def _export(name: str, storage: str | None) -> str:
    """What a file holds, or the export of a study."""
    from tuner.cli import stored
    from tuner.results.exporters.json import export

    try:
        if "/" in name or name.lower().endswith(".json") or Path(name).is_file():
            return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        hint = "tune export -o main.json writes one"
        raise UsageError(f"{name}: {error.strerror}", hint) from error
    return export(stored.load(stored.open_store(storage), name)).text
