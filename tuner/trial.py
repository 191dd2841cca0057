"""One launch, followed from its empty folder to its `Outcome`; nothing of it is left running."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tuner import crash, process
from tuner.effects import effects
from tuner.errors import TunerError
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    Launch,
    Outcome,
    Progress,
    RankView,
    Setting,
    Stopped,
    StudySpec,
)
from tuner.objectives import Objective, objective_for
from tuner.observe import Watcher, probe_folder
from tuner.pace import startup_s
from tuner.racing import Judge
from tuner.secrets import Hider, make_folder

#: How often the log, the limit and the wish to stop are looked at, s. The end itself is not
#: waited for in steps: it wakes us.
TICK_S = 0.1

#: The usual time between two looks at the ranks, s; shorter at the start of a launch.
SAMPLE_S = 0.5

#: Where a look costs much (a host with thousands of processes) it is taken less often: the
#: share of one core that all of them may take.
SAMPLE_SHARE = 0.01

#: Of a longer log than this a part is judged, evenly spaced: it says the same.
JUDGED_ENTRIES = 200

#: So much of the end of the output is read for the reason of a failure, bytes.
OUTPUT_BYTES = 1 << 16


def run(
    launch: Launch,
    *,
    spec: StudySpec,
    setting: Setting,
    expected_iterations: int | None,
    start: Callable[[Launch], process.Running] = process.start,
    clock: Callable[[], float] = time.monotonic,
    on_progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    judge: Judge | None = None,
) -> Outcome:
    """Run `launch` and say what it came to.

    Args:
        launch: What to run; its folder and output folder are made where they are missing.
        spec: The study, for its objective, knobs, machine and rank count.
        setting: What the launch was rendered from.
        expected_iterations: How far a run got at the furthest so far, where there was one.
        start: Starts the launch.
        clock: Seconds that only go forward.
        on_progress: Called with each new entry of the log.
        cancelled: Asked often; True ends the launch as interrupted.
        judge: Asked often too; ends the launch once it cannot win any more.

    Raises:
        TunerError: A folder cannot be made, or a process of the trial cannot be ended.
        UsageError: An old log cannot be removed.

    Whatever is raised, a KeyboardInterrupt too, goes on only after the launch has been ended.
    """
    objective = objective_for(spec.objective)
    _make_folders(launch)
    objective.prepare(launch.out_dir)
    try:
        running = start(launch)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        failed = Failed(FailureKind.LAUNCHER, f"cannot be started: {what}")
        return Outcome(failed, wall_s=0.0, exit_code=None)
    follower = _Follower(
        launch, running, objective, clock, on_progress or _ignore, cancelled, judge
    )
    ended = False
    try:
        exit_, stopped = follower.follow()
        ended = True
    finally:
        if not ended:
            running.stop()
    follower.report_progress()
    observation = follower.watcher.result()
    ending = stopped or _ending(exit_, launch, spec, objective, observation.ranks)
    full = expected_iterations
    if isinstance(ending, Finished) and full is not None and ending.iterations < full:
        reason = f"its log ends at iteration {ending.iterations} of {full}"
        ending = Failed(FailureKind.WRONG_RESULT, reason)
    if isinstance(ending, Failed):
        ending = replace(ending, log_tail=crash.tail(_output(launch)))
    return Outcome(
        ending,
        wall_s=exit_.wall_s,
        exit_code=exit_.code,
        progress=follower.progress,
        observation=observation,
        effects=effects(setting, spec.knobs, observation, spec.machine),
    )


def _ignore(_: Progress) -> None:
    """Nobody follows the launch."""


def _make_folders(launch: Launch) -> None:
    """The trial's folders, for their owner only: logs may hold what a program was given."""
    for folder in (launch.folder, launch.out_dir, probe_folder(launch.folder)):
        try:
            make_folder(folder)
        except OSError as error:
            raise TunerError(
                f"the trial's folder {folder} cannot be made: {error.strerror}",
                "check the permissions and the free space there",
            ) from error


