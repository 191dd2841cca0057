"""Runs one launch, from its empty folder to its `Outcome`. Exit code 0 alone proves nothing."""

from __future__ import annotations

import errno
import math
import os
import re
import signal
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from tuner.hosts import process
from tuner.hosts.launch_observer import LaunchObserver
from tuner.hosts.probe import probe_folder
from tuner.hosts.untrusted_files import make_folder, read_end
from tuner.knobs.effects import effects
from tuner.launch import failure
from tuner.launch.launchers.discovery import other_mpi
from tuner.launch.monitor import Ended, LaunchMonitor
from tuner.launch.objectives import EndedLaunch, Objective, objective_for
from tuner.launch.request import MeasurementRequest
from tuner.launch.secrets import Redactor
from tuner.model import Failed, FailureKind, Finished, Launch, Outcome, RankView, Stopped, StudySpec
from tuner.model.errors import TunerError
from tuner.model.wording import one_line

#: This much of the end of the output is read for the reason of a failure, bytes.
OUTPUT_BYTES = 1 << 16
#: This much is read of a launch that ended with 0, to see whether its program died, bytes.
DEATH_BYTES = 1 << 14
#: So many files of a launch's output folder are looked at.
MOST_FILES = 200
#: A disk with less free space is full, bytes.
LEAST_FREE_BYTES = 16 << 20
#: The signals that end an mpirun from outside; another one (SIGSEGV) is a fault of its own.
_SENT = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})

#: What starts a launch, and what makes its observer: on this host, on several, or in a test.
Start = Callable[[Launch], process.RunningCommand]
Observe = Callable[[Launch, StudySpec], LaunchObserver]


def begin(
    request: MeasurementRequest,
    *,
    start: Start = process.start,
    observe: Observe = LaunchObserver.of,
) -> RunningLaunch | Outcome:
    """Start the launch of a request; return its `Outcome` if it cannot be started.

    The caller ends what was begun, on every path.

    Raises:
        TunerError: A folder cannot be made, or a process of the trial cannot be ended.
    """
    launch, spec = request.launch, request.spec
    # For their owner only: logs may hold what a program was given.
    for folder in (launch.folder, launch.out_dir, probe_folder(launch.folder)):
        try:
            make_folder(folder)
        except OSError as error:
            raise TunerError(
                f"the trial's folder {folder} cannot be made: {error.strerror}",
                "check the permissions and the free space there",
            ) from error
    if spec.prepare and not _prepared(request):
        return not_started(FailureKind.INTERRUPTED, "ended by the user")
    objective, observer = objective_for(spec.objective), observe(launch, spec)
    try:
        running = start(launch)
    except OSError as error:
        detail = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        kind, fault = FailureKind.LAUNCHER, "cannot be started"
        if error.errno in {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}:
            # The system had no resources left for us: that says nothing of the setting.
            kind, fault = FailureKind.INTERRUPTED, "this machine could not start a process"
        elif error.errno in {errno.ENOSPC, errno.EDQUOT}:
            kind = FailureKind.DISK_FULL
        return not_started(kind, f"{fault}: {detail}")
    objective.pauses = running.pauses  # the clock of its log goes on in them
    return RunningLaunch(LaunchMonitor(request, running, observer, objective))


def not_started(kind: FailureKind, reason: str) -> Outcome:
    """Return the outcome of a launch that failed before any of its processes ran."""
    return Outcome(Failed(kind, reason), wall_s=0.0, exit_code=None)


def _prepared(request: MeasurementRequest) -> bool:
    """Run the user's ``--prepare``, end what it leaves; return False if the user has ended it."""
    launch, spec = request.launch, request.spec
    limit_s = min(spec.prepare_limit_s, spec.trial_limit_s or spec.prepare_limit_s)
    folder = launch.folder / "prepare"
    prepare = Launch(spec.prepare, os.environ, launch.cwd, launch.out_dir, folder, limit_s)
    try:
        make_folder(folder)
        running = process.start(prepare)
    except OSError as error:
        raise TunerError(f"--prepare cannot be run: {error.filename}: {error.strerror}") from error
    try:
        observer, objective = LaunchObserver.of(prepare, spec), Objective(spec.objective)
        bare = MeasurementRequest(prepare, spec, request.setting, cancelled=request.cancelled)
        ended = LaunchMonitor(bare, running, observer, objective).follow()
    finally:
        running.stop()
    assert ended is not None  # it is followed to its end
    exit_, reason = ended
    if reason is None and exit_.code == 0:
        return True
    if isinstance(reason, Failed) and reason.kind is FailureKind.INTERRUPTED:
        return False
    fault = reason.reason if isinstance(reason, Failed) else failure.ended(exit_.code)
    raise TunerError(
        f"--prepare failed: {fault}",
        f"read {folder / process.OUTPUT}, or give it more time (--prepare-limit, --trial-limit,"
        " --stall-limit), then run the same command again: nothing is lost",
    )


