"""The outcome of a launch that has ended. Exit code 0 alone proves nothing."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.hosts import process
from tuner.hosts.untrusted_files import read_end
from tuner.launch import failure
from tuner.launch.objectives import EndedLaunch, Objective
from tuner.launch.secrets import Redactor
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    Launch,
    RankView,
    Stopped,
    StudySpec,
    wording,
)

#: So much of the end of the output is read for the reason of a failure, bytes.
OUTPUT_BYTES = 1 << 16

#: Where the kernel counts what it ended.
VMSTAT = Path("/proc/vmstat")

#: A disk with less is full, bytes.
ROOM = 16 << 20

#: The signals that end an mpirun from outside; it takes a fault (SIGSEGV) upon itself.
_SENT = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


def oom_kills() -> int:
    """How often this host's kernel has ended a process for want of memory; 0: not known."""
    try:
        found = re.search(r"^oom_kill (\d+)$", VMSTAT.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class OutcomeClassifier:
    """Says whether one launch finished, was stopped or failed, and why."""

    launch: Launch
    spec: StudySpec
    objective: Objective
    expected_iterations: int | None
    oom_kills_before: int = field(default_factory=oom_kills)

    def classify(
        self, exit_: process.Exit, stopped: Failed | Stopped | None, ranks: tuple[RankView, ...]
    ) -> Finished | Stopped | Failed:
        """The end of the launch; a failure has the end of its output.

        Args:
            exit_: How the command ended.
            stopped: Why we ended it, if we did.
            ranks: What was seen of the ranks.
        """
        end = stopped or self._from_outside(exit_) or self._by_itself(exit_, ranks)
        if isinstance(end, Failed) and end.kind is FailureKind.STALLED and exit_.oom_kills:
            reason = f"the kernel ended a process for want of memory, then {end.reason}"
            end = Failed(FailureKind.OUT_OF_MEMORY, reason)
        full = self.expected_iterations
        if isinstance(end, Finished) and full is not None and end.iterations < full:
            reason = f"its log ends at iteration {end.iterations} of {full}"
            end = Failed(FailureKind.WRONG_RESULT, reason)
        if isinstance(end, Failed):
            return replace(end, log_tail=failure.tail(output_of(self.launch)))
        return end

    def _from_outside(self, exit_: process.Exit) -> Failed | None:
        """If somebody else has ended the launch: that says nothing of the setting."""
        if exit_.lost:
            return Failed(FailureKind.INTERRUPTED, "its supervisor was ended from outside")
        number = -(exit_.code or 0)
        if exit_.stopped or exit_.oom_kills or number not in _SENT:
            return None
        # A rank's end gives mpirun an exit code; a signal of its own was sent to itself.
        who = wording.starter(self.spec.launcher)
        reason = f"{who} was ended by {signal.Signals(number).name} from outside"
        return Failed(FailureKind.INTERRUPTED, reason)

    def _by_itself(self, exit_: process.Exit, ranks: tuple[RankView, ...]) -> Finished | Failed:
        wrong = _wrong_world(self.spec, ranks)
        if exit_.code != 0:
            kills = exit_.oom_kills
            if kills is None:  # the whole host's, which others may have caused
                kills = oom_kills() - self.oom_kills_before
            kind, reason, line = failure.explain(
                exit_.code,
                output_of(self.launch),
                oom_kills=kills,
                certain=exit_.oom_kills_own,
            )
            if kind is FailureKind.DISK_FULL and not _is_full(self.launch, line):
                kind, reason = FailureKind.CRASHED, f"{reason} (but its folders have room)"
            return Failed(kind, f"{reason}; {wrong}" if wrong else reason)
        if wrong:
            return Failed(FailureKind.WRONG_WORLD, wrong)
        printed = self.launch.folder / process.OUTPUT
        return self.objective.result(EndedLaunch(self.launch.out_dir, printed, exit_.wall_s))


def _is_full(launch: Launch, line: str) -> bool:
    """Whether a disk is as full as a line of the program says; of a quota only it can tell."""
    if "quota exceeded" in line:
        return True
    named = [launch.env.get("TMPDIR", ""), *re.findall(r"'(/[^']+)'", line)]
    places = [launch.out_dir, launch.folder, launch.cwd, Path("/tmp")]
    return any(map(_has_no_room, [*places, *map(Path, filter(os.path.isabs, named))]))


def _has_no_room(path: Path) -> bool:
    """False also if that cannot be known, and if nothing is ever written there."""
    try:
        disk = os.statvfs(path)
    except FileNotFoundError:
        return path != path.parent and _has_no_room(path.parent)
    except OSError:
        return False
    if not disk.f_blocks or disk.f_flag & os.ST_RDONLY:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM or (disk.f_files > 0 and not disk.f_favail)


def _wrong_world(spec: StudySpec, ranks: tuple[RankView, ...]) -> str:
    """What is wrong with the number of ranks that ran; empty if nothing is."""
    expected = spec.layout.ranks
    launcher = f"{spec.launcher.kind} {spec.launcher.version} ({spec.launcher.mpirun})"
    for rank in ranks:
        if rank.world_size not in {None, expected}:
            saw = f"a rank saw a world of {rank.world_size} instead of {expected}: the program"
            if spec.launcher.kind == "torchrun" and rank.mpi_library is not None:
                return f"{saw} runs under {rank.mpi_library}, which torchrun does not start"
            library = rank.mpi_library or "a library that was not seen"
            return f"{saw}'s MPI is {library}, mpirun is {launcher}; both must be the same MPI"
    if len(ranks) > expected:
        return f"{len(ranks)} ranks ran instead of {expected} under {launcher}"
    return ""


def output_of(launch: Launch) -> str:
    """The end of what the launch printed, without the secrets that it was given."""
    try:
        text = read_end(launch.folder / process.OUTPUT, OUTPUT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    # Hidden before the lines are cut: of half a secret nobody knows what it is.
    return failure.clean(Redactor.of(launch.env, launch.argv).text(text))
