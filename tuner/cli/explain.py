"""``tune explain``: what held a launch back, best and defaults side by side."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tuner.cli.base import TuneCommand
from tuner.cli.options import json_option, option, storage_option, study_argument

if TYPE_CHECKING:
    from tuner.model import JsonDict, LaunchRecord
    from tuner.results.explain.explained_runs import ExplainedRun
    from tuner.results.study_view import StudyView
    from tuner.store import Store


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
        ("tune explain 12", "the median run of the setting that was tried as 12/50"),
        ("tune explain NAME --launch 7", "one launch of it, by the number of its folder"),
        ("tune explain --json | jq .runs[0].verdict", "for a program"),
    ),
)
@study_argument()
@click.argument("trial", required=False, type=click.IntRange(1), metavar="[TRIAL]")
@option("--launch", type=click.IntRange(1), metavar="N", help="Explain this launch.")
@storage_option()
@json_option()
def command(
    study: str | None, trial: int | None, launch: int | None, storage: str | None, as_json: bool
) -> None:
    """Explain one launch or two."""
    from tuner.cli import stored
    from tuner.results.explain.explained_runs import explained_run
    from tuner.results.exporters.json import dumps

    store = stored.open_store(storage)
    if study is not None and trial is None and study.isdecimal() and not store.has(study):
        trial, study = int(study), None  # of the latest study
    data = stored.load(store, study)
    runs = [
        explained_run(name, record, store.telemetry(data.spec.name, record.number), data)
        for name, record in chosen(data, trial, launch)
    ]
    if as_json:
        document = {"schema": "tuner.explain/1", "study": data.spec.name}
        sys.stdout.write(dumps({**document, "runs": [_json(run) for run in runs]}))
    else:
        _print(data, runs)


def chosen(
    data: StudyView, trial: int | None = None, launch: int | None = None
) -> list[tuple[str, LaunchRecord]]:
    """The launches that are asked for, by the names they go by; best and defaults by default.

    Raises:
        UsageError: There is no such launch or trial, both are asked for, or nothing was launched.
    """
    from tuner.model import BASELINE
    from tuner.model.errors import UsageError
    from tuner.results.explain.explained_runs import median_run
    from tuner.stats import estimates

    name, canonical = data.spec.name, data.pooling.canonical
    if launch is not None and trial is not None:
        raise UsageError(
            f"trial {trial} and --launch {launch} ask for two different things",
            "give one of them: a launch, or the median run of a trial's setting",
        )
    if launch is not None:
        for record in data.records:
            if record.number == launch:
                return [(f"launch {launch}", record)]
        raise UsageError(f"study {name} has no launch {launch}", f"it has 1 to {len(data.records)}")
    if trial is not None:
        tried = estimates.tried(data.records)
        if trial > len(tried):
            raise UsageError(f"study {name} has no trial {trial}", f"it has 1 to {len(tried)}")
        settings = {f"trial {trial}": canonical(tried[trial - 1])}
    else:
        best = canonical(data.best_setting) if data.result.best else BASELINE
        settings = {} if best.is_baseline else {"best": best}
        settings["baseline"] = BASELINE
    runs = [
        (what, run)
        for what, setting in settings.items()
        if (run := median_run(data.records, setting, canonical)) is not None
    ]
    if not runs:
        raise UsageError(
            f"study {name} has no launch to explain", f"`tune show {name}` lists what it has"
        )
    return runs


def line(store: Store, data: StudyView) -> str:
    """For the end of ``tune``: what holds the best setting back; empty if that is not known."""
    from tuner.results.explain import Cause
    from tuner.results.explain.explained_runs import explained_run, sentence

    if data.result.best is None:
        return ""
    ((name, record), *_) = chosen(data)
    run = explained_run(name, record, store.telemetry(data.spec.name, record.number), data)
    if run.explanation.cause is Cause.UNKNOWN:
        return ""
    return f"{name}: {sentence(run.explanation)} (`tune explain`)"


def _json(run: ExplainedRun) -> JsonDict:
    from tuner.results.exporters.json import plain

    explanation = run.explanation
    return {
        "name": run.name,
        "launch": run.record.number,
        "setting": run.record.setting.as_dict(),
        "verdict": explanation.cause.name.lower(),
        "sentence": run.sentence,
        "certainty": explanation.certainty.value,
        "share": explanation.suspect.share,
        "subject": explanation.suspect.subject,
        "evidence": list(explanation.suspect.evidence),
        "knob": None if explanation.remedy is None else plain(explanation.remedy),
        "others": [
            {
                "verdict": other.cause.name.lower(),
                "share": other.share,
                "evidence": list(other.evidence),
            }
            for other in explanation.others
        ],
        "figures": {"host": explanation.case.host, "ranks": explanation.case.ranks},
        "gaps": list(explanation.gaps),
    }


def _print(data: StudyView, runs: list[ExplainedRun]) -> None:
    from tuner.cli import console
    from tuner.knobs import setting_text
    from tuner.results.explain.explained_runs import table

    console.out(f"Study {data.spec.name}", bold=True)
    for run in runs:
        what = setting_text.assigned(run.record.setting, data.spec.knobs)
        console.out(f"  {run.name}: {what}, launch {run.record.number}, {_came_to(data, run)}")
    rows = table(runs)
    if rows:
        console.out()
        console.print_table(["", *(run.name for run in runs)], rows, right=set())
    for run in runs:
        console.out()
        console.out(f"{run.name}: {run.sentence}", bold=True)
        for text in run.lines:
            console.out(text, indent="  ")
    gaps = dict.fromkeys(gap for run in runs for gap in run.explanation.gaps)
    if gaps:
        console.out()
        console.out("Not seen", bold=True)
        for gap in gaps:
            console.out(gap, indent="  ")


def _came_to(data: StudyView, run: ExplainedRun) -> str:
    from tuner.model import Failed, Finished, figures, wording

    ending = run.record.outcome.ending
    if isinstance(ending, Finished):
        return figures.shown(data.spec.objective, ending.elapsed_s)
    if isinstance(ending, Failed):
        return wording.failure(ending)
    return figures.stopped(data.spec.objective, ending)
