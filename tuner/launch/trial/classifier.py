"""The outcome of a launch that has ended. Exit code 0 alone proves nothing."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
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
#: Where temporary files go without a TMPDIR, or with one that is too long.
_TEMPORARY = "/tmp"
#: What an error says of the file.
_NAMED = re.compile(r"'(/[^']+)'")

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
        """The end of the launch.

        Args:
            exit_: How the command ended.
            stopped: Why we ended it, if we did.
            ranks: What was seen of the ranks.
        """
        end = stopped or _from_outside(exit_, self.spec) or self._by_itself(exit_, ranks)
        if isinstance(end, Failed) and end.kind is FailureKind.STALLED and exit_.oom_kills:
            reason = f"the kernel ended a process for want of memory, then {end.reason}"
            return Failed(FailureKind.OUT_OF_MEMORY, reason)
        full = self.expected_iterations
        if isinstance(end, Finished) and full is not None and end.iterations < full:
            reason = f"its log ends at iteration {end.iterations} of {full}"
            return Failed(FailureKind.WRONG_RESULT, reason)
        return end

    def _by_itself(self, exit_: process.Exit, ranks: tuple[RankView, ...]) -> Finished | Failed:
        wrong = _wrong_world(self.spec, ranks)
        if exit_.code != 0:
            kills = exit_.oom_kills
            if kills is None:  # the whole host's, which others may have caused
                kills = oom_kills() - self.oom_kills_before
            kind, reason = failure.explain(
                exit_.code,
                output_of(self.launch),
                oom_kills=kills,
                certain=exit_.oom_kills_own,
            )
            if kind is FailureKind.DISK_FULL and not _is_full(self.launch, reason):
                kind, reason = FailureKind.CRASHED, f"{reason} (but its folders have room)"
            return Failed(kind, f"{reason}; {wrong}" if wrong else reason)
        if wrong:
            return Failed(FailureKind.WRONG_WORLD, wrong)
        output = self.launch.folder / process.OUTPUT
        return self.objective.result(EndedLaunch(self.launch.out_dir, output, exit_.wall_s))


def _from_outside(exit_: process.Exit, spec: StudySpec) -> Failed | None:
    """If somebody else has ended the launch: that says nothing of the setting."""
    if exit_.lost:
        return Failed(FailureKind.INTERRUPTED, "its supervisor was ended from outside")
    number = -(exit_.code or 0)
    if exit_.stopped or exit_.oom_kills or number not in _SENT:
        return None
    # A rank's end gives mpirun an exit code; a signal of its own was sent to itself.
    name = signal.Signals(number).name
    who = wording.starter(spec.launcher)
    return Failed(FailureKind.INTERRUPTED, f"{who} was ended by {name} from outside")


def _is_full(launch: Launch, reason: str) -> bool:
    """Whether the disks are as full as the program says; of a quota only it can tell."""
    return "quota exceeded" in reason or any(map(_has_no_room, _places(launch, reason)))


def _places(launch: Launch, reason: str) -> Iterator[Path]:
    """Where it writes, as far as that is known."""
    yield from (launch.out_dir, launch.folder, launch.cwd, Path(_TEMPORARY))
    named = [launch.env.get("TMPDIR", ""), *_NAMED.findall(reason)]
    yield from map(Path, filter(os.path.isabs, named))


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
            if spec.launcher.kind == "torchrun" and rank.mpi_library is not None:
                return (
                    f"a rank saw a world of {rank.world_size} instead of {expected}: the program"
                    f" runs under {rank.mpi_library}, which torchrun does not start"
                )
            library = rank.mpi_library or "a library that was not seen"
            return (
                f"a rank saw a world of {rank.world_size} instead of {expected}: the program's MPI "
                f"is {library}, mpirun is {launcher}; both must be the same MPI"
            )
    if len(ranks) > expected:
        return f"{len(ranks)} ranks ran instead of {expected} under {launcher}"
    return ""


def output_of(launch: Launch) -> str:
    """The end of what the launch printed, without the secrets that it was given."""
    path: Path = launch.folder / process.OUTPUT
    try:
        text = read_end(path, OUTPUT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    # Hidden before the lines are cut: of half a secret nobody knows what it is.
    return failure.clean(Redactor.of(launch.env, launch.argv).text(text))
