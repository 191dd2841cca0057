"""Settings of a stored study are launched once more under a profile; the study counts none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import SIGINT

from tuner.hosts import lock, process
from tuner.launch import profiles, render, trial
from tuner.launch.profiles import Profile
from tuner.launch.request import MeasurementRequest
from tuner.launch.secrets import require_none_hidden
from tuner.model import Failed, Finished, Setting, StudySpec, wording
from tuner.model.errors import NothingMeasuredError, UsageError
from tuner.store.urls import place, resolve_url
from tuner.study import outputs
from tuner.study.interruption import Interruption, StudyInterrupted


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
    wait: bool,
    on_launch: Callable[[str], None],
) -> list[ProfiledSide]:
    """Launch each setting, by the name of its side, once under a profile, to its end.

    The profiles lie beside the study's database. ``on_launch`` is told each name.

    Raises:
        UsageError: The study is of other hosts, or its stored command hides a secret.
        NothingMeasuredError: A launch failed, or none of its ranks left a profile.
        BusyError: The host is in use.
        StudyInterrupted: Ended by a signal.
    """
    if not spec.layout.is_local:
        raise UsageError(
            f"study {spec.name} is of {len(spec.layout.hosts)} hosts, and profiles are of this one",
            "tune the program on one host, and profile that study",
        )
    require_none_hidden(spec, f"tune profile {spec.name}")
    url = resolve_url(storage, os.environ)
    study = outputs.study_folder(None, url, spec.name)
    outputs.prepare(study)
    sides: list[ProfiledSide] = []
    with ExitStack() as stack:
        stop = stack.enter_context(Interruption())
        measuring = lock.measuring(
            spec.name, environ=os.environ, database=place(url), wait=wait, cancelled=stop
        )
        note = stack.enter_context(measuring)
        for name, setting in settings.items():
            on_launch(name)
            folder = study / f"profile-{name}"
            shutil.rmtree(folder, ignore_errors=True)
            environ = {**os.environ, profiles.VARIABLE: str(folder / "profile")}
            cwd = Path(spec.folder or Path.cwd())
            launch = render.launch(spec, setting, folder, environ=environ, cwd=cwd)
            request = MeasurementRequest(launch, spec, setting, cancelled=stop)
            ending = trial.run(request, start=partial(process.start, note=note)).ending
            if stop():
                raise StudyInterrupted(stop.signal_number or SIGINT, None)
            if not isinstance(ending, Finished):
                why = wording.failure(ending) if isinstance(ending, Failed) else "it was stopped"
                raise NothingMeasuredError(
                    f"the launch of {name} under a profile: {why}", f"see {folder / process.OUTPUT}"
                )
            profile = profiles.read(folder / "profile")
            if profile is None:
                raise NothingMeasuredError(
                    f"no rank of {name} left a profile",
                    "only Python programs are profiled, and those that end by themselves: not one"
                    " started with -I, -E or -S, nor one that leaves through os._exit. `perf"
                    " record` sees others",
                )
            took_s, loss = ending.elapsed_s, ending.loss
            sides.append(ProfiledSide(name, setting, folder / "profile", took_s, loss, profile))
    return sides
