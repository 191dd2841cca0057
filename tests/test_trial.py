from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tuner import trial
from tuner.errors import TunerError
from tuner.model import (
    Choice,
    Env,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    Knob,
    Launch,
    LauncherInfo,
    Layout,
    Machine,
    Outcome,
    Progress,
    Setting,
    StudySpec,
    Verdict,
)
from tuner.process import OUTPUT, Exit

Step = Callable[[Launch], object]


def log(*elapsed: float) -> Step:
    """The program's log comes to hold these times."""
    entries = [{"iteration": 10 * n, "elapsed_time": t} for n, t in enumerate(elapsed, start=1)]
    return lambda launch: (launch.out_dir / "log").write_text(json.dumps(entries))


def says(text: str) -> Step:
    return lambda launch: (launch.folder / OUTPUT).write_text(text)


def reports(rank: int, world_size: int, threads: int = 1) -> Step:
    """The probe in a rank leaves its report."""
    report = {
        "rank": rank,
        "pools": [{"library": "numpy.libs/libscipy_openblas64_.so", "threads": threads}],
        "mpi": {"world_size": world_size, "library": "MPICH Version: 5.0.2"},
    }
    name = f"probe/rank-{rank}.json"
    return lambda launch: (launch.folder / name).write_text(json.dumps(report))


@dataclass
class FakeProcess:
    """A launch whose ticks are steps: each may do something; then it ends, if it has a code."""

    launch: Launch
    steps: list[Step]
    code: int | None
    clock: FakeClock
    marker: str = "m"
    pid: int = 1
    stops: int = 0
    ended: Exit | None = None

    def poll(self) -> Exit | None:
        return self.wait(0)

    def wait(self, timeout_s: float) -> Exit | None:
        assert 0 <= timeout_s <= trial.TICK_S
        if self.steps:
            self.clock.now_s += timeout_s
            self.steps.pop(0)(self.launch)
        elif self.code is None:
            self.clock.now_s += timeout_s
        else:
            self.ended = Exit(self.code, wall_s=self.clock.now_s, stopped=False, killed=0)
        return self.ended

    def stop(self) -> Exit:
        self.stops += 1
        self.ended = self.ended or Exit(-15, wall_s=self.clock.now_s, stopped=True, killed=0)
        return self.ended

    def pids(self) -> tuple[int, ...]:
        return ()


@dataclass
class FakeClock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Bench:
    """Runs trials of fake processes."""

    folder: Path
    limit_s: float | None = None
    expected: int | None = None
    knobs: tuple[Knob, ...] = (Knob("omp_threads", IntRange(1, 2), Env(("OMP_NUM_THREADS",))),)
    seen: list[Progress] = field(default_factory=list)
    process: FakeProcess | None = None

    def run(self, *steps: Step, code: int | None = 0, **options: Any) -> Outcome:
        clock = FakeClock()
        launch = Launch(
            ("mpirun",), {}, self.folder, self.folder / "t/out", self.folder / "t", self.limit_s
        )

        def start(launch: Launch) -> FakeProcess:
            self.process = FakeProcess(launch, list(steps), code, clock)
            return self.process

        return trial.run(
            launch,
            **{
                "spec": self.spec(),
                "setting": Setting.of({"omp_threads": 1}),
                "expected_iterations": self.expected,
                "start": start,
                "clock": clock,
                "on_progress": self.seen.append,
                **options,
            },
        )

    def spec(self) -> StudySpec:
        machine = Machine("host", "cpu", 2, 2, 2, None, 1, 1 << 30)
        launcher = LauncherInfo("openmpi", "/mpi/bin/mpirun", "5.0.11")
        return StudySpec("s", ("prog",), launcher, Layout(2), machine, self.knobs)

    def fails(self, *steps: Step, code: int | None = 0, **options: Any) -> Failed:
        outcome = self.run(*steps, code=code, **options)
        assert isinstance(outcome.ending, Failed)
        return outcome.ending


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def stopped(bench: Bench) -> bool:
    assert bench.process is not None
    return bench.process.stops == 1 and bench.process.ended is not None


def test_a_full_run_is_finished(bench: Bench) -> None:
    bench.expected = 20
    outcome = bench.run(log(1.0), log(1.0, 2.5), reports(0, 2), reports(1, 2))
    assert outcome.ending == Finished(2.5, 20)
    assert outcome.progress == (Progress(10, 1.0), Progress(20, 2.5))
    assert bench.seen == list(outcome.progress)
    assert (outcome.exit_code, len(outcome.observation.ranks)) == (0, 2)
    assert outcome.wall_s == pytest.approx(4 * trial.TICK_S)
    assert outcome.effects[0].verdict is Verdict.HONOURED


def test_the_folders_are_their_owners_alone(bench: Bench) -> None:
    bench.run(log(1.0))
    for name in ("t", "t/out", "t/probe"):
        assert stat.S_IMODE((bench.folder / name).stat().st_mode) == 0o700


def test_an_old_log_proves_nothing(bench: Bench) -> None:
    (bench.folder / "t/out").mkdir(parents=True)
    (bench.folder / "t/out/log").write_text('[{"iteration": 1, "elapsed_time": 1.0}]')
    assert bench.fails().kind is FailureKind.NO_LOG


