"""The best setting and the defaults, each launched once with a profile of every Python rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuner.launch import profiles
from tuner.launch.profiles import Profile
from tuner.model import Failed, Finished, Setting, StudySpec, wording
from tuner.model.errors import NothingMeasuredError
from tuner.study.again import Host, alone


@dataclass(frozen=True)
class Side:
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
) -> list[Side]:
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


def _side(host: Host, name: str, setting: Setting) -> Side:
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
    return Side(name, setting, folder, ending.elapsed_s, ending.loss, profile)
