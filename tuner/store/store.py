"""The store: studies and their launches, each change committed at once."""

from __future__ import annotations

import os
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tuner.launch.secrets import Redactor, redact_spec
from tuner.model import Exclusion, LaunchRecord, StudySpec, StudyState, Telemetry
from tuner.model.errors import UsageError, shown
from tuner.store import codec, database, launches, studies
from tuner.store.identity import identity, merged
from tuner.store.studies import StudyRow, StudySummary, Summary, as_it_is
from tuner.store.transactions import TakenError, Transactions
from tuner.store.urls import display_url

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine


class Store:
    """Our tables in one database.

    Every method commits before it returns. Any may raise ``BusyError`` if the database is
    locked for longer than 10 s, ``UsageError`` if it turns out read-only or corrupt, and
    ``TunerError`` if the disk is full: what was committed before is kept.
    """

    def __init__(self, url: str, engine: Engine) -> None:
        self.url = url
        self._transactions = Transactions(url, engine)

    @classmethod
    def open(cls, url: str, *, create: bool, busy_s: float = database.BUSY_S) -> Store:
        """Open a database; see :func:`tuner.store.database.connect` for the errors."""
        return cls(url, database.connect(url, create=create, busy_s=busy_s))

    def close(self) -> None:
        """Close the connections."""
        self._transactions.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- studies ---------------------------------------------------------------------

    def studies(self) -> list[StudySummary]:
        """All studies, the one worked on last first."""
        with self._transactions.begin() as connection:
            found = studies.select(connection)
        summaries = []
        for row in found:
            with self._transactions.readable(f"study {shown(row.name)}"):
                belongs = codec.loads(dict[str, Any], row.identity)
                summaries.append(as_it_is(studies.study_summary(row), belongs, self.url))
        return summaries

    def latest(self) -> str | None:
        """The name of the study worked on last, ``None`` if there is none."""
        with self._transactions.begin() as connection:
            return studies.latest(connection)

    def find(self, name: str) -> StudyRow | None:
        """The study of that name, ``None`` if there is none."""
        with self._transactions.begin() as connection:
            row = studies.find(connection, name)
        if row is None:
            return None
        with self._transactions.readable(f"study {shown(name)}"):
            found = studies.study_row(row)
        return as_it_is(found, found.identity, self.url)

    def has(self, name: str) -> bool:
        """True if there is a study of that name, readable or not."""
        with self._transactions.begin() as connection:
            return studies.id_of(connection, name) is not None

    def load(self, name: str) -> StudyRow:
        """The study of that name.

        Raises:
            UsageError: There is none; the hint names the nearest ones.
        """
        row = self.find(name)
        if row is None:
            raise self._no_study(name)
        return row

    def create(self, spec: StudySpec) -> StudyRow:
        """Add a study without launches; of its commands all but the secrets is stored.

        Raises:
            UsageError: The name is taken.
        """
        columns = studies.columns(spec)
        try:
            with self._transactions.begin() as connection:
                studies.insert(connection, columns)
        except TakenError as error:
            raise UsageError(
                f"the study {spec.name} exists already", "Choose another with --name NAME."
            ) from error
        return self.load(spec.name)

    def update_spec(self, spec: StudySpec) -> None:
        """Replace the spec of the study of that name, which still belongs to the same."""
        belongs = merged(self.load(spec.name).identity, identity(spec))
        kept = redact_spec(spec, os.environ)
        values = {"spec": codec.dumps(kept), "identity": codec.dumps(belongs)}
        self._update_study(spec.name, values)

    def set_state(self, name: str, state: StudyState, reason: str) -> None:
        """Say how far the study is, and why it is not running."""
        self._update_study(
            name, {"state": state.value, "reason": Redactor.of(os.environ).text(reason)}
        )

    def forgive(self, name: str, launch_number: int) -> None:
        """Forget the failures up to this launch: their settings may be tried again."""
        self._update_study(name, {"forgiven_until": launch_number})

    def set_summary(self, name: str, summary: Summary) -> None:
        """Replace what the list of studies says about this one."""
        self._update_study(name, studies.summary_columns(summary))

    def remove(self, name: str) -> None:
        """Remove the study with all that is kept of its launches; nothing if there is none."""
        with self._transactions.begin() as connection:
            studies.delete(connection, name)

    # --- launches --------------------------------------------------------------------

    def launches(self, name: str, *, detail: bool = True) -> list[LaunchRecord]:
        """The launches of a study in the order they were made.

        ``detail=False`` leaves out what was seen of its ranks (which is empty then): most of
        the reading if there are thousands.
        """
        with self._transactions.begin() as connection:
            found = launches.select(connection, self._study_id(connection, name), detail=detail)
        records = []
        for row, samples in found:
            with self._transactions.readable(f"launch {shown(row.number)} of {shown(name)}"):
                records.append(launches.launch_record(row, samples))
        return records

    def telemetry(self, name: str, launch_number: int) -> Telemetry | None:
        """What the sampler saw of a launch, which :meth:`launches` leaves out.

        ``None`` if nothing was recorded, or there is no such launch.
        """
        with self._transactions.begin() as connection:
            found = launches.select_telemetry(
                connection, self._study_id(connection, name), launch_number
            )
        with self._transactions.readable(f"telemetry of launch {launch_number} of {shown(name)}"):
            return launches.telemetry(found)

    def folders(self, name: str) -> list[str]:
        """The folders of a study's launches, which need not be readable."""
        with self._transactions.begin() as connection:
            return launches.folders(connection, self._study_id(connection, name))

    def add(self, name: str, record: LaunchRecord, summary: Summary | None = None) -> int:
        """Add a launch with its samples and telemetry, and the new summary, in one transaction.

        Returns:
            The number of the launch.

        Raises:
            UsageError: The study has a launch of that number, or there is no such study.
        """
        try:
            with self._transactions.begin() as connection:
                launches.insert(connection, self._study_id(connection, name), record)
                studies.update(
                    connection, name, studies.summary_columns(summary) if summary else {}
                )
        except TakenError as error:
            raise UsageError(
                f"launch {record.number} of {name} is there already",
                "Another tune works on this study: end it, or use another --name.",
            ) from error
        return record.number

    def set_trial(self, name: str, launch_number: int, trial_number: int | None) -> None:
        """Note which of Optuna's trials tells of the launch."""
        with self._transactions.begin() as connection:
            study_id = self._study_id(connection, name)
            launches.set_trial(connection, study_id, launch_number, trial_number)

    def require_usable(self, name: str) -> None:
        """Make sure that the next launch of a study could be added; cheap.

        Raises:
            UsageError: Read-only or corrupt, or the study is gone.
            BusyError: Locked by another process.
            TunerError: The file was moved, removed or replaced.
        """
        self._transactions.require_same()
        with self._transactions.begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._study_id(connection, name)

    def exclude(self, name: str, why: Exclusion, numbers: Collection[int] | None = None) -> int:
        """Exclude launches of the study, all or these; returns how many counted until now."""
        with self._transactions.begin() as connection:
            study_id = self._study_id(connection, name)
            return launches.exclude(connection, study_id, why, numbers)

    # --- inside ----------------------------------------------------------------------

    def _update_study(self, name: str, values: dict[str, Any]) -> None:
        with self._transactions.begin() as connection:
            if not studies.update(connection, name, values):
                raise self._no_study(name)

    def _study_id(self, connection: Connection, name: str) -> int:
        found = studies.id_of(connection, name)
        if found is None:
            raise self._no_study(name)
        return found

    def _no_study(self, name: str) -> UsageError:
        names = [study.name for study in self.studies()]
        near = get_close_matches(name, names, n=3) or names[:5]
        hint = "It has no studies."
        if near:
            hint = f"It has {', '.join(near)}; `tune studies` lists all."
        return UsageError(f"no study {name} in {display_url(self.url)}", hint)
