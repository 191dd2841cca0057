"""A study of a few short launches in a folder of its own, some of them with a fault."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.faults import left
from tests.faults.diary import Diary
from tests.faults.rows import Fault, Moment
from tuner.hosts import process, quiet
from tuner.hosts.machine import this_machine
from tuner.launch import stacks, trial
from tuner.live.jobs import LiveJobs
from tuner.live.messages import Message
from tuner.live.server import JobServer
from tuner.model import (
    Failed,
    Flag,
    IntRange,
    Knob,
    Launch,
    LauncherInfo,
    LaunchRecord,
    Layout,
    Outcome,
    Purpose,
    Setting,
    StudySpec,
)
from tuner.model.errors import TunerError
from tuner.store import Store
from tuner.study import StudyInterrupted, tune
from tuner.study.events import Event, LaunchEnded, LaunchProgress, LaunchStarted
from tuner.study.history import History
from tuner.study.interference import COUNT, VARIABLE
from tuner.study.optuna_trials import Projection
from tuner.study.policy import Step, Stop

INSIDE = Path(__file__).parent / "inside"
#: The fewest that wait for each other; a campaign may take more.
RANKS = int(os.environ.get("TUNE_TEST_RANKS", "2"))
#: Of a launch of its own; a job that is retuned goes on beyond them.
ITERATIONS, LIVE_ITERATIONS = 4, 12
STALL_S = 3.0
LIMIT_S = 30.0
BUSY_S = 3.0  # so long a locked database is waited for
NAME = "faults"
KNOBS = (Knob("step", IntRange(1, 16), Flag(), live=True),)
#: Does not exec, so that the rank's program is its child.
WRAPPER = '"$@"\nexit $?\n'

Strike = Callable[["Bench"], None]


def setting(step: int) -> Setting:
    """A setting of the study; its launches report 0.04 s times ``step``."""
    return Setting.of({"step": step})


class InTurn:
    """Settings 1, 2, …, each until a launch says something of it; see `tuner.study.policy`."""

    def __init__(self, settings: int) -> None:
        self.settings = [setting(step) for step in range(1, settings + 1)]

    def best(self, plan: History) -> Setting | None:
        """The first that worked."""
        worked = {record.setting for record in plan.valid if record.outcome.samples}
        return next((each for each in self.settings if each in worked), None)

    def next(self, plan: History) -> Step | Stop:
        """The first that nothing is known of."""
        known = {record.setting for record in plan.valid}
        for each in self.settings:
            if each not in known:
                # The clean one at the end is what the others' results are judged by.
                last = each == self.settings[-1]
                return Step(Purpose.BASELINE if last else Purpose.SEARCH, each)
        return Stop("all were launched")


def _no_stacks(*_: object) -> str:
    """Some seconds less."""
    return "no stacks"


@dataclass
class Bench:
    """A study whose launches have these faults, in turn; ``None`` is a clean one.

    With ``live`` its launches are windows of a running job, but the first one.

    The diary has ``start`` (marker, step) of each job, ``made`` (step) of each launch or window,
    ``end`` (number, kind) of each that
    ``tune`` told its user of, ``problem`` (step, text) for what was seen to be wrong on the way,
    ``cleanup`` (step, s) for how long a launch took to be gone once it had ended or was to end,
    and ``strike`` (step) for each fault that happened.
    """

    faults: tuple[Fault | None, ...]
    launcher: LauncherInfo
    folder: Path
    strike: Strike | None = None
    mend: Strike | None = None
    running: process.RunningTrial | None = None
    launch: Launch | None = None
    checks: list[Callable[[], str]] = field(default_factory=list)
    after_launch: list[Callable[[], object]] = field(default_factory=list)
    struck_s: float = 0.0
    _step: int = 0
    _due: Fault | None = None
    _faulty: bool = False

    def __post_init__(self) -> None:
        for name in ("noted", "tmp", "lock", "db", "outputs"):
            (self.folder / name).mkdir(exist_ok=True)
        (self.folder / "wrapper.sh").write_text(WRAPPER)
        self.diary = Diary(self.folder / "diary")

    @property
    def fault(self) -> Fault:
        """The first, or only one."""
        return next(fault for fault in self.faults if fault is not None)

    def struck(self, step: int) -> bool:
        """Whether the fault of that launch happened."""
        return step in self.diary.read("strike")

    @property
    def live(self) -> bool:
        """Whether it happens to a running job that is retuned."""
        return bool(self.fault.phase)

    @property
    def iterations(self) -> int:
        """Of a launch."""
        return LIVE_ITERATIONS if self.live else ITERATIONS

    @property
    def name(self) -> str:
        """What all processes of this bench carry."""
        return self.folder.name

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.folder / "db" / "tune.db"

    @property
    def spec(self) -> StudySpec:
        """The study."""
        wrapper = ("sh", str(self.folder / "wrapper.sh")) if self.fault.wrapped else ()
        program = (sys.executable, "-m", "mpi4py", str(INSIDE / "trainer.py"))
        return StudySpec(
            name=NAME,
            command=(
                *(*wrapper, *program, "{out}", "--step", "{step}"),
                *("--iterations", str(self.iterations)),
            ),
            launcher=self.launcher,
            layout=Layout(RANKS),
            machine=this_machine(),
            knobs=KNOBS,
            warm_ups=0,
            confirm=False,
            folder=str(self.folder),
            trial_limit_s=self.fault.limit_s or LIMIT_S,
            stall_limit_s=STALL_S,
            precision=0.5,
            live="auto" if self.live else "off",
        )

    # --- a run of the study ----------------------------------------------------------

    def study(self, *, faulty: bool) -> str:
        """Run it to its end: how that came, in words."""
        self._disarm()  # an earlier run may have been killed
        self._faulty = faulty
        try:
            with self._environment(), self._hooks():
                found = tune(
                    self.spec,
                    storage=str(self.database),
                    outputs=self.folder / "outputs",
                    on_event=self._on_event,
                    policy=InTurn(len(self.faults)),
                )
            return found.state.value
        except StudyInterrupted as interrupted:
            return str(interrupted)
        except TunerError as error:
            return f"{type(error).__name__}: {error.message} {error.hint}"
        finally:
            self._disarm()

    @contextmanager
    def _environment(self) -> Iterator[None]:
        changes = {
            left.VARIABLE: self.name,
            "TUNE_LOCK_DIR": str(self.folder / "lock"),
            "TMPDIR": str(self.folder / "tmp"),
        }
        before = tempfile.tempdir
        with patch.dict(os.environ, changes):
            tempfile.tempdir = None
            try:
                yield
            finally:
                tempfile.tempdir = before

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        """Strike before a supervisor is asked, a launch is kept, Optuna is told.

        What else runs on the machine sets no launch aside, but where the fault is just that, and
        of one that hangs no stacks are kept, but once.
        """
        add, tell = Store.add, Projection.tell

        def adding(store: Store, name: str, record: LaunchRecord, *rest: Any) -> int:
            self._at("add")
            return add(store, name, record, *rest)

        def telling(projection: Projection, plan: History) -> tuple[LaunchRecord, ...]:
            self._at("tell")
            return tell(projection, plan)

        run, measure, begin = trial.run, LiveJobs.window, process.start

        def running(*args: Any, **more: Any) -> Outcome:
            self.diary.note("made", self._step)
            outcome = run(*args, **more)
            self._at("result")
            return outcome

        def measuring(*args: Any, **more: Any) -> Outcome:
            self.diary.note("made", self._step)
            outcome = measure(*args, **more)
            self._at("result")
            return outcome

        receive = JobServer.receive

        def receiving(server: JobServer, timeout_s: float) -> list[Message]:
            found = receive(server, timeout_s)
            if self._holding():  # a job that holds tells of no progress
                self._at("progress")
            return found

        def starting(launch: Launch, **more: Any) -> process.RunningTrial:
            started_s = time.monotonic()
            self.launch, self.running = launch, begin(launch, **more)
            self._follow(self.running, started_s)
            return self.running

        ask = process.RunningTrial._ask

        def asking(started: process.RunningTrial) -> int:
            self.running = started
            self._at("asked")
            return ask(started)

        noticed, changes = self.fault.noticed, {VARIABLE: "" if self.fault.noticed else COUNT}
        with (
            patch.dict(os.environ, changes),
            patch.dict(Store.open.__kwdefaults__, busy_s=BUSY_S),
            patch.object(Store, "add", adding),
            patch.object(Projection, "tell", telling),
            patch.object(trial, "run", running),
            patch.object(LiveJobs, "window", measuring),
            patch.object(JobServer, "receive", receiving),
            patch.object(process, "start", starting),
            patch.object(process.RunningTrial, "_ask", asking),
            patch.object(quiet, "LOOK_S", quiet.LOOK_S if noticed else 0.02),
            patch.object(stacks, "keep", stacks.keep if self.fault.stacks else _no_stacks),
        ):
            yield

    def _follow(self, running: process.RunningTrial, started_s: float) -> None:
        """Take the time that it needs to be gone."""
        self.diary.note("start", running.marker, self._step)
        stop, wait = running.stop, running.wait
        gone = False

        def timed(from_s: float) -> None:
            nonlocal gone
            if not gone:
                gone = True
                self.diary.note("cleanup", self._step, time.monotonic() - from_s)

        def stopping() -> process.Exit:
            from_s = time.monotonic()
            ended = stop()
            timed(from_s)
            return ended

        def waiting(timeout_s: float) -> process.Exit | None:
            ended = wait(timeout_s)
            if ended is not None:
                timed(self.struck_s if ended.lost else started_s + ended.wall_s)
            return ended

        running.__dict__.update(stop=stopping, wait=waiting)

    # --- the fault -------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        if isinstance(event, LaunchStarted):
            self._arm(event.setting)
            self._at("started")
        elif isinstance(event, LaunchProgress):
            if self._due is not None and event.progress.iteration >= self._due.at - 1:
                self._at("progress")
        elif isinstance(event, LaunchEnded):
            self._ended(event.record)

    def _arm(self, launched: Setting) -> None:
        """A fault happens once: a launch that is made again is a clean one."""
        (self._step,) = (value for _, value in launched.items if isinstance(value, int))
        fault = self.faults[self._step - 1]
        self._due = None
        if fault is None or not self._faulty or self.struck(self._step):
            return
        (self.folder / "go").unlink(missing_ok=True)
        for path in (self.folder / "noted").glob("holding-*"):
            path.unlink()
        if fault.act:
            plan = {"act": fault.act, "rank": fault.rank, "at": fault.at, "phase": fault.phase}
            (self.folder / "fault.json").write_text(json.dumps(plan))
        if fault.strike:
            self._due = fault
        else:
            self.diary.note("strike", self._step)

    def _disarm(self) -> None:
        (self.folder / "fault.json").unlink(missing_ok=True)
        while self.after_launch:
            self.after_launch.pop()()

    def _at(self, moment: Moment) -> None:
        fault = self._due
        if fault is None or self.strike is None or moment != fault.moment:
            return
        self._due = None
        self.diary.note("strike", self._step)
        if moment == "progress":
            self._wait_for_ranks()
        self.struck_s = time.monotonic()
        self.strike(self)

    def _wait_for_ranks(self) -> None:
        """Until all of them hold still."""
        deadline = time.monotonic() + 30.0
        while not self._holding():
            if time.monotonic() > deadline:
                raise TimeoutError("the ranks do not hold")
            time.sleep(0.01)

    def _holding(self) -> bool:
        return len(list((self.folder / "noted").glob("holding-*"))) == RANKS

    def go(self) -> None:
        """Let the ranks go on."""
        (self.folder / "go").touch()

    def _ended(self, record: LaunchRecord) -> None:
        self._disarm()
        ending = record.outcome.ending
        kind = ending.kind.value if isinstance(ending, Failed) else "finished"
        self.diary.note("end", record.number, kind)
        runs_on = record.outcome.window is not None and kind == "finished"
        for each in [] if runs_on else self.left():
            self.diary.note("problem", self._step, f"after launch {record.number}: {each}")
        self._at("reported")

    # --- afterwards ------------------------------------------------------------------

    def left(self) -> list[str]:
        """What is left of all that was started."""
        markers = [marker for marker, _ in self.diary.read("start")]
        return left.everything(self.name, self.folder, markers)

    def pids(self, role: str) -> list[int]:
        """The processes that noted themselves so, the last one first."""
        noted = left.notes(self.folder / "noted")
        running = [n for n in noted if n["role"].startswith(role) and left.alive([n])]
        return [n["pid"] for n in sorted(running, key=lambda n: -n["start"])]

    def close(self) -> None:
        """End what should have ended by itself, and remove the folder."""
        for pid in left.processes(self.name, self.folder / "noted"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
