"""A study of a few short launches in a folder of its own, some of them with a fault."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.faults.rows import FINISHED, JobFault
from tests.marked import alive, marked
from tuner.config.hosts import on_slots
from tuner.hosts import interference, process, stacks
from tuner.hosts.machine import this_machine
from tuner.model import (
    Failed,
    Flag,
    IntRange,
    Knob,
    Launch,
    LauncherInfo,
    LaunchRecord,
    Layout,
    Purpose,
    Setting,
    StudySpec,
)
from tuner.model.errors import TunerError
from tuner.search.engine import Done
from tuner.study.events import Event, LaunchEnded, LaunchStarted
from tuner.study.history import History
from tuner.study.interruption import StudyInterrupted
from tuner.study.policy import Policy, Step, Stop
from tuner.study.tuning import tune

TRAINER = Path(__file__).with_name("trainer.py")
#: In the environment of all that a bench starts; its value is the bench's own.
BENCH = "TUNE_TEST_BENCH"
#: The fewest that wait for each other; a campaign may take more.
RANKS = int(os.environ.get("TUNE_TEST_RANKS", "2"))
#: Of a launch of its own; a live job goes on beyond them.
ITERATIONS, LIVE_ITERATIONS = 4, 20
STALL_S = 3.0
LIMIT_S = 30.0
NAME = "faults"
KNOBS = (Knob("step", IntRange(1, 16), Flag(), live=True),)


def setting(step: int) -> Setting:
    """A setting of the study; its launches report 0.04 s times ``step``."""
    return Setting.of({"step": step})


def kind(record: LaunchRecord) -> str:
    """What a launch came to, in a word."""
    ending = record.outcome.ending
    return ending.kind.value if isinstance(ending, Failed) else FINISHED


class EachInTurn(Policy):
    """Settings 1, 2, …, each until a launch says something of it; see `tuner.study.policy`."""

    def __init__(self, settings: int) -> None:
        self.settings = [setting(step) for step in range(1, settings + 1)]

    def best(self, history: History) -> Setting | None:
        """The first that worked."""
        return next((record.setting for record in history.valid if record.outcome.samples), None)

    def after_search(self, history: History, over: Done) -> Step | Stop:
        """Return the first that nothing is known of; the last one judges the others' results."""
        launched = {record.setting for record in history.valid}
        left = [setting for setting in self.settings if setting not in launched]
        if not left:
            return Stop("all were launched")
        return Step(Purpose.SEARCH if left[1:] else Purpose.BASELINE, left[0])


