"""Signals to ``tune`` at every phase of a trial, with a real mpirun.

``python -m campaigns.phases [--live] [--all] [--seed N] [--part I/N]`` prints one JSON line a
case; ``--live`` those of a live job. Each case is a fork of this process, in
which one function of the tool sends the signal to its own process before or after it does its work;
then the same command is run once more, to the end.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import tuner
from tests.faults import bench
from tests.light_trainer import command, environment, make_folder
from tests.marked import marked
from tuner.cli.main import main
from tuner.hosts import interference
from tuner.hosts.process import left_over
from tuner.model import Finished, Outcome, Stopped
from tuner.store.store import Store

PATIENCE_S = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: What a study imports only when it needs it.
LIBRARIES = ("alembic.command", "optuna.importance", "optuna.storages._rdb.models",
             "optuna_dashboard")  # fmt: skip

Do = Callable[[object], None]

ARGUMENTS = (
    "-n", "2", "--name", "s", "--storage", "s.db", "--run-dir", "out", "--quiet",
    "--warm-ups", "0", "--no-confirm", "--trial-limit", "60",
)  # fmt: skip
COLD = ("--live", "off", "--trials", "1", "--knob", "iterator_workers=1..2")
#: A launch, one of the baseline, then three windows of a job.
#: By what the launch says of itself nothing that comes later can be slow, and left early.
LIVE = (
    *("--trials", "4", "--knob", "step=1,2,3,4", "--baseline", "step=2"),
    *("--fix", "omp_threads=1", "--mpirun-arg", "--bind-to none"),  # one job for all settings
)
LIVE_COMMAND = (
    *("--", sys.executable, "-m", "mpi4py", str(bench.TRAINER), "{out}"),
    *("--step", "{step}", "--iterations", str(bench.LIVE_ITERATIONS)),
)

_COMMAND = "hosts.process.supervised_command:SupervisedCommand"

#: Of each phase the function that is patched, whether before or after it, at which call of it. The
#: first command of all is `mpirun --version`, before there is a study.
PHASES: dict[str, tuple[str, str, int]] = {
    "before the lock": ("hosts.lock:_acquire", "before", 1),
    "with the lock": ("hosts.lock:_acquire", "after", 1),
    "the study is new": ("store.store:Store.create", "after", 1),
    "before a launch": ("study.loop:StudyRun.ask", "before", 1),
    "its folders are made": ("study.journal:Journal.reserve", "after", 1),
    "before the note": ("hosts.process.left_over:write", "before", 1),
    "after the note": ("hosts.process.left_over:write", "after", 1),
    "the supervisor is started": (f"{_COMMAND}._ask", "before", 2),
    "mpirun is started": (f"{_COMMAND}._ask", "after", 2),
    "the first look at the ranks": ("launch.monitor:LaunchMonitor.look", "after", 1),
    "the first look at the log": ("launch.monitor:LaunchMonitor.report_progress", "after", 1),
    "in the middle": ("launch.monitor:LaunchMonitor.report_progress", "after", 4),
    "mpirun has ended": (f"{_COMMAND}._conclude", "before", 2),
    "nothing is left": (f"{_COMMAND}._conclude", "after", 2),
    "before the result": ("launch.trial:RunningLaunch.classify", "before", 1),
    "before the journal": ("study.journal:Journal.write", "before", 1),
    "after the journal": ("study.journal:Journal.write", "after", 1),
    "before the commit": ("store.store:Store.keep", "before", 1),
    "after the commit": ("store.store:Store.keep", "after", 1),
    "before the summary": ("store.store:Store.set_summary", "before", 1),
    "before the report": ("study.optuna_study:OptunaStudy.tell", "after", 1),
    "between two launches": ("study.loop:StudyRun.ask", "before", 2),
    "the second launch": (f"{_COMMAND}._ask", "after", 3),
    "at the end": ("study.tuning:close", "before", 1),
    "after the end": ("study.tuning:close", "after", 1),
}

#: The same of a live job; windows are counted in all jobs, and each is an order.
LIVE_PHASES: dict[str, tuple[str, str, int]] = {
    "the job is started": (f"{_COMMAND}._ask", "after", 4),
    "the job says hello": ("live.job_server:JobServer._welcome", "after", 2),
    "the job stands ready": ("live.window:WindowRun.measure", "before", 1),
    "in the first window": ("live.window:WindowRun._analyse", "after", 1),
    "a window is done": ("live.jobs:LiveJobs.window", "after", 1),
    "before a window's journal": ("study.journal:Journal.write", "before", 2),
    "after a window's commit": ("store.store:Store.keep", "after", 2),
    "between two windows": ("study.loop:StudyRun.ask", "before", 4),
    "before a switch": ("live.window:WindowRun.measure", "before", 3),
    "during a switch": ("live.job_server:JobServer.switch", "after", 3),
    "after a switch": ("live.window:WindowRun._follow", "after", 5),
    "in the next window": ("live.window:WindowRun._follow", "before", 6),
    "before the job is ended": ("live.window:Job.end", "before", 1),
    "while the job is ended": (f"{_COMMAND}.stop", "before", 2),
    "the job has ended": ("live.window:Job.end", "after", 1),
}

#: Here nobody is left to ask whether to go on: the study may well have ended.
LATE = {"at the end", "after the end", "the job has ended"}


@dataclass(frozen=True)
class Case:
    """One run: which signal, how often, in which phase."""

    phase: str
    number: int
    times: int

    @property
    def live(self) -> bool:
        """Whether it happens to a live job."""
        return self.phase in LIVE_PHASES

    def __str__(self) -> str:
        twice = " twice" if self.times == 2 else ""
        return f"{signal.Signals(self.number).name}{twice}, {self.phase}"


def cases(rng: random.Random, phases: Iterable[str], *, all_of_them: bool) -> Iterator[Case]:
    """Every phase with one signal, or with each of them."""
    ways = [(number, times) for number in SIGNALS for times in (1, 2)] + [(signal.SIGKILL, 1)]
    chosen: list[tuple[int, int]] = []
    for phase in phases:
        chosen = chosen or rng.sample(ways, len(ways))
        for number, times in ways if all_of_them else [chosen.pop()]:
            yield Case(phase, number, times)


def prepare(case: Case, diary: Path, *, strikes: bool) -> None:
    """In the child: note what comes to its end; send the signal in the phase of the case."""
    name, when, call = (LIVE_PHASES if case.live else PHASES)[case.phase]
    calls = 0

    def note(word: str) -> None:
        with diary.open("a") as file:
            file.write(word + "\n")

    def send(_: object = None) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            note("sent")
            for _ in range(case.times):
                os.kill(os.getpid(), case.number)

    def finished(found: object) -> None:
        is_window = isinstance(found, Outcome) and found.window is not None
        if isinstance(found.ending if is_window else found, Finished):  # type: ignore[attr-defined]
            note("finished")

    patch("launch.trial:RunningLaunch.classify", after=finished)
    patch("live.jobs:LiveJobs.window", after=finished)
    patch("study.journal:Journal.write", after=lambda _: note("recorded"))
    if strikes:
        patch(name, **{when: send})


def patch(name: str, before: Do = lambda _: None, after: Do = lambda _: None) -> None:
    """Have something called before, or with the result after, a function of the tool."""
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    place = functools.reduce(getattr, owners, import_module(f"tuner.{module}"))
    real = getattr(place, last)

    @functools.wraps(real)
    def wrapped(*args: Any, **options: Any) -> Any:
        before(None)
        found = real(*args, **options)
        after(found)
        return found

    setattr(place, last, wrapped)


def tune(folder: Path, case: Case, *, strikes: bool) -> int | None:
    """Run ``tune`` in a fork; its exit status, negative for a signal."""
    child = get_context("fork").Process(target=_be_tune, args=(folder, case, strikes))
    child.start()
    child.join(PATIENCE_S)
    if child.is_alive():
        child.kill()
        raise SystemExit(f"{case}: tune does not end")
    return child.exitcode


def _be_tune(folder: Path, case: Case, strikes: bool) -> None:
    os.setsid()
    for number in SIGNALS:
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, handler)
    output = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ.update(environment(folder, TUNE_CASE=folder.name, TMPDIR=str(folder)))
    prepare(case, folder / "diary", strikes=strikes)
    words = (*LIVE, *LIVE_COMMAND) if case.live else (*COLD, *command("--scale", "1"))
    sys.exit(main([*ARGUMENTS, *words]))


def left(folder: Path) -> list[str]:
    """The processes and folders of a case."""
    found = [f"process {pid}" for pid in marked(folder.name, "TUNE_CASE")]
    # The folder of a launch that was killed with tune, before it was recorded, stays as it is.
    recorded = [each.parent for each in (folder / "out").rglob("record.json")]
    secrets = [each / "live.json" for each in recorded if (each / "live.json").exists()]
    return found + [str(each) for each in (*folder.glob("tune-*"), *secrets)]


def measured(folder: Path) -> list[int]:
    """The numbers of the launches that are kept with what they came to, raced ones too."""
    if not (folder / "s.db").exists():
        return []
    with Store.open(f"sqlite:///{folder}/s.db", create=False) as store:
        records = store.launches("s") if store.has("s") else ()
    return [each.number for each in records if isinstance(each.outcome.ending, Finished | Stopped)]


def mistakes(case: Case, folder: Path) -> list[str]:
    """Run a case and what comes after it; what went wrong."""
    wrong = []
    (folder / "noted").mkdir()
    diary, said = folder / "diary", folder / "said"
    diary.touch()
    code = tune(folder, case, strikes=True)
    noted = Counter(diary.read_text().split())
    killed = case.number == signal.SIGKILL
    right = {-signal.SIGKILL} if killed else {128 + case.number}
    if not killed and case.phase in LATE:
        right.add(0)
    if noted["sent"] != 1:
        wrong.append("the phase was never reached")
    elif code not in right:
        wrong.append(f"it ended with {code}: {said.read_text()[-500:]}")
    before = measured(folder)
    if not killed:  # of a killed one the next start clears up
        wrong += [f"left behind: {each}" for each in left(folder)]
        if any(folder.glob(f"{left_over.note_path(folder).name}-*")):
            wrong.append("the note of the launch in flight is left")
        if len(before) < noted["finished"]:
            wrong.append(f"{noted['finished']} launches finished, {len(before)} are kept")
    again = tune(folder, case, strikes=False)
    if again != 0:
        wrong.append(f"the next one ended with {again}: {said.read_text()[-500:]}")
    deadline = time.monotonic() + PATIENCE_S
    while (rest := left(folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    wrong += [f"left after the next: {each}" for each in rest]
    after = measured(folder)
    if len(set(after)) != len(after) or not set(before) <= set(after) or len(after) < 2:
        wrong.append(f"kept before: {before}, after: {after}")
    if diary.read_text().split().count("recorded") < len(after):
        wrong.append("more launches are kept than were recorded")
    return wrong


def run() -> int:
    """Run the cases; 1 if something was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="each signal in each phase")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--live", action="store_true", help="of a live job")
    parser.add_argument("--phase", choices=(*PHASES, *LIVE_PHASES), action="append")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    phases = asked.phase or (LIVE_PHASES if asked.live else PHASES)
    drawn = list(cases(random.Random(asked.seed), phases, all_of_them=asked.all))
    # What each of the forks imports is imported once; the look at the machine can be short.
    for name in (*LIBRARIES, *(each.name for each in walk_packages(tuner.__path__, "tuner."))):
        import_module(name)
    interference.LOOK_S = 0.02
    bad = 0
    for case in drawn[part - 1 :: parts]:
        with tempfile.TemporaryDirectory(prefix="ts-", dir="/tmp") as name:
            wrong = mistakes(case, make_folder(Path(name)))
        bad += bool(wrong)
        print(json.dumps({"case": str(case), "wrong": wrong}), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(run())
