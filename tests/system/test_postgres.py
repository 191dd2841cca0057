"""Studies in PostgreSQL, on a server of their own: of one host, and of several.

The hosts are processes that call themselves so.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import optuna
import pytest
import sqlalchemy as sa
from optuna.trial import TrialState

from tests.marked import eventually
from tests.study_surface import MACHINE, SPEC, FakeRunner, surface
from tuner.launch.request import MeasurementRequest
from tuner.model import (
    JobFacts,
    LaunchRecord,
    LineChange,
    Outcome,
    Purpose,
    Result,
    StudySpec,
    TunedJob,
)
from tuner.model.errors import TunerError, UsageError
from tuner.results import study_view
from tuner.store import database
from tuner.store.database import optunas_storage
from tuner.store.rows import RECORD
from tuner.store.store import Store
from tuner.store.tuned_jobs import nearest
from tuner.store.urls import resolve_url
from tuner.study.interruption import StudyInterrupted
from tuner.study.tuning import tune

pytestmark = pytest.mark.system
slow = pytest.mark.slow
pytest.importorskip("psycopg", reason="the extra postgres is not installed")


class Server(NamedTuple):
    url: str
    stop: Callable[[], None]


@contextmanager
def running(require_program: Callable[[str], str]) -> Iterator[Server]:
    programs = Path(require_program("initdb")).resolve().parent
    # PostgreSQL refuses to run as root.
    user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="tune-pg-"))
    if user:
        shutil.chown(folder, "postgres", "postgres")
    data, port = folder / "data", free_port()
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    start = ["-w", "-D", data, "-o", options, "-l", folder / "log", "start"]

    def call(program: str, *arguments: object) -> None:
        words = [str(programs / program), *map(str, arguments)]
        subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL, **user)  # type: ignore[call-overload]

    def stop() -> None:
        if (data / "postmaster.pid").exists():
            call("pg_ctl", "-D", data, "-m", "immediate", "stop")

    call("initdb", "-D", data, "-A", "trust", "-U", "tuner", "--no-sync", "-E", "UTF8")
    call("pg_ctl", *start)
    try:
        yield Server(f"postgresql://tuner:not-a-secret@127.0.0.1:{port}/postgres", stop)
    finally:
        stop()
        shutil.rmtree(folder)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(require_program: Callable[[str], str]) -> Iterator[str]:
    with running(require_program) as one:
        yield one.url


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_study_with_an_interruption(server: str, tmp_path: Path) -> None:
    spec = replace(SPEC, learn_from="none")  # the server has others

    def interrupt(count: int) -> None:
        if count == 4:
            raise KeyboardInterrupt

    with pytest.raises(StudyInterrupted):
        tune(spec, storage=server, run=FakeRunner(before=interrupt))
    runner = FakeRunner()
    found = tune(spec, storage=server, run=runner)
    assert found.trials == 6 and found.ratio == 4.0
    assert "not-a-secret" not in found.storage
    assert runner.launches[0].folder == tmp_path / "studies" / SPEC.name / "0006"
    with Store.open(resolve_url(server, {}), create=False) as store:
        assert study_view.load(store, SPEC.name).result == found
        assert len(store.launches(SPEC.name)) == found.launches
    assert tune(spec, storage=server, run=FakeRunner(), fresh=True).launches == 8


def test_a_job_is_known_to_all_who_can_read_the_server(server: str) -> None:
    job = JobFacts(
        "/a/t.py", "1", "/python", "2", "3", "mpirun", ranks=8, hosts=1, host_type="Xeon"
    )
    spec = replace(SPEC, name="job", learn_from="none")
    tune(spec, storage=server, run=FakeRunner())
    tuned = TunedJob("job", job, LineChange(environment=("A=1",)), "faster")
    with Store.open(resolve_url(server, {}), create=False) as store:
        store.set_tuned_job(tuned)
    assert nearest(job, server, {}) == (tuned, [])
    with pytest.raises(TunerError, match='database "postgres-none" does not exist'):
        nearest(job, f"{server}-none", {})


def test_many_first_openings_at_once(server: str) -> None:
    engine = sa.create_engine(resolve_url(server, {}), isolation_level="AUTOCOMMIT")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE DATABASE other"))
    engine.dispose()
    url = resolve_url(server, {}).removesuffix("/postgres") + "/other"
    with ThreadPoolExecutor(4) as pool:
        for opened in [pool.submit(Store.open, url, create=True) for _ in range(4)]:
            opened.result().close()


def test_no_server_and_no_database(server: str) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        Store.open(f"postgresql+psycopg://tuner@127.0.0.1:{free_port()}/x", create=True)
    with pytest.raises(UsageError, match='"nowhere" does not exist'):
        Store.open(resolve_url(server, {}).removesuffix("/postgres") + "/nowhere", create=True)


def test_a_server_that_stops_in_the_middle(require_program: Callable[[str], str]) -> None:
    with running(require_program) as one:

        def stop(count: int) -> None:
            if count == 3:
                one.stop()

        with pytest.raises(TunerError, match=r"server of the database .* is gone: \w") as caught:
            tune(SPEC, storage=one.url, run=FakeRunner(before=stop))
    assert not isinstance(caught.value, UsageError) and caught.value.exit_code == 3
    assert "not-a-secret" not in caught.value.message
    assert "run the same command again" in caught.value.hint


# --- several hosts --------------------------------------------------------------------------

#: A launch of the model's second takes this long, s.
SCALE = 0.05

#: No study here starts from another one.
ALONE = replace(SPEC, learn_from="none", trials=12)

HOSTS = ("node1", "node2", "node3")


@dataclass
class Sleeper(FakeRunner):
    """Takes the time that it says; from the fifth launch on, until ``held_by`` is gone.

    By then the baseline was launched: the warm-up and two guesses come before it.
    """

    held_by: Path | None = None

    def _is_held(self) -> bool:
        return self.held_by is not None and len(self.launches) > 4 and self.held_by.exists()

    def __call__(self, request: MeasurementRequest) -> Outcome:
        began_s = time.monotonic()
        outcome = super().__call__(request)
        left_s = SCALE * outcome.wall_s
        while time.monotonic() < began_s + left_s or self._is_held():
            request.cancelled()
            time.sleep(0.01)
        return outcome


def measure(
    spec: StudySpec,
    host: str,
    url: str,
    folder: Path,
    slowness: float = 1.0,
    held_by: Path | None = None,
) -> Result:
    """One host's work; the first one begins the study."""
    database.HEARTBEAT_S, database.LOST_AFTER_S = 1, 6
    os.environ["TUNE_LOCK_DIR"] = str(folder / f"lock-{host}")
    os.chdir(folder)
    joined = host != HOSTS[0]
    runner = Sleeper(time_s=lambda setting: slowness * surface(setting), held_by=held_by)
    machine = replace(MACHINE, hostname=host)
    return tune(replace(spec, machine=machine), storage=url, joined=joined, run=runner)


