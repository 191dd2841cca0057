"""``tune compare``: two studies of one job, before and after a change."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import console, exits
from tuner.cli.base import TYPED, TuneCommand
from tuner.cli.click_options import option, shared, study_names
from tuner.config.options import SHARE
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.study.pairing import Pairs

#: The verdict says if AFTER is worse by more than this share, or the one of --fail-if-slower.
WORSE = 0.05


@click.command(
    "compare",
    cls=TuneCommand,
    help="Compare two studies of one job, before and after a change: launch the best setting of"
    " each by pairs, side by side if nothing speaks against it.",
    examples=(
        ("tune compare mnist mnist-2", "launch both until it is known which is faster"),
        (
            "tune compare mnist mnist-2 --fail-if-slower 5%",
            "exit code 6 if it is proven to be slower by more than 5 %",
        ),
    ),
)
@click.argument("before", shell_complete=study_names)
@click.argument("after", shell_complete=study_names)
@option(
    "--fail-if-slower",
    type=SHARE.read,
    metavar="PERCENT",
    help="Exit with 6 if the whole interval of AFTER is worse than BEFORE by more.",
)
@shared("wait", "storage", "json")
@click.pass_context
def command(ctx: click.Context, /, before: str, after: str, **options: Any) -> int:
    """Launch the best settings of two studies, and print the verdict."""
    from tuner.cli import progress, stored
    from tuner.model import figures
    from tuner.results.compared_studies import Comparison, differences
    from tuner.results.exporters.json import dumps
    from tuner.study.pairs_of_studies import ByPairs, Fails, require_comparable, to_launch

    limit, names = options["fail_if_slower"], (before, after)
    share = WORSE if limit is None else limit
    store = stored.open_store(options["storage"])
    specs = []
    for name in names:
        view = stored.load(store, name, detail=False)
        if view.result.best is None:
            hint = f"`tune show {name}` says why"
            raise UsageError(f"the study {name} has measured nothing", hint)
        specs.append(to_launch(store, view.spec, view.result.best.setting, ctx.meta[TYPED]))
        old_host, host = view.spec.machine.hostname, specs[-1].machine.hostname
        if old_host != host:
            console.err(f"{name} was measured on {old_host}; it is launched here, on {host}")
    require_comparable(specs)
    console.err(f"launches both, as the studies {specs[0].name} and {specs[1].name}")

    def is_enough(pairs: Pairs) -> bool:
        console.err(progress.pairs_so_far(names, pairs))
        return not Comparison(names, specs, pairs, share).is_open

    by_pairs = ByPairs(options["storage"], fresh=True, wait=options["wait"])
    pairs = by_pairs.launch(specs, [*map(progress.view_of_pairs, names, specs)], is_enough)
    if isinstance(pairs, Fails):
        raise pairs.error
    comparison = Comparison(names, specs, pairs, share)
    others = differences(specs, [store.launches(spec.name) for spec in specs])
    if options["as_json"]:
        sys.stdout.write(dumps(comparison.json(others)))
    else:
        unit = figures.unit(specs[0].objective)
        titles = ["study", "best setting", f"median ({unit})" if unit else "median", "launches"]
        console.print_table(titles, comparison.table())
        for difference in others:
            console.out(f"differs: {difference}")
        console.out(comparison.verdict(), bold=True)
    return exits.WORSE if limit is not None and comparison.is_worse(share) else exits.OK
