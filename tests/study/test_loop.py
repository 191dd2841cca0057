"""The loop on a synthetic machine."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.study_surface import (
    SPEC,
    FakeRunner,
    Killed,
    capped,
    crash,
    events_of,
    overridden,
    surface,
)
from tuner.errors import LimitReachedError, NothingMeasuredError, UsageError
from tuner.model import (
    BASELINE,
    Choice,
    Failed,
    FailureKind,
    Finished,
    Flag,
    IntRange,
    LaunchRecord,
    Purpose,
    Result,
    Setting,
    StudySpec,
    StudyState,
)
from tuner.store.store import Store
from tuner.study import StudyInterrupted, result, tune
from tuner.study.events import LaunchEnded, LaunchStarted, Note, StudyEnded, StudyStarted
from tuner.study.projection import Projection


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


def test_a_whole_study(tmp_path: Path) -> None:
    runner = FakeRunner()
    events: list[Any] = []
    found = run(tmp_path, runner, on_event=events.append)
    assert found.state is StudyState.FINISHED
    assert found.reason == "6 of 6 trials were made"
    assert found.storage == str(tmp_path / "tune.db")
    assert (found.trials, found.launches, found.failures) == (6, 8, 0)
    assert found.best is not None and found.baseline is not None
    assert found.best.setting == Setting.of({"omp_threads": 2, "iterator_workers": 1})
    assert found.baseline.elapsed_s == 8.0
    assert found.ratio == 8.0
    purposes = [record.purpose for record in records(tmp_path)]
    assert purposes == [
        Purpose.WARM_UP,
        Purpose.BASELINE,
        *[Purpose.GUESS] * 2,
        *[Purpose.SEARCH] * 4,
    ]
    assert len(set(runner.settings[1:])) == 7, "no setting twice"
    assert runner.expected == [None, *[100] * 7]
    assert isinstance(events[0], StudyStarted) and not events[0].resumed
    assert [e.trial for e in events_of(LaunchStarted, events)] == [None, None, 1, 2, 3, 4, 5, 6]
    assert events_of(LaunchEnded, events)[0].measurement is None
    assert events[-1] == StudyEnded(found)


def test_the_tables_alone_give_the_result(tmp_path: Path) -> None:
    found = run(tmp_path, FakeRunner())
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert result(store, SPEC.name) == found
        (line,) = store.studies()
    assert (line.best_s, line.baseline_s) == (1.0, 8.0)
    assert (line.trials, line.launches, line.state) == (6, 8, StudyState.FINISHED)


def test_optuna_is_told_what_the_tables_hold(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    trials = optuna_trials(tmp_path)
    told = [record for record in records(tmp_path) if record.trial is not None]
    assert [record.trial for record in told] == [0, 1, 2, 3, 4, 5]
    for record, trial in zip(told, trials, strict=True):
        assert trial.value == record.outcome.samples[0].elapsed_s
        assert trial.params == record.setting.as_dict()
        assert trial.user_attrs["launch"] == record.number


def test_launches_have_a_folder_each_beside_the_database(tmp_path: Path) -> None:
    runner = FakeRunner()
    run(tmp_path, runner)
    folders = [launch.folder for launch in runner.launches]
    assert folders == [tmp_path / "surface" / f"{n:04d}" for n in range(1, 9)]


def test_a_finished_study_only_shows_its_result(tmp_path: Path) -> None:
    first = run(tmp_path, FakeRunner())
    again = FakeRunner()
    assert run(tmp_path, again) == first
    assert run(tmp_path, again, replace(SPEC, trials=2)) == first
    assert again.settings == []


def test_a_finished_study_takes_over_what_bears_on_no_time(tmp_path: Path) -> None:
    run(tmp_path, FakeRunner())
    run(tmp_path, FakeRunner(), replace(SPEC, job=("train", "--all")))
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert store.load(SPEC.name).spec.job == ("train", "--all")


def test_more_trials_continue_a_finished_study(tmp_path: Path) -> None:
    first = FakeRunner()
    events: list[Any] = []
    run(tmp_path, first)
    more = FakeRunner()
    found = run(tmp_path, more, replace(SPEC, trials=9), on_event=events.append)
    assert found.trials == 9
    # one warm-up, with the best setting, for a machine that may have been started anew
    assert more.settings[0] == Setting.of({"omp_threads": 2, "iterator_workers": 1})
    assert len(more.settings) == 4
    assert not set(more.settings[1:]) & set(first.settings)
    assert events[0].resumed and events[0].measured == 7


def test_an_exhausted_space_ends_the_study(tmp_path: Path) -> None:
    runner = FakeRunner()
    found = run(tmp_path, runner, replace(SPEC, trials=50))
    assert found.reason == "all 12 settings of the space were measured"
    assert found.trials == 12
    assert len(set(runner.settings[1:])) == 13
    again = FakeRunner()
    assert run(tmp_path, again, replace(SPEC, trials=80)).trials == 12
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
        return crash(setting) if setting.as_dict().get("omp_threads") == 1 else surface(setting)

    runner = FakeRunner(time_s)
    found = run(tmp_path, runner, replace(SPEC, trials=20))
    assert found.trials == 12
    assert found.failures == 3
    assert len(set(runner.settings[1:])) == len(runner.settings[1:])
    failed = [r for r in records(tmp_path) if isinstance(r.outcome.ending, Failed)]
    assert failed[0].outcome.ending == crash(BASELINE)
    states = [t.state.name for t in optuna_trials(tmp_path)]
    assert states.count("FAIL") == 3
    assert "crashed: exit status 1" in [
        t.user_attrs.get("failure") for t in optuna_trials(tmp_path)
    ]


def test_failing_defaults_are_a_result(tmp_path: Path) -> None:
    found = run(tmp_path, FakeRunner(lambda s: crash(s) if s.is_baseline else surface(s)))
    assert found.baseline is not None and found.baseline.failure is not None
    assert found.reference is not None
    assert found.reference.setting == Setting.of({"omp_threads": 2, "iterator_workers": 2})
    assert not found.notes  # the comparison says it


def test_five_failures_end_the_study(tmp_path: Path) -> None:
    runner = FakeRunner(crash)
    with pytest.raises(NothingMeasuredError, match="exit status 1") as caught:
        run(tmp_path, runner)
    assert str(tmp_path / "surface" / "0002" / "output.log") in caught.value.hint
    assert len(runner.settings) == 1 + 5
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert store.load(SPEC.name).state is StudyState.FAILED


def test_what_failed_with_everything_else_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasuredError):
        run(tmp_path, FakeRunner(crash))
    found = run(tmp_path, FakeRunner())
    assert found.trials == 6 and found.best is not None
    assert found.baseline is not None and found.baseline.elapsed_s == 8.0


def test_fewer_trials_than_five_that_all_fail(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasuredError, match="2 launches in a row"):
        run(tmp_path, FakeRunner(crash), replace(SPEC, trials=1))


def test_all_over_the_limit(tmp_path: Path) -> None:
    runner = FakeRunner(lambda _: Failed(FailureKind.LIMIT, "ran longer than 2 s"))
    with pytest.raises(LimitReachedError) as caught:
        run(tmp_path, runner, replace(SPEC, trial_limit_s=2.0))
    assert caught.value.exit_code == 4


def test_a_launch_that_stopped_early_is_found_out_later(tmp_path: Path) -> None:
    """Exit 0 and a whole log, but the warm-up, the baseline and a trial made less of the job."""
    ends = iter([60, 60, 60])

    def time_s(setting: Setting) -> float | Finished:
        return Finished(0.01, length) if (length := next(ends, 0)) else surface(setting)

    events: list[Any] = []
    found = run(tmp_path, FakeRunner(time_s), on_event=events.append)
    assert found.best is not None and found.best.elapsed_s == 1.0
    assert found.baseline is not None and found.baseline.failure is not None
    assert found.baseline.failure.kind is FailureKind.SHORT
    assert any("the longest" in note.text for note in events_of(Note, events))
    states = [t.state.name for t in optuna_trials(tmp_path)]
    assert (states.count("FAIL"), states.count("COMPLETE")) == (1, 5)
    with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=False) as store:
        assert result(store, SPEC.name) == found


# --- what came to the same ---------------------------------------------------------------


def test_a_capped_value_is_pooled_and_never_launched_again(tmp_path: Path) -> None:
    runner = FakeRunner(surface, effects=capped("omp_threads", 2))
    found = run(tmp_path, runner, replace(SPEC, trials=50))
    assert found.reason == "all 6 settings of the space were measured"
    assert found.trials <= 7, "the launch that showed the cap may be one more"


def test_an_overridden_knob_is_dropped_with_a_note(tmp_path: Path) -> None:
    events: list[Any] = []
    runner = FakeRunner(effects=overridden("iterator_workers", 2))
    found = run(tmp_path, runner, replace(SPEC, trials=50), on_event=events.append)
    assert found.reason == "all 4 settings of the space were measured"
    assert any("iterator_workers is not tuned" in note for note in found.notes)
    assert any("iterator_workers is not tuned" in e.text for e in events_of(Note, events))
    assert found.best is not None and "iterator_workers" not in found.best.setting.as_dict()


def test_a_fixed_knob_keeps_its_value(tmp_path: Path) -> None:
    runner = FakeRunner(lambda s: 0.5 if s.is_baseline else surface(s))
    spec = replace(SPEC, fixed=Setting.of({"iterator_workers": 3}), trials=50)
    found = run(tmp_path, runner, spec)
    assert found.trials == 4
    assert {s.as_dict()["iterator_workers"] for s in runner.settings[2:]} == {3}
    assert found.best is not None and not found.best.setting.is_baseline


def test_the_defaults_can_be_the_best(tmp_path: Path) -> None:
    found = run(tmp_path, FakeRunner(lambda s: 0.5 if s.is_baseline else surface(s)))
    assert found.best is not None and found.best.setting.is_baseline
    assert found.ratio == 1.0


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
    spec = replace(SPEC, knobs=(named, workers), trials=20)

    def time_s(setting: Setting) -> float:
        return 2.0 if setting.as_dict().get("omp_threads") == "unset" else surface(setting)

    assert run(tmp_path, FakeRunner(time_s), spec).trials == 9
    other = replace(spec, knobs=(replace(omp, domain=Choice((1, 2, 3))), workers))
    found = run(tmp_path, FakeRunner(time_s), other)
    assert (found.trials, found.launches) == (9, 11 + 1 + 3)


def test_a_further_knob_has_its_own_trials(tmp_path: Path) -> None:
    omp, workers = SPEC.knobs
    one = replace(SPEC, knobs=(workers,), trials=2)
    assert run(tmp_path, FakeRunner(), one).trials == 2
    runner = FakeRunner()
    found = run(tmp_path, runner, replace(one, knobs=(omp, workers)))
    assert len(runner.settings) == 3, "a warm-up and two trials"
    assert found.trials == 2 and found.best is not None
    assert set(found.best.setting.as_dict()) == {"omp_threads", "iterator_workers"}
    assert any("2 of the settings tried before are outside" in note for note in found.notes)


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


def test_a_runner_that_raises_keyboard_interrupt(tmp_path: Path) -> None:
    def interrupt(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(StudyInterrupted) as caught:
        run(tmp_path, FakeRunner(before=interrupt))
    assert caught.value.signal_number == signal.SIGINT
    assert len(records(tmp_path)) == 4


def sequence(folder: Path) -> list[Setting]:
    """The settings that were measured, in their order."""
    return [
        record.setting
        for record in records(folder)
        if record.purpose is not Purpose.WARM_UP and record.outcome.samples
    ]


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    stops=st.lists(st.integers(0, 5), max_size=4),
    kill=st.booleans(),
    seed=st.integers(0, 3),
    trials=st.integers(1, 12),
)
def test_wherever_it_is_interrupted_nothing_is_lost_or_repeated(
    stops: list[int], kill: bool, seed: int, trials: int
) -> None:
    spec = replace(SPEC, seed=seed, trials=trials)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as broken:
        run(Path(whole), FakeRunner(), spec)
        done: list[Setting] = []
        for stop in stops:

            def end(count: int, at: int = stop) -> None:
                if count == at:
                    raise Killed if kill else KeyboardInterrupt

            runner = FakeRunner(before=end)
            with suppress(StudyInterrupted):
                try:
                    run(Path(broken), runner, spec)
                except Killed:
                    died(Path(broken))
            done += runner.settings[1:]
            assert sequence(Path(broken)) == done, "no launch is lost"
        runner = FakeRunner()
        found = run(Path(broken), runner, spec)
        done += runner.settings[1:]
        assert len(set(done)) == len(done), "no setting is launched twice"
        assert found.trials == min(trials, 12)
        assert sequence(Path(broken)) == sequence(Path(whole)), "same seed, same sequence"
        finished = [t for t in optuna_trials(Path(broken)) if t.state.name == "COMPLETE"]
        assert len(finished) == found.trials


def test_seeds_differ(tmp_path: Path) -> None:
    sequences = set()
    for seed in range(4):
        folder = tmp_path / str(seed)
        run(folder, FakeRunner(), replace(SPEC, seed=seed))
        sequences.add(tuple(sequence(folder)))
    assert len(sequences) > 1


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
    assert [t.state.name for t in optuna_trials(tmp_path)] == ["COMPLETE"] * 6
    told = [record for record in records(tmp_path) if record.trial is not None]
    values = {t.number: t.value for t in optuna_trials(tmp_path)}
    assert all(values[r.trial or 0] == r.outcome.samples[0].elapsed_s for r in told)


def test_leftovers_of_a_dead_process_are_not_touched(tmp_path: Path) -> None:
    leftover = tmp_path / "surface" / "0001" / "output.log"
    leftover.parent.mkdir(parents=True)
    leftover.write_text("of another database")
    runner = FakeRunner()
    run(tmp_path, runner)
    assert leftover.read_text() == "of another database"
    assert runner.launches[0].folder.name == "0001-2"


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
