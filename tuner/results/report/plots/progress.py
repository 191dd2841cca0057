"""Iterations against time: how best and defaults got on, and where stopped ones were going."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import JsonDict, LaunchRecord, Progress, Setting, wording
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.figure import Figure, Table
from tuner.results.report.plots.runs import Side
from tuner.results.study_view import StudyView
from tuner.stats import estimates

#: Runs of a side that are drawn.
_MOST_RUNS = 6

_TITLE = "Iterations against time"


@dataclass(frozen=True)
class _Course:
    """The log of a launch, what came of it, and the time at which it was going to end."""

    side: str
    colour: str
    number: int
    log: tuple[Progress, ...]
    result: str
    is_whole: bool
    going_s: float | None


def build(data: StudyView) -> list[Figure]:
    """One figure, where the log of a launch was followed."""
    courses = [course for side in runs.sides(data) for course in _courses(data, side)]
    if not courses:
        said = "No launch of best or defaults wrote an entry that could be followed."
        return [Figure("progress", _TITLE, said)]
    length = estimates.full_length(data.records)
    return [
        Figure(
            "progress",
            _TITLE,
            " ".join(_sentence(course) for course in _one_a_side(courses)),
            _drawing(courses, length),
            _table(courses),
        )
    ]


def _courses(data: StudyView, side: Side) -> list[_Course]:
    records = _followed(data, side.setting)
    return [_course(data, side, record) for record in records[-_MOST_RUNS:]]


def _course(data: StudyView, side: Side, record: LaunchRecord) -> _Course:
    objective, run = data.spec.objective, runs.run(data, record)
    # Of a launch that was cut nobody asked where it was going; another figure is no such time.
    is_projected = run.stopped is not None and not run.is_bound and objective.clock == "elapsed"
    return _Course(
        side.name,
        side.colour,
        record.number,
        record.outcome.progress,
        runs.said(objective, run),
        run.cost is not None,
        run.going if is_projected else None,
    )


def _followed(data: StudyView, setting: Setting) -> list[LaunchRecord]:
    """The launches of a setting with a log; a window of a running job has none of its own."""
    return [
        record
        for record in estimates.counted(data.records)
        if record.outcome.progress
        and record.outcome.window is None
        and data.pooling.canonical(record.setting) == setting
    ]


def _one_a_side(courses: list[_Course]) -> list[_Course]:
    """The latest of each side."""
    return list({course.side: course for course in courses}.values())


def _sentence(course: _Course) -> str:
    last = course.log[-1]
    pace = last.iteration / last.elapsed_s if last.elapsed_s > 0 else 0.0
    cut = "" if course.is_whole else f"; {course.result}"
    return (
        f"{wording.capital(course.side)}: {wording.count(last.iteration, 'iteration')} in"
        f" {wording.seconds(last.elapsed_s)} ({pace:.3g} a second{cut})."
    )


def _drawing(courses: list[_Course], length: int | None) -> JsonDict:
    named: set[str] = set()
    traces: list[JsonDict] = []
    for course in courses:
        traces.append(_line(course, is_named=course.side not in named))
        named.add(course.side)
        going = _going(course, length)
        if going is not None:
            traces.append(going)
    layout = style.layout(
        360,
        xaxis={"title": {"text": "seconds of the program's own clock"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "iterations"}, "rangemode": "tozero"},
    )
    return {"data": traces, "layout": layout}


def _line(course: _Course, *, is_named: bool) -> JsonDict:
    log = style.thinned(course.log, 200)
    said = style.inert(course.result)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": style.inert(course.side),
        "legendgroup": style.inert(course.side),
        "showlegend": is_named,
        "x": [0, *(entry.elapsed_s for entry in log)],
        "y": [0, *(entry.iteration for entry in log)],
        "line": {"color": course.colour, "width": 2},
        "marker": {"size": 4},
        "hoverinfo": "text",
        "hovertext": [
            f"launch {course.number} ({said})<br>{at} iterations"
            for at in [0, *(entry.iteration for entry in log)]
        ],
    }


def _going(course: _Course, length: int | None) -> JsonDict | None:
    """From where a launch was stopped to where it was going."""
    last = course.log[-1]
    if course.going_s is None or length is None:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "legendgroup": style.inert(course.side),
        "showlegend": False,
        "x": [last.elapsed_s, course.going_s],
        "y": [last.iteration, length],
        "line": {"color": course.colour, "width": 1.5, "dash": "dot"},
        "hoverinfo": "skip",
    }


def _table(courses: list[_Course]) -> Table:
    rows = [
        (
            course.side,
            str(course.number),
            str(course.log[-1].iteration),
            wording.seconds(course.log[-1].elapsed_s),
            course.result,
        )
        for course in courses
    ]
    return Table.of(("", "launch", "iterations", "until", "result"), rows)
