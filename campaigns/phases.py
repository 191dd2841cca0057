"""Signals to ``tune`` at every phase of a trial, with a real mpirun.

``python -m campaigns.phases [--live] [--all] [--seed N] [--part I/N]`` prints one JSON line a
case; ``--live`` those of a live job. Each case is a fork of this process, in
which one function of the tool sends the signal to its own process before or after it does its work;
then the same command is run once more, to the end.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults import bench
from tests.light_trainer import command, environment, make_folder
from tests.marked import marked
from tuner.hosts import interference
from tuner.hosts.process import left_over
from tuner.model import Finished, Outcome, Stopped

PATIENCE_S = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ARGUMENTS = (
    "-n", "2", "--name", "s", "--storage", "s.db", "--run-dir", "out", "--quiet",
    "--warm-ups", "0", "--no-confirm", "--trial-limit", "60",
)  # fmt: skip
COLD = ("--live", "off", "--trials", "1", "--knob", "iterator_workers=1..2")
#: A launch, a window of a job that is started with the defaults, then two windows of another job.
#: By what the launch says of itself nothing that comes later can be slow, and left early.
LIVE = (
    *("--trials", "3", "--knob", "step=100,200,300,400", "--baseline", "step=200"),
    *("--fix", "omp_threads=1"),
)
LIVE_COMMAND = (
    *("--", sys.executable, "-m", "mpi4py", str(bench.TRAINER), "{out}"),
    *("--step", "{step}", "--iterations", str(bench.LIVE_ITERATIONS)),
)

#: Where: module and name of what is patched, whether before or after it, at which call of it. The
#: first command of all is `mpirun --version`, before there is a study.
PHASES: dict[str, tuple[str, str, str, int]] = {
    "before the lock": ("tuner.hosts.lock", "acquire", "before", 1),
    "with the lock": ("tuner.hosts.lock", "acquire", "after", 1),
    "the study is new": ("tuner.study.loop", "_created", "after", 1),
    "before a launch": ("tuner.study.session", "StudyRun._launch", "before", 1),
    "its folders are made": ("tuner.study.recorder", "Recorder.make_room", "after", 1),
    "before the note": ("tuner.hosts.process.left_over", "write", "before", 1),
    "after the note": ("tuner.hosts.process.left_over", "write", "after", 1),
    "the supervisor is started": ("tuner.hosts.process.running", "RunningTrial._ask", "before", 2),
    "mpirun is started": ("tuner.hosts.process.running", "RunningTrial._ask", "after", 2),
    "the first look at the ranks": ("tuner.launch.monitor", "LaunchMonitor.look", "after", 1),
    "the first look at the log": (
        "tuner.launch.monitor",
        "LaunchMonitor.report_progress",
        "after",
        1,
    ),
    "in the middle": ("tuner.launch.monitor", "LaunchMonitor.report_progress", "after", 4),
    "mpirun has ended": ("tuner.hosts.process.running", "RunningTrial._conclude", "before", 2),
    "nothing is left": ("tuner.hosts.process.running", "RunningTrial._conclude", "after", 2),
    "before the result": ("tuner.launch.trial", "OutcomeClassifier.classify", "before", 1),
    "before the journal": ("tuner.study.recorder", "Recorder.record", "before", 1),
    "after the journal": ("tuner.study.recorder", "Recorder.record", "after", 1),
    "before the commit": ("tuner.store.store", "Store.add", "before", 1),
    "after the commit": ("tuner.store.store", "Store.add", "after", 1),
    "before Optuna": ("tuner.study.recorder", "Recorder.tell", "before", 1),
    "before the report": ("tuner.study.recorder", "Recorder.tell", "after", 1),
    "between two launches": ("tuner.study.session", "StudyRun._launch", "before", 2),
    "the second launch": ("tuner.hosts.process.running", "RunningTrial._ask", "after", 3),
    "at the end": ("tuner.study.loop", "_close", "before", 1),
    "after the end": ("tuner.study.loop", "_close", "after", 1),
}

#: The same of a live job; windows are counted in all jobs, and each is an order.
LIVE_PHASES: dict[str, tuple[str, str, str, int]] = {
    "the job is started": ("tuner.hosts.process.running", "RunningTrial._ask", "after", 3),
    "the job says hello": ("tuner.live.server", "JobServer._check", "after", 1),
    "the job stands ready": ("tuner.live.window", "WindowRun.switch", "before", 1),
    "in the first window": ("tuner.live.window", "WindowRun._report", "after", 1),
    "a window is done": ("tuner.live.jobs", "LiveJobs.window", "after", 1),
    "before a window's journal": ("tuner.study.recorder", "Recorder.record", "before", 2),
    "after a window's commit": ("tuner.store.store", "Store.add", "after", 2),
    "between two windows": ("tuner.study.session", "StudyRun._launch", "before", 4),
    "before a switch": ("tuner.live.window", "WindowRun.switch", "before", 3),
    "during a switch": ("tuner.live.server", "JobServer.send", "after", 3),
    "after a switch": ("tuner.live.window", "WindowRun.switch", "after", 3),
    "in the next window": ("tuner.live.window", "WindowRun.run", "before", 3),
    "before the job is ended": ("tuner.live.job", "Job.end", "before", 1),
    "while the job is ended": ("tuner.hosts.process.running", "RunningTrial.stop", "before", 2),
    "the job has ended": ("tuner.live.job", "Job.end", "after", 1),
    "another job is started": ("tuner.hosts.process.running", "RunningTrial._ask", "after", 4),
    "while the last job is ended": (
        *("tuner.hosts.process.running", "RunningTrial.stop", "before", 3),
    ),
}

#: What a study imports on its way.
LOADED = (
    "alembic.command", "optuna.importance", "optuna.storages._rdb.models", "optuna_dashboard",
    "tuner.cli.live", "tuner.cli.main", "tuner.cli.progress", "tuner.cli.report", "tuner.cli.run",
    "tuner.cli.stored", "tuner.results.dashboard.annotations", "tuner.results.exporters.json",
    "tuner.launch.launchers.kinds", "tuner.launch.objectives.logreport", "tuner.store.store",
    "tuner.live.jobs", "tuner.study.loop", "tuner.study.optuna_trials",
    "tuner.config.study_file",
    "tuner.launch.trial",
)  # fmt: skip

#: Here nobody is left to ask whether to go on: the study may well have ended.
LATE = {"at the end", "after the end", "while the last job is ended"}


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


def strike(case: Case, diary: Path) -> None:
    """In the child: patch the tool, so that the signal comes in its phase."""
    module, name, when, call = (LIVE_PHASES if case.live else PHASES)[case.phase]
    calls = 0

    def send() -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            note(diary, "sent")
            for _ in range(case.times):
                os.kill(os.getpid(), case.number)

    patch(
        module,
        name,
        before=send if when == "before" else None,
        after=send if when == "after" else None,
    )


def keep_diary(diary: Path) -> None:
    """In the child: note each launch that came to an end by itself."""

    def ended(found: object) -> None:
        if isinstance(found, Finished):
            note(diary, "finished")

    def measured_live(found: object) -> None:
        if isinstance(found, Outcome) and found.window is not None:
            ended(found.ending)

    patch("tuner.launch.trial", "OutcomeClassifier.classify", result=ended)
    patch("tuner.live.jobs", "LiveJobs.window", result=measured_live)
    patch("tuner.study.recorder", "Recorder.record", after=lambda: note(diary, "recorded"))


def note(diary: Path, word: str) -> None:
    with diary.open("a") as file:
        file.write(word + "\n")


def patch(
    module: str,
    name: str,
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
    result: Callable[[object], None] | None = None,
) -> None:
    """Have something called before or after a function of the tool."""
    place: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for each in path:
        place = getattr(place, each)
    real = getattr(place, last)

    @functools.wraps(real)
    def wrapped(*args: Any, **options: Any) -> Any:
        if before is not None:
            before()
        found = real(*args, **options)
        if result is not None:
            result(found)
        if after is not None:
            after()
        return found

    setattr(place, last, wrapped)


def tune(folder: Path, case: Case, *, strikes: bool) -> int:
    """Run ``tune`` in a fork; its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = _be_tune(folder, case, strikes)
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE_S
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise SystemExit(f"{case}: tune does not end")
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


