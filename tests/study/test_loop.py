"""The loop on a synthetic machine."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import RDBStorage

from tests.study_surface import (
    BEST,
    CONFIRMED,
    CRASH,
    SPEC,
    FakeRunner,
    Killed,
    crash,
    events_of,
    nearly_flat,
    overridden,
    surface,
)
from tuner.model import (
    BASELINE,
    Choice,
    Conclusion,
    Failed,
    FailureKind,
    Finished,
    Flag,
    IntRange,
    LaunchRecord,
    Purpose,
    Result,
    Setting,
    Stopped,
    StudySpec,
    StudyState,
)
from tuner.model.errors import LimitReachedError, NothingMeasuredError, UsageError
from tuner.stats import estimates
from tuner.store.store import Store
from tuner.study import StudyInterrupted, result, tune
from tuner.study.events import LaunchEnded, LaunchStarted, Note, StudyStarted
from tuner.study.history import History
from tuner.study.optuna_trials import Projection, state_of


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))


@pytest.fixture(scope="session", autouse=True)
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with all tables and nothing in them: making Optuna's takes half a second."""
    path = tmp_path_factory.mktemp("template") / "tune.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        Projection(store, "none").close()
    TEMPLATE.append(path)
    return path


TEMPLATE: list[Path] = []


def run(folder: Path, runner: FakeRunner, spec: StudySpec = SPEC, **options: Any) -> Result:
    if not (folder / "tune.db").exists():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(TEMPLATE[0], folder / "tune.db")
    return tune(spec, storage=str(folder / "tune.db"), run=runner, **options)


def records(folder: Path, name: str = SPEC.name) -> list[LaunchRecord]:
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        return store.launches(name)


def died(folder: Path) -> None:
    """Leave the study as a process does that is killed: with nothing written down."""
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        store.set_state(SPEC.name, StudyState.RUNNING, "")


def optuna_trials(folder: Path) -> list[optuna.trial.FrozenTrial]:
    url = f"sqlite:///{folder / 'tune.db'}"
    return optuna.load_study(study_name=SPEC.name, storage=url).trials


def test_a_whole_study_with_its_proof(tmp_path: Path) -> None:
    events: list[Any] = []
    found = run(tmp_path, FakeRunner(), CONFIRMED, on_event=events.append)
    assert found.reason == "6 of 6 trials were made"
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    assert found.finding is not None and found.finding.at_least
    made = [record for record in records(tmp_path) if record.purpose is Purpose.CONFIRM]
    assert [record.setting for record in made] == [BEST, BASELINE] * 3 + [BEST]
    assert found.confirm_s == pytest.approx(sum(record.outcome.wall_s for record in made))
    started = events_of(LaunchStarted, events)
    assert {e.trial for e in started if e.purpose is Purpose.CONFIRM} == {None}
    assert events_of(LaunchEnded, events)[-1].is_best


def test_a_launch_that_cannot_win_is_stopped_and_kept(tmp_path: Path) -> None:
    events: list[Any] = []
    run(tmp_path, FakeRunner(), on_event=events.append)
    ended = list(events_of(LaunchEnded, events))
    stopped = [e for e in ended if isinstance(e.record.outcome.ending, Stopped)]
    assert stopped and not any(e.is_best for e in stopped)
    for event in stopped:
        assert event.measurement is not None and event.measurement.elapsed_s is None
        assert event.measurement.stopped == event.record.outcome.ending
    kept = [r.outcome for r in records(tmp_path) if isinstance(r.outcome.ending, Stopped)]
    assert kept == [event.record.outcome for event in stopped]


@pytest.mark.parametrize("time_s", [surface, nearly_flat])
def test_optuna_is_told_what_the_tables_hold(
    tmp_path: Path, time_s: Callable[[Setting], float]
) -> None:
    run(tmp_path, FakeRunner(time_s), CONFIRMED)
    trials = optuna_trials(tmp_path)
    told = [record for record in records(tmp_path) if record.trial is not None]
    assert [record.trial for record in told] == list(range(len(trials)))
    for record, trial in zip(told, trials, strict=True):
        ending = record.outcome.ending
        assert trial.params == record.setting.as_dict()
        assert trial.user_attrs["launch"] == record.number
        if isinstance(ending, Stopped):
            last = record.outcome.progress[-1].iteration
            assert trial.state.name == "PRUNED"
            assert trial.intermediate_values == {last: ending.projection_s}
        else:
            assert trial.value == record.outcome.samples[0].elapsed_s
    purposes = {record.purpose for record in records(tmp_path) if record.trial is None}
    assert purposes == {Purpose.WARM_UP, Purpose.BASELINE, Purpose.CONFIRM}
    repeated = [record for record in told if record.purpose is Purpose.REPEAT]
    assert bool(repeated) == (time_s is nearly_flat), "each is a trial of its own"


