from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests import study_surface
from tuner.hosts.process import OUTPUT, Exit
from tuner.launch import monitor, trial
from tuner.launch.request import MeasurementRequest
from tuner.model import (
    Env,
    Failed,
    FailureKind,
    Finished,
    IntRange,
    Knob,
    Launch,
    Layout,
    Outcome,
    Progress,
    Setting,
    Stopped,
    Verdict,
)
from tuner.model.errors import TunerError
from tuner.search.stopper import GoOn

Step = Callable[[Launch], object]


def log(*elapsed: float) -> Step:
    """The program's log comes to hold these times."""
    entries = [{"iteration": 10 * n, "elapsed_time": t} for n, t in enumerate(elapsed, start=1)]
    return lambda launch: (launch.out_dir / "log").write_text(json.dumps(entries))


def says(text: str) -> Step:
    return lambda launch: (launch.folder / OUTPUT).write_text(text)


def reports(rank: int, world_size: int, threads: int = 1, uncaught: str = "") -> Step:
    """The probe in a rank leaves its report."""
    report = {
        "uncaught": uncaught,
        "rank": rank,
        "pools": [{"library": "numpy.libs/libscipy_openblas64_.so", "threads": threads}],
        "mpi": {"world_size": world_size, "library": "MPICH Version: 5.0.2"},
    }
    text, name = json.dumps(report), f"probe/rank-{rank}.json"
    return lambda launch: (launch.folder / name).write_text(text)


SPEC = replace(
    study_surface.SPEC, knobs=(Knob("omp_threads", IntRange(1, 2), Env(("OMP_NUM_THREADS",))),)
)


