"""``tune replay``: the search on a recorded surface, in seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli.base import TuneCommand
from tuner.cli.options import Seconds, json_option, option
from tuner.errors import NothingMeasuredError

if TYPE_CHECKING:
    from tuner.replay import Study, Surface


@click.command(
    "replay",
    cls=TuneCommand,
    help=(
        "Search a surface: a file with every point of a space and several runs of each."
        " Launches are drawn from it and take no time; costs are counted in best runs."
    ),
    examples=(("tune replay benchmarks/surfaces/mlp-32core-8rank.json --seed 3", "one study"),),
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
    type=Seconds(),
    metavar="TIME",
    help="End the search after 90, 90s or 10m of launches.",
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
    trace: Path | None,
    as_json: bool,
) -> None:
    """Search a surface and say what came of it."""
    from tuner import replay
    from tuner.cli import outfile
    from tuner.exporters import Export
    from tuner.search import Options, Search

    recorded = replay.load(surface)
    search = Search(replay.space(recorded), Options(trials=trials, budget_s=budget), seed)
    study = replay.play(recorded, search, seed)
    if trace is not None:
        lines = "\n".join(replay.trace.lines(recorded, study))
        outfile.write(trace, Export(lines + "\n"))
    if as_json:
        _print_json(recorded, study)
    if study.best is None:
        raise NothingMeasuredError(
            f"every launch failed: {study.failure or 'no reason is recorded'}",
            "raise --trials or --budget",
        )
    if not as_json:
        _print_words(recorded, study)


def _print_json(surface: Surface, study: Study) -> None:
    from tuner.exporters.json import dumps
    from tuner.replay import trace

    document = {
        "schema": "tuner.replay/1",
        "surface": surface.name,
        **trace.summary(surface, study),
        "ended": study.ended,
        "launches": sum(step.ending is not None for step in study.steps),
        "search_best_runs": study.search_s / surface.unit_s,
        "confirm_best_runs": study.confirm_s / surface.unit_s,
        "regret": surface.regret(study.best),
    }
    sys.stdout.write(dumps(document))


def _print_words(surface: Surface, study: Study) -> None:
    from tuner.cli import console
    from tuner.wording import count

    assert study.best is not None
    launches = [step for step in study.steps if step.ending is not None]
    settings = len({step.setting for step in launches})
    pairs = count(len(study.steps) - len(launches), "launch", "launches")
    console.out(_claim(surface, study))
    console.out(f"  best:     {_assigned(surface, study.best)}")
    if study.export != study.best:
        console.out(f"  export:   {_assigned(surface, study.export)}")
    console.out(
        f"  search:   {study.search_s / surface.unit_s:.1f} best runs"
        f" ({count(len(launches), 'launch', 'launches')}, {count(settings, 'setting')});"
        f" {_ENDED[study.ended]}"
    )
    console.out(f"  confirm:  {study.confirm_s / surface.unit_s:.1f} best runs ({pairs})")
    console.out(f"  regret:   {100 * surface.regret(study.best):.1f} % (known on a surface only)")


_ENDED = {
    "trials": "ended by --trials",
    "budget": "ended by --budget",
    "converged": "ended as going on is expected to gain less than 1 %",
    "exhausted": "ended as there is nothing else to try",
}


def _claim(surface: Surface, study: Study) -> str:
    """The comparison in one line."""
    from tuner import wording

    if study.verdict != "baseline fails":
        if study.finding is None:
            return "no significant gain: the defaults are the fastest that was found"
        return wording.confirmed(study.finding, "the defaults")
    why = f"the defaults fail ({study.failure or 'no reason is recorded'})"
    if study.finding is None or study.reference is None:
        return f"{why}; the first guess that worked is the fastest that was found"
    guess = _assigned(surface, study.reference)
    compared = wording.confirmed(study.finding, guess)
    return f"{why}; compared with the first guess that worked: {compared}"


def _assigned(surface: Surface, key: tuple[int | str, ...]) -> str:
    return " ".join(f"{name}={value}" for name, value in surface.setting(key).items())
