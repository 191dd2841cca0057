from __future__ import annotations

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState
from sqlalchemy import event

from tests.kept_launches import keep
from tests.study_surface import BEST, CRASH, MACHINE, SPEC, Killed, ran, record
from tuner.hosts import lock
from tuner.model import (
    BASELINE,
    Effect,
    Exclusion,
    ExclusionKind,
    Observation,
    Purpose,
    RankView,
    Stopped,
    StudyState,
    Telemetry,
    Verdict,
)
from tuner.model.errors import UsageError
from tuner.store import database
from tuner.store.rows import Summary
from tuner.store.store import Store
from tuner.store.urls import place
from tuner.study.history import History
from tuner.study.optuna_study import OptunaStudy
from tuner.study.policy import SearchThenConfirm, Step

#: What decides whether launches run side by side: it is read without the rest of an observation.
DECISIVE = Observation(memory_bytes=9, gpu_memory_share=0.5, written=("/shared",))
SEEN = replace(DECISIVE, ranks=(RankView(0, 2, 1, (0, 1)),))
RAN = replace(ran(1.5, effects=(Effect("k", 2, 2, Verdict.HONOURED),)), observation=SEEN)
FULL = replace(
    record(1, BEST, Purpose.SEARCH, RAN), folder="/some/where", env={"THREADS": "4"}, trial=0
)
TELEMETRY = Telemetry(gaps=("Pressure is not recorded.",), cost_cores=0.0031)
WATCHED = replace(FULL, outcome=replace(FULL.outcome, telemetry=TELEMETRY))
FAILED = replace(record(2, BASELINE, Purpose.BASELINE, ran(CRASH)), folder="/some/where")
LATE = ran(Stopped(2.0, 9.0, 8.0, None, 0.1, "late"))
STOPPED = replace(FULL, number=3, outcome=LATE, trial=1)
WHY = Exclusion(ExclusionKind.LIVE_DISAGREES, "it took longer")


@pytest.fixture
def path(tmp_path: Path, template: Path) -> Path:
    """The file of such a database."""
    path = tmp_path / "a folder" / "tune.db"
    path.parent.mkdir()
    return Path(shutil.copy(template, path))


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{path}", create=True) as store:
        yield store


