"""Faults from their study to the verdict: what was seen, and whether that is as it must be."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.faults import children
from tests.faults.bench import NAME, Bench, setting
from tests.faults.rows import DISTURBED, FINISHED, NOTHING, Fault
from tests.faults.strikes import STRIKES
from tuner.model import FROM_OUTSIDE, Failed, FailureKind, LauncherInfo, LaunchRecord
from tuner.model.errors import TunerError
from tuner.stats import estimates
from tuner.store import Store


@dataclass
class Report:
    """What came of a fault; ``seen`` is a kind, ``ended`` how the run with it ended."""

    fault: str
    launcher: str
    expected: tuple[str, ...]
    seen: str = ""
    reason: str = ""
    ended: str = ""
    problems: list[str] = field(default_factory=list)
    cleanups_s: list[float] = field(default_factory=list)
    launches: int = 0
    wall_s: float = 0.0
    index: int = 0  # in a soak
    memory_kib: int = 0
    open_files: int = 0

    @property
    def told(self) -> str:
        """What was seen, and what is wrong."""
        seen = f"{self.fault}: {self.seen} ({self.reason}), {self.ended}"
        return "\n    ".join([seen, *self.problems])

    @property
    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def run(faults: Sequence[Fault], launcher: LauncherInfo) -> list[Report]:
    """Make the faults happen, each to a launch of one study in a folder of its own.

    A clean launch comes after them, and where one needs that, before them. Those of a running job
    have a clean one between them: that starts the job to which the next one happens.
    """
    started_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    strike, mend = (STRIKES.get(word) for word in (faults[0].strike, faults[0].mend))
    bench = Bench(_turns(faults), launcher, folder, strike, mend)
    try:
        disk = faults[0].disk
        reports = children.with_a_disk(bench, _run) if disk else _run(bench)
    finally:
        bench.close()
    for report in reports:
        report.wall_s = (time.monotonic() - started_s) / len(reports)
    return reports


def _turns(faults: Sequence[Fault]) -> tuple[Fault | None, ...]:
    if faults[0].phase:  # the first launch tells how long one is, the second starts a job
        return (None, *(each for fault in faults for each in (None, fault)), None)
    first = (None,) if any(fault.second for fault in faults) else ()
    return (*first, *faults, None)


def _run(bench: Bench) -> list[Report]:
    name = f"{bench.launcher.kind} {bench.launcher.version}"
    problems = []
    ended = children.study(bench) if bench.fault.child else bench.study(faulty=True)
    if not bench.fault.child:
        problems += [f"after the run: {each}" for each in bench.left()]
    problems += [problem for check in bench.checks if (problem := check())]
    if bench.mend is not None:
        bench.mend(bench)
    last = ended if ended == FINISHED else bench.study(faulty=False)
    if last != FINISHED:
        problems.append(f"the study did not go on: {last}")
    problems += [f"in the end: {each}" for each in bench.left()]
    problems += _ended(bench, ended)
    records = _records(bench, problems)
    problems += [*_nothing_lost(bench, records), *_sound(bench.database)]
    records = estimates.judged(records)  # as a study takes them: a loss is judged by the others
    reports = []
    for step, fault in enumerate(bench.faults, start=1):
        wrong = _right(bench, step, records)
        if fault is None:
            problems += wrong
            continue
        expected = (*fault.expected, *fault.also.get(bench.launcher.kind, ()))
        report = Report(fault.name, name, expected, ended=ended, problems=wrong)
        _judge(bench, step, report, records)
        reports.append(report)
    reports[0].problems += problems  # those of the study as a whole
    for word in ("problem", "cleanup"):
        for step, what in bench.diary.read(word):
            report = reports[max(0, sum(map(bool, bench.faults[:step])) - 1)]
            (report.problems if word == "problem" else report.cleanups_s).append(what)
    return reports


def _ended(bench: Bench, ended: str) -> list[str]:
    """Whether the run with the fault ended as it should."""
    wanted = bench.fault.ends
    if wanted and re.search(wanted, ended):
        return []
    if wanted or (ended != FINISHED and not bench.fault.child):
        return [f"the run with the fault ended: {ended}"]
    return []


def _records(bench: Bench, problems: list[str]) -> tuple[LaunchRecord, ...]:
    try:
        with Store.open(f"sqlite:///{bench.database}", create=False) as store:
            return tuple(store.launches(NAME, detail=False))
    except TunerError as error:
        problems.append(f"the database cannot be read: {error.message}")
        return ()


def kind(record: LaunchRecord) -> str:
    """What a launch came to, in a word."""
    ending = record.outcome.ending
    if isinstance(ending, Failed):
        return ending.kind.value
    return DISTURBED if record.outcome.exclusion else FINISHED


def _judge(bench: Bench, step: int, report: Report, records: tuple[LaunchRecord, ...]) -> None:
    """The launch is what it should be, and made again where the fault was from outside."""
    mine = [each for each in records if each.setting == setting(step)]
    unkept = _unkept(bench, step, records)
    first = mine[0] if mine else None
    report.launches = len(mine)
    report.seen = NOTHING if first is None else kind(first)
    if unkept and report.seen == FINISHED:
        report.seen = NOTHING
    if first is not None and isinstance(first.outcome.ending, Failed):
        report.reason = first.outcome.ending.reason
    if report.seen not in report.expected:
        report.problems.append(f"it was seen as {report.seen}")
    again = report.seen in {kind.value for kind in FROM_OUTSIDE} | {NOTHING, DISTURBED}
    before = bench.fault.moment == "started"  # of the launch: tune is killed, and the job with it
    if bench.live and mine and report.seen != NOTHING and not before:
        report.problems += _wrong_of_a_window(bench, step, mine)
        again = again or bool(mine[0].outcome.exclusion)
    if again and not any(kind(each) == FINISHED for each in mine):
        report.problems.append("it was not launched again")
    if not again and len(mine) > 1:
        report.problems.append(f"it was launched again: {[kind(each) for each in mine]}")
    if unkept > (NOTHING in report.expected):
        report.problems.append(f"{unkept} launches are not kept")
    if not bench.struck(step):
        report.problems.append("the fault did not happen")


def _wrong_of_a_window(bench: Bench, step: int, mine: list[LaunchRecord]) -> list[str]:
    """It happened to a job that ran already; what failed is made again by itself."""
    first, *later = (each.outcome.window for each in mine)
    ending = mine[0].outcome.ending
    if first is None or first.job == mine[0].number:
        return ["it was no window of a job that ran"]
    if not isinstance(ending, Failed) or ending.kind in {*FROM_OUTSIDE, FailureKind.LIMIT}:
        return []
    problems = [] if ending.reason else ["no reason is given"]
    if bench.fault.stacks and not list(Path(mine[0].folder).glob("stacks/*")):
        problems.append("no stacks were kept")
    if not mine[0].outcome.exclusion or later != [None]:
        problems.append(f"it was not launched by itself: {later}")
    return problems


def _unkept(bench: Bench, step: int, records: tuple[LaunchRecord, ...]) -> int:
    """How many launches of a setting were made that the database does not know."""
    made = bench.diary.read("made").count(step)
    return made - sum(each.setting == setting(step) for each in records)


def _right(bench: Bench, step: int, records: tuple[LaunchRecord, ...]) -> list[str]:
    """What came to its end has the figures that the trainer reported; a clean launch did, once."""
    mine = [each for each in records if each.setting == setting(step)]
    times = [sample.elapsed_s for each in mine for sample in each.outcome.samples]
    cold = [r.outcome.samples for r in mine if r.outcome.window is None]
    problems = []
    exact_s = 0.01 * step * bench.iterations
    if any(abs(each.elapsed_s - exact_s) > 1e-9 for samples in cold for each in samples):
        problems.append(f"setting {step} has the wrong figures: {times}")
    if bench.faults[step - 1] is not None:
        return problems
    if len(times) != 1 and not any(map(_was_disturbed, mine)):
        said = [f"{kind(each)}: {each.outcome.ending}" for each in mine]
        problems.append(f"setting {step} was measured {len(times)} times: {said}")
    if _unkept(bench, step, records):
        problems.append(f"launches of setting {step} are not kept")
    return problems


def _was_disturbed(record: LaunchRecord) -> bool:
    return bool(record.outcome.exclusion)


def _nothing_lost(bench: Bench, records: tuple[LaunchRecord, ...]) -> list[str]:
    """What tune has told of is kept, once, as it was told."""
    problems = []
    numbers = [record.number for record in records]
    if numbers != list(range(1, len(numbers) + 1)):
        problems.append(f"the launches have the numbers {numbers}")
    kept = {(r.number, FINISHED if kind(r) == DISTURBED else kind(r)) for r in records}
    lost = set(bench.diary.read("end")) - kept
    return [*problems, *(f"launch {number} ({what}) is lost" for number, what in sorted(lost))]


def _sound(database: Path) -> list[str]:
    problems = []
    with sqlite3.connect(database) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
        query = "SELECT count(*) FROM trials WHERE state NOT IN ('COMPLETE', 'FAIL', 'PRUNED')"
        (open_trials,) = connection.execute(query).fetchone()
    connection.close()
    if answer != "ok":
        problems.append(f"the database is damaged: {answer}")
    if open_trials:
        problems.append(f"{open_trials} of Optuna's trials are open")
    return problems
