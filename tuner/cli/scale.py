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
    " this one, or with each number that -n or --ppn lists. Each layout is tuned by a study of its"
    " own (NAME-2x4: 4 ranks on each of 2 hosts), or has one setting (--setting). It is then"
    " launched by pairs with the last layout that was worth it: side by side if nothing speaks"
    " against it. The same command continues.",
    examples=(
        ("tune scale --hosts h1:2,h2:2 -- python train.py --out {out}", "1 host against 2"),
        ("tune scale -n 1..4 -- python train.py --out {out}", "1, 2, 3 and 4 ranks here"),
    ),
)
@click_options.study_options(without={"price_per_hour"}, extra=click_options.SCALE_OPTIONS)
@click_options.shared("storage", "run_dir", "fresh", "wait", heading=click_options.PLACE)
@click_options.shared("json", "quiet", heading=click_options.OUTPUT)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Measure every layout and compare them."""
    from tuner.results.exporters.json import dumps
    from tuner.results.layouts import MeasuredLayout, Scaling

    specs = [replace(spec, typed=ctx.meta[TYPED]) for spec in _specs(options, tail(ctx))]
    scaling = Scaling([MeasuredLayout(spec, spec.fixed) for spec in specs], options["weak"])
    last_error = None
    if options["setting"] is None:
        scaling, last_error = _tune_each(scaling, options)
    scaling, last_failure = _launch_by_pairs(scaling, options)
    last_error = last_failure or last_error
    if last_error is not None and len(scaling.measured) < 2:
        raise last_error
    if options["as_json"]:
        sys.stdout.write(dumps(scaling.json()))
    else:
        table = scaling.grid()
        console.print_table(table.head, table.rows)
        console.out(scaling.verdict(), bold=True)
    return exits.OK


def _specs(options: dict[str, Any], words: tuple[str, ...] | None) -> list[StudySpec]:
    """Return the study of each layout, the smallest first; all are checked before one begins."""
    from tuner.config.hosts import smaller
    from tuner.hosts.machine import host_features
    from tuner.knobs.space import rank_numbers, values

    setting, typed = options["setting"], {**options, "price_per_hour": None}
    if setting is not None:
        fixed = () if setting == "defaults" else tuple(setting.split(","))
        typed |= {"setting": fixed, "confirm": "none", "live": "off", "learn_from": "none"}
    largest = click_options.spec_of(typed, words)
    layouts = smaller(largest.layout, rank_numbers(largest) if largest.rank_counts else ())
    if len(layouts) < 2:
        raise UsageError("there is only one layout", "name more --hosts, or -n 4, or -n 1,2")
    host_price = (largest.price_per_hour or 0.0) / len(largest.layout.hosts)
    host_price = host_price if options["price_per_hour"] is None else options["price_per_hour"]
    name = options["name"] or re.sub(r"-n\d+(-h\d+)?$", "", largest.name)
    # Each layout takes these: no host is looked at, and no mpirun asked for its version, again.
    choices = [v for k in largest.knobs if k.name == "interface" for v in values(k.domain)]
    interfaces = tuple(str(interface) for interface in choices if interface != UNSET)
    facts = {
        "machine": largest.machine,
        "features": replace(host_features(os.environ), interfaces=interfaces),
        "find": lambda *_, **__: largest.launcher,
    }
    specs = []
    for layout in layouts:
        suffix = "" if setting is None else "-fixed"
        typed["name"] = f"{name}-{layout.label}{suffix}"
        typed["price_per_hour"] = host_price * len(layout.hosts) or None
        specs.append(click_options.spec_of(typed, words, part=layout, **facts))
    return specs


#: The layouts with what was measured, and the last error of a layout that failed.
_Outcome = tuple["Scaling", NothingMeasuredError | LimitReachedError | None]


def _tune_each(scaling: Scaling, options: dict[str, Any]) -> _Outcome:
    """Tune each layout by a study of its own; return them with the studies of the best settings."""
    from tuner.cli import progress
    from tuner.results.layouts import MeasuredLayout
    from tuner.study.pairs_of_studies import again
    from tuner.study.tuning import tune

    layouts, last_error = list(scaling.layouts), None
    for place, layout in enumerate(layouts):
        spec = layout.spec
        if not options["quiet"]:
            console.err(f"{layout.label}: the study {spec.name}")
        try:
            with progress.view(options["quiet"]) as view:
                result = tune(
                    spec,
                    storage=options["storage"],
                    outputs=Path(options["run_dir"]) if options["run_dir"] else None,
                    fresh=options["fresh"],
                    wait=options["wait"],
                    on_event=view,
                )
            if result.best is None:
                raise NothingMeasuredError(f"no setting of the study {spec.name} has a time")
            best = result.best.setting
            layouts[place] = MeasuredLayout(again(spec, best), best)
        except (NothingMeasuredError, LimitReachedError) as error:
            layouts[place] = replace(layout, why=f"failed: {error.message}")
            last_error = error
    return replace(scaling, layouts=layouts), last_error


def _launch_by_pairs(scaling: Scaling, options: dict[str, Any]) -> _Outcome:
    """Launch each layout by pairs with the last one that was worth it, without those that fail."""
    from tuner.study.pairs_of_studies import ByPairs, Fails

    last_error = None
    by_pairs = ByPairs(
        storage=options["storage"],
        run_folder=Path(options["run_dir"]) if options["run_dir"] else None,
        fresh=options["fresh"],
        wait=options["wait"],
        most_pairs=options["rounds"],
    )
    for layout in (layout for layout in scaling.layouts[1:] if not layout.why):
        while (before := scaling.reference(layout.spec)) is not None:
            pairs = _launch_pair(by_pairs, scaling, (before, layout), is_quiet=options["quiet"])
            if not isinstance(pairs, Fails):
                scaling = scaling.with_pairs(before.spec, layout.spec, pairs)
                break
            last_error = pairs.error
            scaling = scaling.without(pairs.spec, f"failed: {last_error.message}")
            if pairs.spec is layout.spec:
                break
    return scaling, last_error


def _launch_pair(
    by_pairs: ByPairs,
    scaling: Scaling,
    layouts: tuple[MeasuredLayout, MeasuredLayout],
    *,
    is_quiet: bool,
) -> Pairs | Fails:
    """Launch two layouts by pairs until it is known whether the second is worth it."""
    from tuner.cli import progress

    before, after = layouts
    labels, specs = [p.label for p in layouts], [p.spec for p in layouts]
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
