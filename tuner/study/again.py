"""A stored study's setting launched once more, outside of its search: nothing of it counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from signal import SIGINT

from tuner.hosts import lock, process
from tuner.launch import render, trial
from tuner.launch.secrets import HIDDEN, redact_spec
from tuner.model import Outcome, Setting, StudySpec
from tuner.model.errors import UsageError
from tuner.store.urls import place, resolve_url
from tuner.study import outputs as folders
from tuner.study.interruption import Interruption, StudyInterrupted


@dataclass(frozen=True)
class Host:
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
def alone(spec: StudySpec, storage: str | None, *, wait: bool = False) -> Iterator[Host]:
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
        yield Host(spec, folder, note, stop)


def with_command(spec: StudySpec, typed: tuple[str, ...] | None) -> StudySpec:
    """The stored spec with a command that can be run: as typed, where it has secrets.

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
