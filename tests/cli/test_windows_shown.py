"""What a user sees of settings that were measured in windows of running jobs."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.study_samples import FAST, NEXT, SLOW, SPEC, in_window, measured_live, record
from tuner.cli import printed
from tuner.cli.live import LiveView
from tuner.cli.progress import PlainView
from tuner.model import Purpose
from tuner.results import claims
from tuner.results.explain import explain
from tuner.results.explain.evidence import median_run
from tuner.results.exporters import json as as_json
from tuner.results.exporters import table
from tuner.results.report import words
from tuner.study.events import LaunchEnded, LaunchStarted, StudyStarted
from tuner.study.history import History
from tuner.study.interference import notes

DATA = measured_live()


def test_a_line_says_which_job_it_is_a_window_of() -> None:
    lines: list[str] = []
    view = PlainView(lambda: 0.0, lines.append)
    view(StudyStarted(SPEC, False, 0))
    for number, purpose in ((2, Purpose.GUESS), (3, Purpose.SEARCH), (4, Purpose.REPEAT)):
        launch = in_window(record(number, NEXT, 3.9, purpose=purpose), 2)
        view(LaunchEnded(launch, None, False))
    view(LaunchEnded(DATA.records[3], None, False))
    name = "omp_threads=1 iterator_workers=2 communicator=naive"
    assert [line.partition("] ")[2] for line in lines] == [
        f"1/8 {name} (starts job 2): 3.90 s",
        f"2/8 {name} (job 2): 3.90 s",
        f"- {name} (repeat, job 2): 3.90 s",
        "3/8 omp_threads=4 iterator_workers=4 communicator=naive (job 2): stopped early"
        " (projected 9.80 s)",
    ]


def test_the_live_view_says_that_it_is_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    view = LiveView(lambda: 0.0)
    view(StudyStarted(SPEC, False, 0))
    view(LaunchStarted(3, Purpose.SEARCH, NEXT, 1, 8, live=True))
    view.screen.print(view.draw())
    assert "in a running job" in " ".join(capsys.readouterr().err.split())


def test_windows_jobs_and_launches_are_counted_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert (DATA.result.launches, DATA.result.windows, DATA.result.jobs) == (20, 6, 3)
    assert claims.made(DATA.result) == "6 windows of 3 jobs and 14 launches"
    printed.print_result(DATA, summary=True)
    shown = " ".join(capsys.readouterr().out.split())
    assert "4 settings tried (1 stopped early) in 6 windows of 3 jobs" in shown
    assert "2.33 times faster than your defaults" in shown
    tried = dict(words.summary(DATA))["Tried"]
    assert tried.endswith("in 6 windows of 3 jobs and 14 launches")


def test_the_tables_have_a_column_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    printed.print_settings(DATA)
    head, *_ = (line for line in capsys.readouterr().out.splitlines() if "faster" in line)
    assert head.split()[:4] == ["time", "faster", "runs", "windows"]
    rows = list(csv.DictReader(io.StringIO(table.csv(DATA).text)))
    assert [(row["runs"], row["windows"]) for row in rows][:2] == [("8", "2"), ("1", "1")]
    assert "| runs | windows |" in table.markdown(DATA).text


def test_the_json_has_each_window() -> None:
    document = json.loads(as_json.export(DATA).text)
    assert (document["result"]["windows"], document["result"]["jobs"]) == (6, 3)
    first, second = document["launches"][0]["window"], document["launches"][1]["window"]
    assert first is None
    assert (second["job"], second["live"], second["started_s"]) == (2, ["omp_threads"], 2.0)


def test_windows_that_were_set_aside_are_no_fault_of_the_machine() -> None:
    (note,) = notes(History.judged(SPEC, DATA.records))
    assert note.startswith("1 window of a running job was excluded (number 5: crashed")


def test_a_launch_is_explained_and_a_window_only_where_there_is_none() -> None:
    canonical = DATA.pooling.canonical
    own = median_run(DATA.records, FAST, canonical)
    assert own is not None and own.purpose is Purpose.CONFIRM
    window = median_run(DATA.records, SLOW, canonical)
    assert window is not None and window.number == 4
    gap, inside = explain(window.outcome, SLOW, SPEC, window.machine).gaps
    assert "a window of job 2" in gap and "--live off" in gap
    assert "not seen from inside (a window of a running job)" in inside