def raw_rows(path: Path, table: str) -> int:
    """How many rows a table has."""
    with closing(sqlite3.connect(path)) as raw:
        return int(raw.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def test_launches_come_back_as_they_were(store: Store) -> None:
    store.create(SPEC)
    keep(store, SPEC, [WATCHED, FAILED, STOPPED])
    assert store.launches(SPEC.name) == [FULL, FAILED, STOPPED], "telemetry is read apart"
    assert [store.telemetry(SPEC.name, n) for n in (1, 2, 4)] == [TELEMETRY, None, None]
    assert store.folders(SPEC.name) == ["/some/where"] * 3
    unseen = [
        replace(record, outcome=replace(record.outcome, observation=observation))
        for record, observation in (
            (FULL, DECISIVE),
            (FAILED, Observation()),
            (STOPPED, Observation()),
        )
    ]
    assert store.launches(SPEC.name, detail=False) == unseen
    store.exclude(SPEC.name, WHY, [2])
    excluded = replace(FAILED, outcome=replace(FAILED.outcome, exclusion=WHY))
    assert store.launches(SPEC.name)[1] == excluded
    store.exclude(SPEC.name, replace(WHY, text="another"), [1, 2])
    reasons = [record.outcome.exclusion for record in store.launches(SPEC.name)]
    assert reasons == [replace(WHY, text="another"), WHY, None]


def test_a_list_of_studies_with_the_latest_first(store: Store) -> None:
    assert store.studies() == []
    for name in ("one", "two", "three"):
        store.create(replace(SPEC, name=name))
    summary = Summary(FULL.setting, FULL.setting, 1.5, 3.0, 1, 1, 0)
    store.set_summary("one", summary)
    assert [study.name for study in store.studies()] == ["one", "three", "two"]
    assert store.studies()[0].summary == summary


def test_a_study_runs_as_long_as_its_process(store: Store) -> None:
    here = replace(SPEC, name="here", machine=replace(MACHINE, hostname=socket.gethostname()))
    store.create(here)
    store.create(replace(here, name="other"))
    store.create(replace(SPEC, name="elsewhere"))

    def read_states() -> dict[str, str]:
        states = {study.name: str(study.state) for study in store.studies()}
        assert states == {name: str(store.load(name).state) for name in states}
        return states

    with lock.measuring("here", environ=os.environ, database=place(store.url)):
        assert read_states() == {"here": "running", "other": "interrupted", "elsewhere": "running"}
    assert read_states() == {"here": "interrupted", "other": "interrupted", "elsewhere": "running"}
    assert "is gone" in store.load("here").reason
    with lock.measuring("here", environ=os.environ, database="/another.db"):
        assert read_states()["here"] == "interrupted"
    store.set_state("here", StudyState.FINISHED, "done")
    assert read_states()["here"] == "finished"


def test_no_such_study_names_the_nearest(store: Store) -> None:
    store.create(replace(SPEC, name="chainer_mnist"))
    with pytest.raises(UsageError, match="no study chainer_mnits") as caught:
        store.load("chainer_mnits")
    assert "chainer_mnist" in caught.value.hint
    for call in (
        lambda: store.launches("x"),
        lambda: store.search("x"),
        lambda: store.comparison("x"),
        lambda: store.set_summary("x", Summary()),
        lambda: store.set_state("x", StudyState.RUNNING, ""),
    ):
        with pytest.raises(UsageError, match="no study x"):
            call()


def test_a_name_is_taken_once_and_a_number_by_the_first(store: Store) -> None:
    store.create(SPEC)
    with pytest.raises(UsageError, match="exists already"):
        store.create(SPEC)
    assert store.last_number(SPEC.name) == 0
    ids = []
    for study in (store.search(SPEC.name), store.comparison(SPEC.name)):
        trial = study.ask()
        trial.set_user_attr("launch", 7)
        ids.append(trial._trial_id)
    assert store.last_number(SPEC.name) == 7
    assert [store.has_number_first(SPEC.name, 7, each) for each in ids] == [True, False]


@contextmanager
def before_each_statement(store: Store, do: Callable[[], None]) -> Iterator[None]:
    """While entered, something is done before each statement, ours or Optuna's."""
    engines = {store._engine, store.storage.engine}

    def listener(*_: object) -> None:
        do()

    for engine in engines:
        event.listen(engine, "before_cursor_execute", listener)
    try:
        yield
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", listener)


def killed_before_statement(store: Store, number: int) -> AbstractContextManager[None]:
    """While entered, the process is killed as it sends its so-manieth statement."""
    statements = count(1)

    def die() -> None:
        if next(statements) >= number:
            raise Killed

    return before_each_statement(store, die)


@pytest.mark.parametrize("purpose", [Purpose.BASELINE, Purpose.SEARCH])
def test_a_launch_is_there_whole_or_not_at_all(
    store: Store, path: Path, tmp_path: Path, purpose: Purpose
) -> None:
    """Wherever the process is killed; the next one finds it in its folder, and has it once."""
    store.create(SPEC)
    study, history = OptunaStudy(store, SPEC, SearchThenConfirm()), History.judged(SPEC, ())
    study.take_up(history)
    is_trial = purpose is Purpose.SEARCH
    running = study.ask(history, Step(purpose, BEST if is_trial else BASELINE))
    assert running is not None
    record = replace(FULL, purpose=purpose, setting=running.step.setting)
    record = replace(record, trial=0 if is_trial else None)
    files = path, path.with_name("tune.db-wal")
    on_disk: list[tuple[bytes, ...]] = []  # what a process leaves that is killed: each one once

    def look() -> None:
        contents = tuple(file.read_bytes() if file.exists() else b"" for file in files)
        if contents not in on_disk:
            on_disk.append(contents)

    with before_each_statement(store, look):
        study.tell(running, record)
    look()
    is_whole = []
    for contents in on_disk:
        for file, content in zip(files, contents, strict=True):
            (tmp_path / file.name).write_bytes(content)
        with Store.open(f"sqlite:///{tmp_path / 'tune.db'}", create=True) as left:
            launches = left.launches(SPEC.name)
            assert launches in ([], [record])
            is_whole.append(bool(launches))
            missing = [] if launches else [record]
            resumed = OptunaStudy(left, SPEC, SearchThenConfirm())
            resumed.take_up(History.judged(SPEC, [record]), missing)
            assert left.launches(SPEC.name) == [record]
            of_purpose = left.search if is_trial else left.comparison
            assert [t.state for t in of_purpose(SPEC.name).trials] == [TrialState.COMPLETE]
        assert raw_rows(tmp_path / "tune.db", "tune_seen") == 1
    assert is_whole == sorted(is_whole) and {*is_whole} == {False, True}


@pytest.mark.parametrize("number", range(1, 60, 14))
def test_a_study_half_made_or_half_removed_can_be_made_again(store: Store, number: int) -> None:
    def make() -> None:
        store.create(SPEC)
        keep(store, SPEC, [FULL, FAILED])

    with killed_before_statement(store, number), suppress(Killed):
        make()
    store.remove(SPEC.name)
    make()
    with killed_before_statement(store, number), suppress(Killed):
        store.remove(SPEC.name)
    store.remove(SPEC.name)
    make()
    assert store.launches(SPEC.name) == [FULL, FAILED]


def test_removal_takes_the_launches_along(store: Store, path: Path) -> None:
    optuna.create_study(study_name="theirs", storage=store.storage).ask()
    store.create(replace(SPEC, name="other"))
    keep(store, replace(SPEC, name="other"), [FULL, FAILED])
    tables = ("tune_seen", "studies", "trials", "trial_user_attributes", "study_user_attributes")
    before = [raw_rows(path, table) for table in tables]
    store.create(SPEC)
    keep(store, SPEC, [WATCHED, FAILED])
    store.remove(SPEC.name)
    assert [study.name for study in store.studies()] == ["other"]
    assert [raw_rows(path, table) for table in tables] == before


def test_a_network_file_system_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "file_system", lambda *_: "nfs4")
    with pytest.raises(UsageError, match="network file system") as caught:
        Store.open(store.url, create=False)
    assert "--storage" in caught.value.hint