def _be_tune(folder: Path, case: Case, strikes: bool) -> int:
    from tuner.cli.main import main

    os.setsid()
    for number in SIGNALS:
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, handler)
    output = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ.update(environment(folder, TUNE_CASE=folder.name, TMPDIR=str(folder)))
    keep_diary(folder / "diary")
    if strikes:
        strike(case, folder / "diary")
    if case.live:
        return main([*ARGUMENTS, *LIVE, *LIVE_COMMAND])
    return main([*ARGUMENTS, *COLD, *command("--scale", "1")])


def left(folder: Path) -> list[str]:
    """The processes, control groups and folders of a case."""
    found = [f"process {pid}" for pid in marked(folder.name, "TUNE_CASE")]
    # The folder of a launch that was killed with tune, before it was recorded, stays as it is.
    recorded = [each.parent for each in (folder / "out").rglob("record.json")]
    sockets = [each / "live.sock" for each in recorded if (each / "live.sock").exists()]
    return found + [str(each) for each in (*folder.glob("tune-*"), *sockets)]


def wait_for_nothing(folder: Path) -> list[str]:
    """What is left even after a while."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := left(folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def measured(folder: Path) -> list[int]:
    """The numbers of the launches that are kept with what they came to, raced ones too."""
    from tuner.store.store import Store

    if not (folder / "s.db").exists():
        return []
    with Store.open(f"sqlite:///{folder}/s.db", create=False) as store:
        records = store.launches("s", detail=False) if store.has("s") else ()
        return [
            each.number for each in records if isinstance(each.outcome.ending, Finished | Stopped)
        ]


def mistakes(case: Case, folder: Path) -> list[str]:
    """Run a case and what comes after it; what went wrong."""
    wrong = []
    (folder / "noted").mkdir()
    code = tune(folder, case, strikes=True)
    said = (
        Counter((folder / "diary").read_text().split())
        if (folder / "diary").exists()
        else Counter()
    )
    killed = case.number == signal.SIGKILL
    right = {-signal.SIGKILL} if killed else {128 + case.number}
    if not killed and case.phase in LATE:
        right.add(0)
    if said["sent"] != 1:
        wrong.append("the phase was never reached")
    elif code not in right:
        wrong.append(f"it ended with {code}: {(folder / 'said').read_text()[-500:]}")
    if not killed:  # of a killed one the next start clears up
        wrong += [f"left behind: {each}" for each in left(folder)]
        if left_over.note_path(folder).exists():
            wrong.append("the note of the launch in flight is left")
    before = measured(folder)
    if not killed and len(before) < said["finished"]:
        wrong.append(f"{said['finished']} launches finished, {len(before)} are kept")
    again = tune(folder, case, strikes=False)
    if again != 0:
        wrong.append(f"the next one ended with {again}: {(folder / 'said').read_text()[-500:]}")
    wrong += [f"left after the next: {each}" for each in wait_for_nothing(folder)]
    after = measured(folder)
    if len(set(after)) != len(after) or not set(before) <= set(after) or len(after) < 2:
        wrong.append(f"kept before: {before}, after: {after}")
    if (folder / "diary").read_text().split().count("recorded") < len(after):
        wrong.append("more launches are kept than were recorded")
    return wrong


def main() -> int:
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
    _load()
    bad = 0
    for case in drawn[part - 1 :: parts]:
        with tempfile.TemporaryDirectory(prefix="ts-", dir="/tmp") as name:
            wrong = mistakes(case, make_folder(Path(name)))
        bad += bool(wrong)
        print(json.dumps({"case": str(case), **asdict(case), "wrong": wrong}), flush=True)
    return 1 if bad else 0


def _load() -> None:
    """Import once what each of the forks needs; the look at the machine can be short."""
    for module in LOADED:
        importlib.import_module(module)
    interference.LOOK_S = 0.02


if __name__ == "__main__":
    sys.exit(main())
