from __future__ import annotations

import os
import socket
import sqlite3
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from tests.study_surface import MACHINE, SPEC
from tuner.hosts import lock
from tuner.model import (
    BASELINE,
    Effect,
    Ending,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    Observation,
    Outcome,
    PhaseShare,
    Progress,
    Purpose,
    RankView,
    Setting,
    Stopped,
    StudyState,
    Telemetry,
    Track,
    Verdict,
)
from tuner.model.errors import TunerError, UsageError
from tuner.store import Store, Summary, database
from tuner.store.urls import place

FULL = LaunchRecord(
    number=1,
    purpose=Purpose.SEARCH,
    setting=Setting.of([("omp_threads", 2), ("communicator", "naive")]),
    argv=("mpirun", "-n", "2", "a b", "ü"),
    env={"OMP_NUM_THREADS": "4"},
    folder="/some/where",
    started_at="2026-01-01T00:00:00+00:00",
    outcome=Outcome(
        Finished(1.5, 100, 2.5),
        wall_s=3.25,
        exit_code=0,
        progress=(Progress(50, 0.75, 1.5), Progress(100, 1.5)),
        observation=Observation((RankView(0, 2, 1, (0, 1), 2, pools=(("openblas", 2),)),)),
        effects=(Effect("omp_threads", 2, 2, Verdict.HONOURED),),
    ),
    machine=MACHINE,
    trial=4,
)
FAILED = replace(
    FULL,
    number=2,
    setting=BASELINE,
    outcome=Outcome(Failed(FailureKind.CRASHED, "exit status 1", "tail"), 0.5, -9),
    trial=None,
)
STOPPED = replace(
    FULL,
    number=3,
    outcome=replace(FULL.outcome, ending=Stopped(2.0, 9.0, 8.0, None, 0.1, "late"), exit_code=None),
)


WHY = Exclusion(ExclusionKind.LIVE_DISAGREES, "it took longer", ("omp_threads",))
TELEMETRY = Telemetry(
    tracks=(
        Track("node1", None, (0.5, 1.0), {"user_cores": (1.5, None), "others_cores": (0.0, 0.0)}),
        Track("node1", 0, (0.5, 1.0), {"threads": (3.0, 4.0)}),
        Track("node1", 1, (), {}),
    ),
    phases=(PhaseShare(0, "exchange", 0.5, 0.125, 0.125, 0.25, "train.py:31 allreduce"),),
    gaps=("Pressure is not recorded.",),
    cost_cores=0.0031,
    interface="lo",
)
FLOATS = st.floats(0, 1e6)
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
ENDINGS = st.one_of(
    st.builds(Stopped, FLOATS, FLOATS, FLOATS, st.none() | FLOATS, FLOATS, WORDS),
    st.builds(Finished, FLOATS, st.integers(0, 99), st.none() | FLOATS, st.none() | FLOATS),
    st.builds(Failed, st.sampled_from(FailureKind), WORDS, WORDS),
)
PROGRESS = st.builds(Progress, st.integers(0, 99), FLOATS, st.none() | FLOATS)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path / 'a folder' / 'tune.db'}", create=True)


def test_launches_come_back_as_they_were(store: Store) -> None:
    store.create(SPEC)
    assert store.add(SPEC.name, FULL) == 1
    store.add(SPEC.name, FAILED)
    store.add(SPEC.name, STOPPED)
    assert store.launches(SPEC.name) == [FULL, FAILED, STOPPED]
    assert store.folders(SPEC.name) == ["/some/where"] * 3
    unseen = [
        replace(each, outcome=replace(each.outcome, observation=Observation()))
        for each in (FULL, FAILED, STOPPED)
    ]
    assert store.launches(SPEC.name, detail=False) == unseen
    store.set_trial(SPEC.name, 2, 11)
    store.exclude(SPEC.name, WHY, [2])
    assert store.launches(SPEC.name)[1] == replace(
        FAILED, trial=11, outcome=replace(FAILED.outcome, exclusion=WHY)
    )
    assert store.exclude(SPEC.name, WHY) == 2, "the others counted until now"