@pytest.mark.parametrize("attributes", [{"mine": 1}, {}])
def test_the_tables_of_optuna_are_shared(tmp_path: Path, attributes: dict[str, int]) -> None:
    path = tmp_path / "theirs.db"
    url = f"sqlite:///{path}"
    theirs = optuna.create_study(study_name=SPEC.name, storage=url)
    for name, value in attributes.items():
        theirs.set_user_attr(name, value)
    for create in (False, True):  # whoever made the tables, there is no study of tune
        with Store.open(url, create=create) as store:
            assert store.studies() == [] and store.find(SPEC.name) is None
    with Store.open(url, create=True) as store:
        with pytest.raises(UsageError, match=f"Optuna study {SPEC.name} of another program"):
            store.create(SPEC)
        store.remove(SPEC.name)
        store.create(replace(SPEC, name="ours"))
        store.remove("ours")
    assert optuna.get_all_study_names(url) == [SPEC.name]
    assert optuna.load_study(study_name=SPEC.name, storage=url).user_attrs == attributes


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_is_not_worked_on_is_one_file_that_can_be_read_in_any_folder(
    store: Store, path: Path, is_killed: bool
) -> None:
    store.create(SPEC)
    if is_killed:
        store.storage.remove_session()
        store.storage.engine.dispose()
        Store.open(store.url, create=False).close()  # `tune show`, for one
    else:
        store.close()
    assert [each.name for each in path.parent.iterdir()] == ["tune.db"]
    assert path.read_bytes()[18:20] == b"\1\1", "no write-ahead log (sqlite.org/fileformat.html)"
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        with Store.open(store.url, create=False) as other:
            assert [row.name for row in other.studies()] == [SPEC.name]
    finally:
        path.parent.chmod(0o700)
