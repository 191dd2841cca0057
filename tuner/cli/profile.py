"""``tune profile``: best and defaults under cProfile, side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.base import TuneCommand
from tuner.cli.options import json_option, option, storage_option, study_argument

if TYPE_CHECKING:
    from tuner.model import Setting
    from tuner.results.study_view import StudyView

#: A function whose share moves by less than this did not change.
LEAST_POINTS = 0.002


@click.command(
    "profile",
    cls=TuneCommand,
    help=(
        "Launch the baseline and the best setting once more, each Python rank under cProfile,"
        " and list the functions whose share of the time changed most. The study does not count"
        " these launches."
    ),
    examples=(
        ("tune profile", "the latest study"),
        ("tune profile NAME --top 30 --json", "30 functions, as JSON"),
    ),
)
@study_argument()
@option("--top", type=click.IntRange(1), default=12, metavar="N", help="Number of functions [12].")
@option("--wait", is_flag=True, help="Wait while another study runs on this host.")
@storage_option()
@json_option()
def command(**options: Any) -> None:
    """Profile both and compare."""
    from tuner.cli import console, stored
    from tuner.knobs import setting_text
    from tuner.launch import profiles
    from tuner.model import figures, wording
    from tuner.results.exporters.json import dumps
    from tuner.study.profiling import profiled

    storage = options["storage"]
    data = stored.load(stored.open_store(storage), options["study"], detail=False)
    settings, objective = compared(data), data.spec.objective
    texts = {
        name: setting_text.assigned(setting, data.spec.knobs) for name, setting in settings.items()
    }
    sides = profiled(
        data.spec,
        settings,
        storage=storage,
        wait=options["wait"],
        on_launch=lambda name: console.err(f"profiling {texts[name]}"),
    )
    changes = profiles.changes(sides[0].profile, sides[1].profile)[: options["top"]]
    if options["as_json"]:
        runs = [
            {
                "name": side.name,
                "setting": side.setting,
                "folder": side.folder,
                "elapsed_s": side.elapsed_s if objective.is_time else None,
                "figure": objective.figure(side.elapsed_s),
                "final_loss": side.loss,
                "ranks": side.profile.ranks,
                "profiled_s": side.profile.total_s,
            }
            for side in sides
        ]
        document = {"schema": "tuner.profile/1", "study": data.spec.name, "runs": runs}
        sys.stdout.write(dumps(document | {"functions": [c._asdict() for c in changes]}))
        return
    console.out(f"Profile of {data.spec.name}", bold=True)
    for side in sides:
        loss = "" if side.loss is None else f", final loss {side.loss:.4g}"
        shown = figures.shown(objective, side.elapsed_s)
        ranks = f"{wording.count(side.profile.ranks, 'rank')}; {texts[side.name]}"
        console.out(f"  {side.name + ':':<10} {shown} under the profile{loss} ({ranks})")
    console.out()
    rows = [
        [
            wording.one_line(change.function, 90),
            f"{change.before_share:.1%}",
            f"{change.after_share:.1%}",
            f"{100 * change.points:+.1f}",
            wording.seconds(change.before_s),
            wording.seconds(change.after_s),
        ]
        for change in changes
        if abs(change.points) >= LEAST_POINTS
    ]
    names = [side.name for side in sides]
    titles = ["function itself", *names, "points", *names]
    console.print_table(titles, rows, right={1, 2, 3, 4, 5})
    console.out(
        "  shares of a rank's main thread, waiting included; seconds are a rank's, on average"
    )
    folders = " and ".join(str(side.folder) for side in sides)
    console.out(f"  the profiles are in {folders} (pstats, snakeviz)")


def compared(data: StudyView) -> dict[str, Setting]:
    """Return the baseline and the fastest other setting, by the names they go by here.

    It is the ``best``, unless the baseline is: then it is the ``other``.

    Raises:
        UsageError: Nothing was measured, or nothing but the baseline.
    """
    from tuner.model import BASELINE
    from tuner.model.errors import UsageError

    for measurement in data.measurements:
        if measurement.elapsed_s is not None and not measurement.setting.is_baseline:
            if data.keeps_defaults:
                return {"baseline": BASELINE, "other": measurement.setting}
            return {"baseline": BASELINE, "best": data.pooling.canonical(data.best_setting)}
    raise UsageError(
        f"study {data.spec.name} has measured no setting but the baseline",
        f"`tune show {data.spec.name}` lists what it has",
    )
