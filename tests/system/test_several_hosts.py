"""Several hosts on one study, on a PostgreSQL server: processes that call themselves so."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tests.study_surface import MACHINE, SPEC, FakeRunner, surface
from tests.system.test_postgres import running
from tuner.launch.request import MeasurementRequest
from tuner.model import LaunchRecord, Outcome, Purpose, Result, StudySpec
from tuner.model.errors import TunerError
from tuner.store import Store, database, resolve_url
from tuner.store.database import optunas_storage
from tuner.store.rows import RECORD
from tuner.study import tune

pytestmark = [pytest.mark.system, pytest.mark.slow]
pytest.importorskip("psycopg", reason="the extra postgres is not installed")

#: A launch of the model's second takes this long, s.
SCALE = 0.05

#: No study here starts from another one.
ALONE = replace(SPEC, learn_from="none", trials=12)

HOSTS = ("node1", "node2", "node3")


@pytest.fixture(scope="module")
def server(require_program: Callable[[str], str]) -> Iterator[str]:
    with running(require_program) as one:
        yield one.url


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

    def start(
        self, spec: StudySpec, host: str, slowness: float = 1.0, held_by: Path | None = None
    ) -> Future[Result]:
        return self.pool.submit(measure, spec, host, self.url, self.folder, slowness, held_by)

    def records(self, spec: StudySpec) -> tuple[LaunchRecord, ...]:
        with Store.open(resolve_url(self.url, {}), create=False) as store:
            return tuple(store.launches(spec.name))

    def wait_for(self, spec: StudySpec, launches: int, hosts: int = 1) -> None:
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            try:
                records = self.records(spec)
                if len(records) >= launches and len({r.machine.hostname for r in records}) >= hosts:
                    return
            except TunerError:  # not begun yet
                pass
            time.sleep(0.05)
        raise AssertionError("the study does not begin")


@pytest.fixture
def cluster(server: str, tmp_path: Path) -> Iterator[Cluster]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(HOSTS), mp_context=context) as pool:
        yield Cluster(pool, server, tmp_path)
        for process in pool._processes.values():  # a test that failed does not wait for them
            process.kill()


@pytest.mark.parametrize("sampler", ["tune", "tpe"])
def test_hosts_share_the_search_and_measure_nothing_twice(
    cluster: Cluster, held: Path, sampler: str
) -> None:
    spec = replace(ALONE, name=f"shared-{sampler}", confirm="auto", sampler=sampler)
    first = cluster.start(spec, HOSTS[0], held_by=held)
    cluster.wait_for(spec, 4)
    others = [cluster.start(spec, host) for host in HOSTS[1:]]
    cluster.wait_for(spec, 4, hosts=len(HOSTS))  # the first one alone might be done before
    held.unlink()
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


@pytest.fixture
def held(tmp_path: Path) -> Path:
    path = tmp_path / "held"
    path.touch()
    return path


def test_a_slower_host_is_left_out(cluster: Cluster, held: Path) -> None:
    spec = replace(ALONE, name="slower")
    first = cluster.start(spec, HOSTS[0], held_by=held)
    cluster.wait_for(spec, 4)
    second = cluster.start(spec, HOSTS[1], slowness=1.5)
    try:
        refused = second.exception(60)
    finally:
        held.unlink()
    first.result(120)
    assert isinstance(refused, TunerError)
    why = r"node2 is left out: the defaults take 6\.00 s here and 4\.00 s"
    assert re.match(why, str(refused))
    mine = [r for r in cluster.records(spec) if r.machine.hostname == HOSTS[1]]
    assert all(r.outcome.exclusion for r in mine if r.purpose is not Purpose.WARM_UP)


def test_the_trial_of_a_host_that_is_lost_has_failed(cluster: Cluster, held: Path) -> None:
    spec = replace(ALONE, name="lost")
    first = cluster.start(spec, HOSTS[0], held_by=held)
    cluster.wait_for(spec, 4)
    context = multiprocessing.get_context("spawn")
    lost = context.Process(
        target=measure,
        args=(spec, HOSTS[1], cluster.url, cluster.folder),
        kwargs={"held_by": held},
        daemon=True,
    )
    lost.start()
    storage = optunas_storage(cluster.url)
    study = optuna.load_study(study_name=spec.name, storage=storage)

    def of_the_lost() -> list[optuna.trial.FrozenTrial]:
        trials = study.get_trials(deepcopy=False)
        return [each for each in trials if each.user_attrs.get("host") == HOSTS[1]]

    deadline_s = time.monotonic() + 60
    while not any(trial.params for trial in of_the_lost()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    lost.kill()
    lost.join()
    held.unlink()
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