@pytest.mark.parametrize("spec", [SPEC, CONFIRMED])
def test_a_finished_study_only_shows_its_result(tmp_path: Path, spec: StudySpec) -> None:
    first = run(tmp_path, FakeRunner(), spec)
    again = FakeRunner()
    assert run(tmp_path, again, spec) == first
    assert run(tmp_path, again, replace(spec, trials=2)) == first
    assert again.settings == []
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert result(store, spec.name) == first


def test_a_finished_study_takes_over_what_bears_on_no_time(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    run(tmp_path, FakeRunner(), replace(SPEC, job=("train", "--all")))
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert store.load(SPEC.name).spec.job == ("train", "--all")


def test_more_trials_continue_a_finished_study(tmp_path: Path) -> None:
    first = FakeRunner(nearly_flat)
    events: list[Any] = []
    run(tmp_path, first)
    more = FakeRunner(nearly_flat)
    found = run(tmp_path, more, replace(SPEC, trials=9), on_event=events.append)
    assert found.trials == 9
    # one warm-up, with the best setting, for a machine that may have been started anew
    assert more.settings[0] == BEST
    assert len(set(more.settings) - set(first.settings)) == 3
    assert events[0].resumed and events[0].measured == 7


def test_more_trials_go_on_after_the_proof_and_prove_anew(tmp_path: Path) -> None:
    before = run(tmp_path, FakeRunner(nearly_flat), replace(CONFIRMED, trials=4))
    found = run(tmp_path, FakeRunner(nearly_flat), replace(CONFIRMED, trials=8))
    assert (before.conclusion, found.conclusion) == (Conclusion.FASTER, Conclusion.FASTER)
    assert found.trials == 8 and found.baseline is not None
    of_defaults = [r for r in records(tmp_path) if r.setting.is_baseline]
    assert len(found.baseline.samples) == len(of_defaults) == 1 + 6 + 6
    purposes = [record.purpose for record in records(tmp_path)]
    assert purposes.count(Purpose.CONFIRM) == 24


def test_a_study_without_a_proof_gets_one_once_it_is_asked_for(tmp_path: Path) -> None:
    assert run(tmp_path, FakeRunner(nearly_flat), SPEC).conclusion is None
    runner = FakeRunner(nearly_flat)
    found = run(tmp_path, runner, CONFIRMED)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    assert set(runner.settings) == {BEST, BASELINE}


def test_an_exhausted_space_ends_the_study(tmp_path: Path) -> None:
    omp, workers = SPEC.knobs
    small = replace(SPEC, knobs=(omp, replace(workers, domain=IntRange(1, 1))), trials=50)
    runner = FakeRunner(nearly_flat)
    found = run(tmp_path, runner, small)
    assert found.reason == "all 4 settings of the space were measured"
    assert found.trials == 4
    assert len(set(runner.settings[1:])) == 5
    again = FakeRunner()
    assert run(tmp_path, again, replace(small, trials=80)).trials == 4
    assert again.settings == []


def test_fresh_starts_anew(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    stranger = tmp_path / "surface" / "mine.txt"
    stranger.write_text("kept")
    runner = FakeRunner()
    found = run(tmp_path, runner, fresh=True)
    assert found.launches == len(runner.settings) == 8
    assert stranger.read_text() == "kept"
    assert runner.launches[0].folder.name == "0001"
    assert len(optuna_trials(tmp_path)) == 6


def test_fresh_leaves_the_folders_of_a_copied_database(tmp_path: Path) -> None:
    run(tmp_path / "a", FakeRunner())
    (tmp_path / "b").mkdir()
    shutil.copyfile(tmp_path / "a" / "tune.db", tmp_path / "b" / "tune.db")
    events: list[Any] = []
    run(tmp_path / "b", FakeRunner(), fresh=True, on_event=events.append)
    assert len(list((tmp_path / "a" / "surface").iterdir())) == 8
    (note,) = events_of(Note, events)
    assert str(tmp_path / "a" / "surface") in note.text


def test_fresh_needs_no_readable_study(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    with sqlite3.connect(tmp_path / "tune.db") as raw:
        raw.execute("UPDATE tune_studies SET spec = '{}'")
        raw.execute("UPDATE tune_launches SET effects = '[{}]'")
    with pytest.raises(UsageError, match="not of tune") as caught:
        run(tmp_path, FakeRunner())
    assert "--fresh" in caught.value.hint
    assert run(tmp_path, FakeRunner(), fresh=True).launches == 8


def test_a_study_of_something_else_is_refused(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    other = replace(SPEC, layout=replace(SPEC.layout, ranks=4))
    with pytest.raises(UsageError, match="ranks: 2 -> 4") as caught:
        run(tmp_path, FakeRunner(), other)
    assert "--fresh" in caught.value.hint and "--name" in caught.value.hint
    assert run(tmp_path, FakeRunner(), other, fresh=True).trials == 6


def test_another_route_under_the_name_of_a_knob_is_refused(tmp_path: Path) -> None:
    omp, workers = SPEC.knobs
    run(tmp_path, FakeRunner(), replace(SPEC, knobs=(workers,), trials=1))
    run(tmp_path, FakeRunner(), replace(SPEC, trials=1))
    other = replace(SPEC, knobs=(replace(omp, route=Flag("--threads")), workers))
    with pytest.raises(UsageError, match="route of omp_threads: argument -t -> argument --threads"):
        run(tmp_path, FakeRunner(), other)


def test_another_programs_optuna_study_is_left_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tune.db'}"
    optuna.create_study(study_name=SPEC.name, storage=url)
    with pytest.raises(UsageError, match="another program"):
        run(tmp_path, FakeRunner())
    assert optuna.load_study(study_name=SPEC.name, storage=url).trials == []


@pytest.mark.parametrize("name", ["", "a/b", "-x", "..", "a\nb", "x" * 101, "ä" * 3])
def test_bad_study_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no name for a study"):
        run(tmp_path, FakeRunner(), replace(SPEC, name=name))


# --- failures ----------------------------------------------------------------------------


def test_a_failed_trial_is_kept_and_not_tried_again(tmp_path: Path) -> None:
    def time_s(setting: Setting) -> float | Failed:
        return crash(setting) if setting.as_dict().get("omp_threads") == 3 else surface(setting)

    runner = FakeRunner(time_s)
    found = run(tmp_path, runner, replace(SPEC, trials=20))
    failed = [r for r in records(tmp_path) if isinstance(r.outcome.ending, Failed)]
    assert found.failures == len(failed) == found.settings_failed > 0
    assert all(r.outcome.ending == CRASH for r in failed)
    assert len({r.setting for r in failed}) == len(failed)
    told = [t for t in optuna_trials(tmp_path) if t.state.name == "FAIL"]
    assert len(told) == len(failed)
    for trial in told:
        assert trial.user_attrs["failure"] == "crashed: exit status 1"
        assert trial.system_attrs["constraints"] == [1.0]


def test_a_crash_that_may_be_chance_is_launched_again(tmp_path: Path) -> None:
    """It would rule out the whole space: nothing asks for less."""
    least = Setting.of({"omp_threads": 1, "iterator_workers": 1})
    crashes = iter([crash(least)])

    def time_s(setting: Setting) -> float | Failed:
        return next(crashes, 1.4) if setting == least else surface(setting)

    found = run(tmp_path, FakeRunner(time_s))
    again = [(r.purpose, bool(r.outcome.samples)) for r in records(tmp_path) if r.setting == least]
    assert again[0] == (Purpose.GUESS, False) and again[1][0] is Purpose.REPEAT
    assert (found.failures, found.settings_failed) == (1, 0)
    assert found.best is not None and found.best.setting == BEST


def test_five_failures_end_the_study(tmp_path: Path) -> None:
    names = Choice(tuple("abcdefgh"))  # a failure says nothing of another name
    spec = replace(SPEC, knobs=(replace(SPEC.knobs[0], name="kind", domain=names),))
    runner = FakeRunner(crash)
    with pytest.raises(NothingMeasuredError, match="exit status 1") as caught:
        run(tmp_path, runner, spec)
    assert str(tmp_path / "surface" / "0002" / "output.log") in caught.value.hint
    assert len(runner.settings) == 1 + 5
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert store.load(SPEC.name).state is StudyState.FAILED


def test_all_over_the_limit(tmp_path: Path) -> None:
    runner = FakeRunner(lambda _: Failed(FailureKind.LIMIT, "ran longer than 2 s"))
    with pytest.raises(LimitReachedError) as caught:
        run(tmp_path, runner, replace(SPEC, trial_limit_s=2.0))
    assert caught.value.exit_code == 4


def test_a_launch_that_stopped_early_is_found_out_later(tmp_path: Path) -> None:
    """Exit 0 and a whole log, but the warm-up and the first guess made less of the job."""
    ends = iter([60, 60])

    def time_s(setting: Setting) -> float | Finished:
        length = next(ends, 0)
        return Finished(0.6 * surface(setting), length) if length else surface(setting)

    events: list[Any] = []
    found = run(tmp_path, FakeRunner(time_s), on_event=events.append)
    assert found.best is not None and found.best.setting == BEST
    assert (found.failures, found.settings_failed) == (2, 1), "the warm-up is not of a setting"
    short = [r.outcome.ending for r in records(tmp_path) if r.purpose is Purpose.GUESS]
    assert getattr(short[0], "iterations", None) == 60, "it is kept as it was"
    assert any("the longest" in note.text for note in events_of(Note, events))
    states = {t.user_attrs["launch"]: t.state.name for t in optuna_trials(tmp_path)}
    assert states[2] == "FAIL"
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert result(store, SPEC.name) == found


# --- the proof ---------------------------------------------------------------------------


def test_a_best_that_fails_in_turn_hands_over_the_defaults(tmp_path: Path) -> None:
    seen: list[Setting] = []

    def time_s(setting: Setting) -> float | Failed:
        seen.append(setting)
        return crash(setting) if seen.count(BEST) > 1 and setting == BEST else surface(setting)

    found = run(tmp_path, FakeRunner(time_s), CONFIRMED)
    assert found.candidate is not None and found.candidate.setting == BEST
    assert (found.conclusion, found.export) == (Conclusion.NO_GAIN, BASELINE)
    assert found.failures == 2
    assert not run(tmp_path, FakeRunner(), replace(CONFIRMED, trials=5)).launches > found.launches


# --- what came to the same ---------------------------------------------------------------


def test_an_overridden_knob_is_dropped_with_a_note(tmp_path: Path) -> None:
    events: list[Any] = []
    runner = FakeRunner(nearly_flat, effects=overridden("iterator_workers", 2))
    found = run(tmp_path, runner, replace(SPEC, trials=50), on_event=events.append)
    assert found.reason == "all 4 settings of the space were measured"
    assert any("iterator_workers is not tuned" in note for note in found.notes)
    assert any("iterator_workers is not tuned" in e.text for e in events_of(Note, events))
    assert found.best is not None and "iterator_workers" not in found.best.setting.as_dict()


def test_another_range_continues_with_a_note(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    omp, workers = SPEC.knobs
    wider = replace(SPEC, knobs=(replace(omp, domain=IntRange(3, 8)), workers), trials=10)
    events: list[Any] = []
    runner = FakeRunner()
    found = run(tmp_path, runner, wider, on_event=events.append)
    assert any(
        "omp_threads ranges over 3..8 instead of 1..4" in e.text for e in events_of(Note, events)
    )
    assert found.best is not None
    assert found.best.setting.as_dict()["omp_threads"] in {3, 4}
    told = [record for record in records(tmp_path) if record.trial is not None]
    assert len(told) == len(optuna_trials(tmp_path))


def test_names_beside_numbers_and_other_names_later(tmp_path: Path) -> None:
    omp, workers = SPEC.knobs
    named = replace(omp, domain=Choice(("unset", 1, 2)))
    two = replace(workers, domain=IntRange(1, 2))
    spec = replace(SPEC, knobs=(named, two), trials=20)

    def time_s(setting: Setting) -> float:
        return 2.0 if setting.as_dict().get("omp_threads") == "unset" else surface(setting)

    assert run(tmp_path, FakeRunner(time_s), spec).trials == 6
    other = replace(spec, knobs=(replace(omp, domain=Choice((1, 2, 3))), two))
    runner = FakeRunner(time_s)
    found = run(tmp_path, runner, other)
    assert (found.trials, {s.as_dict()["omp_threads"] for s in runner.settings[1:]}) == (6, {3})


def test_another_fixed_value_has_its_own_trials(tmp_path: Path) -> None:
    def fixed(workers: int) -> StudySpec:
        return replace(SPEC, fixed=Setting.of({"iterator_workers": workers}), trials=1)

    run(tmp_path, FakeRunner(), fixed(2))
    found = run(tmp_path, FakeRunner(), fixed(1))
    assert found.best is not None and found.best.setting.as_dict()["iterator_workers"] == 1


def test_settings_that_all_fail_beside_defaults_that_work(tmp_path: Path) -> None:
    spec = replace(SPEC, fixed=Setting.of({"iterator_workers": 2}), trials=2)
    with pytest.raises(NothingMeasuredError, match=r"2 launches in a row .* exit status 1"):
        run(tmp_path, FakeRunner(lambda s: 8.0 if s.is_baseline else crash(s)), spec)
    assert run(tmp_path, FakeRunner(), spec).best is not None, "they get another chance"


# --- interrupted -------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_running_launch_and_keeps_the_rest(
    tmp_path: Path, number: signal.Signals
) -> None:
    original = signal.signal(number, signal.default_int_handler)  # may be ignored here (nohup)

    def interrupt(count: int) -> None:
        if count == 4:
            os.kill(os.getpid(), number)

    with pytest.raises(StudyInterrupted) as caught:
        run(tmp_path, FakeRunner(before=interrupt))
    assert caught.value.signal_number == number
    assert caught.value.result is not None
    assert caught.value.result.state is StudyState.INTERRUPTED
    assert signal.signal(number, original) == signal.default_int_handler
    kept = records(tmp_path)
    assert len(kept) == 5
    assert kept[-1].trial is None
    runner = FakeRunner()
    assert run(tmp_path, runner).trials == 6
    assert runner.settings[1] == kept[-1].setting, "what was interrupted is tried again"


@pytest.mark.parametrize("at", [StudyStarted, LaunchStarted, LaunchEnded])
def test_whatever_ends_it_the_study_does_not_stay_running(tmp_path: Path, at: type) -> None:
    def break_off(event: object) -> None:
        if isinstance(event, at):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(tmp_path, FakeRunner(), on_event=break_off)
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        row = store.load(SPEC.name)
    assert (row.state, row.reason) == (StudyState.INTERRUPTED, "broken off (BrokenPipeError)")
    assert run(tmp_path, FakeRunner()).trials == 6


def test_a_study_of_another_host_is_not_ended_from_here(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    died(tmp_path)
    with pytest.raises(UsageError, match="ranks"):
        run(tmp_path, FakeRunner(), replace(SPEC, layout=replace(SPEC.layout, ranks=4)))
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert store.load(SPEC.name).state is StudyState.RUNNING


def sequence(folder: Path) -> list[tuple[Purpose, Setting]]:
    """What was launched and counts, in its order."""
    counted = estimates.counted(records(folder))
    return [(record.purpose, record.setting) for record in counted]


def alike(found: Result) -> Result:
    """Without what an interruption adds: warm-ups, and a launch that was broken off."""
    return replace(found, storage="", launches=0, search_s=0.0, confirm_s=0.0)


def broken_off(folder: Path, runner: FakeRunner, spec: StudySpec) -> bool:
    """Run as far as the runner lets us; True where something ended it."""
    try:
        run(folder, runner, spec)
    except StudyInterrupted:
        return True
    except Killed:
        died(folder)
        return True
    return False


#: A search with repeats, and a proof of 12 launches.
LONG = replace(CONFIRMED, trials=4)


@pytest.mark.parametrize(("error", "first"), [(KeyboardInterrupt, 0), (Killed, 2)])
def test_wherever_it_is_interrupted_nothing_is_lost_or_repeated(
    tmp_path: Path, error: type[BaseException], first: int
) -> None:
    """At every other launch, in the two ways by turns: test_keeping.py has the steps between."""
    whole = FakeRunner(nearly_flat)
    found = run(tmp_path / "whole", whole, LONG)
    expected = sequence(tmp_path / "whole")
    assert {Purpose.REPEAT, Purpose.CONFIRM} <= {purpose for purpose, _ in expected}
    for stop in range(first, len(whole.settings), 4):

        def end(count: int, at: int = stop) -> None:
            if count == at:
                raise error

        folder = tmp_path / str(stop)
        assert broken_off(folder, FakeRunner(nearly_flat, before=end), LONG)
        assert sequence(folder) == expected[: max(0, stop - 1)], "no launch is lost"
        assert alike(run(folder, FakeRunner(nearly_flat), LONG)) == alike(found)
        assert sequence(folder) == expected
        told = [record for record in records(folder) if record.trial is not None]
        assert [trial.user_attrs["launch"] for trial in optuna_trials(folder)] == [
            record.number for record in told
        ]


def test_what_optuna_lost_is_told_anew(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    optuna.delete_study(study_name=SPEC.name, storage=f"sqlite:///{tmp_path / 'tune.db'}")
    run(tmp_path, FakeRunner(), replace(SPEC, trials=7))
    trials = optuna_trials(tmp_path)
    assert len(trials) == 7
    assert [r.trial for r in records(tmp_path) if r.trial is not None] == list(range(7))


def test_a_crash_between_our_commit_and_optunas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Projection, "tell", die)
        with pytest.raises(Killed):
            run(tmp_path, FakeRunner())
    died(tmp_path)
    assert optuna_trials(tmp_path) == []
    run(tmp_path, FakeRunner())
    trials = {trial.number: trial for trial in optuna_trials(tmp_path)}
    told = [record for record in records(tmp_path) if record.trial is not None]
    assert len(told) == len(trials) >= 6
    for record in told:
        trial = trials[record.trial or 0]
        assert trial.user_attrs["launch"] == record.number
        assert trial.state is state_of(record)
        assert trial.value == estimates.estimate_s(record.outcome.samples)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_crash_between_the_commits_of_any_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Stopped, failed, repeated, or no trial at all."""

    def time_s(setting: Setting) -> float | Failed:
        return crash(setting) if setting.as_dict().get("omp_threads") == 4 else surface(setting)

    original = Projection.tell

    def tell(self: Projection, plan: History) -> tuple[LaunchRecord, ...]:
        if plan.records[-1].number == at:
            raise Killed
        return original(self, plan)

    with monkeypatch.context() as patched:
        patched.setattr(Projection, "tell", tell)
        with pytest.raises(Killed):
            run(tmp_path, FakeRunner(time_s))
    died(tmp_path)
    assert len(records(tmp_path)) == at
    run(tmp_path, FakeRunner(time_s))
    whole = [r for r in records(tmp_path) if r.purpose not in {Purpose.WARM_UP, Purpose.BASELINE}]
    trials = optuna_trials(tmp_path)
    assert sorted(t.user_attrs["launch"] for t in trials) == [r.number for r in whole]
    by_launch = {trial.user_attrs["launch"]: trial for trial in trials}
    for record in whole:
        assert by_launch[record.number].number == record.trial
        assert by_launch[record.number].state is state_of(record)


@pytest.mark.parametrize("at", [1, 3, 6])
def test_a_trial_that_optuna_makes_twice_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Its commit failed, so Optuna tried again; the first was there all the same."""
    original = RDBStorage.create_new_trial
    made = 0

    def twice(self: RDBStorage, study_id: int, template_trial: Any = None) -> int:
        nonlocal made
        made += 1
        if made == at:
            original(self, study_id, template_trial)
        return original(self, study_id, template_trial)

    monkeypatch.setattr(RDBStorage, "create_new_trial", twice)
    run(tmp_path, FakeRunner())
    told = {record.trial: record.number for record in records(tmp_path) if record.trial is not None}
    assert {t.number: t.user_attrs["launch"] for t in optuna_trials(tmp_path)} == told
    assert sorted(told.values()) == list(told.values()) and len(told) >= 6


def test_an_environment_that_sets_our_variables_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuner.model import Env

    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    omp, workers = SPEC.knobs
    spec = replace(SPEC, knobs=(replace(omp, route=Env(("OMP_NUM_THREADS",))), workers))
    found = run(tmp_path, FakeRunner(), spec)
    assert any("OMP_NUM_THREADS=3" in note for note in found.notes)
    assert records(tmp_path)[1].env["OMP_NUM_THREADS"] == "3"
    assert b"SOME_TOKEN" not in (tmp_path / "tune.db").read_bytes()
