"""``tune scale``: the same job on 1, 2, ... hosts, and which of them is worth its price."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import exits, options
from tuner.cli.base import TYPED, TuneCommand, tail
from tuner.hosts.typed_paths import read_typed, typed_path
from tuner.model.errors import LimitReachedError, NothingMeasuredError, UsageError

if TYPE_CHECKING:
    from tuner.model import StudySpec
    from tuner.results.scale import Point, Scaling
    from tuner.study.pairing import Pairs
    from tuner.study.pairs_of_studies import ByPairs, Fails

#: No list of prices is longer, bytes.
MOST_BYTES = 1 << 20


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
@options.study_options(without={"ppn", "price_per_hour"}, more=options.OF_SCALE)
@options.place_options(can_join=False)
@options.json_option(options.OUTPUT)
@options.quiet_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Measure every layout and compare them."""
    from tuner.cli import console, outfile
    from tuner.results.exporters import Export
    from tuner.results.exporters.json import dumps

    specs = [replace(spec, typed=ctx.meta[TYPED]) for spec in _specs(given, tail(ctx))]
    scaling = (_tuned if given["setting"] is None else _by_pairs)(specs, given)
    if given["as_json"]:
        sys.stdout.write(dumps(scaling.json()))
    else:
        table = scaling.grid()
        console.print_table(table.head, table.rows)
        console.out(scaling.verdict(), bold=True)
    if given["filename"]:
        outfile.write(Path(given["filename"]), Export(scaling.page()))
    return exits.OK


def _specs(given: dict[str, Any], words: tuple[str, ...] | None) -> list[StudySpec]:
    """The study of each layout, the smallest first; all are checked before one begins."""
    from tuner.config.hosts import smaller
    from tuner.hosts.machine import host_features
    from tuner.knobs.space import values
    from tuner.model import UNSET

    setting, ppn = given["setting"], given["ppn"] or ""
    if ppn and not re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", ppn):
        raise UsageError(f"--ppn {ppn!r} is no list of whole numbers", "--ppn 1,2,4")
    ppns = sorted({int(number) for number in ppn.split(",") if number})
    typed = {**given, "ppn": max(ppns, default=None), "price_per_hour": None}
    if setting is not None:
        if given["fixes"]:
            raise UsageError("--setting and --fix both set knobs", "name all of them in --setting")
        fixed = () if setting == "defaults" else tuple(setting.split(","))
        typed |= {"fixes": fixed, "confirm": "none", "live": "off", "learn_from": "none"}
    try:
        largest = options.spec_of(typed, words)
        layouts = smaller(largest.layout, ppns)
        if len(layouts) < 2:
            raise UsageError("there is only one layout", "name more --hosts, or -n 4, or --ppn 1,2")
        if given["job_iterations"] and largest.objective.clock not in {"elapsed", "steady"}:
            raise UsageError("--job-iterations needs a log of iterations", "--objective logreport")
        prices = _prices(given["price_per_hour"], largest)
        name = given["name"] or re.sub(r"-n\d+(-h\d+)?$", "", largest.name)
        end = "" if setting is None else "-fixed"
        # The hosts have been looked at, and mpirun was asked for its version.
        shared = [values(knob.domain) for knob in largest.knobs if knob.name == "interface"]
        interfaces = tuple(
            str(interface) for of in shared for interface in of if interface != UNSET
        )
        features = replace(host_features(os.environ), interfaces=interfaces)
        of_host = {
            "machine": largest.machine,
            "features": features,
            "find": lambda *_, **__: largest.launcher,
        }
        specs = []
        for layout in layouts:
            typed["name"] = f"{name}-{len(layout.hosts)}x{layout.ranks_per_host}{end}"
            typed["price_per_hour"] = sum(prices[host] for host in layout.hosts) or None
            specs.append(options.spec_of(typed, words, part=layout, **of_host))
    except UsageError as error:
        if setting is None:
            raise
        said = (text.replace("--fix ", "--setting ") for text in (error.message, error.hint))
        raise UsageError(*said) from error
    return specs


