"""``tune scale``: the same job on 1, 2, ... hosts, and which of them is worth its price."""

from __future__ import annotations

import itertools
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
    from tuner.results.scale import Scaling

#: No list of prices is longer, bytes.
MOST_BYTES = 1 << 20


@click.command(
    "scale",
    cls=TuneCommand,
    takes_tail=True,
    help="Measure the same job on 1, 2, 3, 4, 8 ... hosts; without hosts, with 1, 2, 4 ... ranks on"
    " this one. Each layout is tuned by a study of its own (NAME-2x4: 4 ranks on each of 2 hosts),"
    " or launched in rounds with one setting (--setting). The same command continues.",
    examples=(("tune scale --hosts h1:2,h2:2 -- python train.py --out {out}", "1 host against 2"),),
)
@options.study_options(without={"ppn", "price_per_hour"}, more=options.OF_SCALE)
@options.place_options(without={"--join"})
@options.json_option(options.OUTPUT)
@options.quiet_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Measure every layout and compare them."""
    from tuner.cli import console, outfile
    from tuner.results.exporters import Export
    from tuner.results.exporters.json import dumps

    specs = [replace(spec, typed=ctx.meta[TYPED]) for spec in _specs(given, tail(ctx))]
    scaling = _measured(specs, given)
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
    ppns = sorted({int(each) for each in ppn.split(",") if each})
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
        interfaces = tuple(str(each) for of in shared for each in of if each != UNSET)
        features = replace(host_features(os.environ), interfaces=interfaces)
        of_host = {
            "machine": largest.machine,
            "found": features,
            "find": lambda *_: largest.launcher,
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
        prices = {name: float(each) for name, each in lines}
        return {host: prices[host] for host in hosts}
    except ValueError:
        said = "a line is not a name and a price"
    except KeyError as error:
        said = f"{error.args[0]} has no price"
    raise UsageError(f"--price-per-hour {text}: {said}", "a line `h1 1.20` for each host")


def _measured(specs: list[StudySpec], given: dict[str, Any]) -> Scaling:
    """Tune each layout, or launch the setting in rounds; what cannot win is left out."""
    from tuner.cli import console, progress, stored
    from tuner.results.scale import Point, Scaling
    from tuner.study import tune
    from tuner.study.fixed_setting import FixedSetting

    is_fixed, failed = given["setting"] is not None, None
    points = {spec.name: Point(spec, spec.fixed) for spec in specs}
    scaling = Scaling([*points.values()], given["weak"], given["job_iterations"])
    policies = {spec.name: FixedSetting() for spec in specs}
    rounds = range(1, given["rounds"] + 1) if is_fixed else [1]
    for number, spec in itertools.product(rounds, specs):
        point, policy = points[spec.name], policies[spec.name]
        if point.why:
            continue
        policy.number, why = number, scaling.cannot_win(spec)
        if not given["quiet"] and (why or number == 1):
            console.err(f"{point.label}: {why or f'the study {spec.name}'}")
        try:
            if not why:
                with progress.view(given["quiet"]) as view:
                    tune(
                        replace(spec, warm_ups=0) if policy.is_warm else spec,
                        storage=given["storage"],
                        outputs=Path(given["run_dir"]) if given["run_dir"] else None,
                        fresh=given["fresh"] and number == 1,
                        wait=given["wait"],
                        on_event=view,
                        policy=policy if is_fixed else None,
                    )
                point = Point.of(stored.load(stored.open_store(given["storage"]), spec.name))
        except (NothingMeasuredError, LimitReachedError) as error:
            why, failed = f"failed: {error.message}", error
        points[spec.name] = replace(point, why=why)
        scaling = replace(scaling, points=[*points.values()])
    if failed is not None and len(scaling.measured) < 2:
        raise failed
    return scaling
