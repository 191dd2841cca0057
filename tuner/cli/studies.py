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
@option("--delete", "gone", metavar="STUDY", shell_complete=study_names, help="Delete this study.")
@shared("run_dir", "storage", "json")
def command(gone: str | None, run_dir: str | None, storage: str | None, as_json: bool) -> None:
    """List the studies."""
    from tuner.cli import stored
    from tuner.results.exporters.json import dumps
    from tuner.store import display_url

    store = stored.open_store(storage)
    if gone is not None:
        from tuner.study import delete

        for line in delete(store, gone, Path(run_dir) if run_dir else None):
            console.warn(line)
        console.err(f"deleted the study {gone}")
        return
    studies = store.studies()
    if as_json:
        sys.stdout.write(
            dumps({"schema": "tuner.studies/1", "studies": [_json(study) for study in studies]})
        )
        return
    if not studies:
        stored.chosen(store, None)
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

    answer = study.answer
    ratio = answer.baseline_s / answer.best_s if answer.baseline_s and answer.best_s else None
    times = [
        "" if cost is None else figures.shown(study.spec.objective, cost)
        for cost in (answer.best_s, answer.baseline_s)
    ]
    handed_over = ""
    if answer.conclusion and answer.conclusion.keeps_baseline:
        handed_over = "defaults"
    elif answer.best_setting is not None:
        handed_over = setting_text.assigned(answer.best_setting, (), cut=True)
    gain = claims.gain(answer.conclusion, answer.finding, ratio)
    return [study.name, str(study.state), *times, gain, str(answer.trials), handed_over]


def _json(study: StudyRow) -> JsonDict:
    """Return a study as a document; times are none if its figures are none."""
    from tuner.results.exporters.json import plain

    objective, answer = study.spec.objective, study.answer
    times = {} if objective.is_time else {"best_s": None, "baseline_s": None}
    return {
        **plain(answer),
        **times,
        "name": study.name,
        "state": str(study.state),
        "reason": study.reason,
        "created_at": study.created_at,
        "updated_at": study.updated_at,
        "best_figure": figures.figure(objective, answer.best_s),
        "baseline_figure": figures.figure(objective, answer.baseline_s),
        "unit": figures.unit(objective),
        "direction": "maximize" if objective.maximize else "minimize",
    }
