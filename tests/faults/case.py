"""Faults from their study to the verdict: what was seen, and whether that is as it must be."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tests.faults.bench import NAME, FaultBench, kind, setting
from tests.faults.rows import FINISHED, JobFault
from tests.faults.trainer import STEP_S
from tuner.model import FROM_OUTSIDE, Failed, FailureKind, LauncherInfo, LaunchRecord
from tuner.model.errors import TunerError
from tuner.stats import evidence
from tuner.store.store import Store

Records = tuple[LaunchRecord, ...]


@dataclass
class FaultReport:
    """What came of a fault; ``seen`` is a kind, ``ended`` how the run with it ended."""

    fault: str
    seen: str
    reason: str
    ended: str
    launches: int
    problems: list[str]

    @property
    def text(self) -> str:
        """What was seen, and what is wrong."""
        seen = f"{self.fault}: {self.seen} ({self.reason}), {self.ended}"
        return "\n    ".join([seen, *self.problems])


def run(faults: Sequence[JobFault], launcher: LauncherInfo) -> list[FaultReport]:
    """Make the faults happen, each to a launch of one study in a folder of its own.

    A clean launch comes after them, and if one needs that, before them. Those of a running job
    have a clean one between them: that starts the job to which the next one happens.
    """
    folder = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    turns: tuple[JobFault | None, ...] = (*faults, None)
    if faults[0].phase:  # the first launch tells how long one is, the second starts a job
        turns = (None, *(turn for fault in faults for turn in (None, fault)), None)
    elif any(fault.second for fault in faults):
        turns = (None, *turns)
    bench = FaultBench(turns, launcher, folder)
    try:
        return _reports(bench)
    finally:
        bench.close()


def _reports(bench: FaultBench) -> list[FaultReport]:
    fault, ended = bench.fault, bench.study(faulty=True)
    problems = [f"after the run: {each}" for each in bench.left()]
    if not (re.search(fault.ends, ended) if fault.ends else ended == FINISHED):
        problems.append(f"the run with the fault ended: {ended}")
    last = ended if ended == FINISHED else bench.study(faulty=False)
    if last != FINISHED:
        problems.append(f"the study did not go on: {last}")
    problems += [f"in the end: {each}" for each in bench.left()]
    records: Records = ()
    try:
        with Store.open(f"sqlite:///{bench.database}", create=False) as store:
            records = tuple(store.launches(NAME))
    except TunerError as error:
        problems.append(f"the database cannot be read: {error.message}")
    problems += _wrong_of_the_database(bench, records)
    # As a study takes them: a loss is judged by the others.
    records = evidence.with_wrong_results(records)
    reports = []
    for step, each in enumerate(bench.faults, start=1):
        wrong = _wrong_figures(bench, step, records)
        if each is None:
            problems += wrong
        else:
            reports.append(_report(bench, step, each, records, wrong, ended))
    reports[0].problems += problems  # those of the study as a whole
    for step, text in bench.problems:
        reports[max(0, sum(map(bool, bench.faults[:step])) - 1)].problems.append(text)
    return reports


def _report(
    bench: FaultBench, step: int, fault: JobFault, records: Records, problems: list[str], ended: str
) -> FaultReport:
    """The launch is what it should be, and made again if the fault was from outside."""
    mine = [r for r in records if r.setting == setting(step)]
    expected = (*fault.expected, *fault.also.get(bench.launcher.kind, ()))
    kinds = [kind(each) for each in mine]
    seen = kinds[0] if mine else "nothing"
    if seen not in expected:
        problems.append(f"it was seen as {seen}")
    again = seen in {kind.value for kind in FROM_OUTSIDE}
    if bench.live and mine:
        problems += _wrong_of_a_window(mine, fault)
        again = again or bool(mine[0].outcome.exclusion)
    if again and FINISHED not in kinds:
        problems.append("it was not launched again")
    if not again and len(mine) > 1:
        problems.append(f"it was launched again: {kinds}")
    if step not in bench.struck:
        problems.append("the fault did not happen")
    ending = mine[0].outcome.ending if mine else None
    reason = ending.reason if isinstance(ending, Failed) else ""
    return FaultReport(fault.name, seen, reason, ended, len(mine), problems)


def _wrong_of_a_window(mine: list[LaunchRecord], fault: JobFault) -> list[str]:
    """It happened to a job that ran already; what failed is made again by itself."""
    first, *later = (each.outcome.window for each in mine)
    ending = mine[0].outcome.ending
    if fault.is_caught:
        is_new = first is None or first.job == mine[0].number  # None: it failed as it started
        return [] if is_new else ["no job was started with it"]
    if first is None or first.job == mine[0].number:
        return ["it was no window of a job that ran"]
    if not isinstance(ending, Failed) or ending.kind in {*FROM_OUTSIDE, FailureKind.LIMIT}:
        return []
    problems = [] if ending.reason else ["no reason is given"]
    if not mine[0].outcome.exclusion or later != [None]:
        problems.append(f"it was not launched by itself: {later}")
    return problems


def _wrong_figures(bench: FaultBench, step: int, records: Records) -> list[str]:
    """What came to its end has the figures that the trainer reported; a clean launch did, once."""
    mine = [each for each in records if each.setting == setting(step)]
    times = [sample.elapsed_s for each in mine for sample in each.outcome.samples]
    cold = [r.outcome.samples for r in mine if r.outcome.window is None]
    problems = []
    exact_s = STEP_S * step * bench.iterations
    if any(abs(each.elapsed_s - exact_s) > 1e-9 for samples in cold for each in samples):
        problems.append(f"setting {step} has the wrong figures: {times}")
    if bench.made.count(step) != len(mine):
        problems.append(f"{bench.made.count(step)} launches of setting {step}: {len(mine)} kept")
    if bench.faults[step - 1] is not None:
        return problems
    if len(times) != 1 and not any(each.outcome.exclusion for each in mine):
        endings = [f"{kind(each)}: {each.outcome.ending}" for each in mine]
        problems.append(f"setting {step} was measured {len(times)} times: {endings}")
    return problems


def _wrong_of_the_database(bench: FaultBench, records: Records) -> list[str]:
    """What tune has told of is kept, once, as it was told, in a sound file."""
    numbers = [record.number for record in records]
    lost = set(bench.ended) - {(r.number, kind(r)) for r in records}
    problems = [f"launch {number} ({what}) is lost" for number, what in sorted(lost)]
    if numbers != sorted({*numbers}):  # one whose process died keeps its own
        problems.append(f"the launches have the numbers {numbers}")
    with closing(sqlite3.connect(bench.database)) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
        query = "SELECT count(*) FROM trials WHERE state NOT IN ('COMPLETE', 'FAIL', 'PRUNED')"
        (open_trials,) = connection.execute(query).fetchone()
    if answer != "ok":
        problems.append(f"the database is damaged: {answer}")
    if open_trials:
        problems.append(f"{open_trials} of Optuna's trials are open")
    return problems
