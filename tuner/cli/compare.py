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
    from collections.abc import Sequence

    from tuner.model import StudySpec
    from tuner.results.compared_studies import Comparison
    from tuner.study.pairing import Pairs

#: An export has at most so many bytes.
MOST_BYTES = 1 << 28

#: The verdict says if AFTER is worse by more than this share, or the one of --fail-if-slower.
WORSE = 0.05


@click.command(
    "compare",
    cls=TuneCommand,
    help="Compare two studies of one job, before and after a change. The best setting of each is"
    " launched by pairs, side by side if nothing speaks against it. A study that cannot be launched"
    " here, such as the JSON file of `tune export`, is compared as it is stored, which proves"
    " nothing: the machine may have changed.",
    examples=(
        ("tune compare mnist mnist-2 --stored", "launches nothing"),
        (
            "tune compare mnist mnist-2 --fail-if-slower 5%",
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
    help="Exit with 6 if the whole interval of AFTER is worse than BEFORE by more.",
)
@option(
    "--remeasure",
    "basis",
    flag_value="remeasure",
    default=None,
    help="Launch both here, also if they were measured on another host; fail if that cannot be.",
)
@option("--stored", "basis", flag_value="stored", help="Launch nothing: go by what is stored.")
@shared("wait", "storage", "json")
@click.pass_context
def command(ctx: click.Context, /, before: str, after: str, **options: Any) -> int:
    """Compare two studies and print the verdict."""
    from tuner.results.compared_studies import compare, read
    from tuner.results.exporters.json import dumps

    limit, names = options["fail_if_slower"], (before, after)
    share = WORSE if limit is None else limit
    comparison = compare(*(read(name, _export(name, options["storage"])) for name in names))
    if options["basis"] != "stored":
        try:
            specs = _to_launch(names, ctx.meta[TYPED], options)
        except UsageError as error:
            if options["basis"] == "remeasure":
                raise
            console.err(f"nothing is launched: {error.message}")
        else:
            comparison = _remeasure(comparison, specs, share, options)
    if options["as_json"]:
        sys.stdout.write(dumps(comparison.json(share)))
    else:
        unit = f" ({comparison.before.unit})" if comparison.before.unit else ""
        titles = ["setting", f"before{unit}", f"after{unit}", "times as fast"]
        console.print_table(titles, comparison.table())
        for side in (comparison.before, comparison.after):
            launches = wording.count(len(side.best), "launch", "launches")
            console.out(f"best of {side.name}: {launches} {side.origin}")
        if comparison.is_by_pairs and len(comparison.rows) > 1:
            console.out("other rows: stored launches, of different times")
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


def _to_launch(
    names: Sequence[str], typed: tuple[str, ...], options: dict[str, Any]
) -> list[StudySpec]:
    """Return the best settings of both to launch here; `UsageError` if that cannot be."""
    from tuner.cli import stored
    from tuner.study.pairs_of_studies import require_different, to_launch

    for name in filter(_is_file, names):
        raise UsageError(f"{name} is a file, which cannot be launched", "name its study")
    store, specs = stored.open_store(options["storage"]), []
    for name in names:
        view = stored.load(store, name)
        assert view.result.best is not None, "it was compared"
        specs.append(to_launch(store, view.spec, view.result.best.setting, typed))
        if (old_host := view.spec.machine.hostname) != (host := specs[-1].machine.hostname):
            if options["basis"] is None:
                raise UsageError(f"{name} was measured on {old_host}, and this is {host}", "")
            console.err(f"{name} was measured on {old_host}; it is launched here, on {host}")
    require_different(specs)
    return specs


def _remeasure(
    comparison: Comparison, specs: Sequence[StudySpec], share: float, options: dict[str, Any]
) -> Comparison:
    """Launch both by pairs until their interval decides, and return the comparison with these."""
    from tuner.cli import progress
    from tuner.study.pairs_of_studies import ByPairs, Fails

    first, second = names = [spec.name for spec in specs]
    console.err(f"launches both, as the studies {first} and {second} (--stored launches nothing)")

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
