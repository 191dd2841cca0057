"""One fault from its study to the verdict: what was seen, and whether that is as it must be."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.faults import children
from tests.faults.bench import ITERATIONS, NAME, Bench, setting
from tests.faults.rows import DISTURBED, FINISHED, NOTHING, Fault
from tests.faults.strikes import STRIKES
from tuner.errors import TunerError
from tuner.model import FROM_OUTSIDE, Failed, LauncherInfo, LaunchRecord
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

    @property
    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def run(fault: Fault, launcher: LauncherInfo) -> Report:
    """Make the fault happen, in a folder of its own."""
    started_s = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    bench = Bench(fault, launcher, folder, STRIKES.get(fault.strike), STRIKES.get(fault.mend))
    try:
        report = children.with_a_disk(bench, _run) if fault.disk else _run(bench)
    finally:
        bench.close()
    report.wall_s = time.monotonic() - started_s
    return report


def _run(bench: Bench) -> Report:
    fault, launcher = bench.fault, bench.launcher
    expected = (*fault.expected, *fault.also.get(launcher.kind, ()))
    report = Report(fault.name, f"{launcher.kind} {launcher.version}", expected)
    if fault.child:
        report.ended = children.study(bench)
    else:
        report.ended = bench.study(faulty=True)
        report.problems += [f"after the run: {each}" for each in bench.left()]
    report.problems += [problem for check in bench.checks if (problem := check())]
    if bench.mend is not None:
        bench.mend(bench)
    last = report.ended
    if last != FINISHED:
        last = bench.study(faulty=False)
    if last != FINISHED:
        report.problems.append(f"the study did not go on: {last}")
    report.problems += bench.diary.read("problem")
    report.cleanups_s = bench.diary.read("cleanup")
    report.problems += [f"in the end: {each}" for each in bench.left()]
    _judge(bench, report)
    return report


def _judge(bench: Bench, report: Report) -> None:
    fault = bench.fault
    if not bench.struck:
        report.problems.append("the fault did not happen")
    unexpected = report.ended != FINISHED and not (fault.ends or fault.child)
    if fault.ends and not re.search(fault.ends, report.ended):
        report.problems.append(f"the run with the fault ended as {report.ended}")
    elif unexpected:
        report.problems.append(f"the run with the fault ended: {report.ended}")
    try:
        with Store.open(f"sqlite:///{bench.database}", create=False) as store:
            records = tuple(store.launches(NAME, detail=False))
    except TunerError as error:
        report.problems.append(f"the database cannot be read: {error.message}")
        return
    report.launches = len(records)
    report.problems += [*_of_kind(bench, report, records), *_right(bench, records)]
    report.problems += [*_nothing_lost(bench, records), *_sound(bench.database)]


def kind(record: LaunchRecord) -> str:
    """What a launch came to, in a word."""
    ending = record.outcome.ending
    if isinstance(ending, Failed):
        return ending.kind.value
    return DISTURBED if record.outcome.disturbed else FINISHED


def _of_kind(bench: Bench, report: Report, records: tuple[LaunchRecord, ...]) -> list[str]:
    """The launch is what it should be, and made again where the fault was from outside."""
    mine = [each for each in records if each.setting == setting(bench.faulty)]
    first = mine[0] if mine else None
    report.seen = NOTHING if first is None else kind(first)
    unkept = len(_starts(bench, bench.faulty)) - len(mine)
    if unkept and report.seen == FINISHED:
        report.seen = NOTHING
    if first is not None and isinstance(first.outcome.ending, Failed):
        report.reason = first.outcome.ending.reason
    problems = [] if report.seen in report.expected else [f"it was seen as {report.seen}"]
    again = report.seen in {kind.value for kind in FROM_OUTSIDE} | {NOTHING, DISTURBED}
    if again and not any(kind(each) == FINISHED for each in mine):
        problems.append("it was not launched again")
    if not again and len(mine) > 1:
        problems.append(f"it was launched {len(mine)} times: {[kind(each) for each in mine]}")
    return problems


def _starts(bench: Bench, step: int) -> list[str]:
    """The markers of the launches that were made of a setting."""
    return [marker for marker, of in bench.diary.read("start") if of == step]


def _right(bench: Bench, records: tuple[LaunchRecord, ...]) -> list[str]:
    """Each launch that came to its end has the figures that the trainer reported."""
    problems = []
    for step in range(1, bench.settings + 1):
        mine = [each for each in records if each.setting == setting(step)]
        times = [sample.elapsed_s for each in mine for sample in each.outcome.samples]
        if any(abs(time_s - 0.01 * step * ITERATIONS) > 1e-9 for time_s in times):
            problems.append(f"setting {step} has the wrong figures: {times}")
        if step != bench.faulty and len(times) != 1 and not any(map(_was_disturbed, mine)):
            problems.append(f"setting {step} was measured {len(times)} times: {mine}")
        unkept = len(_starts(bench, step)) - len(mine)
        if unkept > (step == bench.faulty and NOTHING in bench.fault.expected):
            problems.append(f"{unkept} launches of setting {step} are not kept")
    return problems


def _was_disturbed(record: LaunchRecord) -> bool:
    return bool(record.outcome.disturbed)


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
