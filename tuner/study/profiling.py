"""Settings of a stored study are launched once more under a profile; the study counts none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import SIGINT

from tuner.hosts import lock, process
from tuner.launch import profiles, render, trial
from tuner.launch.profiles import Profile
from tuner.launch.request import MeasurementRequest
from tuner.launch.secrets import redact_spec, require_none_hidden
from tuner.model import Failed, Finished, Setting, StudySpec, wording
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.store.urls import place, resolve_url
from tuner.study import outputs
from tuner.study.interruption import Interruption, StudyInterrupted


def with_command(spec: StudySpec, typed: tuple[str, ...] | None) -> StudySpec:
    """Return the stored study with the command as it was typed again, if it was.

    Raises:
        UsageError: The stored command hides a secret and none was typed, or another one was.
    """
    if typed is not None:
        stored = spec.command
        spec = replace(spec, command=(stored[0], *typed[1:]))
        if redact_spec(spec, os.environ).command != stored:
            raise UsageError(
                f"that is not the command of {spec.name}: {' '.join(stored)}",
                "type that one, or leave it out",
            )
    hint = "type the command again after the name: … -- COMMAND"
    require_none_hidden(spec, f"tune profile {spec.name}", hint)
    return spec


@dataclass(frozen=True)
class ProfiledSide:
    """A launch under a profile, which lies in a folder."""

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
        settings: What to launch, by the name of its side.
        storage: The study's database: the folders lie beside it.
        wait: Wait while another process measures on this host.
        on_launch: Called with the name of the side before each launch.

    Raises:
        UsageError: The study is of other hosts.
        NothingMeasuredError: A launch failed, or none of its ranks left a profile.
        BusyError: The host is in use.
        StudyInterrupted: Ended by a signal.
    """
    if not spec.layout.is_local:
        raise UsageError(
            f"study {spec.name} is of {len(spec.layout.hosts)} hosts, and profiles are of this one",
            "tune the program on one host, and profile that study",
        )
    url = resolve_url(storage, os.environ)
    study = outputs.study_folder(None, url, spec.name)
    outputs.prepare(study)
    sides = []
    with (
        Interruption() as stop,
        lock.measuring(
            spec.name, environ=os.environ, database=place(url), wait=wait, cancelled=stop
        ) as note,
    ):
        for name, setting in settings.items():
            on_launch(name)
            launch_folder = study / f"profile-{name}"
            folder = launch_folder / "profile"
            shutil.rmtree(launch_folder, ignore_errors=True)
            launch = render.launch(
                spec,
                setting,
                launch_folder,
                environ={**os.environ, profiles.VARIABLE: str(folder)},
                cwd=Path(spec.folder or Path.cwd()),
            )
            request = MeasurementRequest(launch, spec, setting, cancelled=stop)
            ending = trial.run(request, start=partial(process.start, note=note)).ending
            if stop():
                raise StudyInterrupted(stop.signal_number or SIGINT, None)
            if not isinstance(ending, Finished):
                why = wording.failure(ending) if isinstance(ending, Failed) else "it was stopped"
                raise NothingMeasuredError(
                    f"the launch of {name} under a profile: {why}",
                    f"see {launch_folder / process.OUTPUT}",
                )
            profile = profiles.read(folder)
            if profile is None:
                raise NothingMeasuredError(
                    f"no rank of {name} left a profile",
                    "only Python programs are profiled, and those that end by themselves: not one"
                    " started with -I, -E or -S, nor one that leaves through os._exit. `perf"
                    " record` sees others",
                )
            sides.append(
                ProfiledSide(name, setting, folder, ending.elapsed_s, ending.loss, profile)
            )
    return sides