def run(
    request: MeasurementRequest,
    *,
    start: Start = process.start,
    observe: Observe = LaunchObserver.of,
) -> Outcome:
    """Run the launch of a request to its end; errors are those of :func:`begin`.

    Whatever is raised, a KeyboardInterrupt too, goes on only after the launch has been ended.
    """
    started = begin(request, start=start, observe=observe)
    outcome = started if isinstance(started, Outcome) else started.outcome()
    assert outcome is not None  # it is followed to its end
    return outcome


@dataclass(frozen=True)
class RunningLaunch:
    """A launch that runs; says in the end whether it finished, was stopped or failed, and why."""

    monitor: LaunchMonitor

    @property
    def _launch(self) -> Launch:
        return self.monitor.request.launch

    @property
    def _spec(self) -> StudySpec:
        return self.monitor.request.spec

    def outcome(
        self, done: Callable[[], bool] = lambda: False, *, is_recorded: bool = True
    ) -> Outcome | None:
        """Follow the launch to its end; return ``None`` once ``done()``, while it runs on.

        Its telemetry is recorded, if it ``is_recorded``: pauses would leave gaps in that. Whatever
        is raised goes on only after the launch has been ended.
        """
        try:
            with self.monitor.observer.recording() if is_recorded else nullcontext():
                ended = self.monitor.follow(done)
        except BaseException:
            self.monitor.running.stop()
            raise
        return None if ended is None else self._conclude(ended)

    def outcome_of_stop(self, reason: Failed) -> Outcome:
        """End the launch for a reason and return its outcome."""
        return self._conclude(self.monitor.stop(reason))

    def _conclude(self, ended: Ended) -> Outcome:
        """Return how the launch ended, with its log and what was seen of its ranks."""
        monitor, (exit_, stopped) = self.monitor, ended
        setting, spec = monitor.request.setting, monitor.request.spec
        view = monitor.observer.view()
        monitor.report_progress()
        observation = replace(
            view.observation,
            left_running=exit_.left_running,
            output_bytes=monitor.output_bytes(),
            files=_files_in(monitor.request.launch.out_dir),
        )
        return Outcome(
            self.classify(exit_, stopped, observation.ranks),
            wall_s=exit_.wall_s,
            exit_code=exit_.code,
            progress=monitor.progress,
            observation=observation,
            effects=effects(spec, setting, observation),
            load=view.load,
            telemetry=view.telemetry,
        )

    def classify(
        self, exit_: process.Exit, stopped: Failed | Stopped | None, ranks: tuple[RankView, ...]
    ) -> Finished | Stopped | Failed:
        """Return how a launch ended; a failure has the end of its output.

        ``stopped`` is why we ended it, if we did; ``ranks`` are those that were seen.
        """
        end = stopped or self._from_outside(exit_) or self._by_itself(exit_, ranks)
        if isinstance(end, Failed) and end.kind is FailureKind.STALLED and exit_.oom_kills:
            reason = f"the kernel ended a process for want of memory, then {end.reason}"
            end = Failed(FailureKind.OUT_OF_MEMORY, reason)
        expected = self.monitor.request.expected_iterations
        if isinstance(end, Finished) and expected is not None and end.iterations < expected:
            reason = f"its log ends at iteration {end.iterations} of {expected}"
            end = Failed(FailureKind.WRONG_RESULT, reason)
        if isinstance(end, Failed):
            return replace(end, log_tail=failure.tail(output_of(self._launch)))
        return end

    def _from_outside(self, exit_: process.Exit) -> Failed | None:
        """Return a failure if somebody else ended the launch, which says nothing of the setting."""
        if exit_.lost_host:
            reasons = (exit_.lost_host, failure.lost_host(output_of(self._launch)))
            return Failed(FailureKind.LOST_HOST, "; ".join(filter(None, reasons)))
        if exit_.lost:
            return Failed(FailureKind.INTERRUPTED, "its supervisor was ended from outside")
        signal_number = -(exit_.code or 0)  # a negative exit code is a signal
        if exit_.stopped or exit_.oom_kills or signal_number not in _SENT:
            return None
        # When a rank ends, mpirun exits with a code; this signal was sent to mpirun itself.
        launcher = "torchrun" if self._spec.launcher.kind == "torchrun" else "mpirun"
        reason = f"{launcher} was ended by {signal.Signals(signal_number).name} from outside"
        return Failed(FailureKind.INTERRUPTED, reason)

    def _by_itself(self, exit_: process.Exit, ranks: tuple[RankView, ...]) -> Finished | Failed:
        """Return the figure of a launch that ended by itself, or why it failed."""
        wrong_world = _wrong_world(self._spec, ranks)
        output_file = self._launch.folder / process.OUTPUT
        result = self.monitor.objective.result(
            EndedLaunch(self._launch.out_dir, output_file, exit_.wall_s)
        )
        death = "" if exit_.code != 0 else self._death(result, ranks)
        if exit_.code != 0 or death:
            kills = exit_.oom_kills or exit_.host_oom_kills
            output = output_of(self._launch)
            kind, reason, line = failure.explain(exit_.code, output, oom_kills=kills)
            if kind is FailureKind.DISK_FULL and not _is_full(self._launch, line):
                kind, reason = FailureKind.CRASHED, f"{reason} (but its folders have room)"
            elif death and kind is FailureKind.CRASHED:
                reason = f"{failure.ended(exit_.code)}: {death}"
            other = ""  # the other MPI that a program may have; a wrong world tells it already
            if kind in {FailureKind.CRASHED, FailureKind.LAUNCHER} and not wrong_world:
                other = other_mpi(self._spec.launcher.kind, self._spec.command[0], self._launch)
            complete, expected = "", self.monitor.request.expected_iterations or math.inf
            if (
                isinstance(result, Finished)
                and self._spec.objective.clock != "wall"
                and (result.iterations or expected) >= expected  # 0: the objective counts none
            ):
                complete = "its figure was complete: it is the end of the program that fails"
            return Failed(kind, "; ".join(filter(None, (reason, wrong_world, other, complete))))
        if not self._spec.layout.is_local and (lost := self._in_output(failure.lost_host)):
            return Failed(FailureKind.LOST_HOST, lost)
        return Failed(FailureKind.WRONG_WORLD, wrong_world) if wrong_world else result

    def _death(self, result: Finished | Failed, ranks: tuple[RankView, ...]) -> str:
        """Return what shows that the program died, though its exit code is 0; empty if nothing."""
        has_figure = isinstance(result, Finished) and self._spec.objective.clock != "wall"
        search = partial(failure.death, has_figure=has_figure)
        if line := self._in_output(search, DEATH_BYTES):
            return line
        uncaught = next((rank for rank in ranks if rank.uncaught), None)
        return "" if uncaught is None else f"{uncaught.uncaught} ended rank {uncaught.rank}"

    def _in_output(self, search: Callable[[str], str], most_bytes: int = OUTPUT_BYTES) -> str:
        """Return what a search of the output's end finds, without secrets."""
        if not search(failure.clean(_end_of_output(self._launch, most_bytes))):
            return ""  # before secrets are hidden, which is slow
        return search(output_of(self._launch))


