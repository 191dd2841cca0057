"""``tune scale``: the same job on 1, 2, ... hosts, and which of them is worth its price."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import exits, options
from tuner.cli.base import TYPED, TuneCommand, tail
from tuner.cli.options import (
    OUTPUT,
    json_option,
    option,
    place_options,
    quiet_option,
    study_options,
)

if TYPE_CHECKING:
    from tuner.model import Layout, StudySpec
    from tuner.results.scale import Point, Scaling
    from tuner.study.events import Event

HEADING = "What to compare"

#: What ``--setting`` calls the command with nothing set.
DEFAULTS = "defaults"


@click.command(
    "scale",
    cls=TuneCommand,
    takes_tail=True,
    help="Measure the same job on 1, 2, 3, 4, 8 ... hosts; without hosts, with 1, 2, 4 ... ranks on"
    " this one. Each layout is tuned by a study of its own (NAME-2x4: 4 ranks on each of 2 hosts),"
    " or launched in rounds with one setting (--setting). The same command continues.",
    examples=(
        ("tune scale --hosts h1:2,h2:2 -- python train.py --out {out}", "one host against two"),
        ("tune scale -n 8 --setting omp_threads=1 -- python train.py --out {out}", "not tuned"),
    ),
)
@option(
    "--setting",
    metavar="NAME=VALUE,...",
    heading=HEADING,
    help=f"Tune nothing: launch this setting in rounds over the layouts; {DEFAULTS}: your own.",
)
@option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=6,
    heading=HEADING,
    metavar="N",
    help="Launches of each layout with --setting [6].",
)
@option(
    "--ppn", metavar="N,N,...", heading=HEADING, help="Compare these numbers of ranks on each host."
)
@option("--weak", is_flag=True, heading=HEADING, help="The program's work grows with the ranks.")
@option(
    "--price-per-hour",
    metavar="X|FILE",
    heading=HEADING,
    help="Price of a host, in any currency; or a file with a line `h1 1.20` for each.",
)
@option(
    "--job-iterations",
    type=click.IntRange(1),
    metavar="N",
    heading=HEADING,
    help="Iterations of the whole job, as the first layout counts them: shows its time.",
)
@study_options(without={"ppn", "price_per_hour"})
@place_options(without={"--join"})
@option("-o", "--output", "filename", metavar="FILE", heading=OUTPUT, help="Write a page as well.")
@json_option(OUTPUT)
@quiet_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Measure every layout and compare them."""
    from tuner.cli import console, outfile
    from tuner.results.exporters import Export
    from tuner.results.exporters.json import dumps
    from tuner.results.report.page import scale_page

    specs = [replace(spec, typed=ctx.meta[TYPED]) for spec in _specs(given, tail(ctx))]
    found = _measured(specs, given)
    table = found.table()
    if given["as_json"]:
        sys.stdout.write(dumps(found.json()))
    else:
        console.print_table(table.head, table.rows)
        console.out()
        console.out(found.verdict(), bold=True)
    if given["filename"]:
        page = scale_page(specs[-1].name.rpartition("-")[0], found.figure())
        outfile.write(Path(given["filename"]), Export(page))
    return exits.OK


def _specs(given: dict[str, Any], words: tuple[str, ...] | None) -> list[StudySpec]:
    """The study of each layout, the smallest first; all are checked before one begins."""
    from tuner.config.hosts import smaller
    from tuner.model.errors import UsageError

    ppns = _ppns(given["ppn"])
    asked = {**given, "ppn": max(ppns, default=None), "price_per_hour": None}
    is_fixed = given["setting"] is not None
    if is_fixed:
        if given["fixes"]:
            raise UsageError("--setting and --fix both set knobs", "name all of them in --setting")
        fixed = () if given["setting"] == DEFAULTS else tuple(given["setting"].split(","))
        asked |= {"fixes": fixed, "confirm": "none", "live": "off", "learn_from": "none"}
    build = options.builder_of(asked, words)
    try:
        largest = build(options=asked)
        layouts, price_of = smaller(largest.layout, ppns), _price_of(given, largest)
        if len(layouts) < 2:
            raise UsageError(
                "there is one layout only, and nothing to compare it with",
                "name more hosts, or more ranks on this one: -n 4, or --ppn 1,2,4",
            )
        name = given["name"] or re.sub(r"-n\d+(-h\d+)?$", "", largest.name)
        specs = []
        for layout in layouts:
            size = f"{len(layout.hosts)}x{layout.ranks_per_host}{'-fixed' * is_fixed}"
            own = {"name": f"{name}-{size}", "price_per_hour": price_of(layout)}
            # Each host has been looked at, and mpirun asked for its version.
            known = {"machine": largest.machine, "find": lambda *_: largest.launcher}
            specs.append(build(options=asked | own, layout=layout, **known))
    except UsageError as error:
        if not is_fixed:
            raise
        said = (text.replace("--fix ", "--setting ") for text in (error.message, error.hint))
        raise UsageError(*said) from error
    return specs