@dataclass
class Bench:
    """Runs trials, and is their process and their clock.

    Its ticks are steps: each may do something; then it ends, if it has a code.
    """

    folder: Path
    limit_s: float | None = None
    expected: int | None = None
    seen: list[Progress] = field(default_factory=list)

    def run(
        self,
        *steps: Step,
        code: int | None = 0,
        start: Callable[[Launch], Any] | None = None,
        exit_fields: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Outcome:
        self.steps, self.code, self.now_s = list(steps), code, 0.0
        self.stops, self.exit_fields = 0, exit_fields or {}
        self.ended: Exit | None = None
        out = self.folder / "t/out"
        self.launch = Launch(("mpirun",), {}, self.folder, out, out.parent, self.limit_s)
        request = MeasurementRequest(
            self.launch,
            SPEC,
            Setting.of({"omp_threads": 1}),
            expected_iterations=self.expected,
            on_progress=self.seen.append,
        )
        begin: Callable[[Launch], Any] = start or (lambda _: self)
        return trial.run(replace(request, **fields), start=begin)

    def fails(self, *steps: Step, code: int | None = 0, **fields: Any) -> Failed:
        outcome = self.run(*steps, code=code, **fields)
        assert isinstance(outcome.ending, Failed)
        return outcome.ending

    def wait(self, timeout_s: float) -> Exit | None:
        assert 0 <= timeout_s <= monitor.TICK_S
        if self.steps:
            self.now_s += timeout_s
            self.steps.pop(0)(self.launch)
        elif self.code is None:
            self.now_s += timeout_s
        else:
            self.ended = Exit(self.code, self.now_s, False, 0, **self.exit_fields)
        return self.ended

    def stop(self) -> Exit:
        self.stops += 1
        self.ended = self.ended or Exit(-15, self.now_s, True, 0, **self.exit_fields)
        return self.ended

    def pids(self) -> tuple[int, ...]:
        return ()

    def pauses(self) -> list[tuple[float, float]]:
        return []

    def running_s(self) -> float:
        return self.now_s


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def logged(progress: Sequence[Progress]) -> list[tuple[int, float]]:
    return [(entry.iteration, entry.elapsed_s) for entry in progress]


def test_a_full_run_is_finished_in_folders_of_its_owner(bench: Bench) -> None:
    bench.expected = 20
    outcome = bench.run(log(1.0), log(1.0, 2.5), reports(0, 2), reports(1, 2))
    assert outcome.ending == Finished(2.5, 20)
    assert logged(outcome.progress) == [(10, 1.0), (20, 2.5)]
    assert bench.seen == list(outcome.progress)
    assert (outcome.exit_code, len(outcome.observation.ranks)) == (0, 2)
    assert outcome.wall_s == pytest.approx(4 * monitor.TICK_S)
    assert outcome.effects[0].verdict is Verdict.HONOURED
    for name in ("t", "t/out", "t/probe"):
        assert stat.S_IMODE((bench.folder / name).stat().st_mode) == 0o700


KILLED = "-" * 74 + "\nprterun noticed that process rank 1 exited on signal 9 (Killed).\n"
LOST = "-" * 74 + "\nPRTE has lost communication with a remote daemon.\n" + "-" * 74 + "\n"
ON_TWO_HOSTS = replace(SPEC, layout=Layout(2, ("h1", "h2"), (1, 1)))
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nKeyError: 1\n'
FULL = "its figure was complete"
HOST_KILL = {"host_oom_kills": 1}
STALLS = {"exit_fields": HOST_KILL, "spec": replace(SPEC, stall_limit_s=1.0)}
WORLD = "a rank saw a world of 1 instead of 2: the program's MPI is MPICH Version: 5.0.2, mpirun is"
UNCAUGHT = reports(0, 2, uncaught="ValueError")


@pytest.mark.parametrize(
    ("steps", "code", "kind", "said", "more"),
    [
        ([], 0, FailureKind.NO_LOG, "wrote no log", {}),
        ([log(1.0), reports(0, 1)], 0, FailureKind.WRONG_WORLD, WORLD, {}),
        ([log(1.0, 2.0)], 0, FailureKind.WRONG_RESULT, "iteration 20 of 40", {}),
        ([log(1.0, 2.0, 3.0, 4.0)], 139, FailureKind.CRASHED, FULL, {}),
        # An end from outside says nothing of the setting.
        ([], -9, FailureKind.INTERRUPTED, "mpirun was ended by SIGKILL from outside", {}),
        ([], 0, FailureKind.INTERRUPTED, "its supervisor", {"exit_fields": {"lost": True}}),
        ([log(1.0), says(LOST)], 0, FailureKind.LOST_HOST, "lost comm", {"spec": ON_TWO_HOSTS}),
        # The kernel counted a kill.
        ([says(KILLED)], 137, FailureKind.OUT_OF_MEMORY, "", {"exit_fields": {"oom_kills": 1}}),
        # A kill somewhere on the host explains only one that was seen.
        ([says(KILLED)], 137, FailureKind.OUT_OF_MEMORY, "", {"exit_fields": HOST_KILL}),
        ([], -15, FailureKind.INTERRUPTED, "by SIGTERM from outside", {"exit_fields": HOST_KILL}),
        ([], None, FailureKind.STALLED, "nothing happened for 1 s", STALLS),
        # A hidden exit code does not make a result.
        ([log(1.0), says(TRACEBACK)], 0, FailureKind.CRASHED, "though the exit code is 0", {}),
        ([log(1.0), UNCAUGHT], 0, FailureKind.CRASHED, "ValueError ended rank 0", {}),
    ],
)
def test_failures(
    bench: Bench,
    steps: list[Step],
    code: int | None,
    kind: FailureKind,
    said: str,
    more: dict[str, Any],
) -> None:
    bench.expected = 40
    ending = bench.fails(*steps, code=code, **more)
    assert ending.kind is kind and said in ending.reason
    assert (FULL in ending.reason) == (said == FULL)


def test_what_is_no_failure(bench: Bench) -> None:
    for text in (LOST, TRACEBACK + "went on\n"):  # on one host it is a text; it was caught
        assert bench.run(log(1.0), says(text)).ending == Finished(1.0, 10)


NO_SPACE = "OSError: [Errno 28] No space left on device"
QUOTA = "OSError: [Errno 122] Disk quota exceeded: 'snapshot'"


@pytest.mark.parametrize(
    ("text", "free", "is_full"),
    [(NO_SPACE, 100, True), (NO_SPACE, 1 << 19, False), (QUOTA, 1 << 19, True)],
)
def test_a_full_disk_is_believed_if_one_is_and_a_quota_always(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, text: str, free: int, is_full: bool
) -> None:
    disk = SimpleNamespace(
        f_frsize=4096, f_bavail=free, f_blocks=1 << 20, f_files=9, f_favail=9, f_flag=0
    )
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    kind = bench.fails(says(text + "\n"), code=1).kind
    assert kind is (FailureKind.DISK_FULL if is_full else FailureKind.CRASHED)


def test_the_limit_and_an_output_without_end_end_it(bench: Bench) -> None:
    def prints(launch: Launch) -> None:
        with (launch.folder / OUTPUT).open("wb") as file:
            file.truncate((1 << 30) + 1)  # takes no room

    bench.limit_s = 1.0
    ending = bench.fails(log(0.5), code=None)
    assert (ending.kind, "1 s" in ending.reason) == (FailureKind.LIMIT, True)
    assert bench.stops == 1
    assert logged(bench.seen) == [(10, 0.5)]
    bench.limit_s = None
    ending = bench.fails(prints, code=None)
    assert (ending.kind, ending.reason) == (FailureKind.CRASHED, "it printed more than 1 GiB")
    assert bench.stops == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_whatever_is_raised_ends_it_first(bench: Bench, error: type[BaseException]) -> None:
    with pytest.raises(error):
        bench.run(Mock(side_effect=error), code=None)
    assert bench.stops == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.EAGAIN, FailureKind.INTERRUPTED),
        (errno.ENOSPC, FailureKind.DISK_FULL),
    ],
)
def test_what_the_machine_is_short_of_is_not_the_settings_fault(
    bench: Bench, code: int, kind: FailureKind
) -> None:
    ending = bench.fails(
        start=Mock(side_effect=OSError(code, os.strerror(code), "/mpi/bin/mpirun"))
    )
    assert ending.kind is kind and os.strerror(code) in ending.reason


