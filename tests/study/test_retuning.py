"""A study that measures settings in running jobs, on a synthetic machine."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.running_jobs import SHARE, FakeJobs
from tests.study_surface import (
    BEST,
    CONFIRMED,
    CRASH,
    SPEC,
    FakeRunner,
    events_of,
    ran,
    record,
    surface,
)
from tuner.live.request import MeasurementRequest
from tuner.model import (
    BASELINE,
    Conclusion,
    Ending,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    Launch,
    LaunchRecord,
    ObjectiveSpec,
    Outcome,
    Purpose,
    Result,
    Setting,
    StudySpec,
    StudyState,
    Window,
)
from tuner.model.errors import TunerError, UsageError
from tuner.store.store import Store
from tuner.study import StudyInterrupted, tune
from tuner.study.events import LaunchStarted, Note
from tuner.study.history import History
from tuner.study.live_eligibility import COLD
from tuner.study.policy import Step
from tuner.study.retuning import Retuning

OFF_BY = 1.4


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_LOCK_DIR", str(tmp_path / "lock"))


def run(
    folder: Path,
    jobs: FakeJobs,
    spec: StudySpec = SPEC,
    runner: FakeRunner | None = None,
    **options: Any,
) -> Result:
    storage = str(folder / "tune.db")
    return tune(spec, storage=storage, run=runner or FakeRunner(), jobs=jobs, **options)


def kept(folder: Path, name: str = SPEC.name) -> list[LaunchRecord]:
    with Store.open(f"sqlite:///{folder / 'tune.db'}", create=False) as store:
        return store.launches(name)


def trials(folder: Path) -> list[optuna.trial.FrozenTrial]:
    storage = f"sqlite:///{folder / 'tune.db'}"
    return optuna.load_study(study_name=SPEC.name, storage=storage).trials


def notes(events: list[Any]) -> list[str]:
    return [event.text for event in events_of(Note, events)]


def test_a_whole_study(tmp_path: Path) -> None:
    jobs, runner, events = FakeJobs(), FakeRunner(), list[Any]()
    found = run(tmp_path, jobs, CONFIRMED, runner, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    made = kept(tmp_path)
    assert all((r.outcome.window is None) == (r.purpose in COLD) for r in made)
    assert made[0].purpose is Purpose.WARM_UP and made[0].setting != BASELINE
    assert (found.windows, found.launches) == (len(jobs.asked), len(made))
    assert found.jobs == jobs.ends < found.windows, "each was ended, the last before the proof"
    assert found.search_s == pytest.approx(
        sum(r.outcome.wall_s for r in made if r.purpose is not Purpose.CONFIRM)
    )
    live = [event.number for event in events_of(LaunchStarted, events) if event.live]
    assert live == [record.number for record in made if record.outcome.window is not None]
    assert {each.iterations for each in jobs.expected} == {100}
    assert jobs.expected[0].incumbent_s is None and jobs.expected[-1].incumbent_s == 1.0


def test_a_warm_up_that_goes_on_is_the_first_job(tmp_path: Path) -> None:
    jobs, runner = FakeJobs(can=ALL, goes_on=True), FakeRunner()
    found = run(tmp_path, jobs, CONFIRMED, runner)
    warm_up, first, *others = kept(tmp_path)
    assert warm_up.purpose is Purpose.WARM_UP and warm_up.outcome.window is None
    assert first.outcome.window is not None
    assert (first.outcome.window.job, first.outcome.window.started_s) == (warm_up.number, 0.0)
    assert (Path(first.folder) / "output.log").read_text() == "what the job printed\n"
    assert found.jobs == jobs.ends == 2, "it and that of the defaults, ended before the proof"
    proof = [record for record in others if record.outcome.window is None]
    assert {record.purpose for record in proof} == {Purpose.CONFIRM}
    assert len(proof) == len(runner.launches)


def test_optuna_is_told_of_every_window(tmp_path: Path) -> None:
    run(tmp_path, FakeJobs())
    told = [record for record in kept(tmp_path) if record.trial is not None]
    jobs = [record.outcome.window.job for record in told if record.outcome.window]
    assert [trial.user_attrs["job"] for trial in trials(tmp_path)] == jobs


def test_what_a_job_printed_is_found_in_the_folder_of_each_window(tmp_path: Path) -> None:
    run(tmp_path, FakeJobs())
    folders = [Path(each.folder) for each in kept(tmp_path) if each.outcome.window is not None]
    for folder in folders:
        assert (folder / "output.log").read_text() == "what the job printed\n"
        assert (folder / "record.json").is_file()


@pytest.mark.parametrize(
    "change",
    [
        {"live": "off"},
        {"objective": ObjectiveSpec("wall")},
        {"launcher": replace(SPEC.launcher, extra_args=("--hostfile", "hosts"))},
    ],
)
def test_where_it_cannot_be_each_setting_is_launched(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    jobs = FakeJobs()
    found = run(tmp_path, jobs, replace(SPEC, **change))
    assert (jobs.asked, found.windows, found.jobs) == ([], 0, 0)


def test_without_a_full_run_nothing_can_be_scaled(tmp_path: Path) -> None:
    run(tmp_path, FakeJobs(), replace(SPEC, warm_ups=0))
    first, second, *_ = kept(tmp_path)
    assert first.outcome.window is None and first.purpose is Purpose.GUESS
    assert second.outcome.window is not None


@pytest.mark.parametrize(("is_python", "said"), [(True, 1), (False, 0)])
def test_a_job_that_takes_no_orders_is_asked_once(
    tmp_path: Path, is_python: bool, said: int
) -> None:
    jobs, events = FakeJobs(refuses="no rank met", is_python=is_python), list[Any]()
    found = run(tmp_path, jobs, on_event=events.append)
    assert len(jobs.asked) == 1
    assert (found.windows, found.state) == (0, StudyState.FINISHED)
    about = [text for text in notes(events) if "no rank met" in text]
    assert len(about) == said


def test_of_jobs_that_end_by_themselves_it_is_said_once(tmp_path: Path) -> None:
    events = list[Any]()
    run(tmp_path, FakeJobs(ends_alone=True), on_event=events.append)
    (about,) = [text for text in notes(events) if "own end" in text]
    assert "more()" in about


def test_where_it_is_asked_for_the_study_ends_then(tmp_path: Path) -> None:
    jobs = FakeJobs(refuses="no rank met")
    with pytest.raises(UsageError, match="--live on: no rank met") as caught:
        run(tmp_path, jobs, replace(SPEC, live="on"))
    assert "session.step()" in caught.value.hint and "docs/live.md" in caught.value.hint
    assert [record.purpose for record in kept(tmp_path)] == [Purpose.WARM_UP, Purpose.GUESS]


def test_or_after_a_warm_up_that_took_none(tmp_path: Path) -> None:
    class Silent(FakeJobs):
        def launch(self, asked: MeasurementRequest) -> Outcome | None:
            self.refusal = "no rank met"
            return self._cold(BEST)

    with pytest.raises(UsageError, match="--live on: no rank met"):
        run(tmp_path, Silent(), replace(SPEC, live="on"))
    assert [record.purpose for record in kept(tmp_path)] == [Purpose.WARM_UP]


class Deaf(FakeJobs):
    """The launches with these numbers take no orders, by chance."""

    deaf: frozenset[int] = frozenset()

    def measure(self, asked: MeasurementRequest, frozen: frozenset[str] = frozenset()) -> Outcome:
        if asked.number not in self.deaf:
            self.refusal = None
            return super().measure(asked, frozen)
        self.before(asked.number)
        self.end()
        self.refusal = "no rank met"
        return self._cold(asked.setting)


def deaf(*numbers: int) -> Deaf:
    jobs = Deaf(can=frozenset())  # each setting is the first of a job
    jobs.deaf = frozenset(numbers)
    return jobs


@pytest.mark.parametrize("spec", [SPEC, replace(SPEC, live="on")])
def test_one_launch_without_orders_behind_windows_is_chance(
    tmp_path: Path, spec: StudySpec
) -> None:
    events = list[Any]()
    found = run(tmp_path, deaf(4, 6), spec, on_event=events.append)
    cold = [r.number for r in kept(tmp_path) if r.outcome.window is None]
    assert cold == [1, 4, 6] and found.windows > 3
    assert all(kept(tmp_path)[number - 1].outcome.samples for number in (4, 6)), "they count"
    assert not any("no rank met" in text for text in notes(events))


def test_two_in_a_row_are_not(tmp_path: Path) -> None:
    jobs, events = deaf(4, 5), list[Any]()
    run(tmp_path, jobs, on_event=events.append)
    assert {r.number for r in kept(tmp_path) if r.outcome.window is not None} == {2, 3}
    assert sum("no rank met" in text for text in notes(events)) == 1
    (tmp_path / "on").mkdir()
    with pytest.raises(UsageError, match="--live on: no rank met"):
        run(tmp_path / "on", deaf(4, 5), replace(SPEC, live="on"))
    assert kept(tmp_path / "on")[-1].number == 5


def test_a_study_that_goes_on_counts_those_from_before(tmp_path: Path) -> None:
    def ask(number: int) -> None:
        if number == 4:
            os.kill(os.getpid(), signal.SIGINT)

    jobs = deaf(4)
    jobs.before = ask
    with pytest.raises(StudyInterrupted):
        run(tmp_path, jobs)
    run(tmp_path, deaf(6))
    warm_up, *later = [r for r in kept(tmp_path) if r.number > 4]
    assert warm_up.purpose is Purpose.WARM_UP
    assert len(later) > 2 and all(r.outcome.window is None for r in later)


#: Any knob may change in the running job; the first guess starts it.
ALL = frozenset({"omp_threads", "iterator_workers"})
OTHER = Setting.of({"omp_threads": 1, "iterator_workers": 1})


def of(folder: Path, setting: Setting) -> list[LaunchRecord]:
    made = kept(folder)
    return [r for r in made if r.setting == setting and r.purpose is not Purpose.WARM_UP]


def test_a_setting_that_fails_in_a_window_is_launched_by_itself(tmp_path: Path) -> None:
    found = run(tmp_path, FakeJobs(can=ALL, crashes=OTHER))
    assert (found.failures, found.settings_failed) == (0, 0)
    window, own, *_ = of(tmp_path, OTHER)
    assert window.outcome.window is not None and isinstance(window.outcome.ending, Failed)
    why = window.outcome.exclusion
    assert why is not None and why.kind is ExclusionKind.AFTER_SWITCH
    assert why.text.startswith("crashed: exit status 1; that may be the switch")
    assert own.outcome.window is None and own.number == window.number + 1
    assert not isinstance(own.outcome.ending, Failed)


def test_one_that_could_not_be_switched_to_is_launched_by_itself(tmp_path: Path) -> None:
    refused = Failed(FailureKind.SWITCH, "omp_threads=1 in rank 1: ValueError: no")
    for jobs in (
        FakeJobs(can=ALL, crashes=OTHER, crash=refused),
        FakeJobs(can=frozenset(), crashes=OTHER, crash=refused, always=True),
    ):
        folder = tmp_path / str(len(jobs.can))
        folder.mkdir()
        run(folder, jobs)
        window, own, *_ = of(folder, OTHER)
        assert window.outcome.exclusion == Exclusion(
            ExclusionKind.AFTER_SWITCH,
            "could not be switched to: omp_threads=1 in rank 1: ValueError: no;"
            " it is launched by itself",
        )
        assert own.outcome.window is None and not isinstance(own.outcome.ending, Failed)


def test_one_that_fails_by_itself_too_is_a_failure(tmp_path: Path) -> None:
    def time_s(setting: Setting) -> float | Ending:
        return CRASH if setting == OTHER else surface(setting)

    found = run(tmp_path, FakeJobs(can=ALL, crashes=OTHER), runner=FakeRunner(time_s))
    assert found.settings_failed == 1
    assert found.best is not None and found.best.setting == BEST


def test_one_that_fails_in_a_job_of_its_own_is_a_failure(tmp_path: Path) -> None:
    jobs = FakeJobs(can=frozenset(), crashes=OTHER, always=True)
    found = run(tmp_path, jobs)
    first, *_ = of(tmp_path, OTHER)
    assert first.outcome.window is not None and not first.outcome.exclusion
    assert found.failures >= 1


def test_ctrl_c_ends_the_job_and_the_same_command_goes_on(tmp_path: Path) -> None:
    def ask(number: int) -> None:
        if number == 4:
            os.kill(os.getpid(), signal.SIGINT)

    jobs = FakeJobs(before=ask)
    with pytest.raises(StudyInterrupted) as caught:
        run(tmp_path, jobs)
    assert (jobs.job, caught.value.signal_number) == (None, signal.SIGINT)
    before = kept(tmp_path)
    assert [record.number for record in before if record.outcome.samples] == [1, 2, 3]
    found = run(tmp_path, FakeJobs())
    assert [r.number for r in kept(tmp_path)[: len(before)]] == [r.number for r in before]
    assert found.best is not None and found.best.setting == BEST


@pytest.mark.parametrize("error", [KeyboardInterrupt, TunerError("hangs in the kernel")])
def test_whatever_happens_the_job_is_ended(
    tmp_path: Path, error: BaseException | type[BaseException]
) -> None:
    def raising(number: int) -> None:
        if number == 4:
            raise error

    jobs = FakeJobs(before=raising)
    with pytest.raises((StudyInterrupted, TunerError)):
        run(tmp_path, jobs)
    assert jobs.job is None


def test_live_and_cold_that_disagree_set_the_windows_aside(tmp_path: Path) -> None:
    def off(setting: Setting) -> float:
        return surface(setting) * (OFF_BY if setting == BEST else 1.0)

    jobs, events = FakeJobs(off), list[Any]()
    found = run(tmp_path, jobs, CONFIRMED, on_event=events.append)
    assert (found.conclusion, found.export) == (Conclusion.FASTER, BEST)
    aside = [r for r in kept(tmp_path) if r.outcome.exclusion]
    assert aside and all(
        r.outcome.exclusion is not None and r.outcome.exclusion.kind is ExclusionKind.LIVE_DISAGREES
        for r in aside
    )
    assert any("disagree" in text and "excluded" in text for text in notes(events))
    told = [record.number for record in kept(tmp_path) if record.trial is not None]
    assert not {record.number for record in aside} & set(told)
    assert any("excluded" in note for note in found.notes)


def test_in_the_end_optuna_has_the_windows_on_the_scale_of_all_launches(tmp_path: Path) -> None:
    def evaluated(launch: Launch, **asked: Any) -> Outcome:
        made = runner(launch, **{**asked, "judge": None})
        *log, last = made.progress
        if len(runner.settings) == 1:  # the warm-up, all that the windows are scaled by at first
            return made
        late = replace(last, elapsed_s=1.5 * last.elapsed_s)
        return replace(made, ending=Finished(late.elapsed_s, 100), progress=(*log, late))

    runner = FakeRunner()
    tune(CONFIRMED, storage=str(tmp_path / "tune.db"), run=evaluated, jobs=FakeJobs())
    told = {trial.user_attrs["launch"]: trial.value for trial in trials(tmp_path)}
    before = kept(tmp_path)
    now = [r for r in History(CONFIRMED, tuple(before)).records if r.outcome.window and r.trial]
    assert now and now[0].outcome.samples != before[now[0].number - 1].outcome.samples
    for each in now:
        (sample,) = each.outcome.samples
        assert told[each.number] == pytest.approx(sample.elapsed_s)


@pytest.mark.parametrize(("live", "is_live"), [(("omp_threads",), False), (tuple(ALL), True)])
def test_once_no_knob_is_left_that_a_job_may_change_each_setting_is_launched(
    live: tuple[str, ...], is_live: bool
) -> None:
    window = Window(2, live, 1.0, 0.1, 1, 20, 0.01, 0.005, 3.0)
    aside = Outcome(
        *(Finished(1.4, 100), 1.0, None),
        exclusion=Exclusion(ExclusionKind.LIVE_DISAGREES, "it took 40 % longer", ("omp_threads",)),
        window=window,
    )
    own = record(1, BEST, Purpose.WARM_UP, ran(1.0))
    plan = History(SPEC, (own, record(2, BEST, Purpose.GUESS, aside)))
    expected = Retuning(FakeJobs()).expected(plan, Step(Purpose.SEARCH, OTHER), {})
    assert (expected is not None) == is_live


def stubborn() -> FakeJobs:
    """Its program raises whenever it is to change its workers."""

    def time_s(setting: Setting) -> float | Ending:
        assert jobs.job is not None
        workers = setting.as_dict().get("iterator_workers")
        if workers in {None, jobs.job[1].as_dict().get("iterator_workers")}:
            return surface(setting)
        return Failed(FailureKind.SWITCH, f"iterator_workers={workers} in rank 1: ValueError: no")

    jobs = FakeJobs(time_s, can=ALL)
    return jobs


def test_a_knob_that_no_job_can_change_is_launched_cold(tmp_path: Path) -> None:
    jobs, events = stubborn(), list[Any]()
    found = run(tmp_path, jobs, replace(SPEC, trials=12, until=0.0), on_event=events.append)
    made = kept(tmp_path)
    failed = [r for r in made if isinstance(r.outcome.ending, Failed)]
    tried = [r.setting.as_dict()["iterator_workers"] for r in failed]
    assert len(set(tried)) == 2, "two of three values are enough"
    assert jobs.frozen[0] == frozenset() and jobs.frozen[-1] == {"iterator_workers"}
    said = [text for text in notes(events) if "launches alone" in text]
    assert len(said) == 1 and said[0] in found.notes
    windows = [r for r in made if r.outcome.window is not None and r not in failed]
    assert windows and not any(r.outcome.exclusion for r in windows), "what was measured counts"
    assert made[-1] in windows, "other knobs are changed as before"


def test_a_study_that_goes_on_knows_that_knob(tmp_path: Path) -> None:
    run(tmp_path, stubborn(), replace(SPEC, trials=12, until=0.0))
    made, jobs, events = kept(tmp_path), stubborn(), list[Any]()
    threads = replace(SPEC.knobs[0], domain=IntRange(1, 6))  # there is something left to try
    wider = replace(SPEC, knobs=(threads, *SPEC.knobs[1:]))
    run(tmp_path, jobs, replace(wider, trials=14, until=0.0), on_event=events.append)
    assert jobs.frozen and set(jobs.frozen) == {frozenset({"iterator_workers"})}
    assert not any(isinstance(r.outcome.ending, Failed) for r in kept(tmp_path)[len(made) :])
    assert sum("launches alone" in text for text in notes(events)) == 1


def test_a_window_costs_what_it_took(tmp_path: Path) -> None:
    found = run(tmp_path, FakeJobs(can=ALL))
    windows = [r for r in kept(tmp_path) if r.outcome.window and not r.outcome.window.started_s]
    assert windows and all(r.outcome.wall_s < SHARE * 4.0 + 0.2 for r in windows)
    assert found.jobs == 2, "one for the settings, one for the defaults"
    (tmp_path / "cold").mkdir()
    assert found.search_s < run(tmp_path / "cold", FakeJobs(), replace(SPEC, live="off")).search_s
