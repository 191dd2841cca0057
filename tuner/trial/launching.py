"""A launch from its empty folder to its `Outcome`."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import replace

from tuner import crash, process
from tuner.effects import effects
from tuner.errors import TunerError
from tuner.model import (
    Failed,
    FailureKind,
    Launch,
    Outcome,
    Progress,
    Setting,
    StudySpec,
)
from tuner.neighbours import Neighbourhood
from tuner.objectives import objective_for
from tuner.observe import probe_folder
from tuner.phases import read_phases
from tuner.racing import Judge
from tuner.secrets import make_folder
from tuner.telemetry import Sampler
from tuner.trial.ending import Ending, output_of
from tuner.trial.follower import Follower

#: The system was short of something for us: that says nothing of the setting.
_OF_THE_MACHINE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


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
    ending = Ending(launch, spec, objective, expected_iterations)
    neighbourhood = Neighbourhood()
    try:
        running = start(launch)
    except OSError as error:
        return Outcome(_not_started(error), wall_s=0.0, exit_code=None)
    follower = Follower(
        launch, spec, running, objective, clock, on_progress or _ignore, cancelled, judge
    )
    with _sampler(follower) as sampler:
        ended = False
        try:
            exit_, stopped = follower.follow()
            ended = True
        finally:
            if not ended:
                running.stop()
    load = neighbourhood.load()  # nothing of the launch is alive any more
    follower.report_progress()
    observation = follower.watcher.result()
    found = ending.of(exit_, stopped, observation.ranks)
    if isinstance(found, Failed):
        found = replace(found, log_tail=crash.tail(output_of(launch)))
    return Outcome(
        found,
        wall_s=exit_.wall_s,
        exit_code=exit_.code,
        progress=follower.progress,
        observation=observation,
        effects=effects(setting, spec.knobs, observation, spec.machine),
        load=load,
        telemetry=replace(sampler.telemetry, phases=read_phases(launch.folder)),
    )


def _sampler(follower: Follower) -> Sampler:
    """What records the launch while it is followed."""
    spec = follower.spec
    return Sampler(
        lambda: follower.watcher.members,
        ranks=spec.layout.ranks,
        gpus=bool(spec.machine.gpus),
        environ=follower.launch.env,
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


def _not_started(error: OSError) -> Failed:
    what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    if error.errno in _OF_THE_MACHINE:
        reason = f"this machine could not start a process: {what}"
        return Failed(FailureKind.INTERRUPTED, reason)
    if error.errno in _DISK_FULL:
        return Failed(FailureKind.DISK_FULL, f"cannot be started: {what}")
    return Failed(FailureKind.LAUNCHER, f"cannot be started: {what}")
