"""``tune compare``: two studies of one job, before and after a change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import console, exits
from tuner.cli.base import TYPED, TuneCommand
from tuner.cli.click_options import files_and_studies, option, shared
from tuner.config.options import SHARE
from tuner.hosts.typed_paths import read_typed, typed_path
from tuner.model import wording
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.results.compared_studies import Comparison
    from tuner.study.pairing import Pairs

#: An export has at most so many bytes.
MOST_BYTES = 1 << 28

#: The verdict says if AFTER is worse by more than this share, or the one of --fail-if-slower.
WORSE = 0.05


@click.command(
    "compare",
    cls=TuneCommand,
    help="Compare two studies of one job, before and after a change: the best setting of each, and"
    " each setting that both have measured, with 95 % intervals; then what else differs. A study is"
    " named, or given as the JSON file of `tune export`.",
    examples=(
        ("tune compare mnist mnist-2", "two studies of the database"),
        ("tune compare mnist mnist-2 --remeasure", "launches both if their times cannot tell"),
        (
            "tune compare main.json branch.json --fail-if-slower 5%",
            "exit code 6 if it is proven to be slower by more than 5 %",
        ),
    ),
)
@click.argument("before", shell_complete=files_and_studies)
@click.argument("after", shell_complete=files_and_studies)
@option(
    "--fail-if-slower",
    type=SHARE.read,
    metavar="PERCENT",
    help="Exit with 6 if the best of AFTER is proven to be worse than that of BEFORE by more.",
)
@option(
    "--remeasure",
    is_flag=True,
    help="If what is stored cannot tell, launch the best setting of both here by pairs,"
    " side by side if nothing speaks against it.",
)
@shared("wait", "storage", "json")
@click.pass_context
def command(ctx: click.Context, /, before: str, after: str, **options: Any) -> int:
    """Compare two studies and print the verdict."""
    from tuner.results.compared_studies import compare, read
    from tuner.results.exporters.json import dumps

    limit, names = options["fail_if_slower"], (before, after)
    share = WORSE if limit is None else limit
    comparison = compare(*(read(name, _export(name, options["storage"])) for name in names))
    if options["remeasure"]:
        for name in filter(_is_file, names):
            message = f"--remeasure: {name} is a file, which cannot be launched"
            raise UsageError(message, "name the study itself")
        if comparison.best.is_open(share):
            comparison = _remeasure(comparison, share, ctx.meta[TYPED], options)
    if options["as_json"]:
        sys.stdout.write(dumps(comparison.json(share)))
    else:
        unit = f" ({comparison.before.unit})" if comparison.before.unit else ""
        titles = ["setting", f"before{unit}", f"after{unit}", "times as fast"]
        console.print_table(titles, comparison.table())
        for side in (comparison.before, comparison.after):
            launches = wording.count(len(side.best), "launch", "launches")
            console.out(f"best of {side.name}: {launches} {side.origin}")
        for difference in comparison.differences:
            console.out(f"differs: {difference}")
        console.out(comparison.verdict(share), bold=True)
    return exits.WORSE if limit is not None and comparison.is_worse(share) else exits.OK


def _is_file(name: str) -> bool:
    return "/" in name or name.lower().endswith(".json") or typed_path(name, "the study").is_file()


def _export(name: str, storage: str | None) -> str:
    """Return what a file holds, or the export of a study."""
    from tuner.cli import stored
    from tuner.results.exporters.json import export

    if _is_file(name):
        data = read_typed(typed_path(name, "the export"), name, MOST_BYTES)
        return data.decode(errors="replace")
    return export(stored.load(stored.open_store(storage), name)).text


def _remeasure(
    comparison: Comparison, share: float, typed: tuple[str, ...], options: dict[str, Any]
) -> Comparison:
    """Launch both by pairs until their interval decides, and return the comparison with these."""
    from tuner.cli import progress, stored
    from tuner.study.pairs_of_studies import ByPairs, Fails, require_different, to_launch

    store, specs = stored.open_store(options["storage"]), []
    for side in (comparison.before, comparison.after):
        view = stored.load(store, side.name)
        assert view.result.best is not None, "it was compared"
        specs.append(to_launch(store, view.spec, view.result.best.setting, typed))
        if (old_host := view.spec.machine.hostname) != (host := specs[-1].machine.hostname):
            console.err(f"{side.name} was measured on {old_host}; it is launched here, on {host}")
    require_different(specs)
    first, second = names = [spec.name for spec in specs]
    console.err(f"launches of both, kept as the studies {first} and {second}")

    def with_pairs(pairs: Pairs) -> Comparison:
        sides = [[*map(specs[0].objective.figure, side)] for side in pairs.costs]
        return comparison.with_best(sides, pairs.gain, is_side_by_side=pairs.is_side_by_side)

    def is_enough(pairs: Pairs) -> bool:
        console.err(progress.pairs_so_far(names, pairs))
        return not with_pairs(pairs).best.is_open(share)

    by_pairs = ByPairs(options["storage"], fresh=True, wait=options["wait"])
    pairs = by_pairs.launch(specs, [*map(progress.view_of_pairs, names, specs)], is_enough)
    if isinstance(pairs, Fails):
        raise pairs.error
    return with_pairs(pairs)
