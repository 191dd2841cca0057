"""What happens in a study, as it happens; the caller decides how to show it."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import (
    Finding,
    LaunchRecord,
    Measurement,
    Progress,
    Purpose,
    Result,
    Setting,
    StudySpec,
)


@dataclass(frozen=True)
class StudyStarted:
    """The study begins or goes on; ``measured`` settings have a time from an earlier run."""

    spec: StudySpec
    resumed: bool
    measured: int
    so_far: Result | None = None


@dataclass(frozen=True)
class LaunchStarted:
    """A launch begins: of at most ``trials`` it is number ``trial``; ``None``: it is no trial."""

    number: int
    purpose: Purpose
    setting: Setting
    trial: int | None
    trials: int
    live: bool = False  # a window of a running job, which may have to be started for it
    beside: int | None = None  # the launch that it takes turns with, which began before it


@dataclass(frozen=True)
class LaunchProgress:
    """The running program wrote to its log."""

    number: int
    progress: Progress


@dataclass(frozen=True)
class LaunchEnded:
    """A launch is over and saved; warm-ups and interrupted launches have no measurement."""

    record: LaunchRecord
    measurement: Measurement | None
    is_best: bool
    so_far: Finding | None = None  # what the pairs of the comparison show up to here


@dataclass(frozen=True)
class Note:
    """Something that the user should know."""

    text: str


@dataclass(frozen=True)
class StudyEnded:
    """The study is over, for now or for good."""

    result: Result


Event = StudyStarted | LaunchStarted | LaunchProgress | LaunchEnded | Note | StudyEnded