def _ppns(text: str | None) -> list[int]:
    """``1,2,4``."""
    from tuner.model.errors import UsageError

    if text is not None and not re.fullmatch(r"[1-9]\d{0,5}(,[1-9]\d{0,5})*", text):
        raise UsageError(f"--ppn {text!r} is no list of whole numbers", "--ppn 1,2,4")
    return sorted(set(map(int, text.split(",")))) if text else []


def _price_of(given: dict[str, Any], largest: StudySpec) -> Callable[[Layout], float | None]:
    """What the hosts of a layout cost an hour; a study file's price is that of all hosts."""
    from tuner.config.hosts import parse_prices
    from tuner.config.spec import read_file
    from tuner.model.errors import UsageError

    text, hosts = given["price_per_hour"], largest.layout.hosts
    if text is None:
        whole = largest.price_per_hour
        return lambda layout: whole and whole * len(layout.hosts) / len(hosts)
    try:
        each = float(text)
    except ValueError:
        place = f"--price-per-hour {text}"
        prices = parse_prices(read_file(Path(text), place), place)
        if missing := [name for name in hosts if name not in prices]:
            raise UsageError(
                f"{place} has no price of {missing[0]}", f"{missing[0]} 1.20"
            ) from None
        return lambda layout: sum(prices[name] for name in layout.hosts)
    return lambda layout: each * len(layout.hosts)


def _measured(specs: list[StudySpec], given: dict[str, Any]) -> Scaling:
    """Tune each layout, or launch the setting in rounds; what cannot win is left out.

    Raises:
        TunerError: Fewer than two layouts have a time.
    """
    from tuner.cli import console, progress, stored
    from tuner.model.errors import LimitReachedError, NothingMeasuredError
    from tuner.results.scale import Point, Scaling
    from tuner.study import tune
    from tuner.study.rounds import FixedSetting

    is_fixed, failed = given["setting"] is not None, None
    points = {spec.name: Point(spec, spec.fixed) for spec in specs}

    def scaling() -> Scaling:
        return Scaling([*points.values()], given["weak"], given["job_iterations"])

    for number in range(1, 1 + (given["rounds"] if is_fixed else 1)):
        for spec in specs:
            point, is_first = points[spec.name], number == 1
            why = point.why or scaling().cannot_win(spec)
            if not why:
                if not (is_fixed or given["quiet"]):
                    console.err(f"{point.label}: the study {spec.name}")
                try:
                    with progress.view(given["quiet"]) as view:
                        tune(
                            spec if is_first else replace(spec, warm_ups=0),
                            storage=given["storage"],
                            outputs=Path(given["run_dir"]) if given["run_dir"] else None,
                            fresh=given["fresh"] and is_first,
                            wait=given["wait"],
                            on_event=_by_rounds(point, given["quiet"]) if is_fixed else view,
                            policy=FixedSetting(number) if is_fixed else None,
                        )
                    data = stored.load(stored.open_store(given["storage"]), spec.name)
                    points[spec.name] = Point.of(data)
                except (NothingMeasuredError, LimitReachedError) as error:
                    why, failed = f"failed: {error.message}", error
            if why and not point.why:
                console.err(f"{point.label}: {why}")
                points[spec.name] = replace(point, why=why)
    if failed is not None and len(scaling().measured) < 2:
        raise failed
    return scaling()


def _by_rounds(point: Point, quiet: bool) -> Callable[[Event], None]:
    """Tells of the launches of a layout, a line each."""
    from tuner.cli import console, progress
    from tuner.study.events import LaunchEnded, Note

    tally = progress.Tally(time.monotonic, point.spec)

    def tell(event: Event) -> None:
        if isinstance(event, LaunchEnded | Note) and not quiet:
            said = event.text if isinstance(event, Note) else tally.ended_line(event)
            console.err(f"{point.label}: {said}")

    return tell