def test_a_crash_has_its_reason_and_the_tail(bench: Bench) -> None:
    ending = bench.fails(log(1.0), says("hello\nValueError: no\n"), code=1)
    assert ending == Failed(
        FailureKind.CRASHED, "exit code 1: ValueError: no", "hello\nValueError: no"
    )
    assert bench.seen == [Progress(10, 1.0)]


def test_a_failed_trial_tells_its_effects_too(bench: Bench) -> None:
    outcome = bench.run(reports(0, 2, threads=2), code=1)
    assert outcome.effects[0].verdict is Verdict.OVERRIDDEN


def test_no_log_and_bad_logs_are_failures(bench: Bench) -> None:
    ending = bench.fails(says("all fine\n"))
    assert (ending.kind, ending.log_tail) == (FailureKind.NO_LOG, "all fine")
    cut = bench.fails(lambda launch: (launch.out_dir / "log").write_text('[{"iter'))
    assert cut.kind is FailureKind.BAD_LOG
    assert str(bench.folder / "t/out/log") in cut.reason


def test_a_world_of_another_size_names_both_mpis(bench: Bench) -> None:
    ending = bench.fails(log(1.0), reports(0, 1))
    assert ending.kind is FailureKind.WRONG_WORLD
    assert "world of 1 instead of 2" in ending.reason
    assert "MPICH Version: 5.0.2" in ending.reason
    assert "openmpi 5.0.11 (/mpi/bin/mpirun)" in ending.reason


def test_a_crash_in_a_wrong_world_says_both(bench: Bench) -> None:
    ending = bench.fails(says("KeyError: 1"), reports(0, 1), code=1)
    assert ending.kind is FailureKind.CRASHED
    assert "KeyError: 1; a rank saw a world of 1" in ending.reason


def test_more_ranks_than_asked_is_wrong(bench: Bench) -> None:
    ending = bench.fails(log(1.0), *(reports(rank, 2) for rank in range(3)))
    assert (ending.kind, "3 ranks ran" in ending.reason) == (FailureKind.WRONG_WORLD, True)


def test_a_log_that_ends_early_is_no_result(bench: Bench) -> None:
    bench.expected = 40
    ending = bench.fails(log(1.0, 2.0))
    assert ending.kind is FailureKind.SHORT
    assert "iteration 20 of 40" in ending.reason


def test_a_longer_run_than_those_before_is_a_result(bench: Bench) -> None:
    bench.expected = 10
    assert bench.run(log(1.0, 2.0)).ending == Finished(2.0, 20)


def test_the_limit_ends_it(bench: Bench) -> None:
    bench.limit_s = 1.0
    ending = bench.fails(log(0.5), code=None)
    assert (ending.kind, "1 s" in ending.reason) == (FailureKind.LIMIT, True)
    assert stopped(bench)
    assert bench.seen == [Progress(10, 0.5)]


def test_what_ends_by_itself_at_the_limit_is_judged_as_ever(bench: Bench) -> None:
    bench.limit_s = 0.05

    def end(launch: Launch) -> None:
        assert bench.process is not None
        log(0.04)(launch)
        bench.process.code = 0

    def just_then() -> bool:
        if bench.process is not None and bench.process.code == 0:
            bench.process.ended = Exit(0, 0.05, stopped=False, killed=0)
        return False

    outcome = bench.run(end, code=None, cancelled=just_then)
    assert outcome.ending == Finished(0.04, 10)


def test_a_request_ends_it(bench: Bench) -> None:
    ending = bench.fails(log(1.0), code=None, cancelled=lambda: len(bench.seen) == 1)
    assert ending.kind is FailureKind.INTERRUPTED
    assert stopped(bench)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, SystemExit])
def test_whatever_is_raised_ends_it_first(bench: Bench, error: type[BaseException]) -> None:
    def fail(_: Launch) -> None:
        raise error

    with pytest.raises(error):
        bench.run(fail, code=None)
    assert stopped(bench)


def test_a_listener_that_fails_ends_it(bench: Bench) -> None:
    def listen(_: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        bench.run(log(1.0), log(1.0, 2.0), code=None, on_progress=listen)
    assert stopped(bench)


def test_a_launch_that_cannot_start_is_a_failure(bench: Bench) -> None:
    def start(_: Launch) -> FakeProcess:
        raise FileNotFoundError(2, "No such file or directory", "/mpi/bin/mpirun")

    ending = bench.fails(start=start)
    assert ending.kind is FailureKind.LAUNCHER
    assert "/mpi/bin/mpirun: No such file" in ending.reason


def test_a_folder_that_cannot_be_made_is_an_error(bench: Bench) -> None:
    (bench.folder / "t").write_text("a file")
    with pytest.raises(TunerError, match="cannot be made"):
        bench.run(log(1.0))


def test_only_knobs_that_were_set_have_effects(bench: Bench) -> None:
    bench.knobs = (*bench.knobs, Knob("communicator", Choice(("naive",)), Env(("X",))))
    outcome = bench.run(log(1.0), setting=Setting.of({"communicator": "naive"}))
    assert [effect.knob for effect in outcome.effects] == ["communicator"]
