"""``tune explain``: what held a launch back, best and defaults side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand
from tuner.cli.click_options import option, shared, study_argument
from tuner.model import BASELINE, JsonDict, LaunchRecord, figures
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.results.explain.explained_runs import ExplainedRun
    from tuner.results.study_view import StudyView
    from tuner.store.store import Store


@click.command(
    "explain",
    cls=TuneCommand,
    help=(
        "Name what held a run back most, with the evidence and the knob that addresses it. By"
        " default: the median run of the best setting and that of the baseline, side by side, of"
        " the latest study."
    ),
    examples=(
        ("tune explain", "best setting and baseline of the latest study"),
        ("tune explain NAME --launch 7", "one launch of it, by the number of its folder"),
        ("tune explain --json | jq .runs[0].verdict", "for a program"),
    ),
)
@study_argument()
@option("--launch", type=click.IntRange(1), metavar="N", help="Explain this launch.")
@shared("storage", "json")
def command(study: str | None, launch: int | None, storage: str | None, as_json: bool) -> None:
    """Explain one launch or two."""
    from tuner.cli import stored
    from tuner.results.explain.explained_runs import explained_run
    from tuner.results.exporters.json import dumps

    store = stored.open_store(storage)
    data = stored.load(store, study)
    runs = [
        explained_run(name, record, store.telemetry(data.spec.name, record.number), data)
        for name, record in _named_launches(data, launch)
    ]
    if as_json:
        document = {"schema": "tuner.explain/1", "study": data.spec.name}
        sys.stdout.write(dumps({**document, "runs": [_json(run) for run in runs]}))
    else:
        _print(data, runs)


def _named_launches(data: StudyView, launch: int | None = None) -> list[tuple[str, LaunchRecord]]:
    """Return the launches to explain with their names; by default best and baseline."""
    from tuner.results.explain.explained_runs import median_run

    name = data.spec.name
    if launch is not None:
        for record in data.records:
            if record.number == launch:
                return [(f"launch {launch}", record)]
        raise UsageError(f"study {name} has no launch {launch}", f"it has 1 to {len(data.records)}")
    best = data.pooling.canonical(data.best_setting) if data.result.best else BASELINE
    settings = {"best": best, "baseline": BASELINE}
    if best.is_baseline:
        del settings["best"]
    runs = {side: median_run(data.records, settings[side]) for side in settings}
    launches = [(side, run) for side, run in runs.items() if run is not None]
    if not launches:
        hint = f"`tune show {name}` lists what it has"
        raise UsageError(f"study {name} has no launch to explain", hint)
    return launches


def line(store: Store, data: StudyView) -> str:
    """Return, for the end of ``tune``, what holds the best setting back; empty: not known."""
    from tuner.results.explain import Cause
    from tuner.results.explain.explained_runs import explained_run

    if data.result.best is None:
        return ""
    ((name, record), *_) = _named_launches(data)
    run = explained_run(name, record, store.telemetry(data.spec.name, record.number), data)
    is_known = run.explanation.cause is not Cause.UNKNOWN
    return f"{name}: {run.sentence} (`tune explain`)" if is_known else ""


def _json(run: ExplainedRun) -> JsonDict:
    """Return an explained launch as a document."""
    explanation = run.explanation
    verdicts = [
        {"verdict": each.cause.name.lower(), "share": each.share, "evidence": each.evidence}
        for each in (explanation.suspect, *explanation.others)
    ]
    return {
        "name": run.name,
        "launch": run.record.number,
        "setting": run.record.setting.as_dict(),
        **verdicts[0],
        "sentence": run.sentence,
        "certainty": explanation.certainty,
        "subject": explanation.suspect.subject,
        "knob": explanation.remedy,
        "others": verdicts[1:],
        "figures": {"host": explanation.case.host, "ranks": explanation.case.ranks},
        "gaps": explanation.gaps,
    }


def _print(data: StudyView, runs: list[ExplainedRun]) -> None:
    """Print the explained launches side by side, then what held each back."""
    from tuner.knobs import setting_text

    console.out(f"Study {data.spec.name}", bold=True)
    for run in runs:
        setting = setting_text.assigned(run.record.setting, data.spec.knobs)
        result = figures.came_to(data.spec.objective, run.record.outcome)
        console.out(f"  {run.name}: {setting}, launch {run.record.number}, {result}")
    blocks = {f"{run.name}: {run.sentence}": run.lines for run in runs}
    blocks["Not seen"] = list(dict.fromkeys(gap for run in runs for gap in run.explanation.gaps))
    for heading, texts in blocks.items():
        if texts or heading != "Not seen":
            console.out()
            console.out(heading, bold=True)
        for text in texts:
            console.out(text, indent="  ")
