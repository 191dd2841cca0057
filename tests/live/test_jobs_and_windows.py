"""Windows of a job that is only a script: what is asked of it, and what comes of its answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.live.scripted import CAN, Job, Ranks, Script, Starter, launch, plays
from tests.study_samples import COMMUNICATOR, OMP, SPEC, WORKERS
from tests.study_surface import record
from tests.system.jobs import failed, finished
from tuner.launch import trial
from tuner.launch.request import MeasurementRequest
from tuner.live import window as windowing
from tuner.live.job import miscounted
from tuner.live.jobs import LiveJobs
from tuner.live.scale import FullRunModel, full_run_model, rescaled
from tuner.model import (
    LOGGED_TIME,
    FailureKind,
    Finished,
    Load,
    Outcome,
    Progress,
    Purpose,
    Setting,
    Stopped,
    Value,
    Verdict,
    Window,
)
from tuner.search.stopper import EarlyStopper, Limit, Noise, ProjectionStopper

MODEL = FullRunModel(20, 2.0)
STUDY = replace(SPEC, command=("train", "{out}"), knobs=(OMP, WORKERS, COMMUNICATOR))
STEADY = [0.3, 0.1, 0.1, 0.1, 0.1, 0.1]

switch, stay, full_log = Ranks.switch, Ranks.stay, Ranks.full_log
silent_order = partial(Ranks.switch, answers=False)
refuses = partial(Ranks.switch, omp_threads="no such library")
slow = plays(switch, [0.1, 0.1], stay)


def setting_of(threads: int, communicator: str) -> Setting:
    values: dict[str, Value] = {"omp_threads": threads, "communicator": communicator}
    return Setting.of({**values, "iterator_workers": 1})


ONE, TWO, OTHER = setting_of(2, "naive"), setting_of(4, "naive"), setting_of(2, "flat")


def obedient(ranks: Ranks) -> int:
    """Does as it is told, for as long as it is."""
    ranks.hello(CAN)
    while True:
        ranks.switch()
        ranks.steps(STEADY)


class Bench:
    """The jobs under test, and one way to measure in them."""

    def __init__(self, folder: Path, *scripts: Script) -> None:
        self.start = Starter(*scripts)
        self.jobs = LiveJobs(self.start)
        self.folder = folder
        self.number = 0

    def __call__(
        self,
        setting: Setting,
        *,
        stopper: EarlyStopper | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        on_progress: Callable[[Progress], None] = lambda _: None,
        limit_s: float | None = 10.0,
        stall_limit_s: float | None = 5.0,
        model: FullRunModel = MODEL,
    ) -> Outcome:
        self.number += 1
        request = MeasurementRequest(
            launch(self.folder, self.number, limit_s),
            replace(STUDY, stall_limit_s=stall_limit_s),
            setting,
            self.number,
            expected_iterations=model.iterations or None,
            stopper=stopper,
            on_progress=on_progress,
            cancelled=cancelled,
        )
        return self.jobs.window(request, model)


Make = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Make]:
    made: list[Bench] = []

    def make(*scripts: Script) -> Bench:
        made.append(Bench(tmp_path, *scripts))
        return made[-1]

    yield make
    for each in made:
        each.jobs.end()
        assert all(job.poll() is not None for job in each.start.jobs)


def window(outcome: Outcome) -> Window:
    assert outcome.window is not None
    return outcome.window


# --- windows -----------------------------------------------------------------------------


def test_one_job_measures_one_setting_after_another(bench: Make) -> None:
    live = bench(obedient)
    first, second, third = live(ONE), live(TWO), live(ONE)
    (job,) = live.start.jobs
    assert [window(each).job for each in (first, second, third)] == [1, 1, 1]
    assert job.ranks.switches == [{}, {"omp_threads": 4}, {"omp_threads": None}]
    assert finished(first).elapsed_s == pytest.approx(0.1 * 22)
    assert finished(first).iterations == 20
    assert (window(first).discarded, window(first).iterations) == (1, 5)
    assert window(first).live == ("iterator_workers", "omp_threads")
    assert window(first).started_s > 0 == window(second).started_s
    assert first.progress[-1].iteration == 5
    assert first.progress[-1].elapsed_s == pytest.approx(0.7)
    assert all(entry.seen_s is None for entry in first.progress)
    assert first.telemetry is not None and first.telemetry.phases == ()
    assert first.exit_code is None and live.jobs.refusal is None
    verdicts = {effect.knob: effect.verdict for effect in first.effects}
    assert verdicts["omp_threads"] is Verdict.HONOURED


def test_what_it_cannot_change_takes_a_new_job(bench: Make, tmp_path: Path) -> None:
    live = bench(obedient, obedient)
    live(ONE)
    (tmp_path / "trial-2").mkdir()
    live(TWO)
    assert (tmp_path / "trial-2" / "output.log").read_text() == "it begins\n", "that of its job"
    assert window(live(OTHER)).job == 3
    assert live.start.jobs[0].poll() is not None
    assert live.jobs._job is not None and live.jobs._job.request.setting == OTHER


def test_the_jobs_own_processes_are_no_neighbours(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[tuple[int, ...]] = []

    monkeypatch.setattr("tuner.hosts.launch_observer.look", named.append)
    monkeypatch.setattr("tuner.hosts.launch_observer.between", lambda *_: Load(0.5))
    monkeypatch.setattr(Job, "pids", lambda _: (2**22 + 1,))  # no process has this id
    assert bench(obedient)(ONE).load == Load(0.5)
    assert named == [(), *[(2**22 + 1,)] * 2], "none at its start, its own around the window"


# --- evaluations, in a simulated clock ------------------------------------------------------

#: Of a program: iterations of a whole run, after how many comes an evaluation, and its length, s.
LENGTH, EPOCH, EVALUATION_S = 40, 10, 1.0
THREADS = {2: 0.1, 4: 0.2, 8: 0.4}  # the pace with so many, s


def simulated(pace_s: float, evaluation_s: float) -> list[float]:
    """How long each iteration of a whole run takes, with the evaluation after it."""
    return [pace_s + (n % EPOCH == 0) * evaluation_s for n in range(1, LENGTH + 1)]


def clock(pace_s: float, evaluation_s: float) -> list[float]:
    """When each iteration of a whole run has ended, s."""
    return list(accumulate(simulated(pace_s, evaluation_s), initial=2 * pace_s))


@pytest.mark.parametrize("each", [1, EPOCH], ids=["log each iteration", "log each epoch"])
@pytest.mark.parametrize("grows", [False, True], ids=["of fixed length", "as slow as the rest"])
def test_an_evaluation_counts_as_often_as_a_whole_run_has_it(
    bench: Make, grows: bool, each: int
) -> None:
    """The warm-up shows how much there is of it, windows how it depends on the pace."""

    def length_s(pace_s: float) -> float:
        return 10 * pace_s if grows else EVALUATION_S

    def program(ranks: Ranks) -> None:
        ranks.hello(CAN)
        own_s = simulated(0.1, length_s(0.1))
        ranks.steps(own_s, [n for n in range(1, LENGTH + 1) if n % EPOCH == 0])
        elapsed_s = clock(0.1, length_s(0.1))
        ranks.log(*elapsed_s[each::each], each=each)
        over(ranks)
        threads: Value | None = 2
        while True:
            threads = ranks.switch().get("omp_threads", threads) or 2
            pace_s = THREADS[int(threads)]
            times_s = simulated(pace_s, length_s(pace_s))[EPOCH // 2 : EPOCH + 5]
            ranks.steps(times_s, [ranks.iteration + EPOCH // 2 - 1])

    live, settings = bench(program), [setting_of(threads, "naive") for threads in THREADS]
    outcome = warm_up(live, settings[0])
    assert outcome is not None
    records = [record(1, settings[0], Purpose.WARM_UP, outcome)]
    known = full_run_model(records, LENGTH, LOGGED_TIME)
    for setting in settings:
        measured = live(setting, model=known)
        records.append(record(len(records) + 1, setting, Purpose.SEARCH, measured))
    _, *scaled = rescaled(records, LOGGED_TIME)
    for found, pace_s in zip(scaled, THREADS.values(), strict=True):
        seen_s, whole_s = length_s(pace_s), clock(pace_s, length_s(pace_s))[-1]
        assert window(found.outcome).evaluation_s == pytest.approx(seen_s)
        assert finished(found.outcome).elapsed_s == pytest.approx(whole_s, rel=0.05)


# --- the judge ---------------------------------------------------------------------------


def race(limit_s: float) -> ProjectionStopper:
    return ProjectionStopper(Limit(limit_s), Noise(), 20)


def test_what_cannot_win_is_left_and_the_job_runs_on(bench: Make) -> None:
    live = bench(obedient)
    outcome = live(ONE, stopper=race(0.5))
    assert isinstance(outcome.ending, Stopped)
    assert outcome.ending.projection_s == pytest.approx(2.2, rel=0.01)
    assert window(live(TWO, stopper=race(3.0))).job == 1


# --- faults ------------------------------------------------------------------------------


def test_a_value_that_a_rank_cannot_switch_to_costs_one_attempt(bench: Make) -> None:
    unread = partial(Ranks.switch, omp_threads="cannot be read")  # it was started with its value
    live = bench(plays(unread, STEADY, refuses, stay), obedient, obedient)
    assert window(live(ONE)).job == 1
    outcome = live(TWO)
    assert live.jobs.cannot == "omp_threads=4 in rank 1: no such library"
    assert (window(outcome).job, finished(outcome).iterations) == (2, 20), "started with it"
    assert window(live(ONE)).job == 2 and not live.jobs.cannot, "other values are switched to"
    assert window(live(TWO)).job == 4
    assert live.start.jobs[1].ranks.switches == [{}, {"omp_threads": 2}], "it is not asked again"


def test_after_two_such_values_the_knob_is_not_live_any_more(bench: Make) -> None:
    once = plays(switch, STEADY, refuses, stay)
    live = bench(once, once, obedient, obedient)
    found = [window(live(each)) for each in (ONE, TWO, setting_of(3, "naive"), ONE)]
    assert [each.job for each in found] == [1, 2, 3, 4]
    assert [each.live for each in found[1:3]] == [
        ("iterator_workers", "omp_threads"),
        ("iterator_workers",),
    ]


def goes_on_stepping(ranks: Ranks) -> None:
    while not ranks.ended.wait(0.05):
        ranks.steps([0.1])


@pytest.mark.parametrize(
    ("script", "how", "kind", "said"),
    [
        (
            plays(silent_order, goes_on_stepping),
            {"stall_limit_s": 0.5},
            FailureKind.STALLED,
            "no answer to the request to switch within 0.5 s: ",
        ),
        (plays(switch, stay), {"stall_limit_s": 0.5}, FailureKind.STALLED, "nothing happened"),
        (slow, {"limit_s": 0.5}, FailureKind.LIMIT, "the trial limit of 0.5 s"),
    ],
    ids=["no answer", "silence", "the trial limit"],
)
def test_a_window_that_hangs_fails_as_a_launch_does(
    bench: Make, script: Script, how: dict[str, Any], kind: FailureKind, said: str
) -> None:
    live = bench(script)
    ending = failed(live(ONE, **how))
    assert ending.kind is kind and said in ending.reason
    assert live.jobs._job is None


@pytest.mark.parametrize("hangs", [stay, silent_order], ids=["after it", "in the switch"])
def test_a_job_whose_iterations_are_known_is_not_waited_for_as_long_as_a_launch(
    bench: Make, monkeypatch: pytest.MonkeyPatch, hangs: Callable[[Ranks], object]
) -> None:
    monkeypatch.setattr(windowing, "LEAST_SILENT_S", 0.1)
    act = (switch, hangs) if hangs is stay else (hangs, stay)
    live = bench(plays(switch, [0.06] * 8, *act))
    window(live(ONE, stall_limit_s=60.0))
    ending = failed(live(TWO, stall_limit_s=60.0, limit_s=60.0))
    assert ending.kind is FailureKind.STALLED
    assert ending.reason.startswith("nothing happened for 0.6 s: ")


def test_a_crash_in_a_window_is_typed(bench: Make) -> None:
    live = bench(plays(switch, STEADY, switch, 7))
    live(ONE)
    outcome = live(TWO)
    assert (failed(outcome).kind, outcome.exit_code) == (FailureKind.CRASHED, 7)
    assert failed(outcome).log_tail == "it begins"
    assert outcome.exclusion is not None, "the switch may be at fault"
    assert "; that may be the switch's fault" in outcome.exclusion.text
    assert bench(plays(switch, 7))(ONE).exclusion is None, "no switch has changed anything"
    assert window(outcome).job == 1
    assert live.jobs._job is None


def test_a_request_ends_the_job_and_so_does_an_interrupt(bench: Make) -> None:
    seen: list[Progress] = []
    live = bench(slow, slow)
    ending = failed(live(ONE, cancelled=lambda: bool(seen), on_progress=seen.append))
    assert ending.kind is FailureKind.INTERRUPTED
    assert live.jobs._job is None

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        live(ONE, on_progress=interrupt)
    assert live.start.jobs[1].poll() is not None and live.jobs._job is None


def test_a_job_that_takes_no_more_orders_is_stalled(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windowing, "LAST_S", 0.1)
    live = bench(plays(switch, STEADY, switch, b"[]\n", stay))
    live(ONE)
    ending = failed(live(TWO))
    assert ending.kind is FailureKind.STALLED
    assert "accepts no more switches: it sent a line that is no message" in ending.reason


# --- ends --------------------------------------------------------------------------------


def test_an_end_in_a_window_that_told_too_little_starts_anew(bench: Make) -> None:
    live = bench(plays(switch, STEADY, switch, [0.2], full_log), obedient)
    live(ONE)
    outcome = live(TWO)
    assert window(outcome).job == 2 and len(live.start.jobs) == 2
    assert window(outcome).started_s < outcome.wall_s


# --- launches that have no window ----------------------------------------------------------


def test_a_launch_without_an_agent_is_an_ordinary_one(bench: Make, tmp_path: Path) -> None:
    def ordinary(ranks: Ranks) -> int:
        ranks.log(0.5, 1.0, *(1.0 + 0.1 * n for n in range(1, 19)))
        return 0

    live = bench(ordinary)
    found = live(ONE)
    request = MeasurementRequest(launch(tmp_path, 9), STUDY, ONE, expected_iterations=20)
    same = trial.run(request, start=Starter(ordinary))
    for name in ("ending", "exit_code", "observation", "effects", "window"):
        assert getattr(found, name) == getattr(same, name), name
    assert [e.elapsed_s for e in found.progress] == [e.elapsed_s for e in same.progress]
    assert live.jobs.refusal == "no rank said that it accepts switches"


def test_one_of_which_not_all_ranks_come_is_an_ordinary_one(bench: Make) -> None:
    def serves(ranks: Ranks) -> int:
        """Rank 1 has no iterations."""
        ranks.hello(CAN, come=1)
        ranks.full_log()
        return 0

    live = bench(serves)
    outcome = live(ONE)
    assert (outcome.ending, outcome.window) == (Finished(2.0, 20), None)
    assert live.jobs.refusal == "1 of 2 ranks said that they accept switches"


def test_one_that_ends_before_its_first_window_may_do_better_next_time(
    bench: Make,
) -> None:
    live = bench(plays(switch, full_log))
    outcome = live(ONE)
    assert (outcome.ending, outcome.window) == (Finished(2.0, 20), None)
    assert live.jobs.refusal is None


def test_one_that_goes_on_without_us_is_a_launch(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windowing, "LAST_S", 0.1)

    def until_it_is_left(_: Ranks) -> None:
        until_s = time.monotonic() + 10.0
        while live.jobs.refusal is None and time.monotonic() < until_s:
            time.sleep(0.01)

    live = bench(plays(switch, b"no JSON\n", until_it_is_left, full_log))
    outcome = live(ONE)
    assert (outcome.ending, outcome.window) == (Finished(2.0, 20), None)
    assert live.jobs.refusal == "it sent a line that is no message"


# --- a warm-up that goes on ----------------------------------------------------------------


def over(ranks: Ranks) -> None:
    """The program is at its own end."""
    ranks.send({"type": "over", "iterations": ranks.iteration - 1})


def warm_up(bench: Bench, setting: Setting = ONE) -> Outcome | None:
    bench.number += 1
    made = launch(bench.folder, bench.number, 10.0)
    return bench.jobs.warm_up(MeasurementRequest(made, STUDY, setting, bench.number))


def short_log(ranks: Ranks) -> None:
    ranks.log(1.0, 1.1, 1.2)


def test_a_warm_up_that_goes_on_is_the_running_job(bench: Make) -> None:
    made = bench(plays([0.1] * 3, short_log, over, switch, STEADY, stay))
    outcome = warm_up(made)
    assert outcome is not None
    assert (outcome.ending, outcome.window) == (Finished(1.2, 3), None)
    assert outcome.exit_code is None, "it has not ended"
    other = window(made(TWO))
    assert (other.job, other.started_s) == (1, 0.0)
    assert len(made.start.jobs) == 1


def test_one_whose_log_counts_other_iterations_takes_no_orders(bench: Make) -> None:
    """The optimizer steps every fourth time: windows would be scaled by four times too many."""

    def accumulates(ranks: Ranks) -> int:
        ranks.hello(CAN, hook="torch")
        ranks.steps([0.4] * 5)
        ranks.full_log()
        over(ranks)
        ranks.stay()
        return 0

    made = bench(accumulates)
    outcome = warm_up(made)
    assert outcome is not None and finished(outcome).iterations == 20
    assert made.jobs.refusal == (
        "its log counts 20 iterations, 5 were seen at the optimizer's step (session.step()"
        " says what an iteration is)"
    )
    assert made.jobs._job is None and made.start.jobs[0].stops > 0


@pytest.mark.parametrize("ends_in", ["a warm-up", "a job"])
def test_so_does_one_that_tells_of_it_as_it_ends(bench: Make, ends_in: str) -> None:
    def ends(ranks: Ranks) -> int:
        ranks.full_log()
        ranks.hello(CAN)
        for _ in range(100):  # more than is read at once
            ranks.send({"type": "steps", "first": 9, "s": [0.1] * 300, "marks": []})
        ranks.send({"type": "end", "iterations": 40})
        time.sleep(0.3)  # it says so as it ends
        return 0

    made = bench(ends)
    outcome = warm_up(made) if ends_in == "a warm-up" else made(ONE)
    assert outcome is not None and finished(outcome).iterations == 20
    assert outcome.exit_code == 0, "its end was waited for"
    assert made.jobs.refusal == "its log counts 20 iterations, 40 ended at session.step()"


def test_one_that_has_written_nothing_by_its_end_is_ended(bench: Make) -> None:
    made = bench(plays(over, stay))
    assert warm_up(made) is None
    assert made.jobs._job is None
    assert made.start.jobs[0].stops > 0


# --- logs that count other iterations than the ranks -----------------------------------------


@pytest.mark.parametrize(
    ("logged", "seen", "agree"),
    [
        ((80,), 20, False),  # accumulated over four batches
        ((80,), 160, False),  # an optimizer that steps twice
        ((80,), 159, True),  # those behind the last entry
        (range(10, 81, 10), 89, True),
        (range(10, 81, 10), 90, False),
        (range(100, 1001, 100), 901, True),
        (range(100, 1001, 100), 899, False),
        (range(4), 1, True),
        (range(4), 5, True),
    ],
)
def test_both_count_alike(logged: Sequence[int], seen: int, agree: bool) -> None:
    log = tuple(Progress(iteration, float(iteration)) for iteration in logged)
    outcome = Outcome(Finished(9.0, logged[-1]), 9.0, 0, log)
    assert (miscounted(outcome, seen, "torch") == "") is agree
