"""Every setting of a small space, measured several times, as a surface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import exits, options, progress
from tuner.cli.base import TuneCommand, tail
from tuner.cli.main import main
from tuner.cli.options import OUTPUT, option, place_options, quiet_option, study_options
from tuner.config.options import LIMITS

if TYPE_CHECKING:
    from tuner.model import JsonDict, StudySpec

#: A surface is of launches, each setting as often as the others.
NOT_ASKED = {
    *("trials", "budget_s", "min_gain", "precision", "confirm", "live", "oversubscription"),
    "learn_from",
}

#: More settings than this are no small space: a slip of the pen.
MOST_SETTINGS = 1000

#: A typical spread of single runs above this says that something else ran beside them.
NOISY = 0.1

#: The setting that stands for the defaults should take as long as they do, within this share.
OFF = 0.1


@click.command(
    "record",
    cls=TuneCommand,
    takes_tail=True,
    examples=(
        ("python -m benchmarks.record -n 4 --knob omp_threads=1,2 -o job.json", "a trainer"),
        ("python -m benchmarks.search job.json --seeds 3", "a search on what was recorded"),
    ),
    help=(
        "Measure every setting of a small space several times and write them as a surface file,"
        " on which benchmarks.search searches in seconds. The same command continues an"
        " interrupted recording."
    ),
)
@study_options(without=NOT_ASKED)
@option(
    "--runs",
    type=click.IntRange(1),
    default=10,
    metavar="N",
    heading=LIMITS,
    help="Runs of each setting [10].",
)
@place_options()
@option(
    "--output",
    "-o",
    "filename",
    type=click.Path(path_type=Path),
    metavar="FILE",
    heading=OUTPUT,
    help="The surface file [NAME.json].",
)
@quiet_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Record one surface."""
    from benchmarks.replay import recorded
    from benchmarks.replay.recording import Recording
    from tuner.cli import console, outfile, stored
    from tuner.results.exporters import Export
    from tuner.results.exporters.json import dumps
    from tuner.study import tune
    from tuner.study.history import History

    spec = options.spec_of({**given, "live": "off"}, tail(ctx))
    if given["name"] is None:
        spec = replace(spec, name=f"{spec.name}-surface")
    _require_surface(spec, given["runs"])
    outputs = Path(given["run_dir"]) if given["run_dir"] else None
    with progress.view(given["quiet"]) as view:
        tune(
            replace(spec, oversubscription=None, confirm="none", learn_from="none"),
            storage=given["storage"],
            outputs=outputs,
            fresh=given["fresh"],
            wait=given["wait"],
            on_event=view,
            policy=Recording(given["runs"]),
        )
    data = stored.load(stored.open_store(given["storage"]), spec.name)
    document = recorded.document(History.judged(data.spec, data.records))
    path = given["filename"] or Path(f"{spec.name}.json")
    outfile.write(path, Export(dumps(document)))
    for doubt in _doubts(document):
        console.warn(doubt)
    console.err(f"wrote {path} ({len(document['points'])} settings)")
    return exits.OK


def _require_surface(spec: StudySpec, runs: int) -> None:
    """Raise ``UsageError`` for a study whose settings make no surface, or too large a one."""
    from tuner.knobs import space
    from tuner.knobs.requirements import requirements_of
    from tuner.model.errors import UsageError

    if spec.objective.clock not in {"elapsed", "wall"}:
        raise UsageError(
            "a surface holds how long runs take; this objective is something else",
            "Record with --objective logreport or --objective wall.",
        )
    tuned = {knob.name for knob in spec.knobs}
    for knob in spec.knobs:
        if any(parent in tuned for parent, _ in knob.when):
            raise UsageError(
                f"a surface holds every combination, and {knob.name} exists in some settings only",
                f"Leave {knob.name} out, or what it depends on.",
            )
    size = space.size(spec.knobs, requirements_of(spec))
    if size > MOST_SETTINGS:
        raise UsageError(
            f"the space has {size} settings: recording measures each one {runs} times",
            "Narrow it with --knob NAME=VALUES or --fix NAME=VALUE.",
        )


def _doubts(document: JsonDict) -> Iterator[str]:
    """What to know of a surface before one searches on it."""
    from benchmarks.replay import recorded

    spread = recorded.spread(document)
    if spread > NOISY:
        yield (
            f"the runs of a setting differ by {100 * spread:.0f} % (median): this"
            " machine was not quiet, and a search on the surface shows little"
        )
    off = recorded.default_is_off(document)
    if off > OFF:
        yield (
            "no setting takes as long as your defaults: the nearest differs by"
            f" {100 * off:.0f} %, and stands for them in replays"
        )


if __name__ == "__main__":
    sys.exit(main(command=command, program="python -m benchmarks.record"))
