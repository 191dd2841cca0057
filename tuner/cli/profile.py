"""``tune profile``: best and defaults under cProfile, side by side."""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, Any

import click

from tuner.cli.base import TuneCommand, tail
from tuner.cli.options import json_option, option, storage_option, study_argument

if TYPE_CHECKING:
    from tuner.launch.profiles import FunctionChange
    from tuner.model import JsonDict, Setting
    from tuner.results.study_view import StudyView
    from tuner.study.profiling import ProfiledSide

#: A function whose share moves by less than this did not change.
LEAST_POINTS = 0.002


@click.command(
    "profile",
    cls=TuneCommand,
    takes_tail=True,
    help=(
        "Launch the baseline and the best setting once more, each Python rank under cProfile,"
        " and list the functions whose share of the time changed most. The study does not count"
        " these launches. Secrets are never stored: type a command with one again after `--`."
    ),
    examples=(
        ("tune profile", "the latest study"),
        ("tune profile NAME --top 30 --json", "30 functions, as JSON"),
        ("tune profile NAME -- python train.py --password …", "a command with secrets"),
    ),
)
@study_argument()
@option("--top", type=click.IntRange(1), default=12, metavar="N", help="Number of functions [12].")
@option("--wait", is_flag=True, help="Wait while another study runs on this host.")
@storage_option()
@json_option()
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Profile both and compare."""
    from tuner.cli import console, stored
    from tuner.knobs import setting_text
    from tuner.launch import profiles
    from tuner.results.exporters.json import dumps
    from tuner.study.profiling import profiled, with_command

    storage = options["storage"]
    data = stored.load(stored.open_store(storage), options["study"], detail=False)
    settings = compared(data)

    def say(name: str) -> None:
        what = setting_text.assigned(settings[name], data.spec.knobs)
        console.err(f"profiling {what}{_expected(data, settings[name])}")

    spec = with_command(data.spec, tail(ctx))
    sides = profiled(spec, settings, storage=storage, wait=options["wait"], on_launch=say)
    changed = profiles.changes(sides[0].profile, sides[-1].profile)[: options["top"]]
    if options["as_json"]:
        sys.stdout.write(dumps(_document(data, sides, changed)))
    else:
        _print(data, sides, changed)


def compared(data: StudyView) -> dict[str, Setting]:
    """The baseline and the fastest other setting, by the names they go by here.

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
    has_baseline = any(measurement.samples for measurement in data.measurements)
    raise UsageError(
        f"study {data.spec.name} has measured no setting"
        f"{' but the baseline' if has_baseline else ''}",
        f"`tune show {data.spec.name}` lists what it has",
    )


def _expected(data: StudyView, setting: Setting) -> str:
    """How long that should take, if it is known."""
    from tuner.model import wording
    from tuner.stats import estimates

    same = [
        record
        for record in estimates.counted(data.records)
        if record.outcome.window is None and data.pooling.canonical(record.setting) == setting
    ]
    if not same:
        return ""
    took_s = statistics.median(record.outcome.wall_s for record in same)
    return f": about {wording.duration(took_s)}, and what the profile adds"


def _document(
    data: StudyView, sides: list[ProfiledSide], changed: list[FunctionChange]
) -> JsonDict:
    from tuner.results.exporters.json import plain

    objective = data.spec.objective
    return {
        "schema": "tuner.profile/1",
        "study": data.spec.name,
        "runs": [
            {
                "name": side.name,
                "setting": side.setting.as_dict(),
                "folder": str(side.folder),
                "elapsed_s": side.elapsed_s if objective.is_time else None,
                "figure": objective.figure(side.elapsed_s),
                "final_loss": side.loss,
                "ranks": side.profile.ranks,
                "profiled_s": side.profile.total_s,
            }
            for side in sides
        ],
        "functions": [plain(change) | {"points": change.points} for change in changed],
    }


def _print(data: StudyView, sides: list[ProfiledSide], changed: list[FunctionChange]) -> None:
    from tuner.cli import console
    from tuner.knobs import setting_text
    from tuner.model import figures, wording

    console.out(f"Profile of {data.spec.name}", bold=True)
    for side in sides:
        what = setting_text.assigned(side.setting, data.spec.knobs)
        loss = "" if side.loss is None else f", final loss {side.loss:.4g}"
        shown = figures.shown(data.spec.objective, side.elapsed_s)
        ranks = wording.count(side.profile.ranks, "rank")
        console.out(f"  {side.name + ':':<10} {shown} under the profile{loss} ({ranks}; {what})")
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
        for change in changed
        if abs(change.points) >= LEAST_POINTS
    ]
    other = sides[-1].name
    titles = ["function itself", "baseline", other, "points", "baseline", other]
    console.print_table(titles, rows, right={1, 2, 3, 4, 5})
    console.out(
        "  shares of a rank's main thread, waiting included; seconds are a rank's, on average"
    )
    where = f"{sides[0].folder} and {sides[-1].folder}"
    console.out(f"  the profiles are in {where} (pstats, snakeviz)")