@dataclass
class _Follower:
    """A launch that runs: its log, its ranks, its limit, its judge."""

    launch: Launch
    running: process.Running
    objective: Objective
    clock: Callable[[], float]
    on_progress: Callable[[Progress], None]
    cancelled: Callable[[], bool]
    judge: Judge | None

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.launch.folder)
        self.progress: tuple[Progress, ...] = ()
        self._started_s = self.clock()
        self._sampled_s = self._started_s
        self._look_s = 0.0

    def follow(self) -> tuple[process.Exit, Failed | Stopped | None]:
        """Wait for the end; the reason comes with it where we had to end the launch."""
        while True:
            passed_s = self.clock() - self._started_s
            limit_s = self.launch.limit_s
            tick_s = TICK_S if limit_s is None else max(0.0, min(TICK_S, limit_s - passed_s))
            exit_ = self.running.wait(tick_s)
            if exit_ is not None:
                return exit_, None
            reason = self._reason_to_stop(limit_s)
            if reason is not None:
                exit_ = self.running.stop()
                # It may have ended by itself just then: that is no failure.
                return exit_, reason if exit_.stopped else None
            self._sample()

    def _reason_to_stop(self, limit_s: float | None) -> Failed | Stopped | None:
        if self.cancelled():
            return Failed(FailureKind.INTERRUPTED, "ended on request before it was done")
        if limit_s is not None and self.clock() - self._started_s >= limit_s:
            reason = f"not done within the trial limit of {limit_s:g} s"
            return Failed(FailureKind.LIMIT, reason)
        self.report_progress()
        return self._judged()

    def _judged(self) -> Stopped | None:
        if self.judge is None:
            return None
        step = len(self.progress) // JUDGED_ENTRIES + 1
        some = self.progress[::-step][::-1]  # the last entry is always among them
        log = [(entry.iteration, entry.elapsed_s) for entry in some]
        verdict = self.judge(log, self.clock() - self._started_s, startup_s(self.progress))
        return verdict if isinstance(verdict, Stopped) else None

    def report_progress(self) -> None:
        """Read the log and hand on the entries that are new."""
        before = len(self.progress)
        found = self.objective.progress(self.launch.out_dir)
        self.progress = _noticed(self.progress, found, self.clock() - self._started_s)
        for step in self.progress[before:]:
            self.on_progress(step)

    def _sample(self) -> None:
        now_s = self.clock()
        # A short program is seen early, a long one is seldom disturbed.
        due_s = min(SAMPLE_S, max(TICK_S, (now_s - self._started_s) / 4))
        if now_s - self._sampled_s >= max(due_s, self._look_s / SAMPLE_SHARE):
            self._sampled_s = now_s
            before_s = time.thread_time()
            self.watcher.sample(self.running.pids())
            self._look_s = time.thread_time() - before_s


def _noticed(
    before: tuple[Progress, ...], found: tuple[Progress, ...], now_s: float
) -> tuple[Progress, ...]:
    """The entries found, each with the moment it was first seen."""
    same = 0
    for old, new in zip(before, found, strict=False):
        if (old.iteration, old.elapsed_s) != (new.iteration, new.elapsed_s):
            break
        same += 1
    return (*before[:same], *(replace(entry, seen_s=now_s) for entry in found[same:]))


def _ending(
    exit_: process.Exit,
    launch: Launch,
    spec: StudySpec,
    objective: Objective,
    ranks: tuple[RankView, ...],
) -> Finished | Failed:
    """What a launch that ended by itself came to. Exit code 0 alone proves nothing."""
    wrong = _wrong_world(spec, ranks)
    if exit_.code != 0:
        kind, reason = crash.explain(exit_.code, _output(launch))
        return Failed(kind, f"{reason}; {wrong}" if wrong else reason)
    if wrong:
        return Failed(FailureKind.WRONG_WORLD, wrong)
    return objective.result(launch.out_dir)


def _wrong_world(spec: StudySpec, ranks: tuple[RankView, ...]) -> str:
    """What is wrong with the number of ranks that ran; empty where nothing is."""
    asked = spec.layout.ranks
    launcher = f"{spec.launcher.kind} {spec.launcher.version} ({spec.launcher.mpirun})"
    for rank in ranks:
        if rank.world_size not in {None, asked}:
            library = rank.mpi_library or "a library that was not seen"
            return (
                f"a rank saw a world of {rank.world_size} instead of {asked}: the program's MPI "
                f"is {library}, mpirun is {launcher}; both must be the same MPI"
            )
    if len(ranks) > asked:
        return f"{len(ranks)} ranks ran instead of {asked} under {launcher}"
    return ""


def _output(launch: Launch) -> str:
    """The end of what the launch printed, without the secrets that it was given."""
    path: Path = launch.folder / process.OUTPUT
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - OUTPUT_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    # Hidden before the lines are cut: of half a secret nobody knows what it is.
    return crash.clean(Hider.of(launch.env, launch.argv).text(text))
