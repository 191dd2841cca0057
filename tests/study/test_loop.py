from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.study_surface import (
    BEST,
    CONFIRMED,
    CRASH,
    SPEC,
    FakeRunner,
    Killed,
    counted_in,
    crash,
    events_of,
    nearly_flat,
    optuna_in,
    overridden,
    ran,
    record,
    records_in,
    row_in,
    study_in,
    surface,
)
from tuner.model import (
    BASELINE,
    Conclusion,
    Env,
    Failed,
    FailureKind,
    IntRange,
    Knob,
    Purpose,
    RankCount,
    Result,
    Setting,
    Stopped,
    StudySpec,
    StudyState,
)
from tuner.model.errors import LimitReachedError, NothingMeasuredError
from tuner.results import study_view
from tuner.stats import evidence
from tuner.store.store import Store
from tuner.study.events import LaunchEnded, LaunchStarted, Note, StudyEnded, StudyStarted
from tuner.study.giving_up import why_given_up
from tuner.study.interruption import Interruption, StudyInterrupted
from tuner.study.tuning import REMEASURED


def test_a_whole_study_then_again_with_more_trials_and_anew(folder: Path) -> None:
    runner = FakeRunner()
    events: list[Any] = []
    found = study_in(folder, runner, on_event=events.append)
    assert found.state is StudyState.FINISHED
    assert found.reason == "6 of 6 trials were made"
    assert found.storage == str(folder / "tune.db")
    assert (found.trials, found.launches, found.failures) == (6, 8, 0)
    assert found.settings_stopped > 0 and found.launches_measured < 7
    assert found.best is not None and found.baseline is not None
    assert (found.best.setting, found.best.elapsed_s) == (BEST, 1.0)
    assert found.baseline.elapsed_s == 4.0
    assert (found.ratio, found.conclusion) == (4.0, None)
    purposes = [record.purpose for record in records_in(folder)]
    searched = [*[Purpose.GUESS] * 2, Purpose.BASELINE, *[Purpose.SEARCH] * 4]
    assert purposes == [Purpose.WARM_UP, *searched]
    assert len(set(runner.settings[1:])) == 7, "no setting twice"
    assert runner.expected == [None, *[100] * 7]
    assert isinstance(events[0], StudyStarted) and not events[0].resumed
    assert [e.trial for e in events_of(LaunchStarted, events)] == [None, 1, 2, None, 3, 4, 5, 6]
    ended = events_of(LaunchEnded, events)
    assert ended[0].measurement is None
    assert [e.record.setting for e in ended if e.is_best][-1] == BEST
    assert events[-1] == StudyEnded(found)
    stopped = [e for e in ended if isinstance(e.record.outcome.ending, Stopped)]
    assert stopped and not any(e.is_best for e in stopped)
    folders = [launch.folder for launch in runner.launches]
    assert folders == [folder / "surface" / f"{n:04d}" for n in range(1, 9)]
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        assert study_view.load(store, SPEC.name).result == found, "the tables alone give it"
        (line,) = store.studies()
    assert (line.summary.best_s, line.summary.baseline_s) == (1.0, 4.0)
    assert (line.summary.trials, line.summary.launches, line.state) == (6, 8, StudyState.FINISHED)

    again = FakeRunner()
    for trials in (6, 2):
        assert study_in(folder, again, replace(SPEC, trials=trials)) == found
    assert not again.settings, "a finished study only shows its result"
    assert study_in(folder, again, replace(SPEC, trials=9)).trials > 6
    # one warm-up, with the best setting, for a machine that may have been started anew
    assert again.settings[0] == BEST
    assert set(again.settings) - set(runner.settings)

    stranger = folder / "surface" / "mine.txt"
    stranger.write_text("kept")
    assert study_in(folder, fresh := FakeRunner(), fresh=True).launches == len(fresh.settings) == 8
    assert stranger.read_text() == "kept" and fresh.launches[0].folder.name == "0001"
    assert len(optuna_in(folder)) == 6


def test_a_whole_study_with_its_confirmation(folder: Path) -> None:
    events: list[Any] = []
    found = study_in(folder, FakeRunner(), CONFIRMED, on_event=events.append)
    assert found.reason == "6 of 6 trials were made"
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    assert found.finding is not None and found.finding.low < 4.0
    made = [record for record in records_in(folder) if record.purpose is Purpose.CONFIRM]
    assert [record.setting for record in made] == [BASELINE, BEST, BEST, BASELINE, BASELINE, BEST]
    assert found.confirm_s == pytest.approx(sum(record.outcome.wall_s for record in made))
    started = events_of(LaunchStarted, events)
    assert {e.trial for e in started if e.purpose is Purpose.CONFIRM} == {None}
    last = events_of(LaunchEnded, events)[-1]
    assert last.is_best and last.so_far is not None
    assert last.so_far.pairs == len(made) // 2
    assert study_in(folder, again := FakeRunner(), CONFIRMED) == found and not again.settings


