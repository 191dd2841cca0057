"""What becomes of a launch that has ended: its own file, our tables, Optuna, in this order.

Only then is it reported. Whatever fails on the way, what was written before it is enough to take
the launch up again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.model import LOGGED_TIME, Exclusion, LaunchRecord, ObjectiveSpec, figures
from tuner.model.errors import TunerError
from tuner.stats import estimates
from tuner.store.failures import from_os_error
from tuner.study.events import Event, Note
from tuner.study.journal import NAME, Journal, lacking

if TYPE_CHECKING:
    from tuner.store import Store, Summary
    from tuner.study.history import History
    from tuner.study.projection import Projection


@dataclass(frozen=True)
class Recorder:
    """Keeps the launches of one study."""

    store: Store
    projection: Projection
    journal: Journal
    emit: Callable[[Event], None]
    objective: ObjectiveSpec = LOGGED_TIME

    def make_room(self, launch: Path) -> None:
        """Make sure, before a launch, that it can be kept.

        Raises:
            TunerError: The database is gone, locked, read-only or corrupt, or the disk is full.
        """
        self.store.require_usable(self.journal.study)
        try:
            self.journal.reserve(launch)
        except OSError as error:
            raise from_os_error(
                error, f"the output folder {launch}", "Choose another place with --run-dir FOLDER."
            ) from error

    def record(self, record: LaunchRecord) -> bool:
        """Put the launch's own record on the disk; False where it cannot be written."""
        try:
            self.journal.write(record)
        except OSError as error:
            text = f"{Path(record.folder) / NAME} cannot be written: {error.strerror}"
            self.emit(Note(f"{text}; launch {record.number} goes to the database alone"))
            return False
        return True

    def add(self, record: LaunchRecord, summary: Summary, *, recorded: bool) -> None:
        """Add the launch to our tables.

        Raises:
            TunerError: The database cannot be written; the hint says what became of the launch.
        """
        try:
            self.store.add(self.journal.study, record, summary)
        except TunerError as error:
            error.hint += _kept_in(record) if recorded else self._not_saved(record)
            raise

    def tell(self, before: History, plan: History) -> History:
        """Tell Optuna of the plan's last launch; the plan with the numbers of its trials."""
        if _is_longer(before, plan):
            number = plan.records[-1].number
            self.emit(Note(f"launch {number} is the longest: shorter ones stopped early"))
            return replace(plan, records=self.projection.reconcile(plan))
        return replace(plan, records=self.projection.tell(plan))

    def conclude(self, plan: History) -> History:
        """Have Optuna say what our tables say of windows by now: later launches scale them anew."""
        if all(record.outcome.window is None for record in plan.records):
            return plan
        return replace(plan, records=self.projection.reconcile(plan))

    def exclude(self, plan: History, numbers: Collection[int], why: Exclusion) -> History:
        """Count these launches no more, in our tables and in Optuna; the plan without them.

        Raises:
            TunerError: The database cannot be written.
        """
        self.store.exclude(self.journal.study, why, numbers)
        records = tuple(
            replace(r, outcome=replace(r.outcome, exclusion=why)) if r.number in numbers else r
            for r in plan.records
        )
        plan = replace(plan, records=records)
        return replace(plan, records=self.projection.reconcile(plan))

    def _not_saved(self, record: LaunchRecord) -> str:
        value = estimates.estimate_s(record.outcome.samples)
        if value is None:
            return ""
        shown = figures.shown(self.objective, value)
        return f" Not saved: launch {record.number} ({record.setting}), {shown}."


def adopt(store: Store, journal: Journal, emit: Callable[[Event], None]) -> bool:
    """Add the launches that ended, but did not come into the database; True if there were any."""
    known = store.launches(journal.study, detail=False)
    found, damaged = journal.found({record.folder for record in known})
    for path in damaged:
        emit(Note(f"{path} is no record of a launch: it is left as it is"))
    missing = lacking(known, found)
    for record in missing:
        store.add(journal.study, record)
        where = f"{Path(record.folder) / NAME}"
        emit(Note(f"launch {record.number} was kept in {where}: the database has it now"))
    return bool(missing)


def _kept_in(record: LaunchRecord) -> str:
    return f" Launch {record.number} is kept in {Path(record.folder) / NAME}."


def _is_longer(before: History, after: History) -> bool:
    """True where the last launch shows that the full length is not what it seemed to be."""
    setting = after.records[-1].setting
    seemed = before.expected_iterations(setting)
    return seemed is not None and seemed != after.expected_iterations(setting)
