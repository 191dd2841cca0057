"""What is shown while a study runs, from events and a clock that the test holds."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from itertools import count

import pytest
from rich.console import Console

from tests import study_samples as samples
from tests.study_samples import SPEC, capped_study, record, setting, stopped, study
from tuner.cli import console
from tuner.cli.live import LiveView
from tuner.cli.progress import PlainView, Tally
from tuner.model import (
    BASELINE,
    Exclusion,
    ExclusionKind,
    Finished,
    LaunchRecord,
    Measurement,
    Progress,
    Purpose,
)
from tuner.results.study_view import StudyView
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted, Note, StudyStarted

FAST = setting(omp_threads=1, iterator_workers=2, communicator="naive")


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


def clock() -> Iterator[float]:
    return (float(second) for second in count(0, 2))


def test_timed_lines() -> None:
    lines: list[str] = []
    ticks = clock()
    view = PlainView(lambda: next(ticks), lines.append)
    for event in events():
        view(event)
    texts = [line.partition("] ")[2] for line in lines]
    assert texts[0] == "warm-up: this launch does not count"
    assert texts[2].startswith("- baseline: 8.31 s")
    assert texts[3] == "omp_threads is not tuned: the program uses 1 whatever is asked"
    assert texts[4].startswith(
        "1/8 omp_threads=1 iterator_workers=2 communicator=naive: 3.60 s  (best so far)"
    )
    assert texts[5].startswith("2/8 omp_threads=2: crashed: rank 1 ended with status 1")
    assert all(line.startswith("[0:") for line in lines)


def test_a_launch_that_is_made_again_is_shown_and_not_counted() -> None:
    lines: list[str] = []
    view = PlainView(lambda: 0.0, lines.append)
    view(StudyStarted(SPEC, False, 0))
    view(LaunchStarted(1, Purpose.GUESS, FAST, 1, 8))
    made = record(1, FAST, 3.6, purpose=Purpose.GUESS)
    why = "other processes used 0.8 of 4 cores, above all pid 6263 (python)"
    outcome = dataclasses.replace(
        made.outcome, exclusion=Exclusion(ExclusionKind.INTERFERENCE, why)
    )
    view(ended(dataclasses.replace(made, outcome=outcome), None))
    name = "omp_threads=1 iterator_workers=2 communicator=naive"
    assert lines == [f"[0:00] - {name}: excluded: {why}"]
    assert (view.tally.done, view.tally.best_s, view.tally.failures) == (0, None, 0)
    assert [line for _, line in view.tally.last] == [f"{name}: excluded: {why}"]


def test_the_tally_counts_settings_not_launches() -> None:
    tally = Tally(lambda: 0.0)
    for event in events():
        tally.add(event)
    assert (tally.done, tally.asked, tally.failures) == (2, 8, 1)
    assert tally.ratio == pytest.approx(8.31 / 3.6)
    assert tally.iterations == 20


def test_the_time_left_is_that_of_the_budget_and_of_the_confirmation() -> None:
    """Nobody knows beforehand when a search converges."""
    now, lines = [0.0], list[str]()
    view = PlainView(lambda: now[0], lines.append)
    view(StudyStarted(dataclasses.replace(SPEC, budget_s=100.0, confirm=True), False, 0))
    view(LaunchStarted(1, Purpose.SEARCH, FAST, 1, 8))
    now[0] += 30
    view(ended(record(1, FAST, 5.0), 5.0))
    assert lines[-1].endswith("[at most 2 min left]")
    now[0] += 10  # the search converged
    view(LaunchStarted(2, Purpose.CONFIRM, FAST, None, 8))
    assert view.tally.left_s == 20.0


def shown(data: StudyView) -> list[str]:
    """The timed lines of a study, without the times."""
    lines: list[str] = []
    view = PlainView(lambda: 0.0, lines.append)
    view(StudyStarted(data.spec, False, 0))
    best = None
    for launch in data.records:
        trial = launch.trial if launch.purpose in (Purpose.GUESS, Purpose.SEARCH) else None
        view(LaunchStarted(launch.number, launch.purpose, launch.setting, trial, 8))
        ending = launch.outcome.ending
        time = ending.elapsed_s if isinstance(ending, Finished) else None
        is_best = time is not None and (best is None or time <= best)
        best = time if is_best else best
        counts = launch.purpose is not Purpose.WARM_UP
        view(ended(launch, time if counts else None, is_best and counts))
    return [line.partition("] ")[2] for line in lines]


def test_every_purpose_has_its_line() -> None:
    lines = shown(samples.at_least())
    fast = "omp_threads=1 iterator_workers=1 communicator=naive"
    assert "- baseline: stopped after 10.8 s (projected 30.0 s)" in lines
    assert "3/8 omp_threads=4 iterator_workers=4 communicator=naive: stopped after 4.10 s" in {
        line.partition(" (projected")[0] for line in lines
    }
    assert f"- {fast} (repeat): 3.60 s" in lines
    assert lines[-2:] == [
        "- baseline (confirmation): stopped after 9.00 s",
        f"- {fast} (confirmation): 3.60 s",
    ]


def test_a_study_that_goes_on_counts_what_it_has() -> None:
    tally = Tally(lambda: 0.0)
    tally.add(StudyStarted(SPEC, True, 4, study().result))
    assert (tally.done, tally.asked, tally.best_s, tally.baseline_s) == (4, 8, 3.6, 8.316)


def drawn(width: int = 110) -> str:
    screen = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    view = LiveView(lambda: 60.0, screen)
    for event in events():
        view.tally.add(event)
    screen.print(view.draw())
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_the_live_view_shows_what_matters() -> None:
    text = drawn()
    for words in (
        "2 of at most 8 settings, 1 failed",
        "omp_threads=1 iterator_workers=2 communicator=naive",
        "2.31 times",
        "8.31 s",
        "omp_threads=3",
        "iteration 12 of 20",
        "crashed",
    ):
        assert words in text, words


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_live_view_cuts_nothing(width: int) -> None:
    text = " ".join(drawn(width).split())
    assert "…" not in text
    for words in (
        "2 of at most 8 settings, 1 failed",
        "best 3.60 s omp_threads=1 iterator_workers=2 communicator=naive 2.31 times as fast",
        "baseline 8.31 s your environment as it is",
        "failed omp_threads=2: crashed: rank 1 ended with status 1",
        "3.60 s omp_threads=1 iterator_workers=2 communicator=naive (best so far)",
    ):
        assert words in text, words


def test_a_capped_launch_shows_what_it_came_to() -> None:
    lines: list[str] = []
    view = PlainView(lambda: 0.0, lines.append)
    view(StudyStarted(SPEC, False, 0))
    launch = capped_study().records[-1]
    view(LaunchStarted(2, Purpose.SEARCH, launch.setting, 1, 8))
    view(ended(launch, 2.0))
    assert "omp_threads=4 (came to 2) iterator_workers=1 communicator=naive: 2.00 s" in lines[-1]


def test_a_failing_baseline_is_shown() -> None:
    view = LiveView(lambda: 0.0, Console(file=io.StringIO(), width=110))
    view(StudyStarted(SPEC, False, 0))
    view(LaunchStarted(1, Purpose.BASELINE, BASELINE, None, 8))
    view(ended(record(1, BASELINE, None), None))
    view.screen.print(view.draw())
    assert isinstance(view.screen.file, io.StringIO)
    assert "compared with the first guess that works" in view.screen.file.getvalue()


def test_stopped_defaults_are_shown_until_they_have_a_time() -> None:
    view = LiveView(lambda: 0.0, Console(file=io.StringIO(), width=110))
    view(StudyStarted(SPEC, False, 0))
    defaults = record(1, BASELINE, 9.0)
    cut = dataclasses.replace(defaults.outcome, ending=stopped(9.0, 30.0))
    view(LaunchStarted(1, Purpose.BASELINE, BASELINE, None, 8))
    view(ended(dataclasses.replace(defaults, outcome=cut), None))
    text = drawn_now(view)
    assert "baseline  ~30.0 s  your environment as it is; stopped early" in text
    assert "failed" not in text
    view(LaunchStarted(2, Purpose.CONFIRM, BASELINE, None, 8))
    view(ended(record(2, BASELINE, 31.0, purpose=Purpose.CONFIRM), 31.0))
    assert "baseline   31.0 s  your environment as it is" in drawn_now(view)


def drawn_now(view: LiveView) -> str:
    assert isinstance(view.screen.file, io.StringIO)
    before = len(view.screen.file.getvalue())
    view.screen.print(view.draw())
    return view.screen.file.getvalue()[before:]


class Terminal(io.StringIO):
    encoding = "ascii"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("term", "no_color", "live", "colour"),
    [
        ("xterm", "", True, True),
        ("xterm", "1", True, False),
        ("dumb", "", False, False),
        ("", "", False, False),
    ],
)
def test_when_lines_are_redrawn_and_coloured(
    monkeypatch: pytest.MonkeyPatch, term: str, no_color: str, live: bool, colour: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert console.is_live(Terminal()) is live
    assert console.in_colour(Terminal()) is colour
    assert not console.is_live(io.StringIO())


def test_a_stream_that_lacks_a_letter_gets_it_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    console.out("é")
    assert stream.getvalue() == "\\xe9\n"