def test_remeasuring_counts_nothing_of_before_and_keeps_it(folder: Path) -> None:
    before, events = study_in(folder, FakeRunner()), list[Any]()
    slower = FakeRunner(time_s=lambda setting: 3.0 * surface(setting))
    after = study_in(folder, slower, remeasure=True, on_event=events.append)
    assert (after.launches, after.trials) == (2 * before.launches, before.trials)
    assert after.best is not None and after.best.elapsed_s == 3.0
    said = f"{before.launches} earlier launches are not counted any more (--remeasure)"
    assert said in {event.text for event in events_of(Note, events)}
    assert f"{before.launches} earlier launches not counted: --remeasure" in after.notes
    records = records_in(folder)
    old, new = records[: before.launches], records[before.launches :]
    assert {record.outcome.exclusion for record in old} == {REMEASURED}
    assert {record.outcome.exclusion for record in new} == {None}
    assert all(number > before.launches for number in counted_in(folder))
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        assert study_view.load(store, SPEC.name).result == after


@pytest.mark.parametrize(
    ("spec", "last"),
    [(replace(SPEC, trials=12), 6), (replace(CONFIRMED, trials=3), 5)],  # 5: in the confirmation
)
def test_a_program_that_breaks_on_the_way_ends_the_study_which_goes_on_once_it_is_mended(
    folder: Path, spec: StudySpec, last: int
) -> None:
    launched = 0

    def time_s(setting: Setting) -> float | Failed:
        nonlocal launched
        launched += 1
        return nearly_flat(setting) if launched <= last else crash(setting)

    with pytest.raises(NothingMeasuredError, match=r"no longer works: \d launches in a row"):
        study_in(folder, FakeRunner(time_s), spec)
    assert launched <= last + 8
    assert row_in(folder).state is StudyState.FAILED
    found = study_in(folder, FakeRunner(nearly_flat), spec)
    assert (found.state, found.settings_failed) == (StudyState.FINISHED, 0)


def test_two_settings_and_the_baseline_that_fail_alike_end_the_study(folder: Path) -> None:
    runner = FakeRunner(crash)
    with pytest.raises(NothingMeasuredError, match=r"3 launches in a row.*status 1") as caught:
        study_in(folder, runner)
    assert str(folder / "surface" / "0002" / "output.log") in caught.value.hint
    assert len(set(runner.settings[1:-1])) == 2 and runner.settings[-1] == BASELINE
    assert len(runner.settings) == 1 + 3
    assert row_in(folder).state is StudyState.FAILED


def test_a_program_that_refuses_the_ranks_of_the_baseline_is_tried_with_one(folder: Path) -> None:
    ranks = Knob("ranks", IntRange(1, 4), RankCount(), default=4)

    def time_s(setting: Setting) -> float | Failed:
        return 8.0 if setting.as_dict().get("ranks") == 1 else CRASH

    result = study_in(folder, FakeRunner(time_s), replace(SPEC, knobs=(ranks, *SPEC.knobs)))
    assert result.best is not None and result.best.setting.as_dict()["ranks"] == 1


def test_an_overridden_knob_is_dropped_with_a_note(folder: Path) -> None:
    events: list[Any] = []
    runner = FakeRunner(nearly_flat, effects=overridden("iterator_workers", 2))
    found = study_in(folder, runner, replace(SPEC, trials=50), on_event=events.append)
    assert found.reason == "all 4 settings of the space were measured"
    assert any("iterator_workers is not tuned" in note for note in found.notes)
    assert any("iterator_workers is not tuned" in e.text for e in events_of(Note, events))
    assert found.best is not None and "iterator_workers" not in found.best.setting.as_dict()


def test_a_signal_ends_the_running_launch_and_keeps_the_rest(folder: Path) -> None:
    number = signal.SIGTERM
    original = signal.signal(number, signal.default_int_handler)  # may be ignored here (nohup)

    def interrupt(count: int) -> None:
        if count == 4:
            os.kill(os.getpid(), number)

    with pytest.raises(StudyInterrupted) as caught:
        study_in(folder, FakeRunner(before=interrupt))
    assert caught.value.signal_number == number
    assert caught.value.result is not None
    assert caught.value.result.state is StudyState.INTERRUPTED
    assert signal.signal(number, original) == signal.default_int_handler
    kept = records_in(folder)
    assert len(kept) == 5
    assert optuna_in(folder)[5].user_attrs["failure"].startswith("interrupted")
    runner = FakeRunner()
    assert study_in(folder, runner).trials == 6
    assert runner.settings[1] == kept[-1].setting, "what was interrupted is tried again"


