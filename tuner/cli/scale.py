"""``tune scale``: the same job on 1, 2, ... hosts, and which of them is worth its price."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import click_options, console, exits
from tuner.cli.base import TYPED, TuneCommand, tail
from tuner.model import UNSET, StudySpec
from tuner.model.errors import LimitReachedError, NothingMeasuredError, UsageError

if TYPE_CHECKING:
    from tuner.results.layouts import MeasuredLayout, Scaling
    from tuner.study.pairing import Pairs
    from tuner.study.pairs_of_studies import ByPairs, Fails


@click.command(
    "scale",
    cls=TuneCommand,
    takes_tail=True,
    help="Measure the same job on 1, 2, 3, 4, 8 ... hosts; without hosts, with 1, 2, 4 ... ranks on"
    " this one. Each layout is tuned by a study of its own (NAME-2x4: 4 ranks on each of 2 hosts),"
    " or launched with one setting (--setting), by pairs with the last layout that was worth it:"
    " side by side if nothing speaks against it. The same command continues.",
    examples=(("tune scale --hosts h1:2,h2:2 -- python train.py --out {out}", "1 host against 2"),),
)
@click_options.study_options(without={"ppn", "price_per_hour"}, more=click_options.OF_SCALE)
@click_options.shared("storage", "run_dir", "fresh", "wait", heading=click_options.PLACE)
@click_options.shared("json", "quiet", heading=click_options.OUTPUT)
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Measure every layout and compare them."""
    from tuner.results.exporters.json import dumps
    from tuner.results.layouts import MeasuredLayout, Scaling

    specs = [replace(spec, typed=ctx.meta[TYPED]) for spec in _specs(given, tail(ctx))]
    layouts = [MeasuredLayout(spec, spec.fixed) for spec in specs]
    scaling = Scaling(layouts, given["weak"])
    scaling, failed = (_tuned if given["setting"] is None else _by_pairs)(scaling, given)
    if failed is not None and len(scaling.measured) < 2:
        raise failed
    if given["as_json"]:
        sys.stdout.write(dumps(scaling.json()))
    else:
        table = scaling.grid()
        console.print_table(table.head, table.rows)
        console.out(scaling.verdict(), bold=True)
    return exits.OK


def _specs(given: dict[str, Any], words: tuple[str, ...] | None) -> list[StudySpec]:
    """Return the study of each layout, the smallest first; all are checked before one begins."""
    from tuner.config.hosts import smaller
    from tuner.hosts.machine import host_features
    from tuner.knobs.space import values

    setting, ppn = given["setting"], given["ppn"] or ""
    if ppn and not re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", ppn):
        raise UsageError(f"--ppn {ppn!r} is no list of whole numbers", "--ppn 1,2,4")
    ppns = sorted({int(number) for number in ppn.split(",") if number})
    typed = {**given, "ppn": max(ppns, default=None), "price_per_hour": None}
    if setting is not None:
        fixed = () if setting == "defaults" else tuple(setting.split(","))
        typed |= {"setting": fixed, "confirm": "none", "live": "off", "learn_from": "none"}
    largest = click_options.spec_of(typed, words)
    layouts = smaller(largest.layout, ppns)
    if len(layouts) < 2:
        raise UsageError("there is only one layout", "name more --hosts, or -n 4, or --ppn 1,2")
    of_host = (largest.price_per_hour or 0.0) / len(largest.layout.hosts)
    of_host = of_host if given["price_per_hour"] is None else given["price_per_hour"]
    name = given["name"] or re.sub(r"-n\d+(-h\d+)?$", "", largest.name)
    # The hosts have been looked at, and mpirun was asked for its version.
    shared = [v for k in largest.knobs if k.name == "interface" for v in values(k.domain)]
    interfaces = tuple(str(interface) for interface in shared if interface != UNSET)
    facts = {
        "machine": largest.machine,
        "features": replace(host_features(os.environ), interfaces=interfaces),
        "find": lambda *_, **__: largest.launcher,
    }
    specs = []
    for layout in layouts:
        end = "" if setting is None else "-fixed"
        typed["name"] = f"{name}-{len(layout.hosts)}x{layout.ranks_per_host}{end}"
        typed["price_per_hour"] = of_host * len(layout.hosts) or None
        specs.append(click_options.spec_of(typed, words, part=layout, **facts))
    return specs


#: The layouts, and the last error of one that failed.
_Measured = tuple["Scaling", NothingMeasuredError | LimitReachedError | None]


def _tuned(scaling: Scaling, given: dict[str, Any]) -> _Measured:
    """Tune each layout by a study of its own."""
    from tuner.cli import progress, stored
    from tuner.results.layouts import MeasuredLayout
    from tuner.study import tune

    layouts, failed = list(scaling.layouts), None
    for place, layout in enumerate(layouts):
        spec = layout.spec
        if not given["quiet"]:
            console.err(f"{layout.label}: the study {spec.name}")
        try:
            with progress.view(given["quiet"]) as view:
                tune(
                    spec,
                    storage=given["storage"],
                    outputs=Path(given["run_dir"]) if given["run_dir"] else None,
                    fresh=given["fresh"],
                    wait=given["wait"],
                    on_event=view,
                )
            data = stored.load(stored.open_store(given["storage"]), spec.name)
            layouts[place] = MeasuredLayout.of(data)
        except (NothingMeasuredError, LimitReachedError) as error:
            layouts[place] = replace(layout, why=f"failed: {error.message}")
            failed = error
    return replace(scaling, layouts=layouts), failed


def _by_pairs(scaling: Scaling, given: dict[str, Any]) -> _Measured:
    """Launch each layout by pairs with the last one that was worth it, without those that fail."""
    from tuner.study.pairs_of_studies import ByPairs, Fails

    failed = None
    by_pairs = ByPairs(
        storage=given["storage"],
        run_folder=Path(given["run_dir"]) if given["run_dir"] else None,
        fresh=given["fresh"],
        wait=given["wait"],
        most_pairs=given["rounds"],
    )
    for layout in scaling.layouts[1:]:
        while (before := scaling.reference(layout.spec)) is not None:
            pairs = _launched(by_pairs, scaling, (before, layout), is_quiet=given["quiet"])
            if not isinstance(pairs, Fails):
                scaling = scaling.with_pairs(before.spec, layout.spec, pairs)
                break
            failed = pairs.error
            scaling = scaling.without(pairs.spec, f"failed: {failed.message}")
            if pairs.spec is layout.spec:
                break
    return scaling, failed


def _launched(
    by_pairs: ByPairs,
    scaling: Scaling,
    layouts: tuple[MeasuredLayout, MeasuredLayout],
    *,
    is_quiet: bool,
) -> Pairs | Fails:
    """Launch two layouts by pairs until it is known whether the second is worth it."""
    from tuner.cli import progress

    before, after = layouts
    labels, specs = [each.label for each in layouts], [each.spec for each in layouts]
    if not is_quiet:
        studies = " and ".join(spec.name for spec in specs)
        console.err(f"{after.label} with {before.label}: the studies {studies}")

    def is_enough(pairs: Pairs) -> bool:
        if not is_quiet:
            console.err(progress.pairs_so_far(labels, pairs))
        return scaling.judge(before, after, pairs) is not None

    views = [
        (lambda _: None) if is_quiet else progress.view_of_pairs(p.label, p.spec) for p in layouts
    ]
    try:
        return by_pairs.launch(specs, views, is_enough)
    except KeyboardInterrupt:
        console.err("what was measured is kept: the same command continues (without --fresh)")
        raise
