"""Windows of a job that is only a script: what is asked of it, and what comes of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.live.scripted import Ranks, Script, Starter, launch, plays
from tests.marked import eventually
from tests.study_samples import COMMUNICATOR, OMP, SPEC, WORKERS
from tests.system.jobs import failed, finished
from tuner.launch import trial
from tuner.launch.request import MeasurementRequest
from tuner.live import window as windowing
from tuner.live.full_run import FullRunModel
from tuner.live.jobs import LiveJobs
from tuner.model import FailureKind, Finished, Outcome, Setting, Stopped, Value, Verdict, Window
from tuner.search.stopper import Limit, Noise, ProjectionStopper

MODEL = FullRunModel(20, 2.0)
STUDY = replace(SPEC, command=("train", "{out}"), knobs=(OMP, WORKERS, COMMUNICATOR))
STEADY = [0.3, 0.1, 0.1, 0.1, 0.1, 0.1]

switch, stay, full_log = Ranks.switch, Ranks.stay, Ranks.full_log
silent_order = partial(Ranks.switch, answers=False)
refuses = partial(Ranks.switch, errors={"omp_threads": "no such library"})
slow = plays(switch, [0.1, 0.1], stay)

ONE, TWO, OTHER = (
    Setting.of(dict[str, Value](omp_threads=threads, communicator=name, iterator_workers=1))
    for threads, name in ((2, "naive"), (4, "naive"), (2, "flat"))
)


def obedient(ranks: Ranks) -> int:
    """Does as it is told, for as long as it is."""
    ranks.hello()
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
        self, setting: Setting, limit_s: float = 10.0, stall_limit_s: float = 5.0, **fields: Any
    ) -> Outcome:
        self.number += 1
        own = launch(self.folder, self.number, limit_s)
        spec = replace(STUDY, stall_limit_s=stall_limit_s)
        fields["expected_iterations"] = MODEL.iterations
        request = MeasurementRequest(own, spec, setting, self.number, **fields)
        return self.jobs.window(request, MODEL)

    def is_over(self) -> bool:
        """Whether no job that was started runs any more."""
        return all(job.poll() is not None for job in self.start.jobs)

    def close(self) -> None:
        self.jobs.end()
        assert self.is_over()


Make = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda *scripts: stack.enter_context(closing(Bench(tmp_path, *scripts)))


def window(outcome: Outcome) -> Window:
    assert outcome.window is not None
    return outcome.window


def test_one_job_measures_one_setting_after_another(bench: Make) -> None:
    live = bench(obedient)
    first, second, third = live(ONE), live(TWO), live(ONE)
    (job,) = live.start.jobs
    assert [window(outcome).job for outcome in (first, second, third)] == [1, 1, 1]
    assert job.ranks.switches == [{}, {"omp_threads": 4}, {"omp_threads": None}]
    assert finished(first).elapsed_s == pytest.approx(0.1 * 22)
    assert finished(first).iterations == 20
    assert (window(first).discarded, window(first).iterations) == (1, 5)
    assert window(first).live == ("iterator_workers", "omp_threads")
    assert window(first).started_s > 0 == window(second).started_s
    assert first.progress[-1].iteration == 5
    assert first.progress[-1].elapsed_s == pytest.approx(0.7)
    assert first.telemetry is not None and first.telemetry.phases == ()
    assert first.exit_code is None and not live.jobs.refusal


def test_what_it_cannot_change_takes_a_new_job(bench: Make, tmp_path: Path) -> None:
    live = bench(obedient, obedient)
    live(ONE)
    (tmp_path / "trial-2").mkdir()
    live(TWO)
    assert (tmp_path / "trial-2" / "output.log").read_text() == "it begins\n", "that of its job"
    assert window(live(OTHER)).job == 3
    assert [job.poll() is None for job in live.start.jobs] == [False, True]


def test_iterations_that_are_marked_do_not_count(bench: Make) -> None:
    """Iteration 4 has an evaluation."""
    steps = partial(Ranks.steps, times_s=[0.3, 0.1, 0.1, 9.0, 0.1, 0.1, 0.1], marks=[4])
    found = bench(plays(switch, steps, stay))(ONE)
    assert window(found).pace_s == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("read", "verdict", "observed"),
    [
        ("4", Verdict.HONOURED, 4),  # what json makes of numpy.int64(4) too
        (4.0, Verdict.HONOURED, 4),
        ("four", Verdict.OVERRIDDEN, "four"),
    ],
)
def test_what_a_rank_reads_back_says_whether_the_program_took_it(
    bench: Make, read: Any, verdict: Verdict, observed: Value
) -> None:
    """``/proc`` shows nothing of these ranks."""
    obeys = partial(Ranks.switch, omp_threads=read)
    outcome = bench(plays(switch, STEADY, obeys, STEADY, stay))
    outcome(ONE)
    (effect,) = [e for e in outcome(TWO).effects if e.knob == "omp_threads"]
    assert (effect.verdict, effect.observed) == (verdict, observed)


def test_what_cannot_win_is_left_and_the_job_runs_on(bench: Make) -> None:
    live = bench(obedient)
    outcome = live(ONE, stopper=ProjectionStopper(Limit(0.5), Noise(), 20))
    assert isinstance(outcome.ending, Stopped)
    assert outcome.ending.projection_s == pytest.approx(2.2, rel=0.01)
    assert window(live(TWO, stopper=ProjectionStopper(Limit(3.0), Noise(), 20))).job == 1


def test_a_knob_that_a_rank_cannot_change_costs_one_attempt(bench: Make) -> None:
    unread = partial(Ranks.switch, errors={"omp_threads": "cannot be read"})
    live = bench(plays(unread, STEADY, refuses, stay), obedient, obedient)
    assert window(live(ONE)).job == 1, "it was started with its value"
    outcome = live(TWO)
    assert live.jobs.refused_switch == "omp_threads=4 in rank 1: no such library"
    assert (window(outcome).job, finished(outcome).iterations) == (2, 20), "started with it"
    assert window(outcome).live == ("iterator_workers",)
    assert window(live(ONE)).job == 3 and not live.jobs.refused_switch, "no job is asked again"


def goes_on_stepping(ranks: Ranks) -> None:
    while not ranks.ended.wait(0.05):
        ranks.steps([0.1])


def test_a_window_that_hangs_fails_as_a_launch_does(bench: Make) -> None:
    live = bench(plays(silent_order, goes_on_stepping), slow)
    ending = failed(live(ONE, stall_limit_s=0.5))
    assert ending.kind is FailureKind.STALLED
    assert "no answer to the request to switch within 0.5 s; " in ending.reason
    ending = failed(live(ONE, limit_s=0.5))
    assert ending.kind is FailureKind.LIMIT and "the trial limit of 0.5 s" in ending.reason
    assert live.is_over()


def test_a_job_whose_iterations_are_known_is_not_waited_for_as_long_as_a_launch(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windowing, "LEAST_SILENT_S", 0.1)
    live = bench(plays(switch, [0.06] * 8, silent_order, stay))
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
    assert window(outcome).job == 1
    assert bench(plays(switch, 7))(ONE).exclusion is None, "no switch has changed anything"


def test_a_request_ends_the_job_and_so_does_an_interrupt(bench: Make) -> None:
    live, steps = bench(slow, slow), list[object]()
    ending = failed(live(ONE, cancelled=lambda: bool(steps), on_progress=steps.append))
    assert ending.kind is FailureKind.INTERRUPTED
    assert live.is_over()
    with pytest.raises(KeyboardInterrupt):
        live(ONE, on_progress=Mock(side_effect=KeyboardInterrupt))
    assert live.is_over()


def test_a_job_that_obeys_no_more_is_stalled(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windowing, "ENDING_S", 0.1)
    live = bench(plays(switch, STEADY, switch, b"[]\n", stay))
    live(ONE)
    ending = failed(live(TWO))
    assert ending.kind is FailureKind.STALLED
    assert "accepts no more switches: rank 0 was dropped: it sent a line" in ending.reason


def test_an_end_in_a_window_that_told_too_little_starts_anew(bench: Make) -> None:
    live = bench(plays(switch, STEADY, switch, [0.2], full_log), obedient)
    live(ONE)
    outcome = live(TWO)
    assert window(outcome).job == 2 and len(live.start.jobs) == 2
    assert window(outcome).started_s < outcome.wall_s
    assert live.jobs.ends_by_itself


def ordinary(ranks: Ranks) -> int:
    ranks.log(0.5, 1.0, *(1.0 + 0.1 * n for n in range(1, 19)))
    return 0


def test_a_launch_without_an_agent_is_an_ordinary_one(bench: Make, tmp_path: Path) -> None:
    live = bench(ordinary)
    outcome = live(ONE)
    request = MeasurementRequest(launch(tmp_path, 9), STUDY, ONE, expected_iterations=20)
    same = trial.run(request, start=Starter(ordinary))
    for name in ("ending", "exit_code", "observation", "effects", "window"):
        assert getattr(outcome, name) == getattr(same, name), name
    assert [e.elapsed_s for e in outcome.progress] == [e.elapsed_s for e in same.progress]
    assert live.jobs.refusal == "no rank said that it accepts switches"


def test_one_that_goes_on_alone_is_a_launch(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windowing, "ENDING_S", 0.1)

    def until_it_is_left(_: Ranks) -> None:
        eventually(lambda: bool(live.jobs.refusal))

    live = bench(plays(switch, b"no JSON\n", until_it_is_left, full_log))
    outcome = live(ONE)
    assert (outcome.ending, outcome.window) == (Finished(2.0, 20), None)
    assert live.jobs.refusal.startswith("rank 0 was dropped: it sent a line that is no message")