def test_telemetry_is_read_apart(store: Store) -> None:
    store.create(SPEC)
    store.add(SPEC.name, replace(FULL, outcome=replace(FULL.outcome, telemetry=TELEMETRY)))
    store.add(SPEC.name, FAILED)
    assert store.launches(SPEC.name)[0] == FULL
    assert [store.telemetry(SPEC.name, n) for n in (1, 2, 3)] == [TELEMETRY, None, None]


def test_any_launch_comes_back(store: Store) -> None:
    store.create(SPEC)

    @given(ENDINGS, st.lists(PROGRESS, max_size=3).map(tuple))
    def check(ending: Ending, progress: tuple[Progress, ...]) -> None:
        record = replace(FULL, outcome=Outcome(ending, 1.0, None, progress))
        store.add(SPEC.name, record)
        assert store.launches(SPEC.name) == [record]
        store.remove(SPEC.name)
        store.create(SPEC)

    check()


def test_studies_come_back_as_they_were(store: Store) -> None:
    row = store.create(SPEC)
    assert row.spec == SPEC and row.state is StudyState.RUNNING and row.forgiven_until == 0
    store.set_state(SPEC.name, StudyState.FINISHED, "done")
    store.update_spec(replace(SPEC, trials=99))
    store.forgive(SPEC.name, 7)
    row = store.load(SPEC.name)
    assert (row.state, row.reason, row.spec.trials, row.forgiven_until) == (
        StudyState.FINISHED,
        "done",
        99,
        7,
    )


def test_a_list_of_studies_with_the_latest_first(store: Store) -> None:
    assert store.studies() == [] and store.latest() is None
    for name in ("one", "two", "three"):
        store.create(replace(SPEC, name=name))
    store.add("one", FULL, Summary(FULL.setting, 1.5, 3.0, 1, 1, 0))
    assert [study.name for study in store.studies()] == ["one", "three", "two"]
    assert store.latest() == "one"
    one = store.studies()[0]
    assert (one.best_setting, one.best_s, one.baseline_s) == (FULL.setting, 1.5, 3.0)
    assert (one.trials, one.launches, one.failures) == (1, 1, 0)
    assert (one.conclusion, one.finding) == (None, None)


def test_a_study_runs_as_long_as_its_process(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lock.LOCK_DIR_VARIABLE, str(tmp_path / "lock"))
    here = replace(SPEC, name="here", machine=replace(MACHINE, hostname=socket.gethostname()))
    store.create(here)
    store.create(replace(here, name="other"))
    store.create(replace(SPEC, name="elsewhere"))

    def states() -> dict[str, str]:
        found = {study.name: str(study.state) for study in store.studies()}
        assert found == {name: str(store.load(name).state) for name in found}
        return found

    with lock.measuring("here", environ=os.environ, database=place(store.url)):
        assert states() == {"here": "running", "other": "interrupted", "elsewhere": "running"}
    assert states() == {"here": "interrupted", "other": "interrupted", "elsewhere": "running"}
    assert "is gone" in store.load("here").reason
    with lock.measuring("here", environ=os.environ, database="/another.db"):
        assert states()["here"] == "interrupted"
    store.set_state("here", StudyState.FINISHED, "done")
    assert states()["here"] == "finished"


def test_no_such_study_names_the_nearest(store: Store) -> None:
    store.create(replace(SPEC, name="chainer_mnist"))
    with pytest.raises(UsageError, match="no study chainer_mnits") as caught:
        store.load("chainer_mnits")
    assert "chainer_mnist" in caught.value.hint
    for call in (
        lambda: store.launches("x"),
        lambda: store.add("x", FULL),
        lambda: store.set_state("x", StudyState.RUNNING, ""),
    ):
        with pytest.raises(UsageError, match="no study x"):
            call()