def _prices(text: str | None, largest: StudySpec) -> dict[str, float]:
    """The price of each host an hour; a study file has that of all of them."""
    hosts = largest.layout.hosts
    with suppress(ValueError):
        return dict.fromkeys(hosts, float(text or (largest.price_per_hour or 0.0) / len(hosts)))
    try:
        path = typed_path(text or "", "--price-per-hour")
        data = read_typed(path, f"--price-per-hour {text}", MOST_BYTES)
        lines = filter(None, map(str.split, data.decode().splitlines()))
        prices = {name: float(amount) for name, amount in lines}
        return {host: prices[host] for host in hosts}
    except ValueError:
        said = "a line is not a name and a price"
    except KeyError as error:
        said = f"{error.args[0]} has no price"
    raise UsageError(f"--price-per-hour {text}: {said}", "a line `h1 1.20` for each host")


def _tuned(specs: list[StudySpec], given: dict[str, Any]) -> Scaling:
    """Tune each layout by a study of its own; what cannot win is left out."""
    from tuner.cli import console, progress, stored
    from tuner.results.scale import Point
    from tuner.study import tune

    scaling, failed = _of_none(specs, given), None
    points = {spec.name: point for spec, point in zip(specs, scaling.points, strict=True)}
    for spec in specs:
        point, why = points[spec.name], scaling.cannot_win(spec)
        if not given["quiet"]:
            console.err(f"{point.label}: {why or f'the study {spec.name}'}")
        try:
            if not why:
                with progress.view(given["quiet"]) as view:
                    tune(
                        spec,
                        storage=given["storage"],
                        outputs=Path(given["run_dir"]) if given["run_dir"] else None,
                        fresh=given["fresh"],
                        wait=given["wait"],
                        on_event=view,
                    )
                point = Point.of(stored.load(stored.open_store(given["storage"]), spec.name))
        except (NothingMeasuredError, LimitReachedError) as error:
            why, failed = f"failed: {error.message}", error
        points[spec.name] = replace(point, why=why)
        scaling = replace(scaling, points=[*points.values()])
    if failed is not None and len(scaling.measured) < 2:
        raise failed
    return scaling


def _by_pairs(specs: list[StudySpec], given: dict[str, Any]) -> Scaling:
    """Launch each layout by pairs with the last one that was worth it; what cannot win is left out.

    A layout that fails is left out too, and the others are compared.
    """
    from tuner.cli import console
    from tuner.study.pairs_of_studies import ByPairs, Fails

    scaling, failed = _of_none(specs, given), None
    by_pairs = ByPairs(
        storage=given["storage"],
        run_folder=Path(given["run_dir"]) if given["run_dir"] else None,
        fresh=given["fresh"],
        wait=given["wait"],
        most_pairs=given["rounds"],
    )
    for point in scaling.points[1:]:
        spec, why = point.spec, scaling.cannot_win(point.spec)
        if why and not given["quiet"]:
            console.err(f"{point.label}: {why}")
        while not why and (before := scaling.reference(spec)) is not None:
            pairs = _launched(by_pairs, scaling, (before, point), is_quiet=given["quiet"])
            if not isinstance(pairs, Fails):
                scaling = scaling.with_pairs(before.spec, spec, pairs)
                break
            failed = pairs.error
            fails = f"failed: {failed.message}"
            why = fails if pairs.spec is spec else ""
            scaling = scaling.without(pairs.spec, fails)
        if why:
            scaling = scaling.without(spec, why)
    if failed is not None and len(scaling.measured) < 2:
        raise failed
    return scaling


def _launched(
    by_pairs: ByPairs, scaling: Scaling, layouts: tuple[Point, Point], *, is_quiet: bool
) -> Pairs | Fails:
    """Launch two layouts by pairs until it is known whether the second is worth it."""
    from tuner.cli import console, pair_lines

    (before, after), specs = layouts, [point.spec for point in layouts]
    labels = [point.label for point in layouts]
    if not is_quiet:
        studies = " and ".join(spec.name for spec in specs)
        console.err(f"{after.label} with {before.label}: the studies {studies}")

    def is_enough(pairs: Pairs) -> bool:
        if not is_quiet:
            console.err(pair_lines.so_far(labels, pairs))
        return scaling.is_decided(before, after, pairs)

    views = [(lambda _: None) if is_quiet else pair_lines.view(p.label, p.spec) for p in layouts]
    try:
        return by_pairs.launch(specs, views, is_enough)
    except KeyboardInterrupt:
        console.err("what was measured is kept: the same command continues (without --fresh)")
        raise


def _of_none(specs: list[StudySpec], given: dict[str, Any]) -> Scaling:
    """The layouts before anything of them is measured."""
    from tuner.results.scale import Point, Scaling

    points = [Point(spec, spec.fixed) for spec in specs]
    return Scaling(points, given["weak"], given["job_iterations"])