def test_a_folder_that_cannot_be_made_is_an_error(bench: Bench) -> None:
    (bench.folder / "t").write_text("a file")
    with pytest.raises(TunerError, match="cannot be made"):
        bench.run(log(1.0))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"prepare_limit_s": 0.2}, "not done within its limit of 0.2 s"),
        ({"stall_limit_s": 1.0}, "nothing happened for 1 s"),
    ],
)
def test_a_command_before_the_launch_that_never_ends_is_ended(
    bench: Bench, limits: dict[str, float], said: str
) -> None:
    spec = replace(SPEC, prepare=("sleep", "99"), **limits)  # type: ignore[arg-type]
    with pytest.raises(TunerError, match=f"--prepare failed: {said}") as caught:
        bench.run(spec=spec)
    assert "output.log" in caught.value.hint and "--prepare-limit" in caught.value.hint


# --- its stopper, while it runs -------------------------------------------------------------------

SLOW = Stopped(2.0, 9.0, 8.0, 10.0, 0.1, "drift")


def stopper(after: int) -> Mock:
    """Stops a launch once its log has so many entries; the calls of it are what it was shown."""
    return Mock(side_effect=lambda progress, *_: SLOW if len(progress) >= after else GoOn())


def test_the_stopper_ends_what_cannot_win(bench: Bench) -> None:
    steps = (reports(0, 2), log(1.0), log(1.0, 2.0))
    outcome = bench.run(*steps, stopper=stopper(2), code=None)
    assert outcome.ending == SLOW and bench.stops == 1
    assert logged(outcome.progress) == logged(bench.seen) == [(10, 1.0), (20, 2.0)]
    assert (outcome.samples, len(outcome.observation.ranks)) == ((), 1)
    assert [effect.knob for effect in outcome.effects] == ["omp_threads"]


def test_the_stopper_is_shown_the_log_the_time_and_the_start(bench: Bench) -> None:
    never = stopper(99)
    bench.run(says("not yet"), log(0.05), log(0.05, 0.1), stopper=never)
    tick = monitor.TICK_S
    logs, times_s, startups_s = zip(*(call.args for call in never.call_args_list), strict=True)
    assert logs == ([], [(10, 0.05)], [(10, 0.05), (20, 0.1)])
    assert times_s == pytest.approx((tick, 2 * tick, 3 * tick))
    assert startups_s[0] is None
    assert startups_s[1:] == pytest.approx((2 * tick - 0.05,) * 2)


def test_a_request_and_the_limit_come_before_the_stopper(bench: Bench) -> None:
    ending = bench.fails(log(1.0), code=None, stopper=stopper(0), cancelled=lambda: True)
    assert ending.kind is FailureKind.INTERRUPTED
    bench.limit_s = 0.05
    assert bench.fails(log(1.0), code=None, stopper=stopper(0)).kind is FailureKind.LIMIT