@dataclass
class FaultBench:
    """A study whose launches have these faults, in turn; ``None`` is a clean one.

    With ``live`` its launches are windows of a running job, but the first one.
    """

    faults: tuple[JobFault | None, ...]
    launcher: LauncherInfo
    folder: Path

    def __post_init__(self) -> None:
        #: Of the jobs that were started.
        self.markers: list[str] = []
        #: The step of each launch or window that began.
        self.made: list[int] = []
        #: Number and kind of each launch that ``tune`` told its user of.
        self.ended: list[tuple[int, str]] = []
        #: The steps whose fault happened.
        self.struck: set[int] = set()
        #: What was wrong on the way, each with its step.
        self.problems: list[tuple[int, str]] = []
        self._step, self._faulty = 0, False
        for name in ("noted", "tmp", "lock", "db", "outputs"):
            (self.folder / name).mkdir(exist_ok=True)
        self.fault = next(fault for fault in self.faults if fault is not None)
        #: Whether it happens to a live job.
        self.live = bool(self.fault.phase)
        self.iterations = LIVE_ITERATIONS if self.live else ITERATIONS
        #: What all processes of this bench carry.
        self.name = self.folder.name
        self.database = self.folder / "db" / "tune.db"

    @property
    def spec(self) -> StudySpec:
        program = (sys.executable, "-m", "mpi4py", str(TRAINER))
        flags = ("--step", "{step}", "--iterations", str(self.iterations))
        return StudySpec(
            name=NAME,
            command=(*program, "{out}", *flags),
            launcher=self.launcher,
            layout=on_slots(Layout(RANKS), this_machine(), (), {}),
            machine=this_machine(),
            knobs=KNOBS,
            warm_ups=0,
            confirm="none",
            folder=str(self.folder),
            trial_limit_s=self.fault.limit_s or LIMIT_S,
            stall_limit_s=STALL_S,
            precision=0.5,
            live="auto" if self.live else "off",
        )

    # --- a run of the study ----------------------------------------------------------

    def study(self, *, faulty: bool) -> str:
        """Run it to its end: how that came, in words."""
        self._faulty = faulty
        try:
            with self._hooks():
                result = tune(
                    self.spec,
                    storage=str(self.database),
                    outputs=self.folder / "outputs",
                    on_event=self._on_event,
                    policy=EachInTurn(len(self.faults)),
                )
            return result.state.value
        except StudyInterrupted as interrupted:
            return str(interrupted)
        except TunerError as error:
            return f"{type(error).__name__}: {error.message} {error.hint}"
        finally:
            (self.folder / "fault.json").unlink(missing_ok=True)

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        """Note each job with the processes around it, for faults that strike them.

        What else runs on the machine excludes no launch. No stacks are kept, which saves seconds.
        """
        changes = {
            BENCH: self.name,
            "TUNE_LOCK_DIR": str(self.folder / "lock"),
            "TMPDIR": str(self.folder / "tmp"),
        }
        begin = process.start

        def starting(launch: Launch, **more: Any) -> process.SupervisedCommand:
            running = begin(launch, **more)
            self.markers.append(running.marker)
            pids = {"mpirun": running.pid, "supervisor": running._process.pid}
            (self.folder / "pids.json").write_text(json.dumps(pids))
            return running

        with (
            patch.dict(os.environ, changes),
            patch.object(tempfile, "tempdir", None),
            patch.object(process, "start", starting),
            patch.object(interference, "LOOK_S", 0.02),
            patch.object(stacks, "take", lambda *_: {}),
        ):
            yield

    # --- the fault -------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        if isinstance(event, LaunchStarted):
            self._arm(event.setting)
        elif isinstance(event, LaunchEnded):
            self._ended(event.record)

    def _arm(self, launched: Setting) -> None:
        """A fault happens once: a launch that is made again is a clean one."""
        (self._step,) = (value for _, value in launched.items if isinstance(value, int))
        self.made.append(self._step)
        fault = self.faults[self._step - 1]
        if fault is None or not self._faulty or self._step in self.struck:
            return
        self.struck.add(self._step)
        plan = {name: getattr(fault, name) for name in ("act", "rank", "at", "phase")}
        (self.folder / "fault.json").write_text(json.dumps(plan))

    def _ended(self, record: LaunchRecord) -> None:
        (self.folder / "fault.json").unlink(missing_ok=True)
        self.ended.append((record.number, kind(record)))
        runs_on = record.outcome.window is not None and kind(record) == FINISHED
        for each in [] if runs_on else self.left():
            self.problems.append((self._step, f"after launch {record.number}: {each}"))

    # --- afterwards ------------------------------------------------------------------

    def left(self) -> list[str]:
        """What is left of all that was started: read from the system itself."""
        left = []
        for pid in self._processes_left():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                command = b"?"
            left.append(f"process {pid}: {command.decode(errors='replace')[:80]}")
        shared = {path for note in self._notes() for path in note["segments"]}
        left += [f"shared memory {path}" for path in sorted(shared) if Path(path).exists()]
        left += [f"temporary {path.name}" for path in (self.folder / "tmp").iterdir()]
        left += [f"{path} of a job" for path in (self.folder / "outputs").rglob("live.json")]
        return left + [f"note {path.name}" for path in (self.folder / "lock").glob("in-flight*")]

    def _notes(self) -> list[dict[str, Any]]:
        """What the processes of the trainer left of themselves."""
        return [json.loads(path.read_text()) for path in (self.folder / "noted").glob("*.json")]

    def _processes_left(self) -> list[int]:
        """The processes that noted themselves or carry a variable of ours, and still run."""
        noted = {note["pid"] for note in self._notes() if alive(note["pid"], note["start"])}
        launched = (pid for marker in self.markers for pid in marked(marker))
        return sorted({*noted, *marked(self.name, BENCH), *launched})

    def close(self) -> None:
        """End what should have ended by itself, and remove the folder."""
        for pid in self._processes_left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