@dataclass
class Cluster:
    pool: ProcessPoolExecutor
    url: str
    folder: Path
    held: Path  # as long as it is there, the host that begins a study waits

    def begin(self, spec: StudySpec) -> Future[Result]:
        """Start it on the first host, which has launched the baseline by then."""
        first = self.pool.submit(measure, spec, HOSTS[0], self.url, self.folder, 1.0, self.held)
        self.wait_for(spec, 4)
        return first

    def start(self, spec: StudySpec, host: str, slowness: float = 1.0) -> Future[Result]:
        return self.pool.submit(measure, spec, host, self.url, self.folder, slowness)

    def records(self, spec: StudySpec) -> tuple[LaunchRecord, ...]:
        with Store.open(resolve_url(self.url, {}), create=False) as store:
            return tuple(store.launches(spec.name))

    def wait_for(self, spec: StudySpec, launches: int, hosts: int = 1) -> None:
        def is_there() -> bool:
            try:
                names = [record.machine.hostname for record in self.records(spec)]
            except TunerError:  # not begun yet
                return False
            return len(names) >= launches and len({*names}) >= hosts

        eventually(is_there)


@pytest.fixture
def cluster(server: str, tmp_path: Path) -> Iterator[Cluster]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(HOSTS), mp_context=context) as pool:
        (tmp_path / "held").touch()
        yield Cluster(pool, server, tmp_path, tmp_path / "held")
        for process in pool._processes.values():  # a test that failed does not wait for them
            process.kill()