def test_a_name_and_a_number_are_taken_once(store: Store) -> None:
    store.create(SPEC)
    with pytest.raises(UsageError, match="exists already"):
        store.create(SPEC)
    store.add(SPEC.name, FULL)
    with pytest.raises(UsageError, match="is there already"):
        store.add(SPEC.name, FULL, Summary(trials=7))
    assert store.studies()[0].trials == 0, "all of a transaction or nothing"


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_launch_is_there_whole_or_not_at_all(store: Store, step: int, tmp_path: Path) -> None:
    """Its row, its samples and the summary are one commit: killed at any step, none is there."""
    store.create(SPEC)
    steps = 0

    def die(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps > step + 2:  # the first statements find the study, and the number free
            raise RuntimeError

    engine = store._engine
    event.listen(engine, "before_cursor_execute", die)
    with suppress(RuntimeError):
        store.add(SPEC.name, FULL, Summary(launches=1))
    event.remove(engine, "before_cursor_execute", die)
    with Store.open(store.url, create=False) as other:
        found, (line,) = other.launches(SPEC.name), other.studies()
    assert (found, line.launches) == (([FULL], 1) if step == 3 else ([], 0))


def test_commits_last(store: Store) -> None:
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_a_database_is_looked_at_before_each_launch(store: Store, tmp_path: Path) -> None:
    store.create(SPEC)
    store.require_usable(SPEC.name)
    with pytest.raises(UsageError, match="no study other"):
        store.require_usable("other")
    path = tmp_path / "a folder" / "tune.db"
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(TunerError, match="was moved or removed while the study ran"):
        store.require_usable(SPEC.name)
    with pytest.raises(TunerError, match="was moved or removed while the study ran"):
        store.add(SPEC.name, FULL)


def test_removal_takes_the_launches_along(store: Store, tmp_path: Path) -> None:
    store.create(SPEC)
    store.create(replace(SPEC, name="other"))
    store.add(SPEC.name, FULL)
    store.add("other", FULL)
    store.remove(SPEC.name)
    store.remove("never was")
    assert [study.name for study in store.studies()] == ["other"]
    with sqlite3.connect(tmp_path / "a folder" / "tune.db") as raw:
        for table in ("tune_launches", "tune_samples"):
            assert raw.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_output_that_no_database_takes(store: Store) -> None:
    store.create(SPEC)
    ending = Failed(FailureKind.CRASHED, "a\0b", "\udcff and \U0001f600")
    store.add(SPEC.name, replace(FAILED, outcome=Outcome(ending, 0.5, 1)))
    (back,) = store.launches(SPEC.name)
    assert back.outcome.ending == Failed(FailureKind.CRASHED, "a\ufffdb", "\\udcff and \U0001f600")


def test_a_database_is_for_its_owner_and_on_a_local_disk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a folder" / "tune.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    device, mounts = tmp_path.stat().st_dev, tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(f"1 1 0:9 / /a rw - ext4 /dev/x rw\n2 1 {number} / /b rw - nfs4 s:/ rw\n\n")
    assert database.file_system(tmp_path / "new" / "x.db", mounts) == "nfs4"
    monkeypatch.setattr(database, "file_system", lambda *_: "nfs4")
    with pytest.raises(UsageError, match="network file system") as caught:
        Store.open(store.url, create=False)
    assert "--storage" in caught.value.hint


def test_the_tables_of_optuna_are_shared(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    optuna.create_study(study_name="theirs", storage=f"sqlite:///{path}")
    with pytest.raises(UsageError, match="holds no studies"):
        Store.open(f"sqlite:///{path}", create=False)
    Store.open(f"sqlite:///{path}", create=True).create(SPEC)
    assert optuna.get_all_study_names(f"sqlite:///{path}") == ["theirs"]


def test_a_newer_schema_is_refused_and_left_alone(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "tune.db"
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE tune_meta SET schema_version = 99")
    for create in (True, False):
        with pytest.raises(UsageError, match=r"newer tune \(schema 99"):
            Store.open(store.url, create=create)


def test_reading_does_not_make_a_database(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with pytest.raises(UsageError, match="there is no database"):
        Store.open(f"sqlite:///{path}", create=False)
    assert not path.exists()