def test_a_second_signal_raises_once_what_is_held_has_come_to_its_end() -> None:
    original = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    try:
        with Interruption() as stop:
            with pytest.raises(KeyboardInterrupt), stop.held():
                with stop.held():
                    for _ in range(3):
                        os.kill(os.getpid(), signal.SIGINT)
                done.append("kept")
            with stop.held():
                done.append("raised once")
    finally:
        signal.signal(signal.SIGINT, original)
    assert done == ["kept", "raised once"]


@pytest.mark.parametrize("at", [StudyStarted, LaunchEnded])
def test_whatever_ends_it_the_study_does_not_stay_running(folder: Path, at: type) -> None:
    def break_off(event: object) -> None:
        if isinstance(event, at):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        study_in(folder, FakeRunner(), on_event=break_off)
    row = row_in(folder)
    assert (row.state, row.reason) == (StudyState.INTERRUPTED, "the output was closed")
    assert study_in(folder, FakeRunner()).trials == 6


def sequence(folder: Path) -> list[tuple[Purpose, Setting]]:
    """What was launched and counts, in its order."""
    counted = evidence.counted(records_in(folder))
    return [(record.purpose, record.setting) for record in counted]


def alike(found: Result) -> Result:
    """Without what an interruption adds: warm-ups, and a launch that was broken off."""
    return replace(found, storage="", launches=0, search_s=0.0, confirm_s=0.0)


def test_wherever_it_is_interrupted_nothing_is_lost_or_repeated(
    folders: Callable[[str], Path],
) -> None:
    """In the search and in the comparison; test_launches_kept.py has the steps of a launch."""
    spec, whole = replace(CONFIRMED, trials=2), folders("whole")
    result = study_in(whole, FakeRunner(), spec)
    expected = sequence(whole)
    for at, error in ((3, Killed), (6, KeyboardInterrupt), (8, Killed)):
        folder = folders(str(at))

        def end(count: int, at: int = at, error: type[BaseException] = error) -> None:
            if count == at:
                raise error

        with pytest.raises((StudyInterrupted, Killed)):
            study_in(folder, FakeRunner(before=end), spec)
        if error is Killed:  # with nothing written down
            with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
                store.set_state(SPEC.name, StudyState.RUNNING, "")
        assert sequence(folder) == expected[: max(0, at - 1)], "no launch is lost"
        assert alike(study_in(folder, FakeRunner(), spec)) == alike(result)
        assert sequence(folder) == expected and optuna_in(folder)


def test_an_environment_that_sets_our_variables_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    omp, workers = SPEC.knobs
    spec = replace(SPEC, knobs=(replace(omp, route=Env(("OMP_NUM_THREADS",))), workers))
    found = study_in(folder, FakeRunner(), spec)
    assert any("OMP_NUM_THREADS=3" in note for note in found.notes)
    assert records_in(folder)[1].env["OMP_NUM_THREADS"] == "3"
    assert b"SOME_TOKEN" not in (folder / "tune.db").read_bytes()


LIMIT = Failed(FailureKind.LIMIT, "ran longer than 2 s")
STALLED = Failed(FailureKind.STALLED, "nothing happened for 9 s: rank 1 is idle")
MISSING = Failed(FailureKind.NO_LOG, "the program ended but wrote no log /x/log")


@pytest.mark.parametrize(
    ("failures", "message", "hint"),
    [
        ((LIMIT, LIMIT), "each of 2 launches", "--trial-limit"),
        ((LIMIT, CRASH), "2 launches in a row failed", "output.log: it shows how"),
        ((STALLED, CRASH), "", "stacks: it shows how"),
        ((MISSING, CRASH), "", "output.log: has the program done its work?"),
    ],
)
def test_the_error_says_what_to_do_about_the_first_failure(
    tmp_path: Path, failures: tuple[Failed, ...], message: str, hint: str
) -> None:
    (tmp_path / "stacks").mkdir()
    made = [record(n, BEST, Purpose.SEARCH, ran(e)) for n, e in enumerate(failures, start=1)]
    error = why_given_up([replace(launch, folder=str(tmp_path)) for launch in made])
    assert isinstance(error, LimitReachedError) == (set(failures) == {LIMIT})
    assert message in error.message and hint in error.hint