def _files_in(folder: Path) -> tuple[str, ...]:
    """Return the names of the files in a folder, at most 200, that hold something.

    Each run of digits is a ``#``: every launch has other dates and numbers in them.
    """
    names = set()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MOST_FILES):
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False) and entry.stat().st_size:
                    names.add(one_line(re.sub(r"\d+", "#", entry.name)))
    return tuple(sorted(names))


def _is_full(launch: Launch, line: str) -> bool:
    """Return whether a disk is full, as a line of the program says: one that it may write to."""
    if "quota exceeded" in line:  # the free space of a disk does not show that
        return True
    paths = [launch.env.get("TMPDIR", ""), *re.findall(r"'(/[^']+)'", line)]
    folders = [launch.out_dir, launch.folder, launch.cwd, Path("/tmp")]
    return any(map(_has_no_room, [*folders, *map(Path, filter(os.path.isabs, paths))]))


def _has_no_room(path: Path) -> bool:
    """Return whether the disk of a path is full; False if it is unknown or never written to."""
    try:
        while not path.exists() and path != path.parent:
            path = path.parent
        disk = os.statvfs(path)
    except OSError:
        return False
    if not disk.f_blocks or disk.f_flag & os.ST_RDONLY:
        return False
    is_out_of_inodes = disk.f_files > 0 and not disk.f_favail
    return disk.f_bavail * disk.f_frsize < LEAST_FREE_BYTES or is_out_of_inodes


def _wrong_world(spec: StudySpec, ranks: tuple[RankView, ...]) -> str:
    """Return what is wrong with the number of ranks that ran; empty if nothing is."""
    expected = spec.layout.ranks
    if spec.launcher.kind == "none":  # the program's own ranks are its own matter
        return ""
    launcher = f"{spec.launcher.kind} {spec.launcher.version} ({spec.launcher.mpirun})"
    for rank in ranks:
        if rank.world_size not in {None, expected}:
            text = f"a rank saw a world of {rank.world_size} instead of {expected}: the program"
            if spec.launcher.kind == "torchrun" and rank.mpi_library is not None:
                return f"{text} runs under {rank.mpi_library}, which torchrun does not start"
            library = rank.mpi_library or "a library that was not seen"
            return f"{text}'s MPI is {library}, mpirun is {launcher}; both must be the same MPI"
    if len(ranks) > expected:
        return f"{len(ranks)} ranks ran instead of {expected} under {launcher}"
    return ""


def output_of(launch: Launch) -> str:
    """Return the end of what the launch printed, without the secrets that it was given."""
    text = _end_of_output(launch, OUTPUT_BYTES)
    # Hidden before the lines are cut: of half a secret nobody knows what it is.
    return failure.clean(Redactor.of(launch.env, launch.argv).text(text))


def _end_of_output(launch: Launch, most_bytes: int) -> str:
    try:
        return read_end(launch.folder / process.OUTPUT, most_bytes).decode("utf-8", "replace")
    except OSError:
        return ""
