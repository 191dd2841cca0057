"""The search on a recorded surface, in seconds: ``python -m benchmarks.replay SURFACE.json``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.base import TuneCommand
from tuner.cli.main import main
from tuner.cli.options import json_option, option
from tuner.config.options import SECONDS, SHARE, Kind
from tuner.model.errors import NothingMeasuredError, UsageError

if TYPE_CHECKING:
    from benchmarks.replay import Study, Surface


@click.command(
    "replay",
    cls=TuneCommand,
    help=(
        "Search a surface: a file with every point of a space and several runs of each."
        " Launches are drawn from it and take no time; costs are counted in best runs."
    ),
    examples=(
        ("python -m benchmarks.replay SURFACE.json --seed 3", "one study"),
        ("python -m benchmarks.replay SURFACE.json --live", "in running jobs"),
    ),
)
@click.argument("surface", type=click.Path(path_type=Path), metavar="SURFACE.json")
@option(
    "--trials",
    type=click.IntRange(1),
    default=50,
    metavar="N",
    help="The most settings to try [50].",
)
@option(
    "--seed", type=click.IntRange(0), default=0, metavar="N", help="Seed of search and runs [0]."
)
@option(
    "--budget",
    metavar="TIME",
    callback=lambda _, param, text: _read(SECONDS, param, text),
    help="End the search after 90, 90s or 10m of launches.",
)
@option(
    "--max-time",
    metavar="TIME",
    callback=lambda _, param, text: _read(SECONDS, param, text),
    help="Stop a launch that is projected to take longer than 90, 90s or 10m.",
)
@option(
    "--min-gain",
    default="1%",
    metavar="PERCENT",
    callback=lambda _, param, text: _read(SHARE, param, text),
    help="End it once going on is expected to gain less [1%].",
)
@option(
    "--precision",
    default="2%",
    metavar="PERCENT",
    callback=lambda _, param, text: _read(SHARE, param, text),
    help="Tell contenders apart as far as this [2%].",
)
@option(
    "--live",
    is_flag=True,
    help=(
        "Measure in running jobs: a start-up a job, a switch and a window of iterations a"
        " setting. All knobs change in a running job but those that the surface names as cold."
    ),
)
@option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a JSON line for each launch, and a last one.",
)
@json_option()
def command(
    *,
    surface: Path,
    trials: int,
    seed: int,
    budget: float | None,
    max_time: float | None,
    min_gain: float,
    precision: float,
    live: bool,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Search a surface and say what came of it."""
    from benchmarks import replay
    from tuner.cli import outfile
    from tuner.results.exporters import Export

    recorded = replay.load(surface)
    asked = {
        "trials": trials,
        "budget_s": budget,
        "max_time_s": max_time,
        "until": min_gain,
        "precision": precision,
        "live": "on" if live else "off",
    }
    study = replay.play(recorded, replay.spec(recorded, seed=seed, options=asked), seed)
    if trace is not None:
        outfile.write(trace, Export("\n".join(replay.trace.lines(study)) + "\n"))
    if as_json:
        _print_json(recorded, study)
    if study.best is None:
        failure = study.result.baseline.failure if study.result.baseline else None
        raise NothingMeasuredError(
            f"every launch failed: {failure.reason if failure else 'no reason is recorded'}",
            "raise --trials or --budget",
        )
    if not as_json:
        _print_words(recorded, study)


def _read(kind: Kind, param: click.Parameter, text: str | None) -> Any:
    """The value of an option of the study's table."""
    try:
        return None if text is None else kind.read(text)
    except ValueError as error:
        message = f"{param.opts[0]} {text}: {error}."
        raise UsageError(message, "--help lists the options.") from error


def _print_json(surface: Surface, study: Study) -> None:
    from benchmarks.replay import trace
    from tuner.results.exporters.json import dumps

    document = {
        "schema": "tuner.replay/1",
        "surface": surface.name,
        **trace.summary(study),
        "ended": study.result.reason,
        "launches": len(study.searched),
        "windows": study.windows,
        "jobs": study.jobs,
        "search_best_runs": study.result.search_s / surface.unit_s,
        "confirm_best_runs": study.result.confirm_s / surface.unit_s,
        "regret": surface.regret(study.best),
    }
    sys.stdout.write(dumps(document))


def _print_words(surface: Surface, study: Study) -> None:
    from tuner.cli import console
    from tuner.model import wording
    from tuner.results import claims

    found = study.result
    launches = study.searched
    settings = len({launched.record.setting for launched in launches})
    confirming = len(study.launches) - len(launches)
    console.out(claims.comparison(found))
    console.out(f"  best:     {study.best}")
    if study.export != study.best:
        console.out(f"  export:   {study.export}")
    console.out(
        f"  search:   {found.search_s / surface.unit_s:.1f} best runs"
        f" ({_measured(study)}, {wording.count(settings, 'setting')}); {found.reason}"
    )
    console.out(
        f"  confirm:  {found.confirm_s / surface.unit_s:.1f} best runs"
        f" ({wording.count(confirming, 'launch', 'launches')})"
    )
    console.out(f"  regret:   {100 * surface.regret(study.best):.1f} % (known on a surface only)")


def _measured(study: Study) -> str:
    """How often the search launched, or measured in a running job."""
    from tuner.model import wording

    cold = len(study.searched) - study.windows
    launches = wording.count(cold, "launch", "launches")
    if not study.windows:
        return launches
    windows = f"{wording.count(study.windows, 'window')} in {wording.count(study.jobs, 'job')}"
    return f"{windows}, {launches}" if cold else windows


if __name__ == "__main__":
    sys.exit(main(command=command, program="python -m benchmarks.replay"))
