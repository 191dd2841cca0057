"""``tune studies``: what is in the database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand
from tuner.cli.click_options import option, shared, study_names
from tuner.model import JsonDict, figures

if TYPE_CHECKING:
    from tuner.store.rows import StudyRow


@click.command(
    "studies",
    cls=TuneCommand,
    help="List the studies, the latest first, or delete one.",
    examples=(
        ("tune studies --json | jq -r .studies[].name", "only the names"),
        ("tune studies --delete NAME", "deletes its measurements and folders as well"),
    ),
)
@option("--delete", "name", metavar="STUDY", shell_complete=study_names, help="Delete this study.")
@shared("run_dir", "storage", "json")
def command(name: str | None, run_dir: str | None, storage: str | None, as_json: bool) -> None:
    """List the studies, or delete one."""
    from tuner.cli import stored
    from tuner.results.exporters.json import dumps
    from tuner.store.urls import display_url

    store = stored.open_store(storage)
    if name is not None:
        from tuner.study.tuning import delete

        for line in delete(store, name, Path(run_dir) if run_dir else None):
            console.warn(line)
        console.err(f"deleted the study {name}")
        return
    studies = store.studies()
    if as_json:
        document = {"schema": "tuner.studies/1", "studies": [*map(_json, studies)]}
        sys.stdout.write(dumps(document))
        return
    if not studies:
        stored.name_of(store, None)
    console.print_table(
        ["study", "state", "best", "baseline", "faster", "settings", "best setting"],
        [_row(study) for study in studies],
        right={2, 3, 4, 5},
    )
    console.err(f"in {display_url(store.url)}")


def _row(study: StudyRow) -> list[str]:
    """Return a study in the table; the last cell is what an export holds."""
    from tuner.knobs import setting_text
    from tuner.results import claims

    summary = study.summary
    ratio = summary.baseline_s / summary.best_s if summary.baseline_s and summary.best_s else None
    times = [
        "" if cost is None else figures.shown(study.spec.objective, cost)
        for cost in (summary.best_s, summary.baseline_s)
    ]
    if (projection_s := summary.baseline_projection_s) is not None:
        times[1] = f"~{figures.shown(study.spec.objective, projection_s)}"
    handed_over = ""
    if summary.conclusion and summary.conclusion.keeps_baseline:
        handed_over = "defaults"
    elif summary.best_setting is not None:
        handed_over = setting_text.assigned(summary.best_setting, study.spec.knobs, cut=True)
    gain = claims.gain(summary.conclusion, summary.finding, ratio)
    return [study.name, str(study.state), *times, gain, str(summary.trials), handed_over]


def _json(study: StudyRow) -> JsonDict:
    """Return a study as a document; the times are ``None`` if its figures are no times."""
    from tuner.results.exporters.json import plain

    objective, summary = study.spec.objective, study.summary
    times = {} if objective.is_time else {"best_s": None, "baseline_s": None}
    document: JsonDict = plain(summary)
    del document["candidate"], document["baseline_projection_s"]
    return {
        **document,
        **times,
        "name": study.name,
        "state": str(study.state),
        "reason": study.reason,
        "created_at": study.created_at,
        "updated_at": study.updated_at,
        "best_figure": figures.figure(objective, summary.best_s),
        "baseline_figure": figures.figure(objective, summary.baseline_s),
        "unit": figures.unit(objective),
        "direction": "maximize" if objective.maximize else "minimize",
    }
