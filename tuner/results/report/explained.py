"""What held best and defaults back, as ``tune explain`` says it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import wording
from tuner.results.explain.cause import Cause, per_cent
from tuner.results.explain.evidence import ExplainedRun, explained_run, remedy_sentence, table
from tuner.results.report.plots import Table, runs
from tuner.results.study_view import StudyView


@dataclass(frozen=True)
class Verdict:
    """One side: whose launch it is, what held it back, and what shows it."""

    heading: str
    sentence: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """The verdicts, and the figures behind them side by side; ``None`` where there are none."""

    verdicts: tuple[Verdict, ...]
    table: Table | None


def explained(data: StudyView) -> Explained:
    """The verdicts on the launches of which something was recorded; none where nothing was."""
    found = [each for side in runs.sides(data) if (each := _told(data, side)) is not None]
    rows = table([each.case for each in found])
    heads = ("", *(each.name for each in found))
    return Explained(
        tuple(_verdict(each) for each in found),
        Table.of(heads, [tuple(row) for row in rows]) if rows else None,
    )


def _told(data: StudyView, side: runs.Side) -> ExplainedRun | None:
    for record in runs.standing(data, side.setting):
        if record.outcome.telemetry is not None:
            return explained_run(side.name, record, record.outcome.telemetry, data.spec)
    return None


def _verdict(each: ExplainedRun) -> Verdict:
    found = each.found
    also = [
        f"also: {other.cause}{f' ({other.subject})' if other.subject else ''},"
        f" {per_cent(other.share)} of the time"
        for other in found.others
    ]
    turn = [] if found.cause is Cause.UNKNOWN else [remedy_sentence(found.remedy)]
    lines = [*found.found.evidence, *turn, *also]
    return Verdict(
        f"{wording.capital(each.name)} (launch {each.record.number})",
        wording.capital(each.sentence),
        tuple(wording.capital(line) for line in lines),
    )
