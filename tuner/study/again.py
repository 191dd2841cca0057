"""A stored study's setting launched once more, outside of its search: nothing of it counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import SIGINT

from tuner.hosts import lock, process
from tuner.launch import profiles, render, trial
from tuner.launch.profiles import Profile
from tuner.launch.secrets import HIDDEN, redact_spec
from tuner.model import Failed, Finished, Outcome, Setting, StudySpec, wording
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.store.urls import place, resolve_url
from tuner.study import outputs as folders
from tuner.study.interruption import Interruption, StudyInterrupted


@dataclass(frozen=True)
class HeldHost:
    """This host, ours for as long as :func:`alone` is entered."""

    spec: StudySpec
    folder: Path
    note: Path
    stop: Interruption

    def launch(self, setting: Setting, name: str, environment: Mapping[str, str]) -> Outcome:
        """Launch a setting in the folder ``name``, which is made anew; it runs to its end.

        Args:
            setting: What to launch.
            name: The folder below the study's.
            environment: Variables that it gets besides the user's own.

        Raises:
            StudyInterrupted: Ended by a signal.
            TunerError: A folder cannot be made, or a process cannot be ended.
        """
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        launch = render.launch(
            self.spec,
            setting,
            folder,
            environ={**os.environ, **environment},
            cwd=Path(self.spec.folder or Path.cwd()),
        )
        outcome = trial.run(
            launch,
            spec=self.spec,
            setting=setting,
            expected_iterations=None,
            start=partial(process.start, note=self.note),
            cancelled=self.stop,
        )
        if self.stop():
            raise StudyInterrupted(self.stop.signal_number or SIGINT, None)
        return outcome


@contextmanager
def alone(spec: StudySpec, storage: str | None, *, wait: bool = False) -> Iterator[HeldHost]:
    """Hold this host for launches of a study.

    Raises:
        UsageError: The command has secrets, which were not kept, or a folder cannot be used.
        BusyError: The host is in use.
    """
    url = resolve_url(storage, os.environ)
    folder = folders.study_folder(None, url, spec.name)
    folders.prepare(folder)
    with (
        Interruption() as stop,
        lock.measuring(
            spec.name, environ=os.environ, database=place(url), wait=wait, cancelled=stop
        ) as note,
    ):
        yield HeldHost(spec, folder, note, stop)


def with_command(spec: StudySpec, typed: tuple[str, ...] | None) -> StudySpec:
    """The stored spec with a command that can be run: as typed, if it has secrets.

    Raises:
        UsageError: The stored command has ``***`` for a secret and none was typed, or another
            one was.
    """
    if typed is None:
        if any(HIDDEN in word for word in spec.command):
            raise UsageError(
                f"the command of {spec.name} has secrets, which are never kept",
                "type it again behind the name: … -- COMMAND",
            )
        return spec
    full = replace(spec, command=(spec.command[0], *typed[1:]))
    if redact_spec(full, os.environ).command != spec.command:
        raise UsageError(
            f"that is not the command of {spec.name}: {' '.join(spec.command)}",
            "Type that one, or leave it out.",
        )
    return full


@dataclass(frozen=True)
class ProfiledSide:
    """One of the two: where its profiles lie, how long it took under them, its final loss."""

    name: str  # "baseline" or "best"
    setting: Setting
    folder: Path
    elapsed_s: float
    loss: float | None
    profile: Profile


def profiled(
    spec: StudySpec,
    settings: dict[str, Setting],
    *,
    storage: str | None,
    wait: bool = False,
    on_launch: Callable[[str], None] = lambda _: None,
) -> list[ProfiledSide]:
    """Launch each setting once under a profile, to its end.

    Args:
        spec: The study's, with a command that can be run.
        settings: What to launch, by the name of its folder.
        storage: The study's database: the folders lie beside it.
        wait: Wait while another process measures on this host.
        on_launch: Told the name before each launch.

    Raises:
        NothingMeasuredError: A launch failed, or none of its ranks left a profile.
        BusyError: The host is in use.
        StudyInterrupted: Ended by a signal.
    """
    with alone(spec, storage, wait=wait) as host:
        found = []
        for name, setting in settings.items():
            on_launch(name)
            found.append(_side(host, name, setting))
        return found


def _side(host: HeldHost, name: str, setting: Setting) -> ProfiledSide:
    launch = f"profile-{name}"
    folder = host.folder / launch / "profile"
    ending = host.launch(setting, launch, {profiles.VARIABLE: str(folder)}).ending
    log = folder.parent / "output.log"
    if not isinstance(ending, Finished):
        why = wording.failure(ending) if isinstance(ending, Failed) else "it was stopped"
        raise NothingMeasuredError(f"the launch of {name} under a profile: {why}", f"see {log}")
    profile = profiles.read(folder)
    if profile is None:
        raise NothingMeasuredError(
            f"no rank of {name} left a profile",
            "Only Python programs are profiled, and those that end by themselves: not one started"
            " with -I, -E or -S, nor one that leaves through os._exit. `perf record` sees others.",
        )
    return ProfiledSide(name, setting, folder, ending.elapsed_s, ending.loss, profile)
