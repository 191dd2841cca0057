"""``tune compare``: two studies of one job, before and after a change."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli import exits
from tuner.cli.base import TuneCommand
from tuner.cli.options import json_option, storage_option, study_names
from tuner.config.options import SHARE
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.model import JsonDict

#: A change for the worse below this share is not looked for.
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
@click.argument("before", shell_complete=study_names)
@click.argument("after", shell_complete=study_names)
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
    from tuner.results.compare import compare
    from tuner.results.exporters.json import dumps

    share = WORSE if fail_if_slower is None else fail_if_slower
    found = compare(*(_document(each, storage) for each in (before, after)))
    if as_json:
        sys.stdout.write(dumps(found.json(share)))
    else:
        unit = f" ({found.unit})" if found.unit else ""
        titles = ["setting", f"before{unit}", f"after{unit}", "times as fast"]
        console.print_table(titles, found.table())
        for each in found.differences:
            console.out(f"differs: {each}")
        console.out(found.verdict(share), bold=True)
    return exits.WORSE if fail_if_slower is not None and found.is_worse(share) else exits.OK


def _document(name: str, storage: str | None) -> JsonDict:
    """The export of a study, or what a file has of one.

    Raises:
        UsageError: There is no such study, or the file is no export.
    """
    from tuner.cli import stored
    from tuner.results.exporters.json import SCHEMA, export

    if not name.endswith(".json"):
        text = export(stored.load(stored.open_store(storage), name)).text
        return dict(json.loads(text))
    try:
        document = json.loads(Path(name).read_text())
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}", "the file of `tune export -o`") from error
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}", "tune export -o study.json") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{name} is no {SCHEMA}", "tune export -o study.json")
    return document
