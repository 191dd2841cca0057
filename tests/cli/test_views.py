"""What is shown while a study runs, from events and a clock that the test holds."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

import pytest
from rich.console import Console

from tests.study_samples import NEXT, SPEC, in_window, measured_live, record, setting
from tuner.cli import console, progress
from tuner.cli.progress import LiveView, PlainView
from tuner.model import (
    BASELINE,
    Exclusion,
    ExclusionKind,
    Finding,
    Finished,
    LaunchRecord,
    Measurement,
    Progress,
    Purpose,
    SideBySide,
)
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, Note, StudyStarted

FAST = setting(omp_threads=1, iterator_workers=2, communicator="naive")
NAME = "omp_threads=1 iterator_workers=2 communicator=naive"


def ended(launch: LaunchRecord, elapsed_s: float | None, is_best: bool = False) -> LaunchEnded:
    if elapsed_s is None:
        return LaunchEnded(launch, None, False)
    found = Measurement(launch.setting, (Finished(elapsed_s, 20),), elapsed_s, 1)
    return LaunchEnded(launch, found, is_best)


def events() -> Iterator[Event]:
    """A warm-up, the baseline, a faster setting, one that fails, and one that is running."""
    yield StudyStarted(SPEC, False, 0)
    yield LaunchStarted(1, Purpose.WARM_UP, BASELINE, None, 8)
    yield ended(record(1, BASELINE, 9.0, purpose=Purpose.WARM_UP), None)
    yield LaunchStarted(2, Purpose.BASELINE, BASELINE, None, 8)
    yield ended(record(2, BASELINE, 8.31), 8.31, True)
    yield Note("omp_threads is not tuned: the program uses 1 whatever is asked")
    yield LaunchStarted(3, Purpose.GUESS, FAST, 1, 8)
    yield ended(record(3, FAST, 3.6, purpose=Purpose.GUESS), 3.6, True)
    yield LaunchStarted(4, Purpose.SEARCH, setting(omp_threads=2), 2, 8)
    yield ended(record(4, setting(omp_threads=2), None), None)
    yield LaunchStarted(5, Purpose.SEARCH, setting(omp_threads=3), 3, 8)
    yield LaunchProgress(5, Progress(12, 3.2))


def plain(shown: Iterable[Event]) -> tuple[list[str], PlainView]:
    """The lines without their times, and what was counted."""
    lines: list[str] = []
    ticks = count(0, 2)
    view = PlainView(lambda: float(next(ticks)), lines.append)
    view(StudyStarted(SPEC, False, 0))
    for event in shown:
        view(event)
    assert all(line.startswith("[") for line in lines)
    return [line.partition("] ")[2] for line in lines], view


def test_timed_lines_and_a_tally_of_settings_not_launches() -> None:
    lines, view = plain(events())
    assert lines[0] == "warm-up: this launch does not count"
    assert lines[2].startswith("- baseline: 8.31 s")
    assert lines[3] == "omp_threads is not tuned: the program uses 1 whatever is asked"
    assert lines[4].startswith(f"1/8 {NAME}: 3.60 s  (best so far)")
    assert lines[5].startswith("2/8 omp_threads=2: crashed: rank 1 ended with status 1")
    assert (view.settings_done, view.max_trials, view.failures) == (2, 8, 1)
    assert (view.best_s, view.baseline_s, view.iterations) == (3.6, 8.31, 20)


def test_the_time_left_is_that_of_the_budget_while_the_search_goes_on() -> None:
    now, lines = [0.0], list[str]()
    view = PlainView(lambda: now[0], lines.append)
    view(StudyStarted(replace(SPEC, budget_s=100.0), False, 0))
    view(LaunchStarted(1, Purpose.SEARCH, FAST, 1, 8))
    now[0] += 30
    view(ended(record(1, FAST, 5.0), 5.0))
    assert lines[-1].endswith("[about 1 min 10 s left]")
    view(LaunchStarted(2, Purpose.CONFIRM, FAST, None, 8))
    assert view.left_s is None


def pair_events(*, excluded: bool = False) -> Iterator[Event]:
    """A pair side by side, of which the second launch is stopped, or fails."""
    so_far = None if excluded else Finding(3.412, 3.1, 3.74, 3, "faster", is_side_by_side=True)
    yield LaunchStarted(9, Purpose.CONFIRM, FAST, None, 8)
    yield LaunchStarted(10, Purpose.CONFIRM, BASELINE, None, 8, beside=9)
    yield LaunchProgress(10, Progress(4, 3.1))  # the second one logs first
    yield LaunchProgress(9, Progress(12, 3.2))
    for number, chosen in ((9, FAST), (10, BASELINE)):
        launch = record(number, chosen, 3.6, purpose=Purpose.CONFIRM)
        pair = SideBySide(19 - number, ((0.0, 0.5),) * 7)
        why = Exclusion(ExclusionKind.SIDE_BY_SIDE, "launch 10 failed beside another one: why")
        outcome = replace(launch.outcome, side_by_side=pair, exclusion=why if excluded else None)
        event = ended(replace(launch, outcome=outcome), None)
        yield replace(event, so_far=so_far if number == 10 else None)


def test_a_pair_side_by_side_is_one_thing_that_happens() -> None:
    assert plain(pair_events())[0] == [
        f"- side by side: {NAME} 3.60 s, baseline 3.60 s; 14 slices",
        "side by side: 3 pairs, best 3.41 times faster (3.10 to 3.74)",
    ]
    assert plain(pair_events(excluded=True))[0] == ["- side by side: this pair does not count"]


def test_pairs_so_far_claim_no_more_than_they_show() -> None:
    event = ended(record(2, FAST, 3.6), 3.6)
    one = Finding(1.04, 0.9, 1.2, 1, "inconclusive")
    bound_of_one = Finding(6.2, 0.001, None, 1, "inconclusive")
    two = Finding(1.04, 1.309, None, 2, "inconclusive")
    no_bound = Finding(6.2, 0.004, None, 2, "inconclusive")
    findings = (one, bound_of_one, two, no_bound)
    lines = [plain([replace(event, so_far=so_far)])[0][-1] for so_far in findings]
    assert lines == [
        "in turn: 1 pair, best 1.04 times as fast",
        "in turn: 1 pair, best 6.20 times as fast",
        "in turn: 2 pairs, best at least 1.30 times as fast",
        "in turn: 2 pairs, best 6.20 times as fast (too few runs that agree for an interval)",
    ]


def test_a_line_says_which_job_it_is_a_window_of() -> None:
    purposes = (Purpose.GUESS, Purpose.SEARCH, Purpose.REPEAT)
    made = [record(n, NEXT, 3.9, purpose=purpose) for n, purpose in enumerate(purposes, start=2)]
    windows = [*(in_window(launch, 2) for launch in made), measured_live().records[3]]
    lines, _ = plain(LaunchEnded(window, None, False) for window in windows)
    assert lines == [
        f"1/8 {NAME} (starts job 2): 3.90 s",
        f"2/8 {NAME} (job 2): 3.90 s",
        f"- {NAME} (repeat, job 2): 3.90 s",
        "3/8 omp_threads=4 iterator_workers=4 communicator=naive (job 2): stopped early"
        " (projected 9.80 s)",
    ]


def drawn(shown: Iterable[Event]) -> str:
    """What stands on a terminal: the lines, then what is redrawn."""
    screen = Console(file=io.StringIO(), width=110, force_terminal=True, color_system=None)
    view = LiveView(lambda: 60.0, screen)
    for event in (StudyStarted(SPEC, False, 0), *shown):
        view(event)
    screen.print(view.draw())
    assert isinstance(screen.file, io.StringIO)
    return " ".join(screen.file.getvalue().split())


def test_the_live_view_shows_the_lines_and_what_runs_now() -> None:
    text = drawn(events())
    for words in (
        f"1/8 {NAME}: 3.60 s (best so far)",
        "2 of at most 8 settings, 1 failed",
        f"best 3.60 s {NAME} 2.31 times as fast as the baseline",
        "now 0:00 omp_threads=3 iteration 12 of 20",
    ):
        assert words in text, words
    window = drawn([LaunchStarted(3, Purpose.SEARCH, NEXT, 1, 8, live=True)])
    assert "in a running job" in window


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("term", "no_color", "live", "colour"),
    [("xterm", "", True, True), ("xterm", "1", True, False), ("dumb", "", False, False)],
)
def test_when_lines_are_redrawn_and_coloured(
    monkeypatch: pytest.MonkeyPatch, term: str, no_color: str, live: bool, colour: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert console.is_live(Terminal()) is live
    assert console.in_colour(Terminal()) is colour
    assert not console.is_live(io.StringIO())
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress.view(quiet=False), LiveView) is live