@slow
def test_hosts_share_the_search_and_measure_nothing_twice(cluster: Cluster) -> None:
    spec = replace(ALONE, name="shared", confirm="auto")
    first = cluster.begin(spec)
    others = [cluster.start(spec, host) for host in HOSTS[1:]]
    cluster.wait_for(spec, 4, hosts=len(HOSTS))  # the first one alone might be done before
    cluster.held.unlink()
    found = first.result(120)
    for each in others:
        each.result(120)
    records = cluster.records(spec)
    searched = Counter(r.setting for r in records if r.purpose is Purpose.SEARCH)
    assert sum(count > 1 for count in searched.values()) <= 1, "two may ask in one moment"
    assert {record.machine.hostname for record in records} == set(HOSTS)
    confirming = {r.machine.hostname for r in records if r.purpose is Purpose.CONFIRM}
    assert confirming == {HOSTS[0]}
    assert found.best is not None
    study = optuna.load_study(study_name=spec.name, storage=optunas_storage(cluster.url))
    trials = study.get_trials(deepcopy=False)
    assert not any(trial.state is TrialState.RUNNING for trial in trials)
    launches = [t.user_attrs["launch"] for t in trials if "launch" in t.user_attrs]
    made = [
        r.number for r in records if r.purpose in {Purpose.SEARCH, Purpose.GUESS, Purpose.REPEAT}
    ]
    assert sorted(launches) == sorted(made)


@slow
def test_a_slower_host_is_left_out(cluster: Cluster) -> None:
    spec = replace(ALONE, name="slower")
    first = cluster.begin(spec)
    refused = cluster.start(spec, HOSTS[1], slowness=1.5).exception(60)
    cluster.held.unlink()
    first.result(120)
    assert isinstance(refused, TunerError)
    why = r"node2 is left out: the defaults take 6\.00 s here and 4\.00 s"
    assert re.match(why, str(refused))
    mine = [r for r in cluster.records(spec) if r.machine.hostname == HOSTS[1]]
    assert all(r.outcome.exclusion for r in mine if r.purpose is not Purpose.WARM_UP)


@slow
def test_the_trial_of_a_host_that_is_lost_has_failed(cluster: Cluster) -> None:
    spec = replace(ALONE, name="lost")
    first = cluster.begin(spec)
    args = (spec, HOSTS[1], cluster.url, cluster.folder, 1.0, cluster.held)
    lost = multiprocessing.get_context("spawn").Process(target=measure, args=args, daemon=True)
    lost.start()
    storage = optunas_storage(cluster.url)
    study = optuna.load_study(study_name=spec.name, storage=storage)

    def of_the_lost() -> list[optuna.trial.FrozenTrial]:
        trials = study.get_trials(deepcopy=False)
        return [each for each in trials if each.user_attrs.get("host") == HOSTS[1]]

    eventually(lambda: any(trial.params for trial in of_the_lost()))
    lost.kill()
    lost.join()
    cluster.held.unlink()
    found = first.result(120)
    last = of_the_lost()[-1]
    assert last.state is TrialState.FAIL
    assert RECORD not in last.user_attrs  # it ended nothing
    assert found.failures == 0


#: ``tune`` on a host that calls itself so.
NAMED = (
    "import socket, sys; name = sys.argv.pop(1); socket.gethostname = lambda: name;"
    " from tuner.cli.main import main; sys.exit(main())"
)


@slow
def test_a_host_joins_with_the_stored_command(server: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys, time; time.sleep(0.5 + int(sys.argv[1]) / 20)")

    def start(host: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", NAMED, host, *words],
            cwd=tmp_path,
            env=os.environ | {"TUNE_LOCK_DIR": str(tmp_path / host)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    typed = ["--mpi-procs", "1", "--knob", "size=1..9", "--baseline", "size=9", "--trials", "12"]
    typed += ["--objective", "wall", "--live", "off", "--no-confirm", "--name", "typed"]
    with Store.open(resolve_url(server, {}), create=True) as store:
        command = ["--", sys.executable, str(program), "{size}"]
        first = start(HOSTS[0], *typed, "--storage", server, *command)
        while first.poll() is None and not (store.has("typed") and store.launches("typed")):
            time.sleep(0.05)
        second = start(HOSTS[1], "--join", "typed", "--storage", server)
        printed = [each.communicate(timeout=120) for each in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], printed
        assert {r.machine.hostname for r in store.launches("typed")} == set(HOSTS[:2])
    assert "the search is over; the host that began the study" in printed[1][1]
